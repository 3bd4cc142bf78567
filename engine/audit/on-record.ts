/**
 * Results held to the ledger: that each answer is what the model said to this item, as this agent, after these answers,
 * judged again by the rules of today. An edit that left no trace in the result, hashes and all, is found here.
 */

import { hashOfText, keptOf, list, wordsOf } from '../answers/answers-of-line.ts';
import { replay, valueEntries } from '../answers/entries.ts';
import { AGENT_NAME } from '../answers/rules.ts';
import { arrangementOf, contextShown, seenLast, turnsOf, turnText } from '../asking/agents/arrangement.ts';
import { checkOf, readReply } from '../asking/agents/form.ts';
import type { Agents } from '../asking/agents/load-agents.ts';
import { createKeys } from '../asking/ledger/key-index.ts';
import { isAnswer, isSealed, keyIn } from '../asking/ledger/ledger-format.ts';
import {
  callIn,
  type LedgerDamage,
  ledgerFiles,
  linesOf,
  openLines,
  parsed,
} from '../asking/ledger/read-ledger.ts';
import type { RecordedAnswer } from '../core/item/call.ts';
import { dataError } from '../core/item/failure.ts';
import {
  besideOf,
  type Item,
  idOf,
  isItem,
  isRawRequest,
  type Repair,
  type Step,
  worse,
} from '../core/item/item.ts';
import { counted, number } from '../core/item/wording.ts';
import { differenceIn, isObject, type JsonObject, same, valueAt } from '../core/json/pointer.ts';
import { show } from '../core/json/show.ts';
import { visible } from '../core/json/visible.ts';
import { describeNamed, name, noneNamed } from './expected-ids.ts';
import { broken, type Violation } from './legacy/leftovers.ts';
import { withOwnNames, withoutOwnNames } from './legacy/own-names.ts';

export type OnRecord = ReturnType<typeof openOnRecord>;

const RULE = 'other than on record';

/** An answer, in an item or in a legacy result with its provenance. */
interface Claim {
  at: string;
  /** where its output is */
  output: string;
  /** the name under which it was asked */
  item: unknown;
  step: Partial<Step>;
  /** what the agent was shown, where that is known */
  context: string | null;
}

/** `agents` are those of items, or of legacy results. Exit 65 where no ledger is at `path`. */
export function openOnRecord(path: string, agents: (of: 'items' | 'results') => Agents) {
  const recorded = openRecorded(path);
  /** answers compared; and those whose calls the ledger does not have, or that name none, with the lines that have such */
  const sum = { compared: 0, unrecorded: 0, lines: noneNamed() };

  function findIn(claims: Iterable<Claim>, by: Agents): { wrong: Violation | null; missing: number } {
    let missing = 0;
    for (const claim of claims) {
      const call = recorded.find(`${list(claim.step.calls).at(-1) ?? ''}`);
      if (call === null) missing += 1;
      else {
        sum.compared += 1;
        const wrong = otherCall(claim, call) ?? otherText(claim, call) ?? otherAnswer(claim, call, by);
        const found = wrong ?? otherContext(claim, call) ?? otherRest(claim, key => recorded.find(key));
        if (found !== null) return { wrong: found, missing };
      }
    }
    return { wrong: null, missing };
  }

  return {
    /** The first answer of a line that is not as it is on record. `said`: the line of provenance of a legacy result. */
    find(line: Item, said?: JsonObject): Violation | null {
      const by = agents(isItem(line) ? 'items' : 'results');
      const { wrong, missing } = isRawRequest(line.request)
        ? findInRaw(line)
        : findIn(isItem(line) ? claimsIn(line, by) : claimsOf(line, said, by), by);
      sum.unrecorded += missing;
      if (missing > 0) name(sum.lines, idOf(line) ?? '(a line without an id)');
      return wrong;
    },
    /** Of a line that names no calls, such as one of a batch: it is counted as one of which nothing is known. */
    findNone(line: Item): null {
      sum.unrecorded += 1;
      name(sum.lines, idOf(line) ?? '(a line without an id)');
      return null;
    },
    sum,
    notes(): string[] {
      const { compared, unrecorded, lines } = sum;
      const notes = [`${counted(compared, 'answer')} compared with the ledger ${visible(path)}`];
      if (unrecorded > 0)
        notes.push(
          `not on record there: ${counted(unrecorded, 'answer')}, of which nothing is known, in lines ${describeNamed(lines)}`,
        );
      return [...notes, ...recorded.notes()];
    },
    findings: (): string[] =>
      sum.compared > 0 || sum.unrecorded === 0
        ? []
        : [
            `--ledger ${visible(path)}: expected the calls of these answers, found none of them among ${number(recorded.size)}`,
          ],
    close: recorded.close,
  };

  /** Of a raw request: its body, and what the server answered. */
  function findInRaw({ id, request, steps }: Item): { wrong: Violation | null; missing: number } {
    const [step] = steps ?? [];
    const call = recorded.find(`${list(step?.calls).at(-1) ?? ''}`);
    if (call === null || step === undefined) return { wrong: null, missing: 1 };
    sum.compared += 1;
    const other = (at: string, what: string): { wrong: Violation; missing: number } => ({
      wrong: broken(RULE, at, `${what} on record`, 'another'),
      missing: 0,
    });
    if (call.item !== (step.shared ?? id) || call.agent !== request?.url)
      return other('/steps/0/calls', 'the call that is');
    if (!call.redacted && !same(call.body, request?.body))
      return other('/request/body', 'the request that is');
    return same(parsedText(call.text), step.response?.body)
      ? { wrong: null, missing: 0 }
      : other('/steps/0/response/body', 'the answer that is');
  }
}

