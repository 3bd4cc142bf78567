/** What admins do on the page: the same as over the API, by the same code. Forms are those of page-routes.ts: Origin, cookie. */
import { randomBytes } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { JsonObject } from '../../../engine/core/json/pointer.ts';
import type { Html } from '../../kit/html.ts';
import type { Caller } from '../access.ts';
import { endpointsShown, turnEndpoint } from '../admin/admin-endpoints.ts';
import { addKey, COUNTS, keysOf, limitKey, revokeKey } from '../admin/admin-keys.ts';
import type { KeyRecord } from '../api-keys.ts';
import { ApiError, badRequest, notFound } from '../errors.ts';
import type { Parts } from '../server-context.ts';
import { ADMIN, adminPage, dayOf, limitsPage, madePage, questionPage } from './admin-page.ts';

type One = FastifyRequest<{ Params: { id: string }; Querystring: Record<string, unknown> }>;

export interface PageTools {
  show(request: FastifyRequest, reply: FastifyReply, title: string, main: Html): FastifyReply;
  formOf(request: FastifyRequest): URLSearchParams;
}

/** Forms that are remembered, so that one sent twice makes one key. */
const MOST_FORMS = 1_000;

export function addAdminPage(ui: FastifyInstance, parts: Parts, { show, formOf }: PageTools): void {
  const forms = new Set<string>();
  const keyOf = ({ params }: One): KeyRecord => {
    const key = keysOf(parts).find(({ id, revoked }) => id === params.id && revoked === undefined);
    if (key === undefined) throw notFound('There is no such key in use.');
    return key;
  };
  const back = (reply: FastifyReply): FastifyReply => reply.redirect(ADMIN, 303);
  void ui.register(async admin => {
    admin.addHook('preHandler', async ({ caller }) => refuseOthers(caller));
    admin.get('/admin', async (request, reply) => {
      const once = randomBytes(16).toString('hex');
      const main = adminPage({
        ...{ keys: keysOf(parts), endpoints: endpointsShown(parts), once, now: parts.now() },
        usedToday: id => parts.access.budgets.usedToday(id),
      });
      return show(request, reply, 'Keys and endpoints', main);
    });
    admin.get('/admin/keys/:id', async (request: One, reply) =>
      show(request, reply, 'Limits of a key', limitsPage(keyOf(request))),
    );
    admin.get('/admin/keys/:id/revoke', async (request: One, reply) => {
      const { id, name } = keyOf(request);
      const main = questionPage({
        ...{ title: `Revoke a key of ${name}?`, action: `${ADMIN}/keys/${id}/revoke`, button: 'Revoke it' },
        words: `Whoever uses ${id} is refused from then on, and its batches ask nothing more. A revoked key does not come back.`,
      });
      return show(request, reply, 'Revoke a key', main);
    });
    admin.get('/admin/drain', async (request: One, reply) => {
      const url = String(request.query.url ?? '');
      const all = endpointsShown(parts);
      const one = all.find(endpoint => endpoint.url === url);
      if (one === undefined) throw notFound('There is no such endpoint.');
      const others = all.filter(
        ({ state, url: own }) => own !== url && (state === 'up' || state === 'paused'),
      );
      const last =
        others.length === 0 ? ' No other endpoint is up: requests are refused until it is resumed.' : '';
      const main = questionPage({
        ...{ title: 'Drain an endpoint?', action: `${ADMIN}/drain`, fields: { url }, button: 'Drain it' },
        words: `${url} finishes its ${one.in_flight} calls and gets no new ones until it is resumed, over restarts too.${last}`,
      });
      return show(request, reply, 'Drain an endpoint', main);
    });
    admin.post('/admin/keys', async (request, reply) => {
      const form = formOf(request);
      const once = form.get('once') ?? '';
      if (forms.has(once)) throw badRequest('This form was sent before: its key is in the list.');
      const said = {
        ...limitsIn(form, null),
        name: form.get('name') ?? '',
        scopes: namesIn(form.get('scopes')),
      };
      const { key, record } = await addKey(parts, request, withoutNull(said));
      forms.add(once);
      const [oldest] = forms;
      if (forms.size > MOST_FORMS && oldest !== undefined) forms.delete(oldest);
      return show(request, reply, 'A key', madePage(key, record));
    });
    admin.post('/admin/keys/:id', async (request: One, reply) => {
      const key = keyOf(request);
      await limitKey(parts, request, key.id, limitsIn(formOf(request), key));
      return back(reply);
    });
    admin.post('/admin/keys/:id/revoke', async (request: One, reply) => {
      await revokeKey(parts, request, keyOf(request).id);
      return back(reply);
    });
    for (const act of ['drain', 'resume'] as const)
      admin.post(`/admin/${act}`, async (request, reply) => {
        turnEndpoint(parts, request, act, formOf(request).get('url') ?? '');
        return back(reply);
      });
  });
}

function refuseOthers({ scopes }: Caller): void {
  if (!scopes.has('admin'))
    throw new ApiError(403, 'This key may not see this page: it needs the scope admin.');
}

const namesIn = (text: string | null): string[] =>
  (text ?? '')
    .split(',')
    .map(name => name.trim())
    .filter(name => name !== '');

/** As the API takes them: an empty field takes a limit away. */
function limitsIn(form: URLSearchParams, key: KeyRecord | null): JsonObject {
  const said: JsonObject = {};
  for (const name of [...COUNTS, 'storage']) {
    const text = (form.get(name) ?? '').trim();
    said[name] = text === '' ? null : /^\d{1,15}$/.test(text) ? Number(text) : text;
  }
  const models = namesIn(form.get('models'));
  said.models = models.length === 0 ? null : models;
  const expires = (form.get('expires') ?? '').trim();
  // a day that nobody touched says less than what is kept
  if (key?.expires === undefined || expires !== dayOf(key.expires)) said.expires = expires || null;
  return said;
}

const withoutNull = (said: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(said).filter(([, value]) => value !== null));
