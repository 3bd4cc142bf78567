/**
 * What the columns of one line are: its own (id, rung, failure, tokens …), `in.` of what was asked about, `out.` of what was
 * decided, `step.AGENT.` of what each agent answered. The index is made of them, and so is each cell on a page.
 */

import { finishIn, isInParts } from '../../../engine/core/item/dialects.ts';
import { failureOf, idOf, isItem, isLegacy, isRawRequest, rungOf } from '../../../engine/core/item/item.ts';
import { answerText, isBatchResult } from '../../../engine/core/item/response.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';

/** `group` and `key` together are the column's name: `in.` and `income`, '' and `rung`. */
export type TakeField = (group: string, key: string, value: string | number) => void;

/** Fields of one line; a hostile one may have 100,000. */
export const MOST_FIELDS = 500;
/** Characters of an answer that is read as JSON. */
const LONGEST_ANSWER = 64 * 1024;

/** Those that only failed lines have: why, and where. */
export const FAILED: readonly string[] = ['failure', 'problem', 'agent', 'stage'];

/**
 * Calls `take` with each field of a line that may be anything. `isRow`: it is a row of a table, and no line of ours;
 * `joined`: the columns of its row in the table that was asked, where the line has none.
 */
export function fieldsOf(line: JsonObject, take: TakeField, isRow = false, joined?: JsonObject | null): void {
  const fields = new Fields(take);
  if (joined) fields.record('in.', joined);
  const id = idOf(line);
  if (id !== null) take('', 'id', id);
  if (isRow) {
    take('', 'kind', 'row');
    fields.record('in.', line);
    return;
  }
  const failure = failureOf(line);
  if (isItem(line)) {
    fields.item(line);
    if (isRawRequest(line.request)) take('', 'kind', 'request');
    else take('', 'kind', 'item');
  } else if (isBatchResult(line)) {
    take('', 'kind', 'batch result');
    fields.response(line.response);
  } else if (isRequest(line)) {
    take('', 'kind', 'batch request');
    fields.request(line.body);
  } else if (isLegacy(line)) {
    take('', 'kind', 'legacy result');
    fields.legacy(line);
  } else {
    take('', 'kind', failure === undefined ? 'record' : 'unreadable');
    if (failure === undefined) {
      fields.record('in.', line, 1);
      fields.said(line);
    }
  }
  if (failure !== undefined || isItem(line) || isLegacy(line)) take('', 'rung', rungOf(line));
  if (failure === undefined) return;
  take('', 'failure', failure.code);
  take('', 'stage', failure.stage);
  if (failure.agent !== undefined) take('', 'agent', failure.agent);
}

const isRequest = (line: JsonObject): boolean =>
  typeof line.custom_id === 'string' && typeof line.url === 'string' && isObject(line.body);

/** The object that a text is in JSON; null for any other text, and for one that is too long to be a record of a few fields. */
function objectIn(text: string): JsonObject | null {
  if (text.length > LONGEST_ANSWER || !text.startsWith('{') || !text.endsWith('}')) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null; // no JSON: it is a text
  }
}

class Fields {
  readonly #take: TakeField;
  #left = MOST_FIELDS;

  constructor(take: TakeField) {
    this.#take = take;
  }

  item({ row, sample, input, ordering, steps, decision, request }: JsonObject): void {
    this.#number('row', row);
    this.#number('sample', sample);
    if (isObject(input)) this.record('in.', input);
    if (isRawRequest(request)) this.request((request as JsonObject).body);
    if (Array.isArray(ordering) && ordering.length > 0) this.#take('', 'ordering', ordering.join(','));
    const answers = Array.isArray(steps) ? steps.filter(isObject) : [];
    const decided = isObject(decision) ? decision : undefined;
    if (decided !== undefined) this.#output(decided.output);
    for (const { response } of answers) if (response !== undefined) this.response(response);
    this.#problems(answers);
    this.#byAgent(answers);
    const [only] = answers;
    if (decided === undefined && answers.length === 1) this.#output(only?.output);
    this.#costs(decided === undefined ? answers : [...answers, decided]);
  }