function parsedText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The answers of an item that passes verification otherwise. */
function* claimsIn(item: Item, agents: Agents): Generator<Claim> {
  const { id, steps = [], decision, prompt, ordering = steps.map(({ agent }) => agent) } = item;
  const arrangement = arrangementOf(item);
  const by = { agents, arrangement, ordering };
  const turns = turnsOf(ordering, arrangement);
  const claim = (step: Step, at: string, sees: readonly number[]): Claim => ({
    at,
    output: `${at}/output`,
    item: step.shared ?? id,
    step,
    // of messages that an item brings along the ledger may have files in their places
    context: typeof prompt === 'string' ? contextShown(prompt, steps, sees, by) : null,
  });
  for (const [at, step] of steps.entries()) yield claim(step, `/steps/${at}`, turns[at]?.sees ?? []);
  if (decision) yield claim(decision, '/decision', seenLast(ordering, arrangement));
}

/** The answers of a legacy result, by its line of provenance: of a result without one nobody knows the calls. */
function* claimsOf(line: Item, said: JsonObject | undefined, agents: Agents): Generator<Claim> {
  const turns = list(line.conversation_history) as { agent: string; input: string; output: JsonObject }[];
  const answers = list(said?.agents).filter(isObject) as Partial<Step>[];
  let context = '';
  for (let at = 0; at <= turns.length; at++) {
    const turn = turns[at];
    const { rung, ...answer } = answers[at] ?? {};
    const output = (turn?.output ?? line.business_decision) as JsonObject;
    yield {
      at: turn ? `/conversation_history/${at}` : '/business_decision',
      output: turn ? `/conversation_history/${at}/output` : '/business_decision',
      item: answer.shared ?? said?.id,
      step: { ...answer, output },
      context: turn?.input ?? context,
    };
    if (turn === undefined) continue;
    const given = withoutOwnNames(output, list(answer.repairs) as Repair[]).output;
    const agent = agents.names.get(turn.agent) ?? turn.agent;
    context = turn.input + turnText(agents.byKey.get(agent)?.display ?? agent, wordsOf(given));
  }
}

