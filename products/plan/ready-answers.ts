/**
 * What the servers of a plan answer, in a few microseconds a call: an agent's calls are answered from a set of answers
 * that are ready, drawn by the key of the call. The set is what an earlier run got, or what the simulator says to some
 * calls of this one; where there are few calls it says it to each, so that a small plan has the answers of `fw simulate`.
 * What a raw request is answered is of no interest but for its length.
 */
import { isOfEquals } from '../../engine/asking/agents/asked-once.ts';
import { isSharedCall } from '../../engine/asking/agents/orderings.ts';
import type { Answer, Call, Pool } from '../../engine/core/item/call.ts';
import { type Replies, repliesOf, tooLong } from '../simulator/chat.ts';
import {
  type Message,
  type Prefix,
  type Prompt,
  prefixOf,
  promptAfter,
  promptOf,
} from '../simulator/tokens.ts';
import type { PlannedReply } from '../simulator/virtual-servers.ts';
import { type KnownAnswer, type Lengths, setOf } from './lengths.ts';
import { type RawQuestion, rawQuestionOf, rawReply } from './raw-questions.ts';
import { stretchedText } from './stretch.ts';

/** Shared answers that a plan remembers, of some 2 KB each. */
const MOST_ON_RECORD = 20_000;

/** Calls of an agent that the simulator answers, about: enough for the spread of their lengths. */
const SIMULATED = 512;

export interface AnswerSettings {
  /** of which the prefix cache holds most; that of other models is apart */
  model: string;
  /** of the simulator's answers */
  seed: number;
  lengths: Lengths;
  /** tokens of a prompt and its answer */
  maxModelLength: number;
  /** items, each of which asks an agent once */
  items: number;
  /** characters that the prompts of two items may have in common */
  shared: number;
  /** sees the calls that the simulator answers, and what it says; of raw calls all, and nothing is said */
  onSimulated?: ((call: Call, text: string | null) => void) | undefined;
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

export class PlannedAnswers {
  readonly #settings: AnswerSettings;
  readonly #replies: Replies;
  /** characters that no two prompts have more of in common */
  readonly #shared: number;
  /** the simulator answers one call of so many */
  readonly #every: number;
  /** what is asked, by its body; once a server has read it, what that will answer */
  readonly #calls = new WeakMap<Buffer, Call | PlannedReply>();
  readonly #known = new Map<string, Known>();
  readonly #sets = new Map<string, { isSimulated: boolean; ready: Ready[] }>();
  /** answers that other items of a row may ask for, as the ledger of a run has them */
  readonly #record = new Map<string, Answer>();

  constructor(settings: AnswerSettings) {
    const { seed, lengths, maxModelLength, items } = settings;
    this.#settings = settings;
    this.#replies = repliesOf({ seed, maxModelLength, forLength: true });
    // answers of a model may have to be asked again, and then the whole prompt is in the cache
    this.#shared = lengths.answers.size > 0 ? Number.POSITIVE_INFINITY : settings.shared;
    this.#every = Math.max(1, Math.floor(items / SIMULATED));
  }

  /** What the call of this body will be answered. @throws Refusal */
  answer(body: Buffer): PlannedReply {
    const call = this.#calls.get(body) as Call | PlannedReply;
    if ('prompt' in call) return call;
    const planned = call.raw ? this.#plannedRaw(call) : this.#planned(call);
    this.#calls.set(body, planned);
    return planned;
  }

  #planned(call: Call): PlannedReply {
    const { lengths, maxModelLength } = this.#settings;
    const known = this.#knownOf(call);
    const perToken = lengths.charactersPerToken.prompt;
    const prompt = promptAfter(known.prefix, ownMessages(call), perToken, this.#shared);
    if (prompt.tokens + known.maxTokens > maxModelLength) {
      throw tooLong(prompt.tokens, known.maxTokens, maxModelLength);
    }
    const { begin, tokens } = this.#readyFor(call, known);
    return {
      prompt,
      tokens,
      bodyOf: cached =>
        Buffer.from(`${begin}${prompt.tokens},"prompt_tokens_details":{"cached_tokens":${cached}}}}`),
    };
  }

  #plannedRaw(call: Call): PlannedReply {
    const { lengths, maxModelLength, model } = this.#settings;
    const question = rawQuestionOf(call.path, JSON.parse(call.body.toString()));
    this.#settings.onSimulated?.(call, null);
    const perToken = lengths.charactersPerToken.prompt;
    // a model has blocks of its own
    const salt = call.model === '' || call.model === model ? '' : call.model;
    const prompts = question.asked.map(asked =>
      'ids' in asked
        ? promptOf(asked.ids.map(id => String.fromCharCode(id)).join(''), 1, `${salt}#`)
        : promptOf(asked.texts, perToken, salt),
    );
    const longest = prompts.reduce((most, { tokens }) => Math.max(most, tokens), 0);
    const most = question.most ?? maxModelLength - longest;
    if (longest + Math.max(1, most) > maxModelLength) throw tooLong(longest, most, maxModelLength);
    const tokens = question.writes ? this.#rawTokens(call, question, most) : 0;
    const all = prompts.flatMap(prompt => Array<Prompt>(question.choices).fill(prompt));
    const [prompt, ...more] = all as [Prompt, ...Prompt[]];
    const sum = prompts.reduce((so, { tokens }) => so + tokens, 0);
    return {
      prompt,
      more,
      tokens: Math.max(1, tokens),
      bodyOf: cached =>
        rawReply(question, all.length, { prompt: sum, completion: tokens * all.length, cached }),
    };
  }

