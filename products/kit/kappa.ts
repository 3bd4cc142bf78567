/** How far two raters agree beyond chance: Cohen's kappa, of records and of whole clusters. */
import { clusteredShare, isSingle, LEAST, WEIGHING, WEIGHING_APART, weighing } from './agreement.ts';
import { type Figure, type Interval, type Share, studentQuantile, Z95 } from './statistics.ts';

/**
 * Cohen's kappa of two raters, of a square table of counts, with the asymptotic interval of Fleiss, Cohen and Everitt
 * (1969). Null where chance alone agrees always (one category), or of an empty table.
 */
export function kappa(table: readonly (readonly number[])[], z = Z95): Interval | null {
  const size = table.length;
  const at = (i: number, j: number): number => table[i]?.[j] ?? 0;
  let n = 0;
  const rows = new Array<number>(size).fill(0);
  const columns = new Array<number>(size).fill(0);
  for (let i = 0; i < size; i++)
    for (let j = 0; j < size; j++) {
      n += at(i, j);
      rows[i] = (rows[i] as number) + at(i, j);
      columns[j] = (columns[j] as number) + at(i, j);
    }
  if (n === 0) return null;
  const row = rows.map(sum => sum / n);
  const column = columns.map(sum => sum / n);
  let observed = 0;
  let chance = 0;
  for (let i = 0; i < size; i++) {
    observed += at(i, i) / n;
    chance += (row[i] as number) * (column[i] as number);
  }
  if (1 - chance < 1e-12) return null;
  const value = (observed - chance) / (1 - chance);
  let a = 0;
  let b = 0;
  for (let i = 0; i < size; i++)
    for (let j = 0; j < size; j++) {
      const share = at(i, j) / n;
      const sum = (row[j] as number) + (column[i] as number);
      if (i === j) a += share * (1 - ((row[i] as number) + (column[i] as number)) * (1 - value)) ** 2;
      else b += share * sum ** 2;
    }
  b *= (1 - value) ** 2;
  const c = (value - chance * (1 - value)) ** 2;
  const error = Math.sqrt(Math.max(0, a + b - c) / n) / (1 - chance);
  return { value, low: Math.max(-1, value - z * error), high: Math.min(1, value + z * error) };
}

/** [no, yes] of one by [no, yes] of the other. */
export type TwoByTwo = [[number, number], [number, number]];

export const emptyTable = (): TwoByTwo => [
  [0, 0],
  [0, 0],
];

export function addTable(sum: TwoByTwo, of: TwoByTwo): void {
  for (const i of [0, 1] as const) for (const j of [0, 1] as const) sum[i][j] += of[i][j];
}

export const sizeOf = ([[a, b], [c, d]]: TwoByTwo): number => a + b + c + d;
const agreeing = ([[no], [, yes]]: TwoByTwo): number => no + yes;

/** The share of records that both decide alike, of the tables of clusters. */
export const agreementOf = (tables: readonly TwoByTwo[]): Interval | null =>
  clusteredShare(tables.map(table => ({ n: sizeOf(table), hits: agreeing(table) })));

/** Counts of one rater's categories by those of the other. */
export type Square = readonly (readonly number[])[];

const totalOf = (table: Square): number =>
  table.reduce((sum, row) => row.reduce((all, each) => all + each, sum), 0);

/** The shares of records that both decide alike, and that they would by chance. */
function alikeIn(table: Square): { n: number; same: number; chance: number } {
  const n = totalOf(table);
  let [same, chance] = [0, 0];
  for (const [at, row] of table.entries()) {
    const column = table.reduce((sum, other) => sum + (other[at] as number), 0);
    same += row[at] as number;
    chance += (row.reduce((sum, each) => sum + each, 0) / n) * (column / n);
  }
  return { n, same, chance };
}

/**
 * Cohen's kappa of all tables together, each that of a cluster. Where records are independent its interval is that of
 * `kappa`; else the jackknife over clusters (Efron 1982; Davison and Hinkley 1997, 3.2), with Student's t of as many as
 * weigh. Without any disagreement there is no spread: then the lower end is that of the agreement, on kappa's scale.
 * Fewer than `LEAST` clusters, or so few that disagree or would by chance, tell no interval.
 */
export function clusteredKappa(tables: readonly Square[]): Figure | null {
  const known = tables.filter(table => totalOf(table) > 0);
  const [first] = known;
  if (first === undefined) return null;
  const all = first.map((row, i) =>
    row.map((_, j) => known.reduce((sum, table) => sum + (table[i]?.[j] as number), 0)),
  );
  const own = kappa(all);
  if (own === null) return null;
  const { value } = own;
  const { chance } = alikeIn(all);
  if (known.length < LEAST || (1 - chance) * known.length < WEIGHING) return { value, low: null, high: null };
  const shares = known.map((table): Share => {
    const { n, same } = alikeIn(table);
    return { n, hits: same };
  });
  if (value > 1 - 1e-12) {
    const low = clusteredShare(shares)?.low ?? 0;
    return { value, low: (low - chance) / (1 - chance), high: 1 };
  }
  if (isSingle(shares)) return own;
  const without = known.map(table => {
    const rest = all.map((row, i) => row.map((each, j) => each - (table[i]?.[j] as number)));
    return kappa(rest)?.value ?? value;
  });
  const mean = without.reduce((sum, each) => sum + each, 0) / without.length;
  const { squares, clusters } = weighing(without.map(each => each - mean));
  if (clusters < WEIGHING_APART) return { value, low: null, high: null };
  const half = studentQuantile(0.025, clusters - 1) * Math.sqrt(squares * (1 - 1 / known.length));
  return { value, low: Math.max(-1, value - half), high: Math.min(1, value + half) };
}
