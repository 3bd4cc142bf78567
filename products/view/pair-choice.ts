/** Which pairs of two runs are chosen, as the address says it, and what of it cannot be done. */
import type { Joined } from './beside.ts';
import { type Keys, keysOf, pairsOther } from './pair-columns.ts';
import { isBy, type Pairs, type PairsOf, WAYS, type Way } from './pairs.ts';
import { partsOf, type Query, queryOf } from './query.ts';
import { noSuch, type View } from './view.ts';

export interface Chosen {
  way: Way | null;
  /** a column in which they differ; may be one that is not there */
  column: string | null;
  /** its value in the first run, and in the second, '' for none; null: any */
  from: string | null;
  to: string | null;
  /** by columns of the rows, as in the table of one run: its filters, text, columns to be shown, first place */
  query: Query;
}

/** `?differs=COLUMN&first=VALUE&second=VALUE`, or `differs=decision` and the like; the rest is a query. */
export function chosenIn(search: URLSearchParams): Chosen {
  const differs = search.get('differs') ?? '';
  const [from, to] = [search.get('first'), search.get('second')];
  const rest = new URLSearchParams(search);
  for (const name of ['differs', 'first', 'second']) rest.delete(name);
  const way = WAYS.find(one => one === differs) ?? null;
  // the rung is a column too
  const column = way === 'rung' || (way === null && differs !== '') ? differs : null;
  return { way, column, from, to, query: queryOf(rest) };
}

export function partsOfChosen({ way, column, from, to, query }: Chosen): [key: string, value: string][] {
  const differs = way ?? column;
  return [
    ...(differs === null ? [] : [['differs', differs] as [string, string]]),
    ...(from === null ? [] : [['first', from] as [string, string]]),
    ...(to === null ? [] : [['second', to] as [string, string]]),
    ...partsOf(query),
  ];
}

export function addressOf(chosen: Chosen): string {
  const parts = new URLSearchParams(partsOfChosen(chosen));
  return parts.size === 0 ? '' : `?${parts}`;
}

/** The same by another column, from the first pair on; null: by none. */
export const byColumn = (
  { query }: Chosen,
  column: string | null,
  move: { from: string | null; to: string | null } = { from: null, to: null },
): Chosen => ({
  ...{ way: WAYS.find(way => way === column) ?? null, column, ...move },
  query: { ...query, from: 0 },
});

export const byWay = ({ query }: Chosen, way: Way | null): Chosen => ({
  ...{ way, column: way === 'rung' ? way : null, from: null, to: null },
  query: { ...query, from: 0 },
});

/** The same from the pair at `from` on. */
export const startingAt = (chosen: Chosen, from: number): Chosen => ({
  ...chosen,
  query: { ...chosen.query, from },
});

/** The pairs that are chosen, in their order. */
export interface ChosenPairs extends PairsOf {
  /** those in which the column differs, whatever the values; all of them without a column */
  ofColumn: Int32Array;
  chosen: Int32Array;
  /** of the column that is chosen by; null without one */
  keys: Keys | null;
  /** what was chosen, without what could not be */
  asked: Chosen;
}

/** Null while one of the runs is still read. */
export async function choose(view: View, pairs: Pairs, chosen: Chosen): Promise<ChosenPairs | null> {
  const all = await pairs.of(view, chosen.query);
  if (all === null) return null;
  const { joined, order } = all;
  const problems = [...all.problems];
  const { from, to, way } = chosen;
  const column = columnIn(view, pairs, chosen.column, problems);
  if (column === null && chosen.column === null && (from !== null || to !== null))
    problems.push('first= and second= are values of a column: differs=COLUMN says of which.');
  if (chosen.query.sort !== null) problems.push('Pairs cannot be sorted: those that differ most come first.');
  const ofWay = way === null ? order : order.filter(pair => isBy(joined, pair, way));
  const { query } = all;
  if (column === null) {
    const asked = { way, column, from: null, to: null, query };
    return { ...all, problems, keys: null, asked, ofColumn: ofWay, chosen: ofWay };
  }
  const asked = { way, column, from, to, query };
  const keys = keysOf(pairs.first.index, pairs.second.index, column);
  const ofColumn = pairsOther(keys, joined, ofWay, { from: null, to: null });
  const isAny = from === null && to === null;
  const left = isAny ? ofColumn : pairsOther(keys, joined, ofColumn, { from, to });
  return { ...all, problems, keys, asked, ofColumn, chosen: left };
}

/** The column as it is called; what `fw compare --outcome` takes is one of the decision. Null where there is none. */
function columnIn(view: View, pairs: Pairs, asked: string | null, problems: string[]): string | null {
  if (asked === null) return null;
  const names = [pairs.first, pairs.second].flatMap(({ index }) => index.columns.map(({ name }) => name));
  const known = new Set(names);
  const name = [asked, `out.${asked}`, `in.${asked}`].find(one => known.has(one)) ?? asked;
  if (view.isHidden(name)) problems.push(`The column ${name} is hidden.`);
  // every line of two runs may lack a rung, which is no mistake then
  else if (!known.has(name) && asked !== 'rung')
    problems.push(
      `There is ${noSuch(
        name,
        [...known].filter(one => !view.isHidden(one)),
      )}.`,
    );
  else if (known.has(name)) return name;
  return null;
}

/** A judge sees the pairs of the sample alone. */
export const isSeen = ({ isSampling, sample }: View, { first }: Joined, pair: number): boolean =>
  !isSampling || sample?.rows.includes(first[pair] as number) === true;
