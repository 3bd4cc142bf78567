/**
 * The page at /: what runs and how it goes, for people. Its routes are all under /ui, with a cookie that is good for nothing
 * else; what they do goes through the code of the API. An action whose Origin is another site is refused.
 */
import { hash, randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Html } from '../../kit/html.ts';
import { PAGE_HEADERS } from '../../kit/page.ts';
import type { Caller } from '../access.ts';
import type { Create } from '../batches/batch-routes.ts';
import type { BatchRecord } from '../batches/batch-state.ts';
import { ApiError, badRequest, notFound } from '../errors.ts';
import { sendFile } from '../file-routes.ts';
import { readBody } from '../http-body.ts';
import type { Parts } from '../server-context.ts';
import type { Uploads } from '../uploads.ts';
import { addAdminPage } from './admin-page-routes.ts';
import { resultOf } from './answer-view.ts';
import { batchPage, resultsPage } from './batch-page.ts';
import { createEvents } from './events.ts';
import { type LineAt, linesAt } from './file-part.ts';
import { ASSETS, errorPage, loginPage, page } from './layout.ts';
import { countTraffic, isAdmin, Looking, type Stores } from './looking.ts';
import { overviewPage } from './overview.ts';
import { createSessions, type Sessions } from './sessions.ts';
import { bodyOf, startPage } from './start-page.ts';
import { type KeyTraffic, nameOf } from './view-texts.ts';

/** bytes of a form without a file */
const MOST_FORM = 16 * 1024;
const TICK = 1_000;
/** lines of a page of answers */
const LINES = 20;
const FOREVER = 'public, max-age=31536000, immutable';

type Query = Record<string, unknown>;
type One = FastifyRequest<{ Params: { id: string }; Querystring: Query }>;

export interface PageParts extends Stores {
  uploads: Uploads;
  create: Create;
}

export async function addPage(app: FastifyInstance, parts: Parts, stores: PageParts): Promise<void> {
  const pages = new Pages(parts, stores, countTraffic(app, parts.now));
  app.get('/', async (_request, reply) => reply.redirect('/ui/', 303));
  await app.register(async ui => pages.addTo(ui), { prefix: '/ui' });
}

class Pages {
  readonly #parts: Parts;
  readonly #stores: PageParts;
  readonly #looking: Looking;
  readonly #sessions: Sessions;
  readonly #events: ReturnType<typeof createEvents>;

  constructor(parts: Parts, stores: PageParts, traffic: () => KeyTraffic[]) {
    this.#parts = parts;
    this.#stores = stores;
    this.#sessions = createSessions(parts.now);
    this.#events = createEvents(parts.say);
    this.#looking = new Looking(parts, stores, traffic);
    const ticking = setInterval(() => {
      this.#looking.note();
      this.#events.send();
    }, TICK).unref();
    parts.closing.addEventListener('abort', () => {
      clearInterval(ticking);
      this.#events.close();
    });
  }

  addTo(ui: FastifyInstance): void {
    ui.addContentTypeParser(
      'application/x-www-form-urlencoded',
      async (_request: FastifyRequest, raw: IncomingMessage) =>
        new URLSearchParams((await readBody(raw, MOST_FORM)).toString()),
    );
    ui.addHook('onRequest', async (request, reply) => {
      void reply.headers(PAGE_HEADERS);
      if (request.method !== 'GET' && request.method !== 'HEAD') refuseForeign(request);
      const caller = this.#callerOf(request); // throws for a foreign Host, where there are no keys
      if (caller !== null) request.caller = caller;
      else if (OPEN.has(request.routeOptions.url ?? '')) return;
      else if (request.method === 'GET' && request.routeOptions.url !== '/ui/events')
        return reply.redirect('/ui/login', 303);
      else throw new ApiError(401, 'You are not logged in.');
    });
    ui.setErrorHandler((error, request, reply) => {
      const { status = 0, statusCode = 500, message } = error as ApiError & { statusCode?: number };
      const code = status || statusCode;
      if (code >= 500 && !(error instanceof ApiError)) throw error; // a bug is told as any other
      if (error instanceof ApiError) void reply.headers(error.headers);
      return show(request, reply.code(code), message, errorPage(code, message));
    });
    ui.setNotFoundHandler((request, reply) =>
      show(request, reply.code(404), 'Not found', errorPage(404, 'There is no such page.')),
    );
    for (const [name, type] of [
      ['page.css', 'text/css; charset=utf-8'],
      ['page.js', 'text/javascript; charset=utf-8'],
    ] as const)
      ui.get(`/${name}`, async (_request, reply) =>
        reply.header('cache-control', FOREVER).type(type).send(ASSETS[name]),
      );
    this.#addLogin(ui);
    this.#addViews(ui);
    this.#addFiles(ui);
    this.#addActions(ui);
    addAdminPage(ui, this.#parts, { show, formOf });
  }

  #callerOf({ headers, socket }: FastifyRequest): Caller | null {
    const key = this.#sessions.keyIn(headers.cookie, socket.localPort ?? 0);
    const caller = this.#parts.access.known(key, headers.host);
    return caller !== null && maySee(caller) ? caller : null;
  }

