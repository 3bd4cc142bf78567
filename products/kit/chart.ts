/**
 * Charts as SVG, drawn here: dots with intervals, curves, a grid. Each is drawn for a wide and for a narrow page, so that
 * its letters keep their size, and takes its colours from the style of the page, so that it is light or dark with it.
 * (vega and vega-lite would do the first of the three, with 2 MB of code and the colours fixed in the picture.)
 */
import { type Html, html, joined, leadsTo, short } from './html.ts';

const WIDTHS = { wide: 760, narrow: 340 } as const;
const ROW = 24;
/** Rows of a chart; the table behind it has more. */
export const MOST_DOTS = 30;

export interface Dot {
  label: string;
  value: number;
  low: number;
  high: number;
  /** shown, and no part of a judgement */
  faint?: boolean;
  /** the query of the records behind it (`leadsTo`) */
  rows?: string;
}

export interface DotChart {
  /** what the picture is, for who cannot see it */
  title: string;
  axis: string;
  rows: readonly Dot[];
  show(value: number): string;
  /** where the axis begins and ends; more, if an interval is longer */
  from: number;
  to: number;
  /** a line at a value of meaning */
  marks?: readonly { at: number; label: string }[];
  /** a band that is noise */
  band?: { low: number; high: number; label: string };
}

/** One SVG for each width. */
function twice(draw: (width: number) => { height: number; body: Html }, title: string): Html {
  return joined(
    Object.entries(WIDTHS).map(([name, width]) => {
      const { height, body } = draw(width);
      return html`<svg class="${name}" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${short(title)}"><title>${short(title)}</title>${body}</svg>`;
    }),
    '\n',
  );
}

const at = (value: number): string => value.toFixed(1);

/** Units a letter takes at this size, in a wide font: most letters are narrower. */
const LETTER = 7.8;

