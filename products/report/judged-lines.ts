/** The lines that labels name, as they are read, and what is counted of the judgements of them. */
import { type Held, hashOfJudged, type Labels, type Sample } from '../../engine/audit/labels-file.ts';
import { idOf } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import type { TwoByTwo } from '../kit/kappa.ts';
import type { Figure, Interval } from '../kit/statistics.ts';
import type { Seen } from './collect.ts';
import type { Observation } from './observe.ts';

/** What has to be kept of a line that somebody judged. */
interface JudgedLine {
  /** of the record that the line became: its id without space around it */
  record: string;
  hash: string | null;
  allowed: ReadonlySet<string> | null;
}

/** Lines that labels name, as they go by: of each id the first, which is the one that is counted. */
export class LinesJudged {
  readonly labels: Labels;
  readonly #lines = new Map<string, JudgedLine>();

  constructor(labels: Labels) {
    this.labels = labels;
  }

  see(line: JsonObject, { id, allowed }: Observation): void {
    const named = idOf(line) ?? id;
    if (this.#lines.has(named) || this.labels.of(named).length === 0) return;
    this.#lines.set(named, { record: id, hash: hashOfJudged(line), allowed });
  }

  /** By the id that labels have. */
  of(id: string): JudgedLine | undefined {
    return this.#lines.get(id);
  }

  /** The ids of their records. */
  records(): Set<string> {
    return new Set([...this.#lines.values()].map(({ record }) => record));
  }
}

/** A judgement of a record that is there, of the text that it has. */
export interface Matched {
  label: Held;
  record: Seen;
  allowed: ReadonlySet<string> | null;
}

/** A count, and the first ids behind it. */
export interface Named {
  n: number;
  ids: string[];
}

/** Judgements of one judge at one place in the lines. */
export interface VerdictCounts {
  right: number;
  wrong: number;
  unsure: number;
  /** right, of those that are right or wrong */
  rate: Interval | null;
  /** applications, or cells of twins, that these are of */
  clusters: number;
  /** fewer than can be judged */
  small: boolean;
  ids: { wrong: string[]; unsure: string[] };
}

export interface JudgeRow extends VerdictCounts {
  by: string;
  /** judgements of a whole line that hold, of whatever became of them below */
  judged: number;
  /** of another text than the line has now; of ids that are not there; of records that enter no rate: not in the counts */
  otherText: Named;
  missing: Named;
  leftOut: Named;
  groups: { column: string; rows: ({ value: string } & VerdictCounts)[] }[];
  /** of the model's decision and the judge's own; `unknown`: wrong, and nothing says what would be right */
  kappa: Figure | null;
  /** [no, yes] of the model by [no, yes] of the judge */
  table: TwoByTwo;
  unknown: number;
  /** judgements of single values, by where they are; the most frequent first */
  pointers: ({ path: string; otherText: number; missing: number } & VerdictCounts)[];
  /** the draws that the judged lines came from, and how many of each were judged; `picked`: of none */
  samples: (Sample & { judged: number })[];
  picked: number;
  /** columns that were hidden from the judge, and in how many judgements */
  hidden: { column: string; judged: number }[];
}
