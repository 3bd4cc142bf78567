/** The lines of legacy files, each as the item that it was made of: for `ingest --format legacy`. */

import type { Answer } from '../../answers/answers-of-line.ts';
import { contextAfter, showsPrompt } from '../../asking/agents/arrangement.ts';
import type { Agents } from '../../asking/agents/load-agents.ts';
import { orderingLabel } from '../../asking/agents/orderings.ts';
import { createIdSet } from '../../core/files/idset.ts';
import { type ByteInput, besidesOf } from '../../core/files/input-files.ts';
import { mapLines, readItems } from '../../core/files/ndjson-in.ts';
import { ItemFailure } from '../../core/item/failure.ts';
import {
  type Failure,
  failureOf,
  type Item,
  idOf,
  isItem,
  isLegacyLike,
  type Step,
  sampleMark,
} from '../../core/item/item.ts';
import { number } from '../../core/item/wording.ts';
import type { JsonObject } from '../../core/json/pointer.ts';
import { show } from '../../core/json/show.ts';
import { openVouchers, type Vouchers } from '../../flow/provenance.ts';
import { type Items, itemWork, type Source, type Tools } from '../../flow/stage.ts';
import { type IngestOptions, readSource } from '../../tables/ingesting.ts';
import type { SourceRows } from '../../tables/row-items.ts';
import { checksOfResults } from './answer-schemas.ts';
import { asShown, withKeys } from './own-names.ts';
import {
  answerIn,
  failedStep,
  isSome,
  isText,
  type Marks,
  type MissingAnswer,
  marksOf,
  orderingOf,
  readStep,
  refusedIn,
  type Turn,
  turnsOf,
  vouchedBy,
} from './read-answers.ts';

/** How legacy results become the items that they were made of. */
export async function openResults(
  options: IngestOptions,
  tools: Tools,
  agentsOf: () => Agents,
): Promise<Source> {
  const { rows, ...reading } = readSource(options, tools);
  const besides = [...(options.provenance ? [options.provenance] : []), ...besidesOf(tools.files)];
  const stage = 'ingest';
  const world = {
    agents: agentsOf(),
    rows: await rows(),
    provenance: await openVouchers(besides, { stage, maxLine: reading.maxLine }),
  };
  return inputs => readResults(inputs, { ...world, ...reading, stage, tools });
}

interface ReadingResults extends LegacyContext {
  maxLine: number;
  /** of a line, from 1 over all inputs */
  isTaken(line: number): boolean;
  /** take no line after this one */
  lastRow: number;
  tools: Tools;
}

/** Items among the lines pass as they are, so that the failed items of a run can be read beside its results. */
function readResults(inputs: readonly ByteInput[], options: ReadingResults): Items {
  const { stage, maxLine, isTaken, lastRow, tools } = options;
  const { signal, asking, account } = tools;
  const { agents } = options;
  const check = checksOfResults(() => agents);
  const ids = createIdSet();
  let line = 0;
  let othersShown = 0;
  let othersKnown = 0;

  const read = (record: Item): Item => {
    if (isItem(record)) {
      if (record.id !== null) claim(String(record.id));
      return record;
    }
    const before = failureOf(record);
    if (!isLegacyLike(record)) {
      if (before !== undefined) return record;
      const keys = Object.keys(record).slice(0, 5).join(', ');
      throw new ItemFailure(
        'not-strict',
        `expected a legacy result, found an object with ${keys || 'no keys'}`,
      );
    }
    const { item: whole, showsOther } = readLegacy(record, options);
    const item = whole.failure === undefined ? refused(whole, record) : whole;
    claim(item.id as string);
    if (showsOther) othersShown += 1;
    const known = idOf(record);
    if (known !== null && known !== `${item.row}/${item.ordering?.join()}`) othersKnown += 1;
    // whoever refused the line before may have seen what is not looked for here
    return before === undefined || item.failure !== undefined ? item : { ...item, failure: before };
  };
  /** Verify would refuse it for one of its answers: that is to be asked again, or mended by the text stages. */
  const refused = (item: Item, record: Item): Item => {
    const found = refusedIn(item, record, { agents, check });
    return found === null ? item : { ...item, failure: { stage, ...found } };
  };
  const claim = (id: string): void => {
    if (ids.add(id)) return;
    throw new ItemFailure(
      'duplicate-id',
      `expected every result once, found '${id}' again; fw merge keeps the newest of each`,
    );
  };
  const work = itemWork({ name: stage, summary: '', options: {}, heals: () => true }, {}, read);

  const lines = readItems(inputs, {
    stage,
    maxLine,
    documents: true,
    stopped: input => line >= lastRow || (signal.aborted && (input.regular || asking.aborted)),
  });
  return mapLines(
    lines,
    record => {
      line += 1;
      return line <= lastRow && isTaken(line) ? (work(record) as Item) : null;
    },
    () => {
      const { notes } = account;
      if (othersShown > 0)
        notes.push(
          `results in which an agent saw another text than fw shows: ${number(othersShown)}; legacy-convert writes the text of fw`,
        );
      if (othersKnown > 0)
        notes.push(
          `results that name their row or agents in another way than fw: ${number(othersKnown)}; written by legacy-convert they get other ids, and merge does not recognise them`,
        );
      notes.push(...(options.provenance?.notes() ?? []));
    },
  );
}

