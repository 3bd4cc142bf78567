/**
 * A simulated answer made longer or shorter: what is prose in it grows, so that the agents that read it are shown as
 * much more, and everything else stays. Where nothing in it is prose the text stays as it is.
 */

/** Texts of so many characters with a space in them are prose; names and codes are shorter. */
const PROSE = 24;
const FILLER =
  ' The file holds no further evidence on this point, and none of what it holds speaks against it.';

/** The answer with about `factor` times as many characters, as compact JSON where it is JSON. */
export function stretchedText(text: string, factor: number): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return withLength(text, Math.round(text.length * factor));
  }
  const prose = lengthOfProse(value);
  if (prose === 0) return text;
  // what is no prose does not change, so prose has to make up for it
  const wanted = Math.max(0, factor * text.length - (text.length - prose));
  return JSON.stringify(changed(value, wanted / prose));
}

function lengthOfProse(value: unknown): number {
  if (typeof value === 'string') return isProse(value) ? value.length : 0;
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce((sum: number, one) => sum + lengthOfProse(one), 0);
}

function changed(value: unknown, factor: number): unknown {
  if (typeof value === 'string')
    return isProse(value) ? withLength(value, Math.round(value.length * factor)) : value;
  if (Array.isArray(value)) return value.map(one => changed(one, factor));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, changed(one, factor)]));
}

const isProse = (text: string): boolean => text.length >= PROSE && text.includes(' ');

/** Never empty: many schemas forbid it. */
function withLength(text: string, length: number): string {
  if (length <= text.length) return text.slice(0, Math.max(1, length));
  return (
    text + FILLER.repeat(Math.ceil((length - text.length) / FILLER.length)).slice(0, length - text.length)
  );
}
