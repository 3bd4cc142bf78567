/**
 * What the servers of a plan answer, in a few microseconds a call: an agent's calls are answered from a set of answers
 * that are ready, drawn by the key of the call. The set is what an earlier run got, or what the simulator says to some
 * calls of this one; where there are few calls it says it to each, so that a small plan has the answers of `fw simulate`.
 *
 * A request in a plan is the number of a call and not its bytes: nobody reads them on the other side.
 */
import { isSharedCall } from '../../engine/asking/agents/orderings.ts';
import type { Answer, Call, Pool } from '../../engine/core/item/call.ts';
import { replyTo } from '../simulator/chat.ts';
import { NO_FAULTS } from '../simulator/faults.ts';
import { formAsked, tooLong } from '../simulator/question.ts';
import { drawsOf, sha256 } from '../simulator/random.ts';
import { schemaCache } from '../simulator/schemas.ts';
import type { Message } from '../simulator/tokens.ts';
import { type KnownAnswer, type Lengths, setOf } from './lengths.ts';
import { type MessagePart, messagePart, type Prefix, prefixOf, promptAfter } from './prompts.ts';
import { stretchedText } from './stretch.ts';
import type { Answering, PlannedReply } from './virtual-servers.ts';

/** Shared answers that a plan remembers, of some 2 KB each. */
const MOST_ON_RECORD = 20_000;

/** Calls of an agent that the simulator answers, about: enough for the spread of their lengths. */
const SIMULATED = 512;

export interface PlannedAnswers {
  answer: Answering;
  /** The pool as those who ask see it. */
  through(pool: Pool): Pool;
}

export interface AnswerSettings {
  /** of the simulator's answers */
  seed: number;
  lengths: Lengths;
  /** tokens of a prompt and its answer */
  maxModelLength: number;
  /** items, each of which asks an agent once */
  items: number;
  /** characters that the prompts of two items may have in common */
  shared: number;
  /** sees the calls that the simulator answers, and what it says */
  onSimulated?: ((call: Call, text: string) => void) | undefined;
}

interface Ready {
  tokens: number;
  /** the reply up to the count of the prompt's tokens */
  begin: string;
}

/** An agent, by what its bodies begin with. */
interface Known {
  agent: string;
  prefix: Prefix;
  maxTokens: number;
  fits(text: string): boolean;
}

interface Limits {
  max_tokens?: number;
  max_completion_tokens?: number;
}

