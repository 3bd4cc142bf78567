/** The small parts of a page: text that cannot become markup, figures as people read them, tables. */
import { cut, number } from '../../engine/core/item/wording.ts';
import { visible, visibleLines } from '../../engine/core/json/visible.ts';
import type { Figure } from './statistics.ts';

/** What a template made: text that is HTML already. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
  /** In a plain template or a join it would be escaped later, or be no text at all. */
  toString(): never {
    throw new TypeError('expected HTML in a template of html, found it in a plain one');
  }
}

/** What may stand in a template: text, which is escaped, or HTML, which is not. */
export type Text = string | number | Html;

/** Of a template: its own text is HTML, what it is given is text, of an element or of an attribute in double quotes. */
export function html(strings: TemplateStringsArray, ...parts: readonly (Text | readonly Html[])[]): Html {
  let text = strings[0] as string;
  parts.forEach((part, at) => {
    text += (Array.isArray(part) ? joined(part, '\n').text : textOf(part as Text)) + strings[at + 1];
  });
  return new Html(text);
}

export const joined = (parts: readonly Text[], between = ''): Html =>
  new Html(parts.map(textOf).join(between));

const textOf = (part: Text): string => (part instanceof Html ? part.text : escaped(String(part)));

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

const escaped = (text: string): string =>
  shown(text).replace(/[&<>"']/g, character => ENTITIES[character] as string);

/** Any text, a model's too, as it may be on a screen: what would turn or hide text is shown as its code. Line breaks stay. */
export const shown = (text: string): string => visibleLines(text).join('\n');

/** Nothing. */
export const NONE = new Html('');

/** Longer names are cut on the page; `--json` has them whole. */
const LONGEST = 120;

/** Any text on one line, cut at some length. */
export const short = (text: string, most = LONGEST): string => visible(cut(text, most));

export const count = number;

/**
 * `text` that leads to the records behind it: `query` as fw view takes it, `?in.region=north`; '' for none. In a file
 * alone it is plain text; `fw view FILES --report PAGE` gives it its href.
 */
export const leadsTo = (query: string, text: Text): Text =>
  query === '' || text === '' ? text : html`<a data-rows="${query}">${text}</a>`;

/** One of the figures that a reader asks for first. */
export const tile = (title: Text, big: Text, ...lines: Text[]): Html =>
  html`<section class="tile"><h3>${title}</h3><b>${big}</b>${joined(lines.map(line => html`<p>${line}</p>`))}</section>`;

/** 0.1234 as `12.3 %`; `–` where there is none. */
export function percent(share: number | null | undefined, digits = 1): string {
  return share === null || share === undefined || !Number.isFinite(share)
    ? '–'
    : `${signed(share * 100, digits)} %`;
}

/** A difference of two shares, as points. */
export function points(difference: number | null | undefined): string {
  if (difference === null || difference === undefined) return '–';
  return `${difference > 0 ? '+' : ''}${signed(difference * 100, 1)}`;
}

export function decimal(value: number | null | undefined, digits = 2): string {
  return value === null || value === undefined || !Number.isFinite(value) ? '–' : signed(value, digits);
}

/** A hyphen is no minus, and there is no negative zero. */
function signed(value: number, digits: number): string {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace('-', '') : text.replace('-', '\u2212');
}

export function pText(p: number | null | undefined): string {
  if (p === null || p === undefined) return '–';
  return p < 0.001 ? '< 0.001' : p.toFixed(3);
}

/** The same on a page, where `<` before a space is no tag. */
export const pMark = (p: number | null | undefined): Html => new Html(pText(p));

/** `12.3 % (10.1 % to 14.9 %)`, by `show` of each number; the number alone where it has no interval. */
export function withInterval(figure: Figure | null, show: (value: number) => string = percent): string {
  if (figure === null) return '–';
  const { value, low, high } = figure;
  return low === null || high === null ? show(value) : `${show(value)} (${show(low)} to ${show(high)})`;
}

/** Rows beyond this many are counted, not shown. */
export const MOST_ROWS = 100;

/** `head` and the first column are words; other columns stand to the right. */
export function table(head: readonly Text[], rows: readonly (readonly Text[])[]): Html {
  const heads = head.map(text => html`<th scope="col">${text}</th>`);
  const shownRows = rows
    .slice(0, MOST_ROWS)
    .map(
      ([first = '', ...cells]) =>
        html`<tr><th scope="row">${first}</th>${joined(cells.map(cell => html`<td>${cell}</td>`))}</tr>`,
    );
  const more = rows.length - shownRows.length;
  return html`${[
    html`<div class="scroll" tabindex="0"><table>`,
    html`<thead><tr>${joined(heads)}</tr></thead><tbody>`,
    ...shownRows,
    html`</tbody></table></div>`,
    more > 0 ? html`<p class="dim">and ${count(more)} more, which --json has</p>` : NONE,
  ]}`;
}

/** A chart with its title, and the table behind it. `drawn` is of two widths, of which the style shows one. */
export const figure = (title: Text, drawn: Text, behind: Text, note: Text = ''): Html =>
  html`<figure><figcaption>${title}</figcaption>
${drawn}
${note === '' ? '' : html`<p class="dim">${note}</p>`}
<details><summary>The figures behind it</summary>${behind}</details></figure>`;