function otherCall(
  { at, item, step }: Claim,
  { agent, item: asked, round, attempt }: RecordedCall,
): Violation | null {
  const { calls = [], attempts, round: own } = step;
  const place = `${at}/calls/${calls.length - 1}`;
  if (agent !== step.agent) return broken(RULE, place, `a call of ${step.agent}`, `one of ${agent}`);
  if (asked !== item) return broken(RULE, place, `a call of ${show(item)}`, `one of ${show(asked)}`);
  // a line of provenance does not say the round
  if (step.usage !== undefined && round !== (own ?? 0))
    return broken(RULE, `${at}/round`, `round ${round}, as on record`, show(own));
  return attempt === attempts
    ? null
    : broken(RULE, `${at}/attempts`, `${attempt}, as on record`, show(attempts));
}

/** What the step says that the model said: its text, or the hash of it. */
function otherText({ at, output: place, step }: Claim, { text }: RecordedCall): Violation | null {
  const { raw, sha256 } = step;
  if (raw !== undefined)
    return raw === text ? null : broken(RULE, `${at}/raw`, `the text on record, ${show(text)}`, show(raw));
  if (sha256 === undefined || sha256 === hashOfText(text)) return null;
  return broken(RULE, place, `the answer on record, ${show(text)}`, 'one of another text');
}

/** What the text on record is read as today, with the changes that fw made to it afterwards. */
function otherAnswer(claim: Claim, call: RecordedCall, agents: Agents): Violation | null {
  const { output: place, step } = claim;
  const agent = agents.byKey.get(call.agent);
  if (agent === undefined) return null; // verify says so
  const { text, whole, finish } = call;
  const logprobs = agent.sampling.logprobs ? call.logprobs : undefined;
  const reading = readReply(
    { text, finish, ...(whole && { whole }), ...(logprobs && { logprobs }), ...besideOf(call) },
    checkOf(agent),
  );
  const { problem, repairs } = reading;
  const entries = list(step.repairs) as Repair[];
  const after = valueEntries(entries.slice(repairs.length)).filter(({ rule }) => rule !== AGENT_NAME);
  // what was filled in is no answer of the model, and is marked as that
  const isFilled = after.length > 0 && after.every(({ rule }) => rule === 'null-default');
  if (problem !== undefined && !isFilled)
    return broken(
      RULE,
      place,
      'an answer that the rules of today accept',
      `${problem.code}: ${problem.message}`,
    );
  if (!same(entries.slice(0, repairs.length), repairs) || (after.length > 0 && !isFilled))
    return broken(
      RULE,
      `${claim.at}/repairs`,
      `the changes that its text needs, ${show(repairs)}`,
      show(entries),
    );
  if (step.rung !== undefined && worse(step.rung, reading.rung) !== step.rung && !isFilled)
    return broken(RULE, `${claim.at}/rung`, `${reading.rung}, as its text is read`, show(step.rung));
  const filled = replay(reading.output, after);
  const isNamed = entries.some(({ rule }) => rule === AGENT_NAME);
  const given = isNamed && isObject(filled) ? withOwnNames(filled, agent, agents).output : filled;
  const below = differenceIn(given, step.output);
  if (below === null) return null;
  const expected = `what its text on record says, ${show(valueAt(given, below))}`;
  return broken(RULE, place + below, expected, show(valueAt(step.output, below)));
}

/** The user's message is all that an agent was shown beside its persona. */
function otherContext({ at, step, context }: Claim, { messages, redacted }: RecordedCall): Violation | null {
  if (redacted || context === null) return null;
  const user = messages.find(({ role }) => role === 'user');
  if (user?.content === context) return null;
  const expected = `what ${step.agent} was shown, as on record: the prompt and the answers before it`;
  return broken(RULE, at, expected, 'an answer to something else');
}