  /** How much a raw request is answered: as in an earlier run, or as was asked for, but never more than it allows. */
  #rawTokens(call: Call, { least, isFull }: RawQuestion, most: number): number {
    const { answers, mean } = this.#settings.lengths;
    const drawn = Number.parseInt(call.key.slice(0, 7), 16);
    const earlier = answers.get(call.agent);
    if (isFull || (mean === undefined && earlier === undefined)) return most;
    const tokens = earlier
      ? (earlier[drawn % earlier.length] as KnownAnswer).tokens
      : Math.round((mean as number) * (0.5 + drawn / 2 ** 28));
    return Math.max(1, Math.min(most, Math.max(least, tokens)));
  }

  /** The pool as those who ask see it: with whatever it has beside calls. */
  through(pool: Pool): Pool {
    const onRecord = { lastRound: 0, has: (key: string) => this.#record.has(key) };
    const call = (asked: Call) => this.#call(pool, asked);
    return Object.assign(Object.create(pool) as Pool, { onRecord, call });
  }

  #call(pool: Pool, call: Call): Promise<Answer> {
    const known = this.#record.get(call.key);
    if (known) return Promise.resolve(known);
    this.#calls.set(call.body, call);
    const answered = pool.call(call);
    if (!isSharedCall(call) && !isOfEquals(call)) return answered;
    return answered.then(answer => {
      this.#keep(call.key, answer);
      return answer;
    });
  }

  #keep(key: string, answer: Answer): void {
    this.#record.set(key, answer);
    // the items of a row are asked about side by side, so that the oldest are not wanted any more
    if (this.#record.size > MOST_ON_RECORD) this.#record.delete(this.#record.keys().next().value as string);
  }

  #knownOf({ head, tail, agent }: Call): Known {
    const before = this.#known.get(head);
    if (before?.agent === agent) return before;
    const [, messages = ''] = head.split('"messages":', 2);
    // an agent without a persona has no message there
    const system = JSON.parse(`${messages.replace(/,$/, '')}]`) as Message[];
    const { max_tokens, max_completion_tokens, ...form } = JSON.parse(`{${tail.slice(1)}`);
    const known = {
      agent,
      prefix: prefixOf(system, this.#settings.lengths.charactersPerToken.prompt),
      maxTokens: max_tokens ?? max_completion_tokens,
      fits: this.#replies.fits(form),
    };
    this.#known.set(head, known);
    return known;
  }

  #readyFor(call: Call, known: Known): Ready {
    const { answers } = this.#settings.lengths;
    const name = setOf(call.agent, call.attempt);
    let set = this.#sets.get(name);
    if (set === undefined) {
      const earlier = answers.get(name) ?? answers.get(call.agent) ?? [];
      // an earlier run may have let them have more
      const ready = earlier.map(one => readyOf({ ...one, tokens: Math.min(one.tokens, known.maxTokens) }));
      set = { isSimulated: ready.length === 0, ready };
      this.#sets.set(name, set);
    }
    const drawn = Number.parseInt(call.key.slice(0, 7), 16);
    const { isSimulated, ready } = set;
    if (!isSimulated || (ready.length > 0 && drawn % this.#every > 0))
      return ready[Math.floor(drawn / this.#every) % ready.length] as Ready;
    const simulated = readyOf(this.#simulated(call, known));
    ready.push(simulated);
    return simulated;
  }

  /** What the simulator says to this very call, made as long as wanted. */
  #simulated(call: Call, { maxTokens, fits }: Known): KnownAnswer {
    const { charactersPerToken, stretch } = this.#settings.lengths;
    const { text, finish } = this.#replies.reply(call.body, call.model);
    this.#settings.onSimulated?.(call, text);
    const longer = stretch === 1 ? text : stretchedText(text, stretch);
    const tokens = Math.ceil((stretch * text.length) / charactersPerToken.answer);
    return { text: fits(longer) ? longer : text, finish, tokens: Math.min(maxTokens, Math.max(1, tokens)) };
  }
}

/**
 * The messages between what all calls of an agent have in common. Inside of a JSON text every quote is escaped, so what
 * is looked for here is found between texts and nowhere else. Of lists of parts only the texts are counted.
 */
function ownMessages({ body: bytes, head }: Call): Message[] {
  const body = bytes.toString();
  const all: { role: string; content: unknown }[] = JSON.parse(
    `[${body.slice(head.length, body.lastIndexOf('],"temperature":'))}]`,
  );
  return all.map(({ role, content }) => {
    const texts = Array.isArray(content) ? content.map(part => part.text ?? '') : [content];
    return { role, content: texts.join('\n') };
  });
}

function readyOf({ text, finish, tokens }: KnownAnswer): Ready {
  const message = `{"role":"assistant","content":${JSON.stringify(text)}}`;
  return {
    tokens,
    begin: `{"choices":[{"index":0,"message":${message},"finish_reason":${JSON.stringify(finish)}}],"usage":{"completion_tokens":${tokens},"prompt_tokens":`,
  };
}
