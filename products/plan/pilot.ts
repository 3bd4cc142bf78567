/** A few items of a plan, run to see how long what is asked and answered is. */

import { systemClock, TIMING } from '../../engine/asking/endpoints/pool-clock.ts';
import { poolSettings, readUrl } from '../../engine/asking/endpoints/settings.ts';
import { createEndpoint } from '../../engine/asking/pool/pool-state.ts';
import { type Asking, askingOf } from '../../engine/asking/pool/probe.ts';
import type { Call } from '../../engine/core/item/call.ts';
import { unavailable, usageError } from '../../engine/core/item/failure.ts';
import { type Message, PER_MESSAGE, PER_PROMPT } from '../simulator/tokens.ts';
import { GUESSED, type Lengths, MOST_PER_CHARACTER, MOST_TEMPLATE } from './lengths.ts';
import { type Sample, spread } from './sample.ts';
import { type PlanInput, simulate } from './virtual-run.ts';

interface PilotCall {
  messages: Message[];
  answer: string;
}

const ITEMS = 24;
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
export async function lengthsOfPilot(world: PlanInput, sample: Sample, wanted: Wanted): Promise<Lengths> {
  const { tokenizer, outputTokens } = wanted;
  if (tokenizer === undefined && outputTokens === undefined) return GUESSED;
  const seen: PilotCall[] = [];
  const note = ({ body }: Call, answer: string) => {
    seen.push({ messages: (JSON.parse(body.toString()) as { messages: Message[] }).messages, answer });
  };
  const pilot = await simulate({ ...world, lengths: GUESSED }, 1, spread(sample, ITEMS), note);
  let { charactersPerToken } = GUESSED;
  const words = { ...GUESSED.words };
  if (tokenizer !== undefined) {
    charactersPerToken = await countedBy(tokenizer, seen);
    const { prompt, answer } = charactersPerToken;
    words.prompts = `${prompt.toFixed(2)} characters a token, answers ${answer.toFixed(2)}, as ${tokenizer} counts those of ${Math.min(COUNTED, seen.length)} calls`;
  }
  if (outputTokens === undefined) return { ...GUESSED, charactersPerToken, words };
  const natural =
    (pilot.tokens.completion / pilot.calls) * (GUESSED.charactersPerToken.answer / charactersPerToken.answer);
  words.answers = `the simulator's, stretched from ${natural.toFixed(0)} to ${outputTokens} tokens on average`;
  return { ...GUESSED, charactersPerToken, stretch: outputTokens / natural, words };
}

async function countedBy(text: string, seen: readonly PilotCall[]): Promise<Lengths['charactersPerToken']> {
  const url = readUrl(text, message => usageError(`--tokenizer: ${message}`));
  const endpoint = createEndpoint({ url, limit: 1, pinned: true }, 0, poolSettings({}, process.env).key);
  const asking = askingOf(endpoint, { clock: systemClock, timing: TIMING }, systemClock.now() + COUNT_WITHIN);
  const path = `${endpoint.prefix.replace(/\/v1$/, '')}/tokenize`;
  const sum = { promptCharacters: 0, promptTokens: 0, answerCharacters: 0, answerTokens: 0 };
  process.stderr.write(`fw plan: ${url} counts the tokens of a sample\n`);
  try {
    for (const { messages, answer } of seen.slice(0, COUNTED)) {
      sum.promptCharacters += messages.reduce((so, { content }) => so + content.length, 0);
      sum.promptTokens +=
        (await countOf(asking, path, { messages })) - PER_PROMPT - PER_MESSAGE * messages.length;
      sum.answerCharacters += answer.length;
      sum.answerTokens += await countOf(asking, path, { prompt: answer, add_special_tokens: false });
    }
  } finally {
    await endpoint.wire.close();
  }
  return {
    prompt: sum.promptCharacters / Math.max(1, sum.promptTokens),
    answer: sum.answerCharacters / Math.max(1, sum.answerTokens),
  };
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