/** The answers before, which were not accepted; the tokens of all; and what the server said of the last one's. */
function otherRest({ at, step }: Claim, find: (key: string) => RecordedCall | null): Violation | null {
  const { calls = [], rejected, usage, logprobs } = step;
  if (usage === undefined) return null; // a line of provenance says no more
  const sum = { prompt: 0, completion: 0 };
  for (const [nth, key] of calls.entries()) {
    const call = find(key);
    if (call === null) return null;
    sum.prompt += call.usage.prompt;
    sum.completion += call.usage.completion;
    const raw = rejected?.[nth]?.raw;
    if (raw !== undefined && keptOf(call.text, call.whole).raw !== raw)
      return broken(RULE, `${at}/rejected/${nth}/raw`, `the text on record, ${show(call.text)}`, show(raw));
    if (nth === calls.length - 1 && logprobs !== undefined && !same(logprobs, call.logprobs))
      return broken(RULE, `${at}/logprobs`, 'those on record', 'others');
    for (const name of ['tool_calls', 'reasoning'] as const)
      if (nth === calls.length - 1 && step[name] !== undefined && !same(step[name], call[name]))
        return broken(RULE, `${at}/${name}`, 'what is on record', show(step[name]));
  }
  if (usage.prompt === sum.prompt && usage.completion === sum.completion) return null;
  return broken(RULE, `${at}/usage`, `${sum.prompt} and ${sum.completion} tokens, as on record`, show(usage));
}

/**
 * The answers that a ledger has on record, to hold results to: where each is, by the key of its call (36 bytes each, in
 * typed arrays). The lines are read when they are asked for.
 */
interface RecordedCall extends RecordedAnswer {
  item: string;
  round: number;
  attempt: number;
  /** tokens */
  usage: { prompt: number; completion: number };
  /** texts were left out of the request */
  redacted: boolean;
  /** the call's own messages: of a prompt the user's, and what was said of rejected answers */
  messages: JsonObject[];
  /** of a raw request: its body */
  body?: unknown;
}

/** Reads the ledger at `path` once. Exit 65 where there is none. */
function openRecorded(path: string) {
  const keys = createKeys();
  const damages: LedgerDamage[] = [];
  let more = 0;
  const tell = (damage: LedgerDamage): void => {
    if (damage.kind === 'torn') return; // nobody used what is in it
    if (damages.length < MOST_NAMED) damages.push(damage);
    else more += 1;
  };
  const paths = ledgerFiles(path, tell);
  for (const [file, each] of paths.entries())
    for (const { at, bytes } of linesOf(each, tell))
      if (isAnswer(bytes)) keys.add(keyIn(bytes), { file, offset: at, length: bytes.length });
  const lines = openLines(paths);

  return {
    /** answers on record */
    get size(): number {
      return keys.size;
    },
    /** The first answer to a key, which is the one that is replayed; null where there is none. */
    find(key: string): RecordedCall | null {
      const place = keys.placeOf(key);
      if (place === null) return null;
      const line = lines.read(place);
      const where = `${paths[place.file]}: the line at byte ${place.offset}`;
      if (!isSealed(line)) throw dataError(`${where} has changed while it was read`);
      const call = callIn(line);
      // of a key the first 64 bits are kept
      if (call?.answer === undefined || call.finish === undefined || call.key !== key) return null;
      const { item, agent, round, attempt, answer, whole, logprobs, finish, redacted } = call;
      const usage = call.usage ?? { prompt: 0, completion: 0 };
      const { request } = parsed(line.toString()) ?? {};
      const { messages, body } = isObject(request) ? request : {};
      return {
        ...{ item, agent, round, attempt, text: answer, finish, usage, redacted: redacted === true },
        ...(whole && { whole }),
        ...(logprobs && { logprobs }),
        ...besideOf(call),
        messages: Array.isArray(messages) ? messages.filter(isObject) : [],
        ...(body !== undefined && { body }),
      };
    },
    /** what of the ledger cannot be read, for the account */
    notes: (): string[] => [
      ...damages.map(({ path: file, message }) => `--ledger: ${file}: ${message}`),
      ...(more > 0 ? [`--ledger: and ${number(more)} more places that cannot be read`] : []),
    ],
    close: lines.close,
  };
}

/** Damages that are named; a file can have millions. */
const MOST_NAMED = 10;
