/** How far two judges agree on what both of them judged. */
import { VERDICTS } from '../../engine/audit/labels-file.ts';
import { clusteredShare, LEAST } from '../kit/agreement.ts';
import { clusteredKappa } from '../kit/kappa.ts';
import type { Figure, Interval } from '../kit/statistics.ts';
import type { Matched } from './judged-lines.ts';

export interface BetweenRow {
  judges: [string, string];
  /** what both judged, whole lines and single values, of one text */
  n: number;
  same: number;
  agreement: Interval | null;
  /** of right, wrong and unsure */
  kappa: Figure | null;
  /** right, wrong, unsure of the first by those of the second */
  table: number[][];
  /** applications, or cells of twins */
  clusters: number;
  small: boolean;
}

const empty = (): number[][] => VERDICTS.map(() => VERDICTS.map(() => 0));

/** Each pair of judges that have anything in common; `matched` by judge. */
export function betweenJudges(matched: ReadonlyMap<string, readonly Matched[]>): BetweenRow[] {
  const judges = [...matched];
  return judges.flatMap(([one, own], nth) => {
    const verdicts = new Map(own.map(each => [keyOf(each), each.label.verdict]));
    return judges.slice(nth + 1).flatMap(([other, theirs]) => {
      const tables = new Map<number, number[][]>();
      const table = empty();
      for (const each of theirs) {
        const verdict = verdicts.get(keyOf(each));
        if (verdict === undefined) continue;
        const cluster = tables.get(each.record.cluster) ?? empty();
        tables.set(each.record.cluster, cluster);
        const [row, column] = [VERDICTS.indexOf(verdict), VERDICTS.indexOf(each.label.verdict)];
        for (const into of [table, cluster]) (into[row] as number[])[column]! += 1;
      }
      return tables.size === 0 ? [] : [rowOf([one, other], table, [...tables.values()])];
    });
  });
}

const keyOf = ({ label: { id, path } }: Matched): string => JSON.stringify([id, path]);

function rowOf(judges: [string, string], table: number[][], tables: readonly number[][][]): BetweenRow {
  const parts = tables.map(each => ({
    n: each.flat().reduce((sum, count) => sum + count, 0),
    hits: each.reduce((sum, row, at) => sum + (row[at] as number), 0),
  }));
  return {
    judges,
    n: parts.reduce((sum, { n }) => sum + n, 0),
    same: parts.reduce((sum, { hits }) => sum + hits, 0),
    agreement: clusteredShare(parts),
    kappa: clusteredKappa(tables),
    table,
    clusters: tables.length,
    small: tables.length < LEAST,
  };
}
