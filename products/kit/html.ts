/** The small parts of a page: text that cannot become markup, figures as people read them, tables. */
import { cut, number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import type { Figure } from './statistics.ts';
import { STYLE } from './style.ts';

/** Longer names are cut on the page; `--json` has them whole. */
const LONGEST = 120;

/** Any text, a model's too, as text of HTML or of an attribute in double quotes. */
export function esc(text: string): string {
  return visible(cut(text, LONGEST))
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}

export const count = number;

/** A whole page, of which a browser runs no script and fetches nothing. Its parts are HTML. */
export function page({ title, header, main }: { title: string; header: string; main: string }): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${title}</title>
<style>${STYLE}</style>
</head>
<body>
<header>
${header}
</header>
<main>
${main}
</main>
</body>
</html>
`;
}

/** One of the figures that a reader asks for first; all of it is HTML. */
export function tile(title: string, big: string, ...lines: string[]): string {
  return `<section class="tile"><h3>${title}</h3><b>${big}</b>${lines.map(line => `<p>${line}</p>`).join('')}</section>`;
}

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

/** `12.3 % (10.1 % to 14.9 %)`, by `show` of each number; the number alone where it has no interval. */
export function withInterval(figure: Figure | null, show: (value: number) => string = percent): string {
  if (figure === null) return '–';
  const { value, low, high } = figure;
  return low === null || high === null ? show(value) : `${show(value)} (${show(low)} to ${show(high)})`;
}

/** A cell of text that is already HTML. */
export type Cell = string;

/** Rows beyond this many are counted, not shown. */
export const MOST_ROWS = 100;

/** `head` and the first column are words; other columns stand to the right. */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const shown = rows.slice(0, MOST_ROWS);
  const more = rows.length - shown.length;
  return [
    '<div class="scroll" tabindex="0"><table>',
    `<thead><tr>${head.map(text => `<th scope="col">${text}</th>`).join('')}</tr></thead><tbody>`,
    ...shown.map(
      ([first = '', ...cells]) =>
        `<tr><th scope="row">${first}</th>${cells.map(cell => `<td>${cell}</td>`).join('')}</tr>`,
    ),
    '</tbody></table></div>',
    more > 0 ? `<p class="dim">and ${count(more)} more, which --json has</p>` : '',
  ].join('\n');
}

/** A chart with its title, and the table behind it. `drawn` is of two widths, of which the style shows one. */
export function figure(title: string, drawn: string, behind: string, note = ''): string {
  return [
    `<figure><figcaption>${title}</figcaption>`,
    drawn,
    note === '' ? '' : `<p class="dim">${note}</p>`,
    `<details><summary>The figures behind it</summary>${behind}</details></figure>`,
  ].join('\n');
}
