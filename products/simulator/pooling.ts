/**
 * What vLLM answers beside texts and vectors, without the wire: POST /v1/score, /v1/rerank, /classify and /pooling. Scores
 * are how near the vectors of two texts lie (embeddings.ts), so that texts that share words score higher; a class is drawn
 * from its text. The same request has the same answer on every server.
 */
import { type ChatSettings, idOf, NOTHING_SAID, priorityOf, type Reply } from './chat.ts';
import { vectorOf } from './embeddings.ts';
import { messagesOf, modelAsked, parseObject, tooLong } from './question.ts';
import { sha256 } from './random.ts';
import { badRequest } from './refusal.ts';
import { checkFields } from './request-fields.ts';
import { tokensOf } from './tokens.ts';

type Question = ReturnType<typeof parseObject>;

const MOST_TEXTS = 2_048;
const DIMENSIONS = 384;
const LABELS = ['LABEL_0', 'LABEL_1'] as const;

/** The names of the two sides of a score, as vLLM has them. */
const SIDES = [
  ['queries', 'documents'],
  ['queries', 'items'],
  ['data_1', 'data_2'],
  ['text_1', 'text_2'],
] as const;

/** The two texts of each score. */
function pairsIn(question: Question): (readonly [string, string])[] {
  const names = SIDES.find(([one, other]) => question[one] != null && question[other] != null);
  if (names === undefined)
    throw badRequest('expected queries and documents, or text_1 and text_2: Field required.');
  const [one, other] = [textsIn(question, names[0]), textsIn(question, names[1])];
  if (one.length !== 1 && one.length !== other.length)
    throw badRequest('Input lengths must be either 1:1, 1:N or N:N');
  return other.map((text, at) => [one[one.length === 1 ? 0 : at] as string, text] as const);
}

/** A query and the texts that are ranked by it. */
function rankedIn(question: Question): { query: string; documents: string[] } {
  const { query } = question;
  if (typeof query !== 'string') throw badRequest('query: expected a string.');
  return { query, documents: textsIn(question, 'documents') };
}

const shownOfPairs = (pairs: readonly (readonly [string, string])[]): string[] =>
  pairs.map(([left, right]) => `${left}\n${right}`);
const shownOfRanks = ({ query, documents }: ReturnType<typeof rankedIn>): string[] =>
  documents.map(text => `${query}\n${text}`);

/** What a model is shown of a request, each text on its own, by its path. @throws Refusal */
export const SHOWN_TO_POOLING: ReadonlyMap<string, (question: Question) => string[]> = new Map([
  ...['/score', '/v1/score'].map(path => [path, (one: Question) => shownOfPairs(pairsIn(one))] as const),
  ...['/rerank', '/v1/rerank', '/v2/rerank'].map(
    path => [path, (one: Question) => shownOfRanks(rankedIn(one))] as const,
  ),
  ...['/classify', '/v1/classify', '/pooling'].map(path => [path, inputsIn] as const),
]);

/** `request` is the hash of `body`, here and below. @throws Refusal */
export function scoresOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const pairs = pairsIn(question);
  const data = pairs.map(
    ([left, right], index) => `{"index":${index},"object":"score","score":${nearness(left, right)}}`,
  );
  return replyOf('score', question, request, settings, shownOfPairs(pairs), `[${data.join(',')}]`);
}

/** @throws Refusal */
export function rerankedOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const { top_n: most = 0 } = question;
  const asked = rankedIn(question);
  const { query, documents } = asked;
  if (!Number.isInteger(most))
    throw badRequest(`top_n: expected a whole number, got ${JSON.stringify(most)}.`);
  const ranked = documents
    .map((text, index) => ({ index, text, score: nearness(query, text) }))
    .sort((a, b) => b.score - a.score || a.index - b.index)
    .slice(0, (most as number) > 0 ? (most as number) : documents.length);
  const results = ranked.map(
    ({ index, text, score }) =>
      `{"index":${index},"document":{"text":${JSON.stringify(text)},"multi_modal":null},"relevance_score":${score}}`,
  );
  const reply = replyOf('rerank', question, request, settings, shownOfRanks(asked), `[${results.join(',')}]`);
  return { ...reply, kind: 'rerank' };
}

/** @throws Refusal */
export function classesOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const texts = inputsIn(question);
  const data = texts.map((text, index) => {
    const chance = Number((sha256(text).readUInt32LE(0) / 2 ** 32).toFixed(6));
    const probs = [chance, Number((1 - chance).toFixed(6))];
    const label = LABELS[chance >= 0.5 ? 0 : 1];
    return JSON.stringify({ index, label, probs, num_classes: probs.length });
  });
  return replyOf('classify', question, request, settings, texts, `[${data.join(',')}]`);
}

/** @throws Refusal */
export function pooledOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const texts = inputsIn(question);
  const data = texts.map(
    (text, index) =>
      `{"index":${index},"object":"pooling","data":${JSON.stringify([...vectorOf(text, DIMENSIONS)])}}`,
  );
  return replyOf('pool', question, request, settings, texts, `[${data.join(',')}]`);
}

function replyOf(
  id: string,
  question: Question,
  request: Buffer,
  settings: ChatSettings,
  prompts: readonly string[],
  text: string,
): Reply {
  const model = modelAsked(question, settings.model);
  checkFields(question, 'pooling', settings.byPriority);
  let prompt = 0;
  for (const one of prompts) {
    const tokens = tokensOf(one);
    if (tokens > settings.maxModelLength) throw tooLong(tokens, 0, settings.maxModelLength);
    prompt += tokens;
  }
  return {
    ...NOTHING_SAID,
    kind: 'embedding',
    priority: priorityOf(question),
    id: `${id}-${idOf(question, request)}`,
    ...{ model, prompts, text, usage: { prompt, completion: 0, cached: 0 } },
  };
}

/** Of /classify and /pooling: a text, texts, or a conversation. */
function inputsIn(question: Question): string[] {
  const { messages } = question;
  if (question.input === undefined && messages !== undefined)
    return [
      messagesOf(messages)
        .map(({ content }) => content)
        .join('\n'),
    ];
  return textsIn(question, 'input');
}

function textsIn(question: Question, name: string): string[] {
  const value = question[name];
  const texts: unknown[] = Array.isArray(value) ? value : [value];
  const isRight =
    texts.length > 0 && texts.length <= MOST_TEXTS && texts.every(one => typeof one === 'string');
  if (!isRight) throw badRequest(`${name}: expected a string, or a list of 1 to ${MOST_TEXTS} strings.`);
  return texts as string[];
}

/** 0 to 1. */
function nearness(one: string, other: string): number {
  const [left, right] = [vectorOf(one, DIMENSIONS), vectorOf(other, DIMENSIONS)];
  const product = left.reduce((sum, value, at) => sum + value * (right[at] as number), 0);
  return Number(Math.min(1, Math.max(0, (1 + product) / 2)).toFixed(6));
}
