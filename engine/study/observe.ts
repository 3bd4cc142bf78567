/**
 * One finished line as an observation: whose it is, what was decided, by whom, and whether it may enter a rate. Nothing
 * here knows a study: the columns and the outcome are those that were named.
 */
import { provenanceCarried } from '../flow/provenance.ts';
import {
  type Failure,
  idOf,
  isItem,
  isLegacyLike,
  RUNGS,
  type Rung,
  rungOf,
  type Step,
} from '../item/item.ts';
import { isObject, type JsonObject } from '../json/pointer.ts';
import { blankless, outcomeIn, textOf } from './outcome.ts';
import { type ReadOut, readOut } from './read-out.ts';

/** What was named: see the options of `fw report`. */
export interface Asked {
  groups: readonly string[];
  outcome: string;
  approve: string;
  /** how the outcome is read out of a chain; absent: its decision, else its last answer */
  readOut?: ReadOut | undefined;
  /** what a majority of equal halves counts as; absent: it has no outcome */
  tie?: string | undefined;
  /** columns in which twins are alike */
  twins: readonly string[];
  /** a column of numbers */
  risk?: string | undefined;
  /** the columns of a result's row, where the result does not have them itself */
  columnsOf?: (row: number | string) => JsonObject | undefined;
}

/** An answer of one agent, as far as a line tells. */
export interface Answered {
  agent: string;
  output: JsonObject | undefined;
  rung: Rung;
  /** 0: nobody kept it */
  attempts: number;
  /** the name of the question that several items share; null for none */
  shared: string | null;
  prompt: number;
  completion: number;
}

export interface Observation {
  id: string;
  /** what all orders of one application share */
  applicant: string;
  /** agents in order, by commas; '' where there is none */
  order: string;
  /** the value of each group column; null where it is blank */
  groups: (string | null)[];
  /** what twins share; null where one of those columns is blank, or none was named */
  cell: string | null;
  /** the outcome's text; null where it is blank */
  outcome: string | null;
  /** why it enters no rate: the code of its failure, `blank-outcome` or `tied`; null where it enters */
  left: string | null;
  rung: Rung;
  /** NaN where it is no number */
  risk: number;
  decision: JsonObject | undefined;
  /** in the order in which they were asked; the last one decides */
  answers: Answered[];
  timestamp: string | null;
}

/** `where` names a line without an id: file and line. `failure` is that of the line, or what verification found. */
export function observe(line: JsonObject, asked: Asked, where: string, failure?: Failure): Observation {
  const isResult = !isItem(line) && isLegacyLike(line);
  const isRow = !isItem(line) && !isResult;
  const answers = isRow ? [] : isResult ? answersOfResult(line) : answersOfItem(line);
  const hasDecision = isResult ? isObject(line.business_decision) : isObject(line.decision);
  const said = hasDecision
    ? { answers: answers.slice(0, -1), decision: answers.at(-1) }
    : { answers, decision: undefined };
  const read = asked.readOut && !isRow ? readOut(said, asked.readOut, asked) : null;
  const decision = read ? read.output : answers.at(-1)?.output;
  const columns = columnsIn(line, asked);
  const id = idOf(line) ?? where;
  const order = orderOf(line);
  const cells = asked.twins.map(name => textOf(columns[name]));
  // who answered has its own outcome; a column of the same name is what somebody else decided
  const outcome = read
    ? read.outcome
    : blankless(answers.length > 0 ? outcomeIn(decision, asked.outcome) : columns[asked.outcome]);
  const blank = read?.isTied ? 'tied' : 'blank-outcome';
  return {
    id,
    applicant: applicantOf(line, id, order),
    order,
    groups: asked.groups.map(name => textOf(columns[name])),
    cell: cells.length > 0 && cells.every(text => text !== null) ? JSON.stringify(cells) : null,
    outcome,
    left: failure?.code ?? (outcome === null ? blank : null),
    rung: isRow && failure === undefined ? 'unknown' : rungOf(line),
    risk: asked.risk === undefined ? Number.NaN : numberOf(columns[asked.risk] ?? decision?.[asked.risk]),
    decision,
    answers,
    timestamp: typeof line.timestamp === 'string' ? line.timestamp : null,
  };
}

function numberOf(value: unknown): number {
  const text = blankless(value);
  return text === null ? Number.NaN : Number(text.replaceAll(/[ $,]/g, ''));
}

/** The columns of the row that a line is about. */
function columnsIn(line: JsonObject, { columnsOf }: Asked): JsonObject {
  if (isItem(line)) {
    const { input } = line as JsonObject;
    if (isObject(input)) return input;
    return (typeof line.row === 'number' ? columnsOf?.(line.row) : undefined) ?? {};
  }
  if (!isLegacyLike(line)) return line;
  const { prompt_id: row, initial_prompt: prompt } = line;
  const known = typeof row === 'number' || typeof row === 'string' ? columnsOf?.(row) : undefined;
  return known ?? objectIn(prompt) ?? {};
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

/** The id without the ordering that ends it. */
function applicantOf(line: JsonObject, id: string, order: string): string {
  const { prompt_id: row } = line;
  if (!isItem(line) && (typeof row === 'number' || typeof row === 'string')) return String(row);
  const slash = order === '' ? -1 : id.lastIndexOf('/');
  return slash > 0 ? id.slice(0, slash) : id;
}

function answersOfItem(line: JsonObject): Answered[] {
  const { steps, decision } = line;
  const all = (Array.isArray(steps) ? steps : []).filter(isObject);
  if (isObject(decision)) all.push(decision);
  return all.map(ofStep);
}

function ofStep(step: JsonObject): Answered {
  const { agent, output, rung, attempts, usage, shared } = step as unknown as Step;
  const count = (value: unknown): number =>
    typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0;
  return {
    agent: typeof agent === 'string' ? agent : '',
    output: isObject(output) ? output : undefined,
    rung: RUNGS.includes(rung) ? rung : 'failed',
    attempts: count(attempts),
    shared: typeof shared === 'string' ? shared : null,
    prompt: count(usage?.prompt),
    completion: count(usage?.completion),
  };
}

/** A result has no rungs; its line of provenance has. */
function answersOfResult(line: JsonObject): Answered[] {
  const { conversation_history: turns, business_decision: decision } = line;
  const said = provenanceCarried(line)?.agents;
  const known = Array.isArray(said) ? said : [];
  const of = (agent: unknown, output: unknown, at: number): Answered => {
    const { rung, attempts } = isObject(known[at]) ? known[at] : {};
    return ofStep({
      agent,
      output,
      rung: RUNGS.includes(rung as Rung) ? rung : isObject(output) ? 'unknown' : 'failed',
      attempts,
    });
  };
  const all = (Array.isArray(turns) ? turns : []).filter(isObject);
  const answers = all.map((turn, at) => of(turn.agent, turn.output, at));
  const decider = known.at(-1)?.agent;
  if (isObject(decision))
    answers.push(of(typeof decider === 'string' ? decider : 'decision', decision, all.length));
  return answers;
}