  #batchOf({ caller, params }: One): BatchRecord {
    return this.#looking.batch(caller, params.id);
  }

  #addLogin(ui: FastifyInstance): void {
    const sessions = this.#sessions;
    ui.get('/login', async (request, reply) => {
      if ((request.caller as Caller | null) !== null) return reply.redirect('/ui/', 303);
      return show(request, reply, 'Log in', loginPage(''));
    });
    ui.post('/login', async (request, reply) => {
      const key = formOf(request).get('key')?.trim() ?? '';
      const shown = { authorization: `Bearer ${key}`, host: request.headers.host };
      try {
        const caller = this.#parts.access.check(shown, null);
        if (!maySee(caller))
          throw new ApiError(403, 'This key may not see batches: it needs the scope batch or admin.');
        return reply.header('set-cookie', sessions.begin(caller.key, placeOf(request))).redirect('/ui/', 303);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        const { status, message, headers } = error;
        const words = status === 401 ? 'This is no key of this server.' : message;
        return show(request, reply.code(status).headers(headers), 'Log in', loginPage(words));
      }
    });
    ui.post('/logout', async (request, reply) =>
      reply
        .header('set-cookie', sessions.end(request.headers.cookie, placeOf(request)))
        .redirect('/ui/login', 303),
    );
  }

  #addViews(ui: FastifyInstance): void {
    const looking = this.#looking;
    ui.get('/', async (request, reply) => {
      const { caller } = request;
      const after = textIn(request.query, 'after');
      const { values, next } = looking.overview(caller, after);
      const has = { hasWorkers: looking.hasWorkers, hasEndpoints: looking.hasEndpoints() };
      const more = { isAdmin: isAdmin(caller), ...has, next, isFirst: after === undefined };
      const address = after === undefined ? '/ui/events' : `/ui/events?after=${after}`;
      return show(request, reply, 'Batches', overviewPage(values, more), address);
    });
    ui.get('/batches/:id', async (request: One, reply) => {
      const { caller } = request;
      const record = this.#batchOf(request);
      const main = batchPage(looking.one(record, caller), record, isAdmin(caller));
      return show(request, reply, nameOf(record), main, `/ui/events?batch=${record.id}`);
    });
    ui.get('/new', async (request, reply) => {
      const chosen = textIn(request.query, 'file') ?? '';
      const once = randomBytes(16).toString('hex');
      const files = looking.files(request.caller);
      const main = startPage({ files, chosen, once, now: this.#parts.now() });
      return show(request, reply, 'Start a batch', main);
    });
    ui.get('/events', { exposeHeadRoute: false }, async (request, reply) => {
      const { caller } = request;
      const [batch, after] = [textIn(request.query, 'batch'), textIn(request.query, 'after')];
      const values =
        batch === undefined
          ? () => looking.overview(caller, after).values
          : () => looking.one(looking.batch(caller, batch), caller);
      values(); // what is wrong is said before the stream begins
      const name = `${isAdmin(caller) ? '' : caller.owner}\n${batch ?? ''}\n${after ?? ''}`;
      this.#events.add({ response: reply.raw, name, values, may: () => this.#callerOf(request) !== null });
      return reply.hijack();
    });
  }

  /** What is in the files of a batch, to look through or to keep. */
  #addFiles(ui: FastifyInstance): void {
    ui.get('/batches/:id/results', async (request: One, reply) => {
      const record = this.#batchOf(request);
      const kind = textIn(request.query, 'of') === 'errors' ? 'errors' : 'answers';
      const path = this.#looking.linesOf(record, kind === 'errors' ? 'error' : 'output');
      const at = textIn(request.query, 'at') ?? '0';
      const code = textIn(request.query, 'code')?.slice(0, 300) ?? null;
      const wanted = code === null ? undefined : (line: LineAt) => resultOf(line).status === code;
      const slice =
        path === null || !/^\d{1,15}$/.test(at) ? null : await linesAt(path, Number(at), LINES, wanted);
      if (slice === null)
        throw notFound(`No ${kind} of this batch are there: none yet, or their file is gone.`);
      const name = nameOf(record);
      return show(
        request,
        reply,
        `${kind} of ${name}`,
        resultsPage({ record, name, kind, code, from: Number(at), slice }),
      );
    });
    for (const [name, kind] of [
      ['output', 'output'],
      ['errors', 'error'],
    ] as const)
      ui.get(`/batches/:id/${name}`, async (request: One, reply) => {
        const file = this.#looking.fileOf(this.#batchOf(request), kind);
        if (file === null) throw notFound('This batch has no such file: not yet, or it is gone.');
        return sendFile(reply, file, this.#stores.files);
      });
  }

  #addActions(ui: FastifyInstance): void {
    const { batches, store, uploads, create } = this.#stores;
    const toBatch = (reply: FastifyReply, id: string): FastifyReply =>
      reply.redirect(`/ui/batches/${id}`, 303);
    const started = (request: FastifyRequest, fields: Fields, input: string): string => {
      const body = bodyOf(fields, input);
      const once = fields.get('once')?.slice(0, 100);
      const idempotency = once ? `${once} ${hash('sha256', body)}` : null;
      return create({ body, idempotency, caller: request.caller, isRetry: false }).id;
    };
    ui.post('/upload', async (request, reply) => {
      refuseStart(request.caller);
      const { record, fields } = await uploads(request.raw, request.caller);
      try {
        return toBatch(reply, started(request, fields, record.id));
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        const words = `The file was kept, but no batch was started: ${error.message}`;
        const link = { href: `/ui/new?file=${record.id}`, words: 'Start one with this file' };
        const main = errorPage(error.status, words, link);
        return show(request, reply.code(error.status), 'Start a batch', main);
      }
    });
    ui.post('/start', async (request, reply) => {
      refuseStart(request.caller);
      const fields = formOf(request);
      return toBatch(reply, started(request, fields, fields.get('input_file_id') ?? ''));
    });
    ui.post('/batches/:id/cancel', async (request: One, reply) => {
      const { id, owner } = this.#batchOf(request);
      batches.cancel(store.of(id));
      if (owner !== request.caller.owner)
        this.#parts.acts.note(request, 'batch.cancelled', `cancelled ${id} of ${owner}`, {
          target: id,
          owner,
        });
      return toBatch(reply, id);
    });
  }
}