function fitted(text: string, width: number): string {
  const most = Math.max(4, Math.floor(width / LETTER));
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join('')}…`;
}

/** Round steps that divide a span into about `most` parts. */
export function ticks(from: number, to: number, most: number): number[] {
  const span = to - from;
  if (!(span > 0) || !Number.isFinite(span)) return [from];
  const rough = span / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find(each => each * power >= rough * (1 - 1e-9)) as number) * power;
  const found: number[] = [];
  for (let nth = Math.ceil(from / step - 1e-9); nth * step <= to + step * 1e-9; nth++) found.push(nth * step);
  return found;
}

/** Ends of an axis at round numbers, so that no interval touches them unawares. */
function rounded(from: number, to: number): [number, number] {
  const [first = from, second = to] = ticks(from, to, 8);
  const step = second - first;
  if (!(step > 0)) return [from, to];
  return [Math.floor(from / step + 1e-9) * step, Math.ceil(to / step - 1e-9) * step];
}

export function dotChart({ title, axis, rows, show, marks = [], band, ...ends }: DotChart): Html {
  const shown = rows.slice(0, MOST_DOTS);
  const [from, to] = rounded(
    Math.min(ends.from, ...shown.map(({ low }) => low)),
    Math.max(ends.to, ...shown.map(({ high }) => high)),
  );
  return twice(width => {
    // on a phone a label stands above its interval, so that neither is cut short
    const isNarrow = width < 500;
    const height = isNarrow ? 40 : ROW;
    const longest = Math.max(0, ...shown.map(({ label }) => label.length));
    const left = isNarrow ? 26 : Math.min(width * 0.36, 24 + LETTER * longest);
    const right = width - 26; // room for half of the last label
    const top = marks.some(({ label }) => label !== '') || band ? 22 : 8;
    const bottom = top + shown.length * height;
    const x = (value: number): number => left + ((value - from) / (to - from || 1)) * (right - left);
    const parts: Html[] = [];
    if (band)
      parts.push(
        html`<rect class="band" x="${at(x(band.low))}" y="${top}" width="${at(x(band.high) - x(band.low))}" height="${bottom - top}"/>`,
      );
    for (const tick of ticks(from, to, width > 500 ? 8 : 4))
      parts.push(
        html`<line class="grid" x1="${at(x(tick))}" x2="${at(x(tick))}" y1="${top}" y2="${bottom}"/>`,
        html`<text x="${at(x(tick))}" y="${bottom + 16}" text-anchor="middle">${show(tick)}</text>`,
      );
    for (const { at: value, label } of marks) {
      if (value < from || value > to) continue;
      const middle = x(value);
      // two labels that are close stand to the left and to the right of their lines
      const other = marks.find(mark => mark.at !== value && Math.abs(x(mark.at) - middle) < 100);
      const room = label.length * LETTER;
      const isLeft = other ? other.at > value : middle + room / 2 > width;
      const isRight = other ? other.at < value : middle - room / 2 < 0;
      const anchor = isLeft && middle > room ? 'end' : isRight && middle + room < width ? 'start' : 'middle';
      parts.push(
        html`<line class="mark" x1="${at(middle)}" x2="${at(middle)}" y1="${top - 4}" y2="${bottom}"/>`,
        html`<text class="dim" x="${at(middle)}" y="12" text-anchor="${anchor}">${short(label)}</text>`,
      );
    }
    if (band && band.label !== '')
      parts.push(html`<text class="dim" x="${at(x(band.low))}" y="12">${short(band.label)}</text>`);
    for (const [nth, { label, value, low, high, faint, rows: query = '' }] of shown.entries()) {
      const y = top + nth * height + (isNarrow ? 28 : height / 2);
      const tip = `${label}: ${show(value)} (${show(low)} to ${show(high)})`;
      const drawn = joined([
        html`<g${faint ? html` class="faint"` : ''}><title>${short(tip)}</title>`,
        isNarrow
          ? html`<text x="4" y="${at(y - 12)}">${short(fitted(label, width - 8))}</text>`
          : html`<text x="${at(left - 8)}" y="${at(y + 4)}" text-anchor="end">${short(fitted(label, left - 12))}</text>`,
        html`<line class="range" x1="${at(x(low))}" x2="${at(x(high))}" y1="${at(y)}" y2="${at(y)}"/>`,
        html`<circle cx="${at(x(value))}" cy="${at(y)}" r="4.5"/></g>`,
      ]);
      parts.push(html`${leadsTo(query, drawn)}`);
    }
    parts.push(
      html`<text class="axis" x="${at(width / 2)}" y="${bottom + 36}" text-anchor="middle">${short(fitted(axis, width - 8))}</text>`,
    );
    return { height: bottom + 44, body: joined(parts) };
  }, title);
}

export interface Curve {
  label: string;
  points: readonly (readonly [number, number])[];
  /** the query of the records behind it (`leadsTo`) */
  rows?: string;
}

export interface CurveChart {
  title: string;
  x: string;
  y: string;
  curves: readonly Curve[];
  showX(value: number): string;
  showY(value: number): string;
  /** the ends of y; those of x are the data's */
  from: number;
  to: number;
  dots?: boolean;
}

/** Up to six curves, each with a colour and a dash of its own; the legend is below. */
export function curveChart({ title, curves, showX, showY, from, to, dots, ...axes }: CurveChart): Html {
  const all = curves.flatMap(({ points }) => points.map(([x]) => x));
  const [low, high] = [Math.min(...all), Math.max(...all)];
  return twice(width => {
    const left = 52;
    const right = width - 20;
    const top = 24;
    const bottom = top + (width > 500 ? 240 : 200);
    const x = (value: number): number => left + ((value - low) / (high - low || 1)) * (right - left);
    const y = (value: number): number => bottom - ((value - from) / (to - from || 1)) * (bottom - top);
    const parts = [html`<text class="axis" x="2" y="13">${short(axes.y)}</text>`];
    for (const tick of ticks(from, to, 5))
      parts.push(
        html`<line class="grid" x1="${left}" x2="${right}" y1="${at(y(tick))}" y2="${at(y(tick))}"/>`,
        html`<text x="${left - 6}" y="${at(y(tick) + 4)}" text-anchor="end">${showY(tick)}</text>`,
      );
    for (const tick of ticks(low, high, width > 500 ? 8 : 4))
      parts.push(
        html`<text x="${at(x(tick))}" y="${bottom + 16}" text-anchor="middle">${showX(tick)}</text>`,
      );
    parts.push(
      html`<text class="axis" x="${at((left + right) / 2)}" y="${bottom + 36}" text-anchor="middle">${short(axes.x)}</text>`,
    );
    for (const [nth, { points }] of curves.entries()) {
      const path = points.map(([a, b], i) => `${i === 0 ? 'M' : 'L'}${at(x(a))} ${at(y(b))}`).join('');
      parts.push(html`<path class="curve c${nth % 6}" d="${path}"/>`);
      if (dots)
        for (const [a, b] of points)
          parts.push(html`<circle class="c${nth % 6}" cx="${at(x(a))}" cy="${at(y(b))}" r="3.5"/>`);
    }
    const columns = width > 500 ? 3 : 1;
    for (const [nth, { label, rows = '' }] of curves.entries()) {
      const legendX = left + (nth % columns) * ((right - left) / columns);
      const legendY = bottom + 58 + Math.floor(nth / columns) * 20;
      parts.push(
        html`<line class="curve c${nth % 6}" x1="${at(legendX)}" x2="${at(legendX + 24)}" y1="${legendY - 4}" y2="${legendY - 4}"/>`,
        html`${leadsTo(rows, html`<text x="${at(legendX + 30)}" y="${legendY}">${short(fitted(label, (right - left) / columns - 34))}</text>`)}`,
      );
    }
    return { height: bottom + 66 + Math.ceil(curves.length / columns - 1) * 20, body: joined(parts) };
  }, title);
}

export interface GridChart {
  title: string;
  labels: readonly string[];
  cells: readonly (readonly (number | null)[])[];
  show(value: number): string;
  /** values that are lightest and darkest */
  from: number;
  to: number;
  /** the query of the records behind a cell (`leadsTo`) */
  rowsOf?(row: number, column: number): string;
}

/** A square of shares: rows and columns by number, which the table behind it names. */
export function gridChart({ title, labels, cells, show, from, to, rowsOf }: GridChart): Html {
  const size = labels.length;
  return twice(width => {
    const left = 30;
    const side = Math.min(56, (width - left - 6) / size);
    const top = 20;
    const parts: Html[] = [];
    for (const [row, list] of cells.entries()) {
      const y = top + row * side;
      parts.push(
        html`<text x="${left - 6}" y="${at(y + side / 2 + 4)}" text-anchor="end">${row + 1}</text>`,
        html`<text x="${at(left + row * side + side / 2)}" y="14" text-anchor="middle">${row + 1}</text>`,
      );
      for (const [column, value] of list.entries()) {
        const tip = `${labels[row]} and ${labels[column]}: ${value === null ? 'none' : show(value)}`;
        const depth = value === null ? 0 : Math.min(1, Math.max(0, (value - from) / (to - from || 1)));
        const cell = joined([
          html`<g><title>${short(tip)}</title><rect class="cell" x="${at(left + column * side)}" y="${at(y)}" width="${at(side - 1)}" height="${at(side - 1)}" fill-opacity="${(0.06 + 0.6 * depth).toFixed(2)}"/>`,
          side >= 34 && value !== null
            ? html`<text x="${at(left + column * side + side / 2)}" y="${at(y + side / 2 + 4)}" text-anchor="middle">${show(value)}</text></g>`
            : html`</g>`,
        ]);
        parts.push(html`${leadsTo(value === null ? '' : (rowsOf?.(row, column) ?? ''), cell)}`);
      }
    }
    return { height: top + size * side + 6, body: joined(parts) };
  }, title);
}
