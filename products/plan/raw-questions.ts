/** Requests of a batch file as a plan sees them: what is read, how much may be written, and what nobody can foresee. */
import type { RawRequest } from '../../engine/core/item/item.ts';
import { isObject, type JsonObject } from '../../engine/core/json/pointer.ts';
import { badRequest, messagesOf } from '../simulator/chat.ts';
import { blockMessages } from '../simulator/messages.ts';
import { SHOWN_TO_POOLING } from '../simulator/pooling.ts';
import { responseMessages } from '../simulator/responses.ts';
import type { Message, PromptInput } from '../simulator/tokens.ts';

export interface RawQuestion {
  /** each of them is computed: texts, or the tokens themselves */
  asked: ({ texts: PromptInput } | { ids: number[] })[];
  /** false: nothing is written, as with embeddings and scores */
  writes: boolean;
  isChat: boolean;
  /** answers to each */
  choices: number;
  /** tokens of an answer; `most` is undefined where the request does not say it */
  most: number | undefined;
  least: number;
  /** an answer goes on up to `most` */
  isFull: boolean;
}

/** What a model is shown, of the bodies of the paths that chat. */
const CHATS: ReadonlyMap<string, (body: JsonObject) => Message[]> = new Map([
  ['/v1/chat/completions', ({ messages }: JsonObject) => messagesOf(messages)],
  ['/v1/responses', responseMessages],
  ['/v1/messages', blockMessages],
]);
const COMPLETIONS = '/v1/completions';
const EMBEDDINGS = '/v1/embeddings';
/** What a completion writes that does not say how much, with OpenAI and vLLM. */
const USUAL_COMPLETION = 16;

/** Why a plan leaves a request out, in words; undefined where it need not. `hasLengths`: an option says how long answers are. */
export function whyUnforeseen(
  { url, body }: RawRequest,
  hasLengths: (url: string) => boolean,
): string | undefined {
  const isChat = CHATS.has(url);
  if (!isChat && url !== COMPLETIONS && url !== EMBEDDINGS && !SHOWN_TO_POOLING.has(url))
    return `${url}, whose work a plan does not know`;
  if (hasMedia(body.messages) || (isChat && hasMedia(body.input)))
    return `${url} with images, sound or video, whose tokens a plan does not know`;
  if (!isChat || hasLengths(url) || mostIn(body) !== undefined) return undefined;
  return `${url} without ${url === '/v1/responses' ? 'max_output_tokens' : 'max_tokens'}, whose answers have any length: --output-tokens or --ledger says it`;
}

function hasMedia(messages: unknown): boolean {
  if (!Array.isArray(messages)) return false;
  return messages.some(message => {
    const content = isObject(message) ? message.content : undefined;
    return (
      Array.isArray(content) &&
      content.some(
        part => isObject(part) && /image|audio|video/.test(String(part.type ?? Object.keys(part)[0])),
      )
    );
  });
}

function mostIn({ max_completion_tokens, max_tokens, max_output_tokens }: JsonObject): number | undefined {
  const most = max_completion_tokens ?? max_tokens ?? max_output_tokens;
  return typeof most === 'number' && most >= 1 ? Math.floor(most) : undefined;
}

/** @throws Refusal where a server would refuse it */
export function rawQuestionOf(path: string, body: JsonObject): RawQuestion {
  const { n, min_tokens: least, ignore_eos } = body;
  const all = {
    choices: typeof n === 'number' && n >= 1 ? Math.floor(n) : 1,
    least: typeof least === 'number' ? least : 0,
    isFull: ignore_eos === true,
  };
  const shown = CHATS.get(path);
  if (shown !== undefined) {
    const { tools } = body;
    // templates show a model its tools before all else
    const first =
      Array.isArray(tools) && tools.length > 0 ? [{ role: 'system', content: JSON.stringify(tools) }] : [];
    const asked = [{ texts: [...first, ...shown(body)] }];
    return { ...all, asked, writes: true, isChat: true, most: mostIn(body) };
  }
  const pooled = SHOWN_TO_POOLING.get(path)?.(body).map(texts => ({ texts }));
  const asked = pooled ?? askedIn(body.prompt ?? body.input);
  if (pooled || path === EMBEDDINGS)
    return { ...all, asked, writes: false, isChat: false, choices: 1, most: 0 };
  return { ...all, asked, writes: true, isChat: false, most: mostIn(body) ?? USUAL_COMPLETION };
}

/** A text, tokens, or a list of either. */
function askedIn(given: unknown): RawQuestion['asked'] {
  const list = Array.isArray(given) && !given.every(Number.isInteger) ? given : [given];
  return list.map(one => {
    if (typeof one === 'string') return { texts: one };
    if (Array.isArray(one) && one.length > 0 && one.every(Number.isInteger)) return { ids: one as number[] };
    throw badRequest('expected a text, a list of tokens, or a list of such.');
  });
}

/** What is read of an answer: that it is one, and its tokens. */
export function rawReply(
  { writes, isChat }: RawQuestion,
  count: number,
  { prompt, completion, cached }: { prompt: number; completion: number; cached: number },
): Buffer {
  const text = isChat ? { message: { role: 'assistant', content: '.' } } : { text: '.' };
  const choices = Array.from({ length: count }, (_, index) => ({ index, ...text, finish_reason: 'stop' }));
  const answer = writes ? { choices } : { object: 'list', data: [{ index: 0, embedding: [0] }] };
  const usage = {
    prompt_tokens: prompt,
    completion_tokens: completion,
    prompt_tokens_details: { cached_tokens: cached },
  };
  return Buffer.from(JSON.stringify({ ...answer, usage }));
}
