/**
 * Answers on the wire: whole, as a stream of events, or broken off half-way.
 *
 * A stream is one event with the role, some with the text, one with the finish_reason, one with the usage where the
 * request asked for it, then `[DONE]`.
 */
import type { ServerResponse } from 'node:http';
import type { Reply } from './chat.ts';
import { type Refusal, refusalBody } from './refusal.ts';

/** Says so in every answer and on every connection: nobody should take these answers for a model's. */
const FINGERPRINT = 'fw-simulated';
const SERVER = 'fw-simulate';
/** The text of a streamed answer comes in at most this many events, however long it is. */
const TEXT_EVENTS = 16;

/** `now` is in whole seconds since 1970, here and below. */
export function wholeBody({ id, model, text, finish, usage }: Reply, now: number): string {
  // put together by hand: only the text and the model need escaping
  return (
    `{"id":"${id}","object":"chat.completion","created":${now},"model":${JSON.stringify(model)},` +
    `"choices":[{"index":0,"message":{"role":"assistant","content":${JSON.stringify(text)},"refusal":null,"reasoning":null,"tool_calls":[]},` +
    `"logprobs":null,"finish_reason":"${finish}","stop_reason":null,"token_ids":null}],` +
    `"usage":${usageJson(usage)},"system_fingerprint":"${FINGERPRINT}","service_tier":null,` +
    `"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}`
  );
}

/** The events of a streamed answer, in order; the text is cut between UTF-16 pairs, never inside one. */
export function eventsOf({ id, model, text, finish, usage, includeUsage }: Reply, now: number): string[] {
  const head = `"id":"${id}","object":"chat.completion.chunk","created":${now},"model":${JSON.stringify(model)}`;
  const event = (choices: string, more = '') => `data: {${head},"choices":[${choices}]${more}}\n\n`;
  const delta = (content: string, finished: string) =>
    event(`{"index":0,"delta":${content},"logprobs":null,"finish_reason":${finished}}`);
  const events = [delta('{"role":"assistant","content":""}', 'null')];
  const characters = [...text];
  const step = Math.max(4, Math.ceil(characters.length / TEXT_EVENTS));
  for (let at = 0; at < characters.length; at += step) {
    events.push(delta(JSON.stringify({ content: characters.slice(at, at + step).join('') }), 'null'));
  }
  events.push(delta('{}', `"${finish}"`));
  if (includeUsage) events.push(event('', `,"usage":${usageJson(usage)}`));
  events.push('data: [DONE]\n\n');
  return events;
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