export function plannedAnswers(settings: AnswerSettings): PlannedAnswers {
  const { seed, lengths, maxModelLength, items, onSimulated } = settings;
  const { charactersPerToken, answers, stretch } = lengths;
  // answers of a model may have to be asked again, and then the whole prompt is in the cache
  const shared = answers.size > 0 ? Number.POSITIVE_INFINITY : settings.shared;
  const every = Math.max(1, Math.floor(items / SIMULATED));
  const draws = drawsOf(seed);
  const schemaOf = schemaCache();
  /** what is asked, by its number; once a server has read it, what that will answer: the text is needed no more */
  const calls = new Map<string, Call | PlannedReply>();
  const known = new Map<string, Known>();
  const sets = new Map<string, { isSimulated: boolean; ready: Ready[] }>();
  /** answers that other items of a row may ask for, as the ledger of a run has them */
  const record = new Map<string, Answer>();
  let asked = 0;

  function knownOf({ head, tail, agent }: Call): Known {
    let found = known.get(head);
    if (found?.agent === agent) return found;
    const [, messages = ''] = head.split('"messages":', 2);
    // an agent without a persona has no message there
    const system = JSON.parse(`${messages.replace(/,$/, '')}]`) as Message[];
    const { max_tokens, max_completion_tokens, ...more } = JSON.parse(`{${tail.slice(1)}`) as Limits;
    const form = formAsked(more);
    found = {
      agent,
      prefix: prefixOf(
        system.map(({ role, content }) => messagePart(role, content)),
        charactersPerToken.prompt,
      ),
      maxTokens: max_tokens ?? (max_completion_tokens as number),
      fits: text => form.kind !== 'schema' || schemaOf(form.schema).valid(JSON.parse(text)),
    };
    known.set(head, found);
    return found;
  }

  function readyFor(call: Call, own: Known): Ready {
    const name = setOf(call.agent, call.attempt);
    let set = sets.get(name);
    if (set === undefined) {
      const said = answers.get(name) ?? answers.get(call.agent) ?? [];
      // an earlier run may have let them have more
      const most = (one: KnownAnswer): KnownAnswer => ({
        ...one,
        tokens: Math.min(one.tokens, own.maxTokens),
      });
      set = { isSimulated: said.length === 0, ready: said.map(one => readyOf(most(one))) };
      sets.set(name, set);
    }
    const drawn = Number.parseInt(call.key.slice(0, 7), 16);
    const { isSimulated, ready } = set;
    if (isSimulated && (ready.length === 0 || drawn % every === 0)) ready.push(readyOf(simulated(call, own)));
    else return ready[Math.floor(drawn / every) % ready.length] as Ready;
    return ready.at(-1) as Ready;
  }

  /** What the simulator says to this very call, made as long as wanted. */
  function simulated(call: Call, { maxTokens, fits }: Known): KnownAnswer {
    const chat = { model: call.model, maxModelLength, faults: NO_FAULTS, draws, schemaOf, forLength: true };
    const request = call.body.toString();
    const { text, finish } = replyTo(request, sha256(request), chat);
    onSimulated?.(call, text);
    const longer = stretch === 1 ? text : stretchedText(text, stretch);
    const tokens = Math.ceil((stretch * text.length) / charactersPerToken.answer);
    return { text: fits(longer) ? longer : text, finish, tokens: Math.min(maxTokens, Math.max(1, tokens)) };
  }

  function keep(key: string, answer: Answer): void {
    record.set(key, answer);
    // the items of a row are asked about side by side, so that the oldest are not wanted any more
    if (record.size > MOST_ON_RECORD) record.delete(record.keys().next().value as string);
  }

  return {
    answer(body) {
      const name = body.toString('latin1');
      const call = calls.get(name) as Call | PlannedReply;
      if ('prompt' in call) return call;
      const own = knownOf(call);
      const prompt = promptAfter(own.prefix, ownParts(call), charactersPerToken.prompt, shared);
      if (prompt.tokens + own.maxTokens > maxModelLength) {
        throw tooLong(prompt.tokens, own.maxTokens, maxModelLength);
      }
      const { begin, tokens } = readyFor(call, own);
      const told: PlannedReply = {
        prompt,
        tokens,
        bodyOf: cached =>
          Buffer.from(`${begin}${prompt.tokens},"prompt_tokens_details":{"cached_tokens":${cached}}}}`),
      };
      calls.set(name, told);
      return told;
    },
    through: pool => ({
      ...pool,
      get itemsInFlight() {
        return pool.itemsInFlight;
      },
      onRecord: { lastRound: 0, has: key => record.has(key) },
      call(one) {
        const known = record.get(one.key);
        if (known) return Promise.resolve(known);
        const name = String(asked++);
        calls.set(name, one);
        const over = () => calls.delete(name);
        const answered = pool.call({ ...one, body: Buffer.from(name) });
        answered.then(answer => {
          over();
          if (isSharedCall(one)) keep(one.key, answer);
        }, over);
        return answered;
      },
    }),
  };
}

/**
 * The messages between what all calls of an agent have in common, as they are in the body. Inside of a JSON text every
 * quote is escaped, so what is looked for here is found between texts and nowhere else.
 */
function ownParts({ body: bytes, head }: Call): MessagePart[] {
  const body = bytes.toString();
  const end = body.lastIndexOf('],"temperature":');
  const parts: MessagePart[] = [];
  for (let at = head.length; at < end; ) {
    if (!PLAIN.test(body.slice(at, at + LONGEST_ROLE))) return partsIn(body.slice(head.length, end));
    const roleAt = at + '{"role":"'.length;
    const roleEnd = body.indexOf('"', roleAt);
    const from = roleEnd + '","content":"'.length;
    const next = body.indexOf('"},{"role":"', from);
    const to = next < 0 ? end - '"}'.length : next;
    parts.push({ role: body.slice(roleAt, roleEnd), text: body, from, to, isEscaped: true });
    at = to + '"},'.length;
  }
  return parts;
}

/** How a message of text begins. */
const PLAIN = /^\{"role":"[a-z]+","content":"/;
const LONGEST_ROLE = 60;

/** The same of messages that an item brought along: of lists of parts only the texts are counted. */
function partsIn(messages: string): MessagePart[] {
  const all = JSON.parse(`[${messages}]`) as { role: string; content: unknown }[];
  return all.map(({ role, content }) => {
    const texts = Array.isArray(content) ? content.map(part => part.text ?? '') : [content];
    return messagePart(role, texts.join('\n'));
  });
}

function readyOf({ text, finish, tokens }: KnownAnswer): Ready {
  const message = `{"role":"assistant","content":${JSON.stringify(text)}}`;
  return {
    tokens,
    begin: `{"choices":[{"index":0,"message":${message},"finish_reason":${JSON.stringify(finish)}}],"usage":{"completion_tokens":${tokens},"prompt_tokens":`,
  };
}