/**
 * A legacy result back into the item that it was made of, as far as it says: ours (legacy.ts), or one of the older
 * scripts. What they wrote in the place of an answer (the text of an error, a placeholder, a confidence of zero)
 * becomes a failed step, so that it is asked again; what contradicts itself is no item and throws ItemFailure. Nobody
 * kept the text of the model: each answer carries the mark `read-back`, on the rung `unknown`, until a line of
 * provenance says more of it.
 */
export interface LegacyContext {
  stage: string;
  agents: Agents;
  /** the table that was asked; it gives ids, columns and prompts by row */
  rows: SourceRows | null;
  /** what is said of results: by `legacy-convert --provenance`, or beside them */
  provenance: Vouchers | null;
}

export interface ReadBack {
  item: Item;
  /** a turn shows its agent another text than fw would, so that what is written anew from the item differs there */
  showsOther: boolean;
}

/** Throws ItemFailure: not-strict, unknown-agent, no-row, wrong-row, empty-prompt. */
function readLegacy(record: JsonObject, { stage, agents, rows, provenance }: LegacyContext): ReadBack {
  const turns = turnsOf(record);
  const ordering = orderingOf(record, turns, agents);
  const row = rowNumber(record, rows);
  const asked = rows === null ? null : askedIn(rows, row, record);
  const prompt = [record.initial_prompt, turns[0]?.input, asked?.prompt].find(isText);
  const other = turns.findIndex(
    ({ input }) =>
      isText(record.initial_prompt) && input !== undefined && !showsPrompt(input, record.initial_prompt),
  );
  if (other >= 0) {
    const at = `/conversation_history/${other}/input`;
    throw new ItemFailure('not-strict', `${at}: expected the text of initial_prompt, found another`);
  }
  if (prompt === undefined) throw new ItemFailure('empty-prompt', 'expected a prompt, found none');

  const marks = marksOf(record);
  const known = provenance?.of(record);
  const vouched = known && vouchedBy(known, [...ordering, deciderOf(agents)]);
  const answered = stepsOf(turns, { ordering, prompt, marks, agents, vouched });
  const { steps, late, showsOther } = answered;
  const decided = answered.trouble ? null : decisionOf(record, steps, { marks, agents, vouched });
  const trouble = answered.trouble ?? decided?.trouble ?? null;
  const { timestamp } = record;
  const mark = sampleMark(record);
  const item: Item = {
    id: idFor(
      asked === null
        ? [`${row}/${ordering.join()}${mark}`]
        : [`${asked.id}/${orderingLabel(ordering, agents)}${mark}`, `${asked.id}${mark}`],
      vouched && known.id,
    ),
    row,
    ...(asked?.input && { input: asked.input }),
    prompt,
    ordering,
    steps,
    ...(decided?.decision && { decision: decided.decision }),
    ...(isText(timestamp) && { timestamp }),
    ...othersIn(record),
    ...marks.rest,
    ...(trouble && { failure: brokenOff(stage, trouble, late + (decided ? 0 : decisionsIn(record))) }),
  };
  return { item, showsOther };
}

/** The id that the line of provenance says, where the row may have it, else the first that the row gives. */
function idFor(ofRow: readonly (string | null)[], said: unknown): string {
  return (
    typeof said === 'string' && (ofRow.length === 1 || ofRow.includes(said)) ? said : ofRow[0]
  ) as string;
}

const deciderOf = ({ synthesis }: Agents): string => synthesis?.key ?? 'business_decision';

type Broken = MissingAnswer & { agent: string };

