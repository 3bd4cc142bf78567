/** A few items of a plan, run to see how long what is asked and answered is. */

import { systemClock, TIMING } from '../../engine/asking/endpoints/pool-clock.ts';
import { poolSettings, readUrl } from '../../engine/asking/endpoints/settings.ts';
import { createEndpoint } from '../../engine/asking/pool/pool-state.ts';
import { type Asking, askingOf } from '../../engine/asking/pool/probe.ts';
import type { Call } from '../../engine/core/item/call.ts';
import { unavailable, usageError } from '../../engine/core/item/failure.ts';
import { CHARACTERS_PER_TOKEN, type Message, PER_MESSAGE, PER_PROMPT } from '../simulator/tokens.ts';
import { textsOf } from './alike.ts';
import { GUESSED, type Lengths, MOST_PER_CHARACTER, MOST_TEMPLATE, RAW_WORDS } from './lengths.ts';
import type { Whole } from './sample.ts';
import { type PlanInput, simulate } from './virtual-run.ts';

/** What /tokenize is asked, and what it says of the texts in it; `answer` is null of a raw request. */
interface PilotCall {
  asked: { messages: Message[] } | { prompt: string };
  texts: string[];
  answer: string | null;
}

/** Lengths of answers differ: the mean of so many is within some percent of that of all. */
const ITEMS = 512;
/** Calls whose tokens a server is asked to count: two requests each. */
const COUNTED = 32;
/** for all of them, in ms */
const COUNT_WITHIN = 20_000;

export interface Wanted {
  /** base URL of a server that counts tokens */
  tokenizer: string | undefined;
  /** tokens of an answer, on average over all calls */
  outputTokens: number | undefined;
}

/** The simulator's answers, stretched and counted as wanted. Exit 69 where the tokenizer does not answer. */
export async function lengthsOfPilot(world: PlanInput, sample: Whole, wanted: Wanted): Promise<Lengths> {
  const { tokenizer, outputTokens } = wanted;
  const isRaw = world.row.every(({ stage }) => !stage.asks || stage.name === 'request');
  if (tokenizer === undefined && outputTokens === undefined)
    return isRaw ? { ...GUESSED, words: { ...GUESSED.words, answers: RAW_WORDS } } : GUESSED;
  const seen: PilotCall[] = [];
  const onSimulated = (call: Call, answer: string | null) => {
    const body = JSON.parse(call.body.toString());
    const texts = textsOf({ id: null, request: { method: 'POST', url: call.path, body } });
    const { messages } = body;
    seen.push({ asked: messages ? { messages } : { prompt: texts.join('') }, texts, answer });
  };
  // a raw request that does not say how much may be written would write for ever
  const guessed = { ...world, lengths: { ...GUESSED, mean: outputTokens ?? 1 } };
  const pilot = await simulate(guessed, 1, sample.single(ITEMS), { onSimulated });
  let { charactersPerToken } = GUESSED;
  const words = { ...GUESSED.words };
  if (tokenizer !== undefined) {
    charactersPerToken = await countedBy(tokenizer, seen);
    const { prompt, answer } = charactersPerToken;
    const answers = isRaw ? '' : ` answers ${answer.toFixed(2)},`;
    words.prompts = `${prompt.toFixed(2)} characters a token,${answers} as ${tokenizer} counts those of ${Math.min(COUNTED, seen.length)} calls`;
  }
  if (isRaw) {
    words.answers =
      outputTokens === undefined
        ? RAW_WORDS
        : `${outputTokens} tokens on average, where max_tokens allows them`;
    return { ...GUESSED, charactersPerToken, words, mean: outputTokens };
  }
  if (outputTokens === undefined) return { ...GUESSED, charactersPerToken, words };
  const natural =
    (pilot.tokens.completion / pilot.calls) * (GUESSED.charactersPerToken.answer / charactersPerToken.answer);
  words.answers = `the simulator's, stretched from ${natural.toFixed(0)} to ${outputTokens} tokens on average`;
  return { ...GUESSED, charactersPerToken, stretch: outputTokens / natural, mean: outputTokens, words };
}

async function countedBy(text: string, seen: readonly PilotCall[]): Promise<Lengths['charactersPerToken']> {
  const url = readUrl(text, message => usageError(`--tokenizer: ${message}`));
  const endpoint = createEndpoint({ url, limit: 1, pinned: true }, 0, poolSettings({}, process.env).key);
  const asking = askingOf(endpoint, { clock: systemClock, timing: TIMING }, systemClock.now() + COUNT_WITHIN);
  const path = `${endpoint.prefix.replace(/\/v1$/, '')}/tokenize`;
  const sum = { promptCharacters: 0, promptTokens: 0, answerCharacters: 0, answerTokens: 0 };
  process.stderr.write(`fw plan: ${url} counts the tokens of a sample\n`);
  try {
    for (const { asked, texts, answer } of spread(seen, COUNTED)) {
      const template = 'messages' in asked ? PER_PROMPT + PER_MESSAGE * asked.messages.length : 0;
      if (texts.join('') === '') continue; // it may be a list of tokens
      sum.promptCharacters += texts.reduce((so, text) => so + text.length, 0);
      sum.promptTokens += (await countOf(asking, path, asked)) - template;
      if (answer === null) continue;
      sum.answerCharacters += answer.length;
      sum.answerTokens += await countOf(asking, path, { prompt: answer, add_special_tokens: false });
    }
  } finally {
    await endpoint.wire.close();
  }
  return {
    prompt: sum.promptCharacters / Math.max(1, sum.promptTokens) || CHARACTERS_PER_TOKEN,
    answer: sum.answerCharacters / Math.max(1, sum.answerTokens) || CHARACTERS_PER_TOKEN,
  };
}

/** About `most` of a list, at even distances. */
function spread<T>(list: readonly T[], most: number): T[] {
  const every = Math.max(1, Math.floor(list.length / most));
  return list.filter((_, at) => at % every === 0).slice(0, most);
}

async function countOf(asking: Asking, path: string, body: object): Promise<number> {
  const heard = await asking.post(path, body);
  const count = heard instanceof Error || heard.status !== 200 ? undefined : countIn(heard.body);
  const most = MOST_PER_CHARACTER * JSON.stringify(body).length + MOST_TEMPLATE;
  if (count !== undefined && count <= most) return count;
  const found =
    heard instanceof Error ? heard.message : `HTTP ${heard.status}${count ? ` and ${count}` : ''}`;
  throw unavailable(
    `--tokenizer: expected a count of tokens from ${path}, found ${found}: is it a vLLM server?`,
  );
}

function countIn(body: Buffer): number | undefined {
  try {
    const { count } = JSON.parse(body.toString()) as { count: unknown };
    return Number.isSafeInteger(count) && (count as number) > 0 ? (count as number) : undefined;
  } catch {
    return undefined;
  }
}