function show(
  request: FastifyRequest,
  reply: FastifyReply,
  title: string,
  main: Html,
  events?: string,
): FastifyReply {
  const caller: Caller | null = request.caller;
  const viewer = caller && { owner: caller.owner, canLeave: caller.key !== null, isAdmin: isAdmin(caller) };
  return reply
    .type('text/html; charset=utf-8')
    .send(page({ title, main, viewer, ...(events !== undefined && { events }) }));
}

interface Fields {
  get(name: string): string | null | undefined;
}

/** Routes that need nobody logged in. */
const OPEN: ReadonlySet<string> = new Set(['/ui/login', '/ui/page.css', '/ui/page.js']);

const maySee = ({ scopes }: Caller): boolean => scopes.has('batch') || scopes.has('admin');

function refuseStart({ scopes }: Caller): void {
  if (!scopes.has('batch'))
    throw new ApiError(403, 'This key may not start batches: it needs the scope batch.');
}

function formOf({ body }: FastifyRequest): URLSearchParams {
  if (body instanceof URLSearchParams) return body;
  throw badRequest('Expected a form of content-type application/x-www-form-urlencoded.');
}

function textIn(query: unknown, name: string): string | undefined {
  const value = (query as Query)[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

const placeOf = ({ socket, headers }: FastifyRequest) => ({
  port: socket.localPort ?? 0,
  isSecure: headers['x-forwarded-proto'] === 'https',
});

/** A browser says with each form from where it was sent; another site's is refused, and so is one that does not say it. */
function refuseForeign({ headers }: FastifyRequest): void {
  const { origin, host } = headers;
  if (typeof origin === 'string' && URL.canParse(origin) && new URL(origin).host === host?.toLowerCase())
    return;
  throw new ApiError(403, 'Expected a form of this page, found one of another site, or of none.');
}
