/**
 * Values that a judge must not see, taken out of a page that was made: also where the prompt, an answer or a request of the
 * ledger has them. Whole words alone, in any case; `m` is hidden in `Gender: m` and not in `more`.
 */
import { Html, html } from '../kit/html.ts';

const IN_PLACE = '▒▒▒';
/** Attributes that a reader sees, or that lead somewhere. */
const SEEN = /^(?:href|title|value|alt|aria-label|placeholder|content|data-[a-z-]+)$/;

/** How many places of a page are hidden. */
export const placesIn = ({ text }: Html): number => text.split(IN_PLACE).length - 1;

/** Takes `values` out of text and attributes. `places`: how many were found. */
export function hideIn({ text }: Html, values: readonly string[]): { html: Html; places: number } {
  const needles = needlesOf(values);
  if (needles.length === 0) return { html: new Html(text), places: 0 };
  let places = 0;
  const without = (part: string): string => {
    let left = part;
    for (const needle of needles) {
      const [next, found] = replaced(left, needle);
      left = next;
      places += found;
    }
    return left;
  };
  let out = '';
  for (let at = 0; at < text.length; ) {
    const open = text.indexOf('<', at);
    if (open < 0) {
      out += without(text.slice(at));
      break;
    }
    out += without(text.slice(at, open));
    // no `>` stands in an attribute as it is: the template escapes it
    const end = text.indexOf('>', open);
    const tag = text.slice(open, end < 0 ? text.length : end + 1);
    out += tag.includes('="') ? tagWithout(tag, without) : tag;
    at = open + tag.length;
  }
  return { html: new Html(out), places };
}

function tagWithout(tag: string, without: (part: string) => string): string {
  return tag.replace(/([a-z-]+)="([^"]*)"/g, (whole, name: string, value: string) => {
    if (!SEEN.test(name)) return whole;
    const plain = name === 'href' ? decoded(value) : value;
    const hidden = without(plain);
    if (hidden === plain) return whole;
    return name === 'href' ? 'href="#hidden"' : `${name}="${hidden}"`;
  });
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value.replaceAll('+', ' '));
  } catch {
    return value;
  }
}

/** Each value as it stands in a text, and within JSON; the longest first, so that no part of one is left. */
function formsOf(values: readonly string[]): string[] {
  const forms = values
    .filter(value => value.trim() !== '')
    .flatMap(value => [value, JSON.stringify(value).slice(1, -1)])
    .map(value => value.trim());
  return [...new Set(forms)].sort((a, b) => b.length - a.length);
}

/** The same as a page has it. */
const needlesOf = (values: readonly string[]): string[] =>
  formsOf(values).map(value => lowered(html`${value}`.text));

/** Takes `values` out of a text that is no HTML yet. */
export function maskOf(values: readonly string[]): (text: string) => string {
  const needles = formsOf(values).map(lowered);
  return text => needles.reduce((left, needle) => replaced(left, needle)[0], text);
}

const WORD = /[\p{L}\p{N}_]/u;

/** In small letters, each of which has the place of its own: the small form of some is longer. */
function lowered(text: string): string {
  const low = text.toLowerCase();
  if (low.length === text.length) return low;
  return Array.from({ length: text.length }, (_none, at) => {
    const small = (text[at] as string).toLowerCase();
    return small.length === 1 ? small : text[at];
  }).join('');
}

function replaced(text: string, needle: string): [string, number] {
  const searched = lowered(text);
  let out = '';
  let found = 0;
  let from = 0;
  for (let at = searched.indexOf(needle); at >= 0; at = searched.indexOf(needle, at + 1)) {
    if (at < from) continue;
    const end = at + needle.length;
    const isWithin =
      (WORD.test(needle[0] as string) && WORD.test(text[at - 1] ?? ' ')) ||
      (WORD.test(needle.at(-1) as string) && WORD.test(text[end] ?? ' '));
    if (isWithin) continue;
    out += text.slice(from, at) + IN_PLACE;
    from = end;
    found += 1;
  }
  return found === 0 ? [text, 0] : [out + text.slice(from), found];
}
