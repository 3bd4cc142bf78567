/** The routes that ask no engine: what is served, how it is, what it counts, tokens, and the settings that may be changed, and by whom. */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { sendJson, sendRefusal, sendText } from './answer-wire.ts';
import { type Controls, shown } from './control.ts';
import type { Core } from './handle-request.ts';
import { messagesOf, modelAsked, parseObject } from './question.ts';
import { badRequest, Refusal } from './refusal.ts';
import { promptTokensOf, tokenIds, tokensOf } from './tokens.ts';

export type Route = (response: ServerResponse, body: Buffer) => void;

/** Where settings are changed. */
export const ADMIN = '/admin/config';

/** vLLM's release, marked as what it is by a local version. */
const VERSION = '0.32.0+fw.simulated';

export interface RouteSettings {
  model: string;
  maxModelLength: number;
  core: () => Core;
  controls: Controls;
  /** whether /admin/config is there */
  admin: boolean;
}

/** By method and path, such as `GET /health`. */
export function routesOf(settings: RouteSettings): ReadonlyMap<string, Route> {
  const { model, maxModelLength, core, controls, admin } = settings;
  const models = JSON.stringify({
    object: 'list',
    data: [
      {
        id: model,
        object: 'model',
        created: Math.floor(Date.now() / 1000),
        owned_by: 'vllm',
        root: model,
        parent: null,
        max_model_len: maxModelLength,
        permission: [],
      },
    ],
  });
  const routes = new Map<string, Route>([
    ['GET /v1/models', response => sendJson(response, 200, models)],
    [
      'GET /health',
      response => sendText(response, controls.now.health === 'dead' ? 503 : 200, 'text/plain', ''),
    ],
    ['GET /version', response => sendJson(response, 200, JSON.stringify({ version: VERSION }))],
    [
      'GET /metrics',
      response => {
        const { metrics, backend } = core();
        sendText(response, 200, 'text/plain; version=0.0.4; charset=utf-8', metrics.text(backend.live()));
      },
    ],
    ['POST /tokenize', (response, body) => tokenize(response, body, model, maxModelLength)],
  ]);
  if (!admin) return routes;
  const tell: Route = response => sendJson(response, 200, JSON.stringify(shown(controls.now)));
  routes.set(`GET ${ADMIN}`, tell);
  routes.set(`POST ${ADMIN}`, (response, body) => {
    try {
      controls.change(parseObject(body.toString()));
    } catch (error) {
      throw error instanceof RangeError ? badRequest(error.message) : error;
    }
    tell(response, body);
  });
  return routes;
}

function tokenize(response: ServerResponse, body: Buffer, model: string, maxModelLength: number): void {
  const question = parseObject(body.toString());
  modelAsked(question, model);
  const { prompt, messages, return_token_strs: wantsTexts } = question;
  if (wantsTexts === true) throw badRequest('return_token_strs: the simulator tells ids alone.');
  if (typeof prompt !== 'string' && messages === undefined) {
    throw badRequest('prompt: Field required: expected a prompt or messages.');
  }
  const asked = typeof prompt === 'string' ? [{ role: 'user', content: prompt }] : messagesOf(messages);
  const count = typeof prompt === 'string' ? tokensOf(prompt) : promptTokensOf(asked);
  const tokens = tokenIds(asked.map(message => message.content).join('\n'), count);
  sendJson(response, 200, JSON.stringify({ count, max_model_len: maxModelLength, tokens, token_strs: null }));
}

/** What is answered where no route is. */
export function noRoute(response: ServerResponse, isKnown: boolean): void {
  if (isKnown) sendJson(response, 405, '{"detail":"Method Not Allowed"}');
  else sendJson(response, 404, '{"detail":"Not Found"}');
}

const STARTING = new Refusal(503, 'Service Unavailable', 'The server is starting.');
const DEAD = new Refusal(
  500,
  'InternalServerError',
  'EngineCore encountered an issue. See stack trace (above) for the root cause.',
);

/** Whether the server is in no state to look at the request; it is answered then. */
export function isUnwell(response: ServerResponse, controls: Controls, path: string): boolean {
  const { health } = controls.now;
  // whoever set it must be able to set it back
  if (path === ADMIN || health === 'ok') return false;
  if (health === 'starting') sendRefusal(response, STARTING);
  else if (path.startsWith('/v1/') && path !== '/v1/models') sendRefusal(response, DEAD);
  else return false;
  return true;
}

const MAX_HEADER_LENGTH = 256;

/**
 * Who may steer a server that has no password. A browser on the machine sends what any web page tells it to: to an
 * address whose name the page's owner lets point here (DNS rebinding), or as a form that needs no permission. The name
 * that was asked for tells the first, the content type the second. `host` is what the server listens at, as a person
 * named it. @throws Refusal (403, 415)
 */
export function guard(headers: IncomingHttpHeaders, host: string, changes: boolean): void {
  const named = nameIn(headers.host);
  if (
    named === undefined ||
    !(isIP(named) > 0 || [host, 'localhost', hostname()].some(own => own.toLowerCase() === named))
  )
    throw new Refusal(
      403,
      'Forbidden',
      'Expected a Host that is an address, localhost or the name of this machine: no web page is to steer this server.',
    );
  const type = String(headers['content-type'] ?? '')
    .slice(0, MAX_HEADER_LENGTH)
    .split(';', 1)[0]!
    .trim()
    .toLowerCase();
  if (changes && type !== 'application/json')
    throw new Refusal(
      415,
      'Unsupported Media Type',
      "Expected content-type application/json: curl -H 'content-type: application/json' -d '{…}'.",
    );
}

/** The name of a Host header (RFC 9110 7.2) in small letters, without its port and without the brackets of IPv6. */
function nameIn(host: string | undefined): string | undefined {
  if (host === undefined || host.length > MAX_HEADER_LENGTH) return undefined;
  const [, six, other] = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::\d{1,5})?$/i.exec(host) ?? [];
  return (six ?? other)?.toLowerCase();
}
