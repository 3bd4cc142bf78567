/**
 * What people said of the records (`fw view`, engine/audit/labels-file.ts): how often each judge finds the decision right,
 * in all and by group, and how far the model and the judges, and the judges among themselves, agree beyond chance.
 */
import type { Held, Sample, Verdict } from '../../engine/audit/labels-file.ts';
import { counted } from '../../engine/core/item/wording.ts';
import { isObject, join } from '../../engine/core/json/pointer.ts';
import { addTo, type Clusters, clusteredShare, LEAST, partsOf } from '../kit/agreement.ts';
import { clusteredKappa, emptyTable, type TwoByTwo } from '../kit/kappa.ts';
import type { Collected, Seen } from './collect.ts';
import type { JudgeRow, LinesJudged, Matched, Named, VerdictCounts } from './judged-lines.ts';
import { judgedNotes } from './judged-notes.ts';
import { type BetweenRow, betweenJudges } from './judges.ts';
import { blankless, outcomeIn } from './outcome-texts.ts';
import { type Asked, ruleOf } from './report-names.ts';
import { MOST_IDS } from './rows-query.ts';
import { canonical } from './values.ts';

export interface Judged {
  lines: number;
  torn: string[];
  judges: JudgeRow[];
  /** of any two judges, over what both judged */
  between: BetweenRow[];
  notes: string[];
}

/** Judges whose table is made, and places in a line: they are named by files from anywhere. */
const MOST_JUDGES = 20;
const MOST_POINTERS = 100;

export function judgedTable(collected: Collected, lines: LinesJudged): Judged {
  const { all, lines: count, torn } = lines.labels;
  const records = new Map<string, Seen>();
  const named = lines.records();
  for (const record of collected.seen) if (named.has(record.id)) records.set(record.id, record);
  const byJudge = new Map<string, Held[]>();
  for (const label of all) {
    const own = byJudge.get(label.by);
    if (own === undefined) byJudge.set(label.by, [label]);
    else own.push(label);
  }
  const matched = new Map<string, Matched[]>();
  const judges = [...byJudge].slice(0, MOST_JUDGES).map(([by, labels]) => {
    const sorted = sortOut(outcomeAsWhole(labels, collected.asked.outcome), lines, records);
    matched.set(
      by,
      sorted.flatMap(({ found }) => found),
    );
    return judgeRow(by, sorted, collected);
  });
  const between = betweenJudges(matched);
  const notes = judgedNotes(judges, collected);
  if (byJudge.size > judges.length)
    notes.push(`${counted(byJudge.size - judges.length, 'more judge')}, of whom nothing is counted here`);
  return { lines: count, torn, judges, between, notes };
}

/** Judgements of one place in the lines: those that can be counted, and the others by why not. */
interface AtPath {
  path: string;
  labels: Held[];
  found: Matched[];
  otherText: Named;
  missing: Named;
}

const noneNamed = (): Named => ({ n: 0, ids: [] });

function name(into: Named, id: string): void {
  into.n += 1;
  if (into.ids.length < MOST_IDS) into.ids.push(id);
}

/**
 * Of one judge: who judged the outcome itself, and not the whole line, judged what the report is about. A judgement of the
 * whole line goes before it.
 */
function outcomeAsWhole(labels: readonly Held[], outcome: string): Held[] {
  const places = outcome.startsWith('/')
    ? [outcome]
    : ['/decision/output', '/business_decision', ''].map(at => join(at, outcome));
  const wholes = new Set(labels.flatMap(({ id, path, hash }) => (path === '' ? [`${hash} ${id}`] : [])));
  return labels.map(label =>
    places.includes(label.path) && !wholes.has(`${label.hash} ${label.id}`) ? { ...label, path: '' } : label,
  );
}

/** `labels` of one judge, sorted by id, by path; the line as a whole first, then the most frequent. */
function sortOut(labels: readonly Held[], lines: LinesJudged, records: ReadonlyMap<string, Seen>): AtPath[] {
  const paths = new Map<string, Map<string, Held[]>>([['', new Map()]]);
  for (const label of labels) {
    const ids = paths.get(label.path) ?? new Map<string, Held[]>();
    paths.set(label.path, ids);
    const own = ids.get(label.id);
    // of several texts of one id
    if (own === undefined) ids.set(label.id, [label]);
    else own.push(label);
  }
  const all = [...paths].map(([path, ids]): AtPath => {
    const at: AtPath = { path, labels: [], found: [], otherText: noneNamed(), missing: noneNamed() };
    for (const [id, own] of ids) {
      const line = lines.of(id);
      const record = records.get(line?.record ?? '');
      const label = own.find(({ hash }) => hash === line?.hash) ?? (own.at(-1) as Held);
      at.labels.push(label);
      if (line === undefined || record === undefined) name(at.missing, id);
      else if (label.hash !== line.hash) name(at.otherText, id);
      else at.found.push({ label, record, allowed: line.allowed });
    }
    return at;
  });
  const [whole, ...others] = all as [AtPath, ...AtPath[]];
  others.sort((a, b) => b.labels.length - a.labels.length || (a.path < b.path ? -1 : 1));
  return [whole, ...others.slice(0, MOST_POINTERS)];
}

