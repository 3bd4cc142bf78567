/**
 * What writes a page about one line within bounds. Every text of a line goes through it: hidden columns are masked, the
 * bytes of the page are counted, and what does not fit is counted and said. A page never grows with its line.
 */
import { counted, number } from '../../../engine/core/item/wording.ts';
import { Html, html, joined, NONE } from '../../kit/html.ts';

/** Columns that a judge must not see. */
export interface Hidden {
  has(column: string): boolean;
  /** the text with the values of hidden columns left out */
  mask(text: string): string;
  /** some of the columns are values of answers: then no text is shown that may say them in other words */
  readonly hidesAnswers: boolean;
}

export interface Links {
  /** the whole line as it is; null where a judge must not see it */
  raw: string | null;
  /** the rows that have this value in that column; null where there is no such column */
  filter(column: string, value: string): string | null;
}

interface Listed {
  most: number;
  what: string;
  whats?: string;
  as?: 'li' | 'p' | 'span' | 'tr';
}

/** Bytes of HTML that all texts of a page take together. */
const PAGE = 600_000;
/** Bytes that the images of a page take together, as base64. */
const IMAGES = 380_000;
/** Characters of one text; a block of prose or JSON may be long, a value in a table should not. */
export const LONG_TEXT = 60_000;
export const SHORT_TEXT = 2_000;
/** Bytes that the markup around an entry of a list takes, about. */
const ENTRY = 160;

export class Writer {
  readonly hidden: Hidden | null;
  readonly links: Links;
  #left = PAGE;
  #images = IMAGES;
  #hasLeftOut = false;

  constructor({ hidden, links }: { hidden: Hidden | null; links: Links }) {
    this.hidden = hidden;
    this.links = links;
  }

  get isFull(): boolean {
    return this.#left <= 0;
  }

  /** Bytes that are left, to be shared out. */
  get left(): number {
    return Math.max(0, this.#left);
  }

  /** Whether anything of the line is not on the page. */
  get hasLeftOut(): boolean {
    return this.#hasLeftOut;
  }

  isHidden(column: string): boolean {
    return this.hidden?.has(column) === true;
  }

  masked(text: string): string {
    return this.hidden === null ? text : this.hidden.mask(text);
  }

  /** A text of the line, its beginning where it is longer than `most` characters or than what is left of the page. */
  text(text: string, most = SHORT_TEXT): Html {
    const whole = this.masked(text);
    let piece = cutAt(whole, most);
    let made = html`${piece}`;
    for (let size = sizeOf(made); size > this.#left && piece !== ''; size = sizeOf(made)) {
      piece = cutAt(piece, Math.floor((piece.length * Math.max(0, this.#left)) / size));
      made = html`${piece}`;
    }
    this.#left -= sizeOf(made);
    const more = whole.length - piece.length;
    return more === 0 ? made : html`${made}${this.leftOut(`${counted(more, 'more character')}`)}`;
  }

  /** A text as it was written, line by line. */
  block(text: string, most = LONG_TEXT): Html {
    return text === ''
      ? html`<p class="dim">(an empty text)</p>`
      : html`<pre class="written">${this.text(text, most)}</pre>`;
  }

  /** Says that something is missing here. */
  leftOut(what: string): Html {
    this.#hasLeftOut = true;
    this.#left -= ENTRY;
    return html`<span class="left-out">… ${what}</span>`;
  }

  /** The first entries of a list, `most` at most; the others are counted, in an element of the kind that entries are. */
  list<T>(
    entries: readonly T[],
    make: (entry: T, index: number) => Html,
    { most, what, whats = `${what}s`, as = 'p' }: Listed,
  ): Html[] {
    const made: Html[] = [];
    for (const [index, entry] of entries.entries()) {
      if (index >= most || this.isFull) break;
      this.#left -= ENTRY;
      made.push(make(entry, index));
    }
    const more = entries.length - made.length;
    if (more === 0) return made;
    const words = this.leftOut(counted(more, `more ${what}`, `more ${whats}`));
    if (as === 'span') return [...made, words];
    if (as === 'li') return [...made, html`<li class="more">${words}</li>`];
    return [...made, as === 'tr' ? html`<tr><td>${words}</td></tr>` : html`<p class="more">${words}</p>`];
  }

  /** What `make` writes may take so many bytes at most, so that there is room for what follows. */
  within(bytes: number, make: () => Html): Html {
    const before = this.#left;
    const most = Math.min(before, bytes);
    this.#left = most;
    const made = make();
    this.#left = before - (most - this.#left);
    return made;
  }

  /** Whether an image of so many characters may be shown; it is then counted. */
  takesImage(characters: number): boolean {
    if (characters > this.#images) return false;
    this.#images -= characters;
    return true;
  }

  /** An attribute with a text of the line: ` title="…"`; none where it is longer than a page has use for. */
  attribute(name: string, value: string, most = 200): Html {
    if (value.length > most) return NONE;
    const made = html`${value}`;
    this.#left -= sizeOf(made);
    return new Html(` ${name}="${made.text}"`);
  }

  /** The text as a link; alone where there is nowhere to go. */
  link(href: string | null, inside: Html): Html {
    if (href === null || this.isFull) return inside;
    this.#left -= href.length + ENTRY;
    return html`<a href="${href}">${inside}</a>`;
  }

  /** Where all of the line is, if some of it is not here. */
  rest(bytes: number): Html {
    if (!this.#hasLeftOut) return NONE;
    const { raw } = this.links;
    const where = raw === null ? 'the file has all of it' : html`<a href="${raw}">the whole line</a>`;
    return html`<p class="rest">This page leaves out parts of a line of ${number(bytes)} bytes: ${where}.</p>`;
  }

  /** A short value, which leads to all rows that have it. */
  value(column: string, value: string): Html {
    const shown = this.text(value, 300);
    return this.link(value.length > 300 ? null : this.links.filter(column, value), shown);
  }
}

const sizeOf = ({ text }: Html): number => Buffer.byteLength(text);

/** The first characters, without half of a pair at the end. */
export function cutAt(text: string, most: number): string {
  if (text.length <= most) return text;
  const unit = text.charCodeAt(most - 1);
  return text.slice(0, unit >= 0xd800 && unit < 0xdc00 ? most - 1 : most);
}

/** `a · b`, without what is null or empty. */
export const facts = (parts: readonly (Html | string | null)[]): Html =>
  html`<p class="facts">${joined(
    parts.filter(part => part !== null && part !== '' && part !== NONE) as (Html | string)[],
    ' · ',
  )}</p>`;

/** Something that is looked at when it is wanted. */
export const folded = (summary: Html | string, inside: Html, isOpen = false): Html =>
  isOpen
    ? html`<details open><summary>${summary}</summary>${inside}</details>`
    : html`<details><summary>${summary}</summary>${inside}</details>`;

/** A value as JSON, on several lines; one that nests too deep to be written has none. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value, null, 2) ?? 'nothing';
  } catch {
    return 'It nests too deep to be shown.';
  }
}
