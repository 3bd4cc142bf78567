/**
 * How many tokens prompts and answers have in a plan, and where that is from. The best source is the ledger of an
 * earlier run, of twenty items or more: it has the model's own answers, also those that did not fit. Without one
 * the answers are the simulator's, stretched to a mean if one is named, and tokens are counted by the character.
 */

import { callsOf, ledgerFiles, parsed, type Tell } from '../../engine/asking/ledger/read-ledger.ts';
import { hasBody, textsOf } from '../../engine/asking/ledger/request-texts.ts';
import { dataError } from '../../engine/core/item/failure.ts';
import { counted, number } from '../../engine/core/item/wording.ts';
import { lcg } from '../simulator/random.ts';
import { CHARACTERS_PER_TOKEN, PER_MESSAGE, PER_PROMPT } from '../simulator/tokens.ts';
import { textsOf as shownBy } from './alike.ts';

/** An answer as it came from a server. */
export interface KnownAnswer {
  text: string;
  finish: string;
  tokens: number;
}

export interface Lengths {
  charactersPerToken: { prompt: number; answer: number };
  /** of an earlier run, by agent (see `setOf`); none: the simulator's */
  answers: ReadonlyMap<string, readonly KnownAnswer[]>;
  /** so many times as long as the simulator's, for answers of the simulator */
  stretch: number;
  /** tokens of an answer to a raw request, on average, where its `max_tokens` allows it; undefined: as it allows */
  mean?: number | undefined;
  /** where they are from, for whoever reads the plan */
  words: { prompts: string; answers: string };
}

/** Answers to a first question, and to one that was asked again with a complaint, are drawn from different sets. */
export function setOf(agent: string, attempt: number): string {
  return attempt > 1 ? `${agent} again` : agent;
}

export const GUESSED: Lengths = {
  charactersPerToken: { prompt: CHARACTERS_PER_TOKEN, answer: CHARACTERS_PER_TOKEN },
  answers: new Map(),
  stretch: 1,
  words: {
    prompts: `${CHARACTERS_PER_TOKEN} characters a token, a rule of thumb: --ledger or --tokenizer measures it`,
    answers:
      "the simulator's, which are about as long as a short answer: --ledger has a model's, --output-tokens says a mean",
  },
};

export const RAW_WORDS =
  "as long as max_tokens of each request allows, so that it takes no longer: --ledger has a model's, --output-tokens says a mean";

/** No context holds more; a server that says so does not count. */
const MOST_TOKENS = 1024 * 1024;
/** Tokens are bytes at the least, and a chat template adds some. */
export const MOST_PER_CHARACTER = 4;
export const MOST_TEMPLATE = 1_000;
/** Answers that are kept of each set, and calls whose prompts are counted. */
const KEPT = 512;
const COUNTED = 500;

/** Of the answers of a ledger, folder or file. Exit 65 where there is none. */
export function lengthsOfLedger(path: string, tell: Tell): Lengths {
  const sets = new Map<string, { seen: number; kept: KnownAnswer[] }>();
  const sum = { answers: 0, tokens: 0, counted: 0, promptCharacters: 0, promptTokens: 0 };
  const written = { characters: 0, tokens: 0 };
  const random = lcg(1);
  let lies = 0;
  for (const file of ledgerFiles(path, tell)) {
    const texts = textsOf(file);
    try {
      for (const line of callsOf(file, tell, texts)) {
        const { outcome, agent, attempt, answer: text, finish, usage } = line.call;
        if (outcome !== 'answer' || text === undefined || !usage?.completion) continue;
        if (usage.completion > MOST_TOKENS) {
          lies += 1;
          continue;
        }
        // the answer to a raw request is all that the server said, of which only the length matters
        const isRaw = hasBody(line.bytes);
        const said = { text: isRaw ? '' : text, finish: finish ?? 'unknown', tokens: usage.completion };
        const set = sets.get(setOf(agent, attempt)) ?? { seen: 0, kept: [] };
        sets.set(setOf(agent, attempt), set);
        // a reservoir: each answer of the ledger is as likely to be kept as any other
        set.seen += 1;
        const drawn = Math.floor(random() * set.seen);
        const place = set.seen <= KEPT ? set.seen - 1 : drawn;
        if (place < KEPT) set.kept[place] = said;
        sum.answers += 1;
        sum.tokens += said.tokens;
        if (!isRaw) {
          written.characters += text.length;
          written.tokens += said.tokens;
        }
        if (sum.counted >= COUNTED || usage.prompt === 0 || line.call.redacted) continue;
        const body = parsed(texts.bodyOf(line) ?? '');
        const shown = body === null ? [] : shownBy({ id: null, request: { method: 'POST', url: '', body } });
        const characters = shown.reduce((so, content) => so + content.length, 0);
        if (characters === 0 || usage.prompt > MOST_PER_CHARACTER * characters + MOST_TEMPLATE) continue;
        sum.counted += 1;
        sum.promptCharacters += characters;
        const template = body?.messages === undefined ? 0 : PER_PROMPT + PER_MESSAGE * shown.length;
        sum.promptTokens += Math.max(1, usage.prompt - template);
      }
    } finally {
      texts.close();
    }
  }
  if (sum.answers === 0) {
    const found = lies > 0 ? `${lies} that say they have more than ${number(MOST_TOKENS)}` : 'none';
    throw dataError(
      `--ledger ${path}: expected answers with their tokens, found ${found}; run some items first`,
    );
  }
  const prompt = sum.counted === 0 ? CHARACTERS_PER_TOKEN : sum.promptCharacters / sum.promptTokens;
  const from = `of an earlier run (${path}: ${counted(sum.answers, 'answer')}, ${Math.round(sum.tokens / sum.answers)} tokens on average)`;
  return {
    charactersPerToken: {
      prompt,
      answer: written.tokens === 0 ? CHARACTERS_PER_TOKEN : written.characters / written.tokens,
    },
    answers: new Map([...sets].map(([name, { kept }]) => [name, kept])),
    stretch: 1,
    words: { prompts: `${prompt.toFixed(2)} characters a token, as in that run`, answers: from },
  };
}
