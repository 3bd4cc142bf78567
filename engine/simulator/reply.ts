/**
 * Answers on the wire: whole, as a stream of events, or broken off half-way.
 *
 * A stream is one event with the role, one for each token of the text, one with the finish_reason, one with the usage
 * where the request asked for it, then `[DONE]`.
 */
import type { ServerResponse } from 'node:http';
import type { Reply } from './chat.ts';
import { type Refusal, refusalBody } from './refusal.ts';
import { CHARACTERS_PER_TOKEN } from './tokens.ts';

/** Says so in every answer and on every connection: nobody should take these answers for a model's. */
const FINGERPRINT = 'fw-simulated';
const SERVER = 'fw-simulate';

/** `now` is in whole seconds since 1970, here and below. Put together by hand: only id, text and model need escaping. */
export function wholeBody({ kind, id, model, text, finish, usage }: Reply, now: number): string {
  const named = `"model":${JSON.stringify(model)}`;
  const used = `"usage":${usageJson(usage)}`;
  if (kind === 'embedding')
    return `{"id":${JSON.stringify(id)},"object":"list","created":${now},${named},"data":${text},${used}}`;
  const ending = `"logprobs":null,"finish_reason":"${finish}","stop_reason":null`;
  const rest = `${used},"system_fingerprint":"${FINGERPRINT}","service_tier":null,"kv_transfer_params":null`;
  if (kind === 'completion') {
    const choice = `{"index":0,"text":${JSON.stringify(text)},${ending},"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}`;
    return `{"id":${JSON.stringify(id)},"object":"text_completion","created":${now},${named},"choices":[${choice}],${rest}}`;
  }
  const message = `{"role":"assistant","content":${JSON.stringify(text)},"refusal":null,"reasoning":null,"tool_calls":[]}`;
  const choice = `{"index":0,"message":${message},${ending},"token_ids":null}`;
  return `{"id":${JSON.stringify(id)},"object":"chat.completion","created":${now},${named},"choices":[${choice}],${rest},"prompt_logprobs":null,"prompt_token_ids":null}`;
}

/** A streamed answer, to be said in parts as its tokens come. */
export interface Script {
  /** The events up to this share of the text, 0 to 1, that were not given before. */
  upTo(share: number): string;
  /** All that is left, the usage where it was asked for, and `[DONE]`. */
  rest(): string;
}

/** The text is cut between UTF-16 pairs, never inside one. */
export function scriptOf(reply: Reply, now: number): Script {
  const { kind, id, model, text, finish, usage, includeUsage } = reply;
  const object = kind === 'chat' ? 'chat.completion.chunk' : 'text_completion';
  const head = `"id":${JSON.stringify(id)},"object":"${object}","created":${now},"model":${JSON.stringify(model)}`;
  const event = (choices: string, more = '') => `data: {${head},"choices":[${choices}]${more}}\n\n`;
  const piece = (content: string, finished: string) =>
    kind === 'chat'
      ? event(`{"index":0,"delta":${content},"logprobs":null,"finish_reason":${finished}}`)
      : event(`{"index":0,"text":${content},"logprobs":null,"finish_reason":${finished},"stop_reason":null}`);
  const said = (content: string) => piece(kind === 'chat' ? `{"content":${content}}` : content, 'null');
  const characters = [...text];
  const pieces = Math.ceil(characters.length / CHARACTERS_PER_TOKEN);
  let at = -1;
  const upTo = (share: number): string => {
    let events = '';
    if (at < 0) {
      at = 0;
      if (kind === 'chat') events += piece('{"role":"assistant","content":""}', 'null');
    }
    // a share of tokens is a quotient of whole numbers, which may be a little less than it
    for (const end = Math.floor(share * pieces + 1e-6); at < end; at++) {
      const from = at * CHARACTERS_PER_TOKEN;
      events += said(JSON.stringify(characters.slice(from, from + CHARACTERS_PER_TOKEN).join('')));
    }
    return events;
  };
  return {
    upTo,
    rest() {
      let events = upTo(1);
      events += piece(kind === 'chat' ? '{}' : '""', `"${finish}"`);
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

export function sendJson(response: ServerResponse, status: number, body: string, more: object = {}): void {
  response.writeHead(status, {
    server: SERVER,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...more,
  });
  response.end(body);
}

export function sendText(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, {
    server: SERVER,
    'content-type': type,
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

export function sendRefusal(response: ServerResponse, refusal: Refusal, more: object = {}): void {
  sendJson(response, refusal.status, refusalBody(refusal), more);
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
  response.writeHead(200, {
    server: SERVER,
    'content-type': 'application/json',
    'content-length': bytes.length,
  });
  response.write(bytes.subarray(0, bytes.length >> 1), () => response.destroy());
}