function judgeRow(by: string, [whole, ...pointers]: readonly AtPath[], collected: Collected): JudgeRow {
  const { labels, found, otherText, missing } = whole as AtPath;
  const leftOut = noneNamed();
  for (const { record } of found) if (record.state < 0) name(leftOut, record.id);
  const counting = found.filter(({ record }) => record.state >= 0);
  return {
    by,
    judged: labels.length,
    ...{ otherText, missing, leftOut },
    ...countsOf(counting),
    groups: collected.groups.map(({ column, values }, at) => ({
      column,
      rows: values.list.flatMap((value, nth) => {
        const own = counting.filter(({ record }) => record.groups[at] === nth);
        return own.length === 0 ? [] : [{ value, ...countsOf(own) }];
      }),
    })),
    ...withModel(counting, collected.asked),
    pointers: pointers.map(({ path, found: own, otherText: other, missing: gone }) => ({
      ...{ path, otherText: other.n, missing: gone.n },
      ...countsOf(own),
    })),
    ...drawsOf(labels),
  };
}

function countsOf(found: readonly Matched[]): VerdictCounts {
  const counts: Record<Verdict, number> = { right: 0, wrong: 0, unsure: 0 };
  const ids = { wrong: [] as string[], unsure: [] as string[] };
  const clusters: Clusters = [];
  for (const { label, record } of found) {
    const { verdict } = label;
    counts[verdict] += 1;
    if (verdict !== 'right' && ids[verdict].length < MOST_IDS) ids[verdict].push(record.id);
    if (verdict !== 'unsure') addTo(clusters, 0, record.cluster, 1, verdict === 'right' ? 1 : 0);
  }
  const parts = partsOf(clusters, 0);
  return { ...counts, rate: clusteredShare(parts), clusters: parts.length, small: parts.length < LEAST, ids };
}

/** The model's decision by the judge's own, as far as that is known. */
function withModel(found: readonly Matched[], asked: Asked): Pick<JudgeRow, 'kappa' | 'table' | 'unknown'> {
  const table = emptyTable();
  const tables = new Map<number, TwoByTwo>();
  let unknown = 0;
  for (const { label, record, allowed } of found) {
    if (label.verdict === 'unsure') continue;
    const model = record.state as 0 | 1;
    const own = label.verdict === 'right' ? model : ownDecision(label, { model, allowed, asked });
    if (own === null) {
      unknown += 1;
      continue;
    }
    const cluster = tables.get(record.cluster) ?? emptyTable();
    tables.set(record.cluster, cluster);
    for (const each of [table, cluster]) each[model][own] += 1;
  }
  return { kappa: clusteredKappa([...tables.values()]), table, unknown };
}

/**
 * What a judge who finds the decision wrong would have decided: the value that was given, else the other one where there
 * are two; null where neither says it.
 */
function ownDecision(
  { value }: Held,
  { model, allowed, asked }: { model: 0 | 1; allowed: ReadonlySet<string> | null; asked: Asked },
): 0 | 1 | null {
  if (value !== undefined) {
    const text = blankless(isObject(value) ? outcomeIn({ agent: '', output: value }, asked.outcome) : value);
    const approved = text === null ? null : ruleOf(asked).of(text, allowed);
    return approved === null ? null : approved ? 1 : 0;
  }
  return countAlike(model, allowed, asked) === 1 ? (model === 1 ? 0 : 1) : null;
}

/** Outcomes that count as `model` does: of one alone the opposite is what is right where it is wrong. */
function countAlike(model: 0 | 1, allowed: ReadonlySet<string> | null, asked: Asked): number {
  const rule = ruleOf(asked);
  if (allowed !== null) return [...allowed].filter(value => rule.of(value, allowed) === (model === 1)).length;
  const named = model === 1 ? (asked.approvals ?? [asked.approve]) : rule.otherwise;
  // words that are the opposite of --approve are spellings of one thing, and those of --deny are what somebody told apart
  if (model === 0 && !rule.isTold) return named === null ? 0 : 1;
  return new Set((named ?? []).map(canonical)).size;
}

function drawsOf(labels: readonly Held[]): Pick<JudgeRow, 'samples' | 'picked' | 'hidden'> {
  const samples = new Map<string, Sample & { judged: number }>();
  const hidden = new Map<string, number>();
  let picked = 0;
  for (const { sample, hidden: columns = [] } of labels) {
    for (const column of new Set(columns)) hidden.set(column, (hidden.get(column) ?? 0) + 1);
    if (sample === undefined) {
      picked += 1;
      continue;
    }
    const { seed, size, by, of } = sample;
    const key = JSON.stringify([seed, size, by, of]);
    const own = samples.get(key) ?? { ...sample, judged: 0 };
    samples.set(key, own);
    own.judged += 1;
  }
  const byName = <T>([a]: readonly [string, T], [b]: readonly [string, T]): number => (a < b ? -1 : 1);
  return {
    samples: [...samples].sort(byName).map(([, sample]) => sample),
    picked,
    hidden: [...hidden].sort(byName).map(([column, judged]) => ({ column, judged })),
  };
}
