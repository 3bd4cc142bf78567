/**
 * Answers on the wire: whole, as a stream of events, or broken off half-way.
 *
 * A stream is one event with the role, one for each token of the text (for those of each step where drafts are checked), one
 * with the finish_reason, one with the usage where the request asked for it, then `[DONE]`.
 */
import type { ServerResponse } from 'node:http';
import type { Reply, Script } from './chat.ts';
import { chatLogprobs, completionLogprobs } from './logprobs.ts';
import { type Refusal, refusalBody } from './refusal.ts';
import { tokenTexts } from './tokens.ts';

/** Says so in every answer and on every connection: nobody should take these answers for a model's. */
const FINGERPRINT = 'fw-simulated';
const SERVER = 'fw-simulate';

/** `now` is in whole seconds since 1970, here and below. Put together by hand: only id, text and model need escaping. */
export function wholeBody(reply: Reply, now: number): string {
  const { kind, id, model, text, echo, finish, usage, wire } = reply;
  if (wire !== undefined) return wire.whole(reply, now);
  const named = `"model":${JSON.stringify(model)}`;
  const used = `"usage":${usageJson(usage)}`;
  if (kind === 'embedding')
    return `{"id":${JSON.stringify(id)},"object":"list","created":${now},${named},"data":${text},${used}}`;
  if (kind === 'rerank') return `{"id":${JSON.stringify(id)},${named},${used},"results":${text}}`;
  const ending = `"logprobs":${logprobsOf(reply)},"finish_reason":"${finish}","stop_reason":${JSON.stringify(reply.stopReason)}`;
  const rest = `${used},"system_fingerprint":"${FINGERPRINT}","service_tier":null,"kv_transfer_params":null`;
  if (kind === 'completion') {
    const choice = `{"index":0,"text":${JSON.stringify(echo + text)},${ending},"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}`;
    return `{"id":${JSON.stringify(id)},"object":"text_completion","created":${now},${named},"choices":[${choice}],${rest}}`;
  }
  const message = `{"role":"assistant","content":${JSON.stringify(text)},"refusal":null,"reasoning":null,"tool_calls":[]}`;
  const choice = `{"index":0,"message":${message},${ending},"token_ids":null}`;
  return `{"id":${JSON.stringify(id)},"object":"chat.completion","created":${now},${named},"choices":[${choice}],${rest},"prompt_logprobs":null,"prompt_token_ids":null}`;
}

/** Of the tokens from `from` to `to`, by number; `offset` is where the first begins. */
function logprobsOf({ kind, chances }: Reply, from = 0, to?: number, offset = 0): string {
  if (chances === null) return 'null';
  const tokens = chances.slice(from, to);
  return kind === 'chat' ? chatLogprobs(tokens) : completionLogprobs(tokens, offset);
}

/** `joined`: tokens that come together are one event, as those of a step are that checks drafts; of a chat or completion in text. */
export function scriptOf(reply: Reply, now: number, joined = false): Script {
  if (reply.wire !== undefined) return reply.wire.script(reply, now);
  const { kind, id, model, text, echo, finish, stopReason, usage, includeUsage, usageInEach } = reply;
  const object = kind === 'chat' ? 'chat.completion.chunk' : 'text_completion';
  const head = `"id":${JSON.stringify(id)},"object":"${object}","created":${now},"model":${JSON.stringify(model)}`;
  const event = (choices: string, more = '') => `data: {${head},"choices":[${choices}]${more}}\n\n`;
  const tokens = tokenTexts(text);
  let at = -1;
  let offset = 0;
  const piece = (content: string, logprobs: string, ending: string) => {
    const said = kind === 'chat' ? `"delta":${content}` : `"text":${content}`;
    const soFar = `,"usage":${usageJson({ ...usage, completion: Math.min(Math.max(at, 0), usage.completion) })}`;
    return event(`{"index":0,${said},"logprobs":${logprobs},${ending}}`, usageInEach ? soFar : '');
  };
  const goesOn = kind === 'chat' ? '"finish_reason":null' : '"finish_reason":null,"stop_reason":null';
  const ended = `"finish_reason":"${finish}","stop_reason":${JSON.stringify(stopReason)}`;
  const upTo = (share: number): string => {
    let events = '';
    if (at < 0) {
      at = 0;
      if (kind === 'chat') events += piece('{"role":"assistant","content":""}', 'null', goesOn);
      else if (echo !== '') events += piece(JSON.stringify(echo), 'null', goesOn);
    }
    // a share of tokens is a quotient of whole numbers, which may be a little less than it
    for (const end = Math.floor(share * tokens.length + 1e-6); at < end; ) {
      const next = joined ? end : at + 1;
      const said = tokens.slice(at, next).join('');
      const logprobs = logprobsOf(reply, at, next, offset);
      offset += said.length;
      at = next;
      const content = JSON.stringify(said);
      events += piece(kind === 'chat' ? `{"content":${content}}` : content, logprobs, goesOn);
    }
    return events;
  };
  return {
    upTo,
    rest() {
      let events = upTo(1);
      at = usage.completion;
      events += piece(kind === 'chat' ? '{}' : '""', 'null', ended);
      if (includeUsage) events += event('', `,"usage":${usageJson(usage)}`);
      return `${events}data: [DONE]\n\n`;
    },
  };
}

function usageJson({ prompt, completion, cached }: Reply['usage']): string {
  return (
    `{"prompt_tokens":${prompt},"total_tokens":${prompt + completion},"completion_tokens":${completion},` +
    `"prompt_tokens_details":{"cached_tokens":${cached}}}`
  );
}

function begin(
  response: ServerResponse,
  status: number,
  type: string,
  body: string | Buffer,
  more = {},
): void {
  const length = Buffer.byteLength(body);
  response.writeHead(status, { server: SERVER, 'content-type': type, 'content-length': length, ...more });
}

export function sendJson(response: ServerResponse, status: number, body: string, more: object = {}): void {
  begin(response, status, 'application/json', body, more);
  response.end(body);
}

export function sendText(response: ServerResponse, status: number, type: string, body: string): void {
  begin(response, status, type, body);
  response.end(body);
}

export function sendRefusal(response: ServerResponse, refusal: Refusal, more: object = {}): void {
  const isAnthropic = response.req?.url?.startsWith('/v1/messages') === true;
  sendJson(response, refusal.status, refusalBody(refusal, isAnthropic), more);
}

export function startStream(response: ServerResponse): void {
  response.writeHead(200, { server: SERVER, 'content-type': 'text/event-stream; charset=utf-8' });
}

/** Ends the connection: before anything was said, or after half of the body whose whole length was promised. */
export function drop(response: ServerResponse, body: string | undefined): void {
  if (body === undefined) {
    response.destroy();
    return;
  }
  const bytes = Buffer.from(body);
  begin(response, 200, 'application/json', bytes);
  response.write(bytes.subarray(0, bytes.length >> 1), () => response.destroy());
}
