/**
 * POST /v1/embeddings without the wire. A vector is made of the words of its text, so that texts that share words lie
 * near each other; it has length 1, and the same text has the same vector on every server.
 */
import { type ChatSettings, idOf, NOTHING_SAID, priorityOf, type Reply } from './chat.ts';
import { modelAsked, parseObject, tooLong } from './question.ts';
import { sha256 } from './random.ts';
import { badRequest } from './refusal.ts';
import { checkFields } from './request-fields.ts';
import { tokensOf } from './tokens.ts';

const DIMENSIONS = 384;
const MOST_DIMENSIONS = 8_192;
const MOST_INPUTS = 2_048;
/** Each word moves so many of the dimensions. */
const SPREAD = 8;

/** `request` is the hash of `body`. @throws Refusal */
export function embeddingsOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const model = modelAsked(question, settings.model);
  checkFields(question, 'embedding', settings.byPriority);
  const { input } = question;
  const dimensions = question.dimensions ?? DIMENSIONS;
  const format = question.encoding_format ?? 'float';
  const inputs: unknown[] = Array.isArray(input) ? input : [input];
  if (inputs.length === 0 || inputs.length > MOST_INPUTS || !inputs.every(text => typeof text === 'string')) {
    throw badRequest(`input: expected a string, or a list of 1 to ${MOST_INPUTS} strings.`);
  }
  if (
    !Number.isInteger(dimensions) ||
    !((dimensions as number) >= 1 && (dimensions as number) <= MOST_DIMENSIONS)
  ) {
    throw badRequest(`dimensions: expected 1 to ${MOST_DIMENSIONS}, got ${JSON.stringify(dimensions)}.`);
  }
  if (format !== 'float' && format !== 'base64') {
    throw badRequest(`encoding_format: expected float or base64, got ${JSON.stringify(format)}.`);
  }
  const texts = inputs as string[];
  let prompt = 0;
  for (const text of texts) {
    const tokens = tokensOf(text);
    if (tokens > settings.maxModelLength) throw tooLong(tokens, 0, settings.maxModelLength);
    prompt += tokens;
  }
  const data = texts.map((text, index) => {
    const vector = vectorOf(text, dimensions as number);
    const embedding =
      format === 'float' ? JSON.stringify([...vector]) : `"${Buffer.from(vector.buffer).toString('base64')}"`;
    return `{"index":${index},"object":"embedding","embedding":${embedding}}`;
  });
  return {
    ...NOTHING_SAID,
    kind: 'embedding',
    priority: priorityOf(question),
    id: `embd-${idOf(question, request)}`,
    model,
    prompts: texts,
    text: `[${data.join(',')}]`,
    usage: { prompt, completion: 0, cached: 0 },
  };
}

/** Of length 1; the same for the same text. */
export function vectorOf(text: string, dimensions: number): Float32Array {
  const vector = new Float32Array(dimensions);
  // a text without words has a direction too
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [text];
  for (const word of words) {
    const hash = sha256(word);
    for (let at = 0; at < SPREAD; at++) {
      const place = hash.readUInt32LE(4 * at);
      vector[(place >>> 1) % dimensions]! += place & 1 ? 1 : -1;
    }
  }
  let squares = 0;
  for (const value of vector) squares += value * value;
  if (squares === 0) {
    // in few dimensions words can cancel each other out
    vector[0] = 1;
    return vector;
  }
  return vector.map(value => value / Math.sqrt(squares));
}
