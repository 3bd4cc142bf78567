/**
 * The line of the log that each request has, once it is over: who asked what, how that ended, and what a model server had to
 * do with it. Of what was sent it has a path without its query, and ids.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Tried } from '../../../engine/core/item/call.ts';
import type { About, Level, Say } from '../../../engine/core/item/say.ts';
import { visible } from '../../../engine/core/json/visible.ts';

/** What those who answer a request note of it. */
export interface Noted {
  /** the `code` of OpenAI's error, or its `type` */
  error?: string;
  /** of who was refused: the id of the key, or the first letters of the hash of what was shown */
  key?: string;
  key_hash?: string;
  owner?: string;
  /** of W3C's traceparent */
  trace?: string | undefined;
  /** the model that was asked, and what the client calls it where that is another name */
  model?: string;
  alias?: string;
  /** of the last try */
  endpoint?: string;
  /** that ended, with or without an answer; absent where none began */
  tries?: number;
  waited_ms?: number;
  ttft_ms?: number;
  prompt_tokens?: number;
  completion_tokens?: number;
  /** it was answered from the record */
  cached?: true;
  batch?: string;
  file?: string;
}

declare module 'fastify' {
  interface FastifyRequest {
    noted: Noted;
  }
}

/** Of those who ask again and again: they are told of at the level debug. */
const QUIET: ReadonlySet<unknown> = new Set([undefined, 'metrics', 'worker']);
const LONGEST_PATH = 100;
/** what nginx says of a client that has gone before its answer, since HTTP has no word for it */
const GONE = 499;

export function tellRequest(say: Say, request: FastifyRequest, reply: FastifyReply): void {
  const { method, routeOptions, noted, raw } = request;
  const { url, config } = routeOptions;
  const { headersSent, writableFinished, statusCode } = reply.raw;
  const status = headersSent ? statusCode : GONE;
  const path = url ?? pathOf(request.url);
  const isRefused = status === 401 || status === 403;
  const isOver = status === 429 && noted.error === 'rate_limit_exceeded';
  const caller = request.caller as FastifyRequest['caller'] | null;
  const about: About = {
    event: isRefused ? 'refused' : isOver ? 'over-budget' : 'request',
    level: levelOf(status, url !== undefined && QUIET.has(config.scope)),
    ...{ request: request.id, method, path, status, ms: Math.round(reply.elapsedTime) },
    owner: caller?.owner,
    key: caller?.key,
    ...noted,
    ...(isRefused && { from: raw.socket.remoteAddress }),
    ...(headersSent && !writableFinished && { ended: 'the client has gone' }),
  };
  say(`${method} ${path} ${status}`, about);
}

function levelOf(status: number, isQuiet: boolean): Level {
  if (status === 401 || status === 403) return 'warn';
  if (isQuiet) return 'debug';
  return status >= 500 ? 'warn' : 'info';
}

/** Of a path that no route has: what a client may have mistyped. */
function pathOf(url: string): string {
  const [path = ''] = url.split('?', 1);
  return visible(path.length <= LONGEST_PATH ? path : `${path.slice(0, LONGEST_PATH)}…`);
}

/** Of what a client calls a model, what may be one: texts go into no log. */
export const nameIn = (name: string): string | undefined => (NAME.test(name) ? name : undefined);
const NAME = /^[\w.:/@+-]{1,100}$/;

/** For the line of its request in the log: of several tries the last one counts, and what all of them have cost. */
export function noteTry(noted: Noted, { endpoint, ttft, usage }: Tried): void {
  noted.endpoint = endpoint;
  noted.tries = (noted.tries ?? 0) + 1;
  if (ttft !== undefined) noted.ttft_ms = Math.round(ttft);
  if (usage === undefined) return;
  noted.prompt_tokens = (noted.prompt_tokens ?? 0) + usage.prompt;
  noted.completion_tokens = (noted.completion_tokens ?? 0) + usage.completion;
}
