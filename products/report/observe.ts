/**
 * One finished line as an observation: whose it is, what was decided, by whom, and whether it may enter a rate. Nothing
 * here knows a study: the columns and the outcome are those that were named.
 */
import {
  type Failure,
  failureOf,
  idOf,
  isItem,
  isLegacyLike,
  type Rung,
  rungOf,
  sampleMark,
} from '../../engine/core/item/item.ts';
import { answerText, isBatchResult } from '../../engine/core/item/response.ts';
import { isObject, type JsonObject } from '../../engine/core/json/pointer.ts';
import { type Answered, answersOfItem, answersOfResult, outcomeSaid } from './answers-said.ts';
import { exportedItem } from './exported.ts';
import { blankless, listed, textOf } from './outcome-texts.ts';
import type { LineKind } from './read-lines.ts';
import { type Asked, ruleOf } from './report-names.ts';

export interface Observation {
  id: string;
  /** what all orders and samples of one application share */
  applicant: string;
  /** of a question that was asked several times on purpose, its number; 0 where it was not */
  sample: number;
  /** agents in order, by commas; '' where there is none */
  order: string;
  /** the value of each group column; null where it is blank */
  groups: (string | null)[];
  /** what twins share; null where one of those columns is blank, or none was named */
  cell: string | null;
  /** the outcome's text; null where there is none */
  outcome: string | null;
  /** whether it is an approval; null where there is no outcome */
  approved: boolean | null;
  /** what it may be, by the schema of who said it; null where nothing says that */
  allowed: ReadonlySet<string> | null;
  /** it is the answer of an agent by that agent's name, and no key of a decision */
  isByName: boolean;
  /** what stands in the place of an outcome and is none: `N/A`, an unknown word, '' for nothing; null where there is one */
  noOutcome: string | null;
  /** the line says itself that it failed, and of what; verification may find more */
  isOwnFailure: boolean;
  /** why it enters no rate: the code of its failure, `blank-outcome`, `unknown-outcome` or `tied`; null where it enters */
  left: string | null;
  rung: Rung;
  /** NaN where it is no number */
  risk: number;
  /** the values of the columns of twins */
  twins: (string | null)[];
  decision: JsonObject | undefined;
  /** in the order in which they were asked; the last one decides, or the agent that was named */
  answers: Answered[];
  timestamp: string | null;
}

/**
 * `where` names a line without an id: file and line. `failure` is that of the line, or what verification found. `kind` is
 * what the line is taken for; absent: what it looks like.
 */
