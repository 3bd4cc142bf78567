/**
 * Reads single values out of a page of Prometheus' text format: `name value` or `name{label="…",…} value`, a line each.
 * A page is looked at every second and may be long, so it is searched for what is wanted and never taken apart.
 */

/** The text of a page, with a line break before its first line. */
export type Page = string;

/** Series of one name that a page may have; more than these are no server of ours. */
const MOST_SERIES = 256;
/** A label value beyond this is not one of the numbers and words that are asked for. */
const MOST_VALUE = 200;

export function pageOf(body: Buffer): Page {
  return `\n${body.toString('latin1')}`;
}

/** Over all series (engines, models) of the first of these names that has any; undefined where none has. */
export function sumOf(page: Page, names: readonly string[]): number | undefined {
  return firstOf(page, names)?.reduce((sum, value) => Math.min(Number.MAX_SAFE_INTEGER, sum + value), 0);
}

export function largestOf(page: Page, names: readonly string[]): number | undefined {
  const values = firstOf(page, names);
  return values && Math.max(...values);
}

/** The values of a label, one for each series that has it. */
export function labelsOf(page: Page, name: string, label: string): string[] {
  return seriesOf(page, name).flatMap(line => labelOf(line, label) ?? []);
}

/** Whether the name of any series begins so. */
export function hasSeries(page: Page, prefix: string): boolean {
  return page.includes(`\n${prefix}`);
}

function firstOf(page: Page, names: readonly string[]): number[] | undefined {
  for (const name of names) {
    const values = seriesOf(page, name)
      .map(numberIn)
      .filter(value => Number.isFinite(value) && value >= 0);
    if (values.length > 0) return values;
  }
  return undefined;
}

/** What stands behind the name, in each line that begins with it. */
function seriesOf(page: Page, name: string): string[] {
  const lines: string[] = [];
  const begin = `\n${name}`;
  for (
    let at = page.indexOf(begin);
    at >= 0 && lines.length < MOST_SERIES;
    at = page.indexOf(begin, at + 1)
  ) {
    const after = at + begin.length;
    if (page[after] !== '{' && page[after] !== ' ') continue;
    const end = page.indexOf('\n', after);
    lines.push(page.slice(after, end < 0 ? undefined : end));
  }
  return lines;
}

/** The number after the labels; a timestamp may follow it. */
function numberIn(line: string): number {
  const word = line
    .slice(line.lastIndexOf('}') + 1)
    .trim()
    .split(' ', 1)[0];
  return word ? Number(word) : Number.NaN;
}

/** A quote inside of a value is escaped, so `name="` after a brace or a comma stands only where a label begins. */
function labelOf(line: string, label: string): string | undefined {
  const opening = `${label}="`;
  let at = line.indexOf(opening);
  while (at > 0 && !'{, '.includes(line[at - 1] as string)) at = line.indexOf(opening, at + 1);
  if (at < 0) return undefined;
  const from = at + opening.length;
  const end = line.indexOf('"', from);
  return end < 0 || end - from > MOST_VALUE ? undefined : line.slice(from, end);
}