  #byAgent(answers: readonly JsonObject[]): void {
    const seen = new Set<unknown>();
    for (const { agent, output } of answers) {
      // an agent that answers twice has two values for one column: the first stands for it
      if (!isObject(output) || typeof agent !== 'string' || seen.has(agent)) continue;
      seen.add(agent);
      this.record(`step.${agent}.`, output);
    }
  }

  /** Why the last answer of a failed step was not accepted: what is behind `no-valid-answer`. */
  #problems(answers: readonly JsonObject[]): void {
    for (const { problem } of answers)
      if (isObject(problem) && typeof problem.code === 'string') this.#take('', 'problem', problem.code);
  }

  #costs(answers: readonly JsonObject[]): void {
    if (answers.length === 0) return;
    let tries = 0;
    let repairs = 0;
    let asked = 0;
    let said = 0;
    for (const { attempts, repairs: changes, usage } of answers) {
      if (typeof attempts === 'number') tries += attempts;
      if (Array.isArray(changes)) repairs += changes.length;
      if (!isObject(usage)) continue;
      if (typeof usage.prompt === 'number') asked += usage.prompt;
      if (typeof usage.completion === 'number') said += usage.completion;
    }
    this.#take('', 'steps', answers.length);
    this.#number('tries', tries);
    this.#number('repairs', repairs);
    if (asked + said === 0) return;
    this.#number('tokens.in', asked);
    this.#number('tokens.out', said);
  }

  legacy({ prompt_id, ordering, sample, business_decision, conversation_history }: JsonObject): void {
    this.#number('row', prompt_id);
    this.#number('sample', sample);
    if (typeof ordering === 'string') this.#take('', 'ordering', ordering);
    if (isObject(business_decision)) this.record('out.', business_decision);
    this.#byAgent(Array.isArray(conversation_history) ? conversation_history.filter(isObject) : []);
  }

  /** What was asked, of a line of a batch file. */
  request(body: unknown): void {
    if (!isObject(body)) return;
    if (typeof body.model === 'string') this.#take('', 'model', body.model);
    if (isObject(body.metadata)) this.record('in.', body.metadata);
  }

  /** What a server answered. */
  response(response: unknown): void {
    if (!isObject(response)) return;
    const { status_code, body } = response;
    this.#number('status', status_code);
    if (!isObject(body)) return;
    const { model, usage } = body;
    if (typeof model === 'string') this.#take('', 'model', model);
    if (isObject(usage)) {
      this.#number('tokens.in', usage.prompt_tokens ?? usage.input_tokens);
      this.#number('tokens.out', usage.completion_tokens ?? usage.output_tokens);
    }
    const finish = finishIn(body);
    if (finish !== undefined) this.#take('', 'finish', finish);
    this.#answer(answerText(body));
  }

  /** The answer in a record: of a call that was put on record, of a chat, of a reply as a server sent it. */
  said(line: JsonObject): void {
    const { key, outcome, answer, messages } = line;
    const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
    if (typeof key === 'string' && typeof outcome === 'string' && typeof answer === 'string') {
      const reply = objectIn(answer);
      const isReply = reply !== null && (Array.isArray(reply.choices) || isInParts(reply));
      this.#answer(isReply ? answerText(reply) : answer);
    } else if (isObject(last) && last.role === 'assistant') this.#answer(last.content);
    else this.#answer(answerText(line));
  }

  #output(output: unknown): void {
    if (isObject(output)) this.record('out.', output);
    else this.#answer(output);
  }

  /** An answer in JSON has fields of its own; any other text is one: where one is long, the index has hashes of them. */
  #answer(answer: unknown): void {
    if (typeof answer !== 'string') return;
    const text = answer.trim();
    const value = objectIn(text);
    if (value !== null) this.record('out.', value);
    else if (text !== '') this.#take('out.', 'text', text);
  }

  /** Texts, numbers and truths; of objects in it those at `depth` more. */
  record(group: string, values: JsonObject, depth = 0): void {
    for (const key in values) {
      if (this.#left === 0) return;
      const value = values[key];
      if (typeof value === 'string' || typeof value === 'number') this.#take(group, key, value);
      else if (typeof value === 'boolean') this.#take(group, key, String(value));
      else if (depth > 0 && isObject(value)) {
        this.record(`${group}${key}.`, value, depth - 1);
        continue;
      } else continue;
      this.#left -= 1;
    }
  }

  #number(key: string, value: unknown): void {
    if (typeof value === 'number' && Number.isFinite(value)) this.#take('', key, value);
  }
}
