/**
 * The dialects of servers of models: a row for each path that strangers may ask, with what differs between them. A path that
 * is not here can be asked by `fw batch` and `fw request` all the same: then its answer is kept as it came.
 *
 * Behind the table: how an answer in parts is read, which says what it is by itself: items of `/v1/responses`
 * (`"object": "response"`), blocks of `/v1/messages` (`"type": "message"`). Answers in choices are read in response.ts.
 */
import { isObject, type JsonObject } from '../json/pointer.ts';
import { show } from '../json/show.ts';

export interface Dialect {
  /** by the conventions of OpenTelemetry for generative AI */
  operation: string;
  /** tokens that an answer is taken to need whose request does not say how many it may have; 0: it writes none */
  unsaid: number;
  /** whether vLLM reads `priority` in its requests */
  hasPriority: boolean;
  /** whose shape its errors have */
  errors: 'openai' | 'anthropic';
  /** how its streams are read; null where an answer is never streamed */
  stream: 'choices' | 'items' | 'blocks' | null;
  /** servers read a form there: requests are JSON here, and go out as one (endpoints/form-body.ts) */
  isForm?: true;
  /** fields that servers which many share cannot do, and why */
  refused?: Readonly<Record<string, string>>;
}

const KEPT_NOWHERE =
  'answers are kept by no server, since each request may go to another one: send what was said before in `input`';
const OPENAI = { hasPriority: true, errors: 'openai' } as const;
const ANTHROPIC = { hasPriority: false, errors: 'anthropic' } as const;
/** Computed from the input alone: usage has tokens of prompts, and nothing is written. */
const READS = { ...OPENAI, unsaid: 0, stream: null } as const;

/** What strangers may ask: tenants of a server, and a coordinator of its workers. Other paths of a vLLM change it (load an adapter, put it to sleep). */
export const DIALECTS: ReadonlyMap<string, Dialect> = new Map<string, Dialect>([
  ['/v1/chat/completions', { ...OPENAI, operation: 'chat', unsaid: 1_024, stream: 'choices' }],
  // 16 is what servers write of a completion that does not say how much
  ['/v1/completions', { ...OPENAI, operation: 'text_completion', unsaid: 16, stream: 'choices' }],
  ['/v1/embeddings', { ...READS, operation: 'embeddings' }],
  // the names that vLLM and SGLang have for them, beside /v1 and below it
  ['/v1/score', { ...READS, operation: 'score' }],
  ['/score', { ...READS, operation: 'score' }],
  ['/v1/rerank', { ...READS, operation: 'rerank' }],
  ['/v2/rerank', { ...READS, operation: 'rerank' }],
  ['/rerank', { ...READS, operation: 'rerank' }],
  ['/v1/classify', { ...READS, operation: 'classify' }],
  ['/classify', { ...READS, operation: 'classify' }],
  ['/pooling', { ...READS, operation: 'pooling' }],
  ['/tokenize', { ...READS, operation: 'tokenize', hasPriority: false }],
  // what Whisper writes at most of half a minute
  [
    '/v1/audio/transcriptions',
    { ...OPENAI, operation: 'transcription', unsaid: 448, hasPriority: false, stream: null, isForm: true },
  ],
  [
    '/v1/responses',
    {
      ...{ ...OPENAI, operation: 'chat', unsaid: 1_024, stream: 'items' },
      refused: {
        background:
          'an answer that is fetched later is kept by one server, and each request may go to another one',
        previous_response_id: KEPT_NOWHERE,
        conversation: KEPT_NOWHERE,
      },
    },
  ],
  ['/v1/messages', { ...ANTHROPIC, operation: 'chat', unsaid: 1_024, stream: 'blocks' }],
  ['/v1/messages/count_tokens', { ...ANTHROPIC, operation: 'count_tokens', unsaid: 0, stream: null }],
]);

const lastOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

/** By the last part of their paths, wherever a server has them; the last two are in no dialect. */
const READING: ReadonlySet<string> = new Set([
  ...[...DIALECTS].filter(([, { unsaid }]) => unsaid === 0).map(([path]) => lastOf(path)),
  ...['detokenize', 'moderations'],
]);

/** Whether what is answered there is computed from the input alone: nothing is sampled, and nothing written. */
export function writesNothing(url: string): boolean {
  const [path = url] = url.split('?', 1);
  return READING.has(lastOf(path));
}

/** Tokens that so many bytes of a request may have: a rule of thumb, of English and of JSON. */
export const tokensOfBytes = (bytes: number): number => Math.ceil(bytes / 4);

/** The first field of a request that its path refuses, and why; null where there is none. */
export function refusedField(
  refused: Readonly<Record<string, string>>,
  fields: JsonObject,
): { field: string; why: string } | null {
  for (const [field, why] of Object.entries(refused)) {
    const value = fields[field];
    if (value !== undefined && value !== null && value !== false) return { field, why };
  }
  return null;
}

