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

/** A whole page, of which a browser runs no script and fetches nothing. */
export function page({ title, header, main }: { title: Text; header: Text; main: Text }): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${title}</title>
<style>${new Html(STYLE)}</style>
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
`.text;
}

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

/** The style of the page: one column, light or dark as the reader's system is, from 360 pixels on. */
const STYLE = `
:root { color-scheme: light dark; --back: #fcfcfb; --ink: #1c1d1f; --dim: #5c6066; --line: #d9dbde; --card: #ffffff; --accent: #1f5fae;
  --c0: #1f5fae; --c1: #b3521b; --c2: #2c7a4b; --c3: #8a3f8f; --c4: #8c6d0f; --c5: #0f7f86; }
@media (prefers-color-scheme: dark) { :root { --back: #16181b; --ink: #e7e8ea; --dim: #a3a8af; --line: #363a40; --card: #1e2125; --accent: #7fb2f0;
  --c0: #7fb2f0; --c1: #f0a070; --c2: #7fcf9b; --c3: #d79bdc; --c4: #dcc06a; --c5: #6fd0d6; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 832px; padding: 20px 16px 60px; background: var(--back); color: var(--ink); font: 16px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 4px; }
h2 { font-size: 1.2rem; margin: 44px 0 6px; padding-top: 12px; border-top: 1px solid var(--line); }
p { margin: 6px 0 12px; }
.dim { color: var(--dim); font-size: .875rem; }
.tiles { display: grid; grid-template-columns: repeat(2, 1fr); gap: 12px; margin: 18px 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; }
.tile h3 { margin: 0; font-size: .875rem; font-weight: 600; color: var(--dim); }
.tile b { display: block; font-size: 1.5rem; line-height: 1.3; font-weight: 650; }
.tile p { margin: 2px 0 0; font-size: .875rem; }
ol { padding-left: 24px; margin: 4px 0; } ul.notes { padding-left: 20px; margin: 8px 0; font-size: .9375rem; }
a:not([href]) { color: inherit; text-decoration: none; } a[href] { color: var(--accent); } svg a[href] text { fill: var(--accent); text-decoration: underline; }
figure { margin: 18px 0 26px; }
figcaption { font-weight: 600; margin-bottom: 4px; }
svg { display: block; max-width: 100%; height: auto; font: 13px system-ui, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
svg.narrow { display: none; }
svg text.dim { fill: var(--dim); font-size: 12px; } svg text.axis { fill: var(--dim); }
.grid { stroke: var(--line); } .mark { stroke: var(--dim); stroke-dasharray: 4 3; } .band { fill: var(--dim); fill-opacity: .16; }
.range { stroke: var(--accent); stroke-width: 2; } circle { fill: var(--accent); } .faint { opacity: .45; } .cell { fill: var(--accent); }
.curve { fill: none; stroke-width: 2; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); stroke-dasharray: 7 3; } .c2 { stroke: var(--c2); stroke-dasharray: 2 3; }
.c3 { stroke: var(--c3); stroke-dasharray: 10 3 2 3; } .c4 { stroke: var(--c4); stroke-dasharray: 4 4; } .c5 { stroke: var(--c5); stroke-dasharray: 12 4; }
circle.c0 { fill: var(--c0); } circle.c1 { fill: var(--c1); } circle.c2 { fill: var(--c2); } circle.c3 { fill: var(--c3); } circle.c4 { fill: var(--c4); } circle.c5 { fill: var(--c5); }
circle[class] { stroke: none; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; margin: 8px 0; }
th, td { padding: 4px 12px 4px 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); vertical-align: top; }
th:first-child { text-align: left; font-weight: 500; white-space: normal; min-width: 110px; max-width: 260px; }
thead th { overflow-wrap: normal; font-weight: 600; color: var(--dim); white-space: normal; vertical-align: bottom; }
summary { cursor: pointer; color: var(--accent); font-size: .9375rem; padding: 4px 0; }
@media (max-width: 820px) { svg.wide { display: none; } svg.narrow { display: block; } }
@media (max-width: 560px) { .tiles { grid-template-columns: 1fr; } body { padding: 14px 14px 40px; } }
@media print { svg.wide { display: block; } svg.narrow { display: none; } }
`;