/** `late`: answers that were given after one that is none. */
function brokenOff(stage: string, { agent, code, message }: Broken, late: number): Failure {
  const rest =
    late > 0 ? `; left out: ${late} later ${late === 1 ? 'answer' : 'answers'}, given after it` : '';
  return { stage, agent, code, message: `${agent}: ${message}${rest}` };
}

const decisionsIn = (record: JsonObject): number => (isSome(record.business_decision) ? 1 : 0);

interface Known {
  marks: Marks;
  agents: Agents;
  /** in the order in which they were asked */
  vouched: Answer[] | undefined;
}

interface Asked extends Known {
  ordering: readonly string[];
  prompt: string;
}

/** The steps up to the first answer that is none: who was asked after that had read it, and is asked again too. */
function stepsOf(turns: readonly Turn[], { ordering, prompt, marks, agents, vouched }: Asked) {
  const steps: Step[] = [];
  let context = prompt;
  let showsOther = false;
  for (const [index, agent] of ordering.entries()) {
    const turn = turns[index];
    if (turn?.input !== undefined && turn.input !== context) showsOther = true;
    const answer = answerIn(turn, agents.byKey.get(agent), agents);
    if ('code' in answer) {
      if (turn) steps.push(failedStep(agent, steps, answer));
      const trouble: Broken = { ...answer, agent };
      return { steps, trouble, late: turns.length - steps.length, showsOther };
    }
    const asked = { context, next: turns[index + 1]?.input, agent: agents.byKey.get(agent), agents };
    const output = vouched ? answer.output : asShown(answer.output, asked);
    const step = readStep(agent, output, steps, marks.of((turn as Turn).at), vouched?.[index]);
    steps.push(step);
    context = contextAfter(context, [step], agents);
  }
  return { steps, trouble: null, late: 0, showsOther };
}

function decisionOf(
  record: JsonObject,
  steps: readonly Step[],
  { marks, agents, vouched }: Known,
): { decision?: Step; trouble?: Broken } {
  const { business_decision: output } = record;
  const { synthesis } = agents;
  if (output === undefined && synthesis === undefined) return {};
  const agent = deciderOf(agents);
  const answer = answerIn(output === undefined ? undefined : { output }, synthesis, agents);
  if (!('code' in answer)) {
    const said = vouched ? answer.output : withKeys(answer.output, synthesis, agents);
    return { decision: readStep(agent, said, steps, marks.of('/business_decision'), vouched?.at(-1)) };
  }
  const trouble: Broken = { ...answer, agent };
  return output === undefined ? { trouble } : { decision: failedStep(agent, steps, answer), trouble };
}

function rowNumber({ prompt_id: named }: JsonObject, rows: SourceRows | null): number {
  const byId = typeof named === 'string' ? rows?.rowOf(named) : undefined;
  const row = byId ?? (typeof named === 'string' && /^[1-9]\d{0,14}$/.test(named) ? Number(named) : named);
  if (Number.isSafeInteger(row) && (row as number) > 0) return row as number;
  const expected = `the row of the source, a whole number from 1${rows ? `, or an id of ${rows.path}` : ''}`;
  throw new ItemFailure('no-row', `/prompt_id: expected ${expected}, found ${show(named)}`);
}

/** The item of the row, without which no id can be restored. */
function askedIn(rows: SourceRows, row: number, { initial_prompt: prompt }: JsonObject): Item {
  const asked = rows.at(row);
  const where = `row ${row} of ${rows.path}`;
  if (asked === undefined)
    throw new ItemFailure('wrong-row', `expected a row of ${rows.path}, 1 to ${rows.size}, found ${row}`);
  if (asked.failure !== undefined)
    throw new ItemFailure('wrong-row', `expected ${where} to be an item: ${asked.failure.message}`);
  if (isText(prompt) && prompt !== asked.prompt)
    throw new ItemFailure('wrong-row', `/initial_prompt: expected the prompt of ${where}, found another`);
  return asked;
}

const OWN = new Set([
  ...['mode', 'initial_prompt', 'conversation_history', 'all_agent_outputs', 'final_output'],
  ...['business_decision', 'prompt_id', 'ordering', 'timestamp', '_fw', 'failure'],
  ...['id', 'row', 'input', 'prompt', 'steps', 'decision'],
]);

/** Keys that only this result has survive, as in any item. */
function othersIn(record: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(record).filter(([key]) => !OWN.has(key)));
}