export function observe(
  line: JsonObject,
  asked: Asked,
  where: string,
  failure?: Failure,
  kind?: LineKind,
): Observation {
  const isRow = kind === 'row' || (kind === undefined && !isItem(line) && !isLegacyLike(line));
  const exported = isRow ? exportedItem(line) : null;
  // the answer of a line of a batch is deep in it, in a list: its text is a column, as in `fw export`
  const batch = isRow && isBatchResult(line) ? line.response : undefined;
  const row = isObject(batch) ? { answer: answerText(batch.body), ...line } : line;
  const own = exported ?? row;
  const isResult = !isRow && !isItem(line);
  const answers = isRow && !exported ? [] : isResult ? answersOfResult(own) : answersOfItem(own);
  for (const answer of answers) {
    answer.allowed = asked.allowed?.(answer.agent, isResult ? 'legacy' : 'item') ?? null;
  }
  const hasDecision = isResult ? isObject(line.business_decision) : isObject(own.decision);
  const columns = columnsIn(own, asked, {
    ...{ row: isRow ? row : undefined, isExported: exported !== null },
    ...{ where, isFailed: failure !== undefined || exported?.failure !== undefined },
  });
  const said = outcomeSaid(
    { answers, hasDecision, columns, row: isRow ? row : undefined },
    { ...asked, rule: ruleOf(asked) },
  );
  const { decision, allowed, isTied } = said;
  const text = blankless(said.value);
  const approved = text === null ? null : ruleOf(asked).of(text, allowed);
  // a line of a batch goes by the name of its request; of tables the id may be a number
  const id = textOf(idOf(exported ?? line)) ?? (isRow ? textOf(line.id) : null) ?? where;
  const order = orderOf(own);
  const twins = asked.twins.map(name => textOf(columns[name]));
  const trouble = failure ?? (exported?.failure as Failure | undefined);
  const none = isTied
    ? 'tied'
    : text === null && (typeof said.value !== 'object' || said.value === null)
      ? 'blank-outcome'
      : 'unknown-outcome';
  return {
    id,
    applicant: applicantOf(own, id, order),
    sample: Number.isSafeInteger(own.sample) ? (own.sample as number) : 0,
    order,
    groups: asked.groups.map(name => textOf(columns[name])),
    cell: twins.length > 0 && twins.every(value => value !== null) ? JSON.stringify(twins) : null,
    outcome: approved === null ? null : text,
    approved,
    allowed,
    isByName: said.isByName,
    noOutcome: approved === null && !isTied ? listed(said.value) : null,
    isOwnFailure: trouble !== undefined && failureOf(exported ?? line) !== undefined,
    left: trouble?.code ?? (exported?.rung === 'failed' ? 'not-accepted' : approved === null ? none : null),
    rung: isRow && !exported && failure === undefined ? 'unknown' : exported ? exported.rung : rungOf(line),
    risk: asked.risk === undefined ? Number.NaN : numberOf(columns[asked.risk] ?? decision?.[asked.risk]),
    twins,
    decision,
    answers: said.answers,
    timestamp: typeof line.timestamp === 'string' ? line.timestamp : null,
  };
}

function numberOf(value: unknown): number {
  const text = blankless(value);
  return text === null ? Number.NaN : Number(text.replaceAll(/[ $,]/g, ''));
}

/** The columns of the row that a line is about: its own, and those that only the source has. `row`: it is of a table. */
function columnsIn(
  line: JsonObject,
  asked: Asked,
  {
    row,
    isExported,
    where,
    isFailed,
  }: { row?: JsonObject | undefined; isExported: boolean; where: string; isFailed: boolean },
): JsonObject {
  const isRow = row !== undefined && !isExported;
  const own = isRow ? row : ownColumns(line);
  const used = [...asked.groups, ...asked.twins, ...(asked.risk === undefined ? [] : [asked.risk])];
  const known = asked.source?.rowOf(line, { own, where, isRow, isFailed, used });
  return { ...own, ...known, ...row };
}

/** Undefined where the line does not have them. */
function ownColumns(line: JsonObject): JsonObject | undefined {
  const { input, initial_prompt: prompt } = line;
  if (isObject(input)) return input;
  return objectIn(isItem(line) ? line.prompt : prompt);
}

/** The row as JSON in a prompt, `Application Data: {…}`, as the scripts of the study read it. */
function objectIn(prompt: unknown): JsonObject | undefined {
  if (typeof prompt !== 'string') return undefined;
  const from = prompt.indexOf('{');
  const to = prompt.lastIndexOf('}');
  if (from < 0 || to < from) return undefined;
  try {
    const value: unknown = JSON.parse(prompt.slice(from, to + 1));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function orderOf({ ordering }: JsonObject): string {
  if (typeof ordering === 'string') return ordering;
  return Array.isArray(ordering) && ordering.every(key => typeof key === 'string') ? ordering.join() : '';
}

/** The id without the ordering and the number of the sample that end it. */
function applicantOf(line: JsonObject, id: string, order: string): string {
  const { prompt_id: row } = line;
  if (!isItem(line) && (typeof row === 'number' || typeof row === 'string')) return String(row);
  const mark = sampleMark(line);
  const whole = mark !== '' && id.endsWith(mark) ? id.slice(0, -mark.length) : id;
  const slash = order === '' ? -1 : whole.lastIndexOf('/');
  return slash > 0 ? whole.slice(0, slash) : whole;
}