/** Whether an answer is in items or in blocks, and not in choices. */
export const isInParts = ({ object, type }: JsonObject): boolean =>
  object === 'response' || type === 'message';

const THINKING: ReadonlySet<unknown> = new Set(['thinking', 'redacted_thinking']);

interface Part {
  kind: 'text' | 'refusal' | 'reasoning' | 'call';
  text: string;
}

const partOf = (kind: Part['kind'], text: unknown): Part => ({
  kind,
  text: typeof text === 'string' ? text : '',
});

/** What a model said, as it came; of a body that `isInParts`. What is none of the known kinds is a call. */
function partsIn({ object, output, content }: JsonObject): Part[] {
  if (object !== 'response')
    return objectsIn(content).map(({ type, text, thinking }) =>
      type === 'text' ? partOf('text', text) : partOf(THINKING.has(type) ? 'reasoning' : 'call', thinking),
    );
  return objectsIn(output).flatMap(({ type, content: said }) => {
    if (type !== 'message') return [partOf(type === 'reasoning' ? 'reasoning' : 'call', '')];
    return objectsIn(said).map(({ type, text, refusal }) =>
      type === 'refusal' ? partOf('refusal', refusal) : partOf('text', text),
    );
  });
}

const objectsIn = (list: unknown): JsonObject[] => (Array.isArray(list) ? list.filter(isObject) : []);

/** The text of an answer in parts: its refusal where it has none; undefined where all it has are calls of tools. */
export function textOfParts(body: JsonObject): string | undefined {
  const parts = partsIn(body);
  for (const kind of ['text', 'refusal'] as const) {
    const said = parts.filter(part => part.kind === kind).map(({ text }) => text);
    if (said.length > 0) return said.join('');
  }
  return parts.some(({ kind }) => kind === 'call') ? undefined : '';
}

/** Why an answer in parts is not whole by no limit of its request: the engine gave up on it. null where it is. */
export function gaveUpIn({ object, status, stop_reason, content }: JsonObject): string | null {
  if (object !== 'response') {
    if (!Array.isArray(content)) return 'a message without content';
    return typeof stop_reason === 'string' ? null : 'a message without a stop_reason';
  }
  // what says nothing of itself is as whole as it looks
  const isEnded = status === undefined || status === 'completed' || status === 'incomplete';
  return isEnded ? null : `a response of the status ${show(status)}`;
}

/** What stands in the place of an answer in parts; null where an answer is there. One that was cut off is one if it says anything. */
export function nothingSaidIn(body: JsonObject): string | null {
  const gaveUp = gaveUpIn(body);
  if (gaveUp !== null) return gaveUp;
  const isCut = body.status === 'incomplete' || body.stop_reason === 'max_tokens';
  const says = partsIn(body).some(
    ({ kind, text }) => kind === 'call' || (kind !== 'reasoning' && text !== ''),
  );
  return says || !isCut ? null : `no text (cut off: ${finishIn(body)})`;
}

/** Why an answer ended, in the words of its server: `stop`, `max_output_tokens`, `tool_use`; undefined where it does not say. */
export function finishIn({ choices, object, type, status, incomplete_details, stop_reason }: JsonObject) {
  const [first] = Array.isArray(choices) ? choices : [];
  const why = isObject(incomplete_details) ? (incomplete_details.reason ?? status) : status;
  const said =
    object === 'response' ? why : type === 'message' ? stop_reason : isObject(first) && first.finish_reason;
  return typeof said === 'string' ? said : undefined;
}

/** Tokens of a prompt, where `usage` has choices' words: some servers say of a rank no more than how many there were in all. */
export const promptIn = ({ prompt_tokens, completion_tokens, total_tokens }: JsonObject): number =>
  count(prompt_tokens ?? (completion_tokens === undefined ? total_tokens : 0));

/** Tokens of an answer in parts: those of its prompt with those that a cache had, and of what it wrote. */
export interface PartsUsage {
  prompt: number;
  completion: number;
  /** absent where nobody counted */
  cached?: number;
  reasoning: number;
}

/**
 * Where `usage` has `input_tokens`. Anthropic counts what was read from a cache, or written to one, apart from them, OpenAI
 * as a part of them.
 */
export function usageOfParts(usage: JsonObject): PartsUsage {
  const { cache_read_input_tokens: read, cache_creation_input_tokens: written } = usage;
  const { input_tokens_details: input, output_tokens_details: output } = usage;
  const cached = read ?? (isObject(input) ? input.cached_tokens : undefined);
  return {
    prompt: count(usage.input_tokens) + count(read) + count(written),
    completion: count(usage.output_tokens),
    ...(cached !== undefined && cached !== null && { cached: count(cached) }),
    reasoning: isObject(output) ? count(output.reasoning_tokens) : 0,
  };
}

const count = (value: unknown): number =>
  Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : 0;
