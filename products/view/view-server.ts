/**
 * The server of fw view: pages for one browser, or for whoever was given the address. It reads the files that it was
 * started with, and writes nothing but labels.
 */

import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { Fatal } from '../../engine/core/item/failure.ts';
import { type Html, html, NONE } from '../kit/html.ts';
import { PAGE_HEADERS } from '../kit/page.ts';
import { type Access, createAccess, hostText, type Place } from './access.ts';
import { judge } from './judge.ts';
import type { Judging } from './judging.ts';
import { ASSETS, page, troublePage } from './layout.ts';
import { LIVE } from './links.ts';
import { judgedWords, type Known, keysOfOne, onePage } from './one-page.ts';
import { chosenIn } from './pair-choice.ts';
import { pairPage } from './pair-page.ts';
import type { Pairs } from './pairs.ts';
import { pairsPage } from './pairs-page.ts';
import { ALL_ROWS, addressOf, type Query, queryOf } from './query.ts';
import { cellsOf, progressWords, shownOf, tablePage } from './table-page.ts';
import type { View } from './view.ts';

export interface ServerOptions {
  view: View;
  judging: Judging;
  known: Known;
  /** another run beside this one; null where there is none */
  pairs: Pairs | null;
  /** what is shown first */
  where: Query;
  /** a page of fw report whose figures lead here */
  report: string | null;
  listen: Place;
  /** told of what is a bug */
  say(message: string): void;
}

export interface ViewServer {
  /** with the token */
  address: string;
  /** The same for a browser that is started with it: good once. */
  opening(): string;
  close(): Promise<void>;
}

/** bytes of the head of a request: an address may hold hundreds of ids */
const MOST_HEADERS = 64 * 1024;
const MOST_BODY = 64 * 1024;
/** rows of one answer */
const MOST_ROWS = 500;
const FOREVER = 'public, max-age=31536000, immutable';
/** A report has its style within, and nothing else. */
const REPORT_POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; sandbox allow-same-origin allow-top-navigation-by-user-activation";

/** Listens. Rejects with 69 where the port is taken. */
export async function startView(options: ServerOptions): Promise<ViewServer> {
  const app = fastify({
    logger: false,
    bodyLimit: MOST_BODY,
    routerOptions: { maxParamLength: 20 },
    http: { maxHeaderSize: MOST_HEADERS },
    forceCloseConnections: true,
    frameworkErrors: (_error, _request, reply) => {
      void (reply as FastifyReply)
        .headers(PAGE_HEADERS)
        .code(400)
        .type('text/plain')
        .send('There is no such address.');
    },
  });
  const pages = new Pages(options);
  pages.addTo(app);
  try {
    await app.listen({ host: options.listen.host, port: options.listen.port });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Fatal(
      69,
      `--listen: expected to listen on ${hostText(options.listen)}, found ${code ?? message}`,
    );
  }
  const { port } = app.server.address() as AddressInfo;
  const access = createAccess({ ...options.listen, port });
  pages.access = access;
  const isAll = options.listen.host === '0.0.0.0' || options.listen.host === '::';
  const at = hostText({ host: isAll ? '127.0.0.1' : options.listen.host, port });
  const search = addressOf(options.where).slice(1);
  const addressOfToken = (token: string): string =>
    `http://${at}/?token=${token}${search === '' ? '' : `&${search}`}`;
  return {
    address: addressOfToken(access.token),
    opening: () => addressOfToken(access.ticket()),
    close: () => app.close(),
  };
}

class Pages {
  readonly #options: ServerOptions;
  /** known once the port is */
  access: Access | null = null;

  constructor(options: ServerOptions) {
    this.#options = options;
  }

  addTo(app: FastifyInstance): void {
    app.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string' },
      async (_request: FastifyRequest, body: string) => Object.fromEntries(new URLSearchParams(body)),
    );
    app.addHook('onRequest', async (request, reply) => this.#let(request, reply));
    app.setErrorHandler((error, request, reply) => {
      const { statusCode = 500, message } = error as Error & { statusCode?: number };
      const isFatal = error instanceof Fatal;
      if (!isFatal && statusCode >= 500)
        this.#options.say(
          `${request.method} ${request.routeOptions.url}: a bug, please report it: ${(error as Error).stack}`,
        );
      const words =
        isFatal || statusCode < 500 ? message : 'There was an error, which the terminal of fw view has.';
      return trouble(reply, isFatal ? 400 : statusCode, words);
    });
    app.setNotFoundHandler((_request, reply) => trouble(reply, 404, 'There is no such page.'));
    for (const [name, type] of [
      ['view.css', 'text/css; charset=utf-8'],
      ['view.js', 'text/javascript; charset=utf-8'],
    ] as const)
      app.get(`/${name}`, async (_request, reply) =>
        reply.header('cache-control', FOREVER).type(type).send(ASSETS[name]),
      );
    app.get('/', async (request, reply) => this.#table(request, reply));
    app.get('/rows', async (request, reply) => this.#rows(request, reply));
    app.get('/item/:row', async (request, reply) => this.#one(request, reply));
    app.get('/item/:row/raw', async (request, reply) => this.#raw(request, reply));
    app.post('/label', async (request, reply) => this.#label(request, reply));
    app.get('/beside', async (request, reply) => this.#pairs(request, reply));
    app.get('/beside/:pair', async (request, reply) => this.#pair(request, reply));
    app.get('/report', async (_request, reply) => this.#report(reply));
  }

  /** Nobody is served before this. */
  #let(request: FastifyRequest, reply: FastifyReply): FastifyReply | undefined {
    void reply.headers({
      ...PAGE_HEADERS,
      'cross-origin-resource-policy': 'same-origin',
      'cross-origin-opener-policy': 'same-origin',
    });
    const { access } = this;
    if (access === null) return reply.code(503).send('');
    const { headers, method } = request;
    const url = urlOf(request);
    const answer = access.check({
      ...{ method, host: headers.host, origin: headers.origin, cookie: headers.cookie },
      ...{ site: textOf(headers['sec-fetch-site']), mode: textOf(headers['sec-fetch-mode']) },
      token: url.searchParams.get('token'),
    });
    // the page that says no has the looks of the others; there is nothing in a style
    if (answer === 'yes' || (url.pathname === '/view.css' && answer !== 'enter' && answer.status !== 421))
      return undefined;
    if (answer === 'enter') {
      url.searchParams.delete('token');
      return reply.header('set-cookie', access.cookie).redirect(pathOf(url), 303);
    }
    const { status, message } = answer;
    // a browser keeps the cookie back from a link on another site's page; from this one it sends it
    const again =
      status === 403 && method === 'GET'
        ? html`<p>If it was opened before in this browser: <a href="${pathOf(url)}">try again</a>.</p>`
        : NONE;
    return reply
      .code(status)
      .type('text/html; charset=utf-8')
      .send(troublePage('Not here', `${message}.`, again));
  }

  async #table(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { view, judging } = this.#options;
    await view.run.look(Date.now());
    await firstRows(view);
    const selected = await view.select(queryIn(request));
    const { main } = await tablePage({ view, judging, links: LIVE }, selected);
    return send(reply, { title: titleOf(view), kind: 'table', top: this.#top(selected.query), main });
  }

  /** `query`: what is chosen on this page; `row`: the one that it is about. */
  #top(query: Query = ALL_ROWS, row: number | null = null): Html {
    const { view, judging, report, pairs } = this.#options;
    const files = view.run.paths;
    const words =
      files.length > 2 ? `${files.slice(0, 2).join(', ')} and ${files.length - 2} more` : files.join(', ');
    const drawn = view.isSampling ? html`<span class="dim">${judgedWords(judging, view)}</span>` : NONE;
    return html`<span class="files">${view.isHidden('file') ? '' : words}</span>${report === null ? NONE : html`<a href="/report">Report</a>`}${pairs === null ? NONE : besideLink(query, row)}${drawn}<span class="hint dim"><kbd>?</kbd> keys</span>`;
  }

  async #rows(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { view, judging } = this.#options;
    const query = queryIn(request);
    await view.run.look(Date.now());
    const selected = await view.select(query);
    const { searchParams } = urlOf(request);
    const most = Math.min(MOST_ROWS, wholeIn(searchParams.get('count')));
    // the columns are those of the page that asks, also where others would be chosen by now
    const shown = shownOf({ view, judging }, selected.query);
    const cells =
      most === 0 ? [] : await cellsOf({ view, judging }, selected, { from: query.from, most, shown });
    const { rows, done, notes } = view.run.state();
    const isReady = done && (selected.searching?.done ?? true) && (!view.isSampling || view.sample !== null);
    return reply.send({
      ...{ rows, done: isReady, selected: selected.count, of: selected.of, from: query.from, notes },
      progress: progressWords(view, selected),
      cells: cells.map(({ row, texts }) => [row, ...texts]),
    });
  }

  async #one(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { view, judging, known } = this.#options;
    const row = rowIn(view, request.params);
    if (row === null) return trouble(reply, 404, 'There is no such row.');
    const selected = await view.select(queryIn(request));
    const { title, main } = await onePage({ view, judging, links: LIVE, known }, row, selected);
    return send(reply, {
      title,
      kind: 'item',
      top: this.#top(selected.query, row),
      main: html`${main}${keysOfOne()}`,
    });
  }

  async #raw(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { view } = this.#options;
    if (view.hide.length > 0)
      return trouble(reply, 403, 'While columns are hidden, no line is given as it is: it would show them.');
    const row = rowIn(view, request.params);
    if (row === null) return trouble(reply, 404, 'There is no such row.');
    const { text, trouble: why } = await view.run.read(row);
    if (text === null) return trouble(reply, 404, why ?? 'It is not there any more.');
    return reply
      .type('text/plain; charset=utf-8')
      .header('content-disposition', `attachment; filename="row-${row + 1}.txt"`)
      .send(text);
  }

  async #label(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const judged = await judge((request.body ?? {}) as Record<string, unknown>, this.#options);
    if ('status' in judged) return trouble(reply, judged.status, judged.message);
    if (!(request.headers.accept ?? '').includes('application/json')) return reply.redirect(judged.to, 303);
    return reply.send({ to: judged.to });
  }

  async #pairs(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { view, pairs } = this.#options;
    if (pairs === null) return trouble(reply, 404, 'fw view was started without --beside.');
    const main = await pairsPage(view, pairs, chosenIn(urlOf(request).searchParams));
    return send(reply, { title: 'Two runs', kind: 'other', top: this.#top(), main });
  }

  async #pair(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { view, pairs } = this.#options;
    const { pair = '' } = request.params as { pair?: string };
    const main =
      pairs === null || !/^\d{1,15}$/.test(pair)
        ? null
        : await pairPage(view, pairs, Number(pair), chosenIn(urlOf(request).searchParams));
    if (main === null) return trouble(reply, 404, 'There is no such pair.');
    return send(reply, {
      title: 'Two runs',
      kind: 'item',
      top: this.#top(),
      main: html`${main}${keysOfOne()}`,
    });
  }

  #report(reply: FastifyReply): FastifyReply {
    const { report } = this.#options;
    if (report === null) return trouble(reply, 404, 'fw view was started without --report.');
    const text = readFileSync(report, 'utf8').replaceAll(' data-rows="?', ' href="/?');
    return reply.header('content-security-policy', REPORT_POLICY).type('text/html; charset=utf-8').send(text);
  }
}

/** An answer begins with rows, where there soon will be some. */
async function firstRows({ run }: View): Promise<void> {
  if (run.state().rows > 0 || run.state().done) return;
  await run.grown(0, 500);
}

/** What is chosen is chosen beside the other run too; a pair has the number of its row in the first run. */
function besideLink(query: Query, row: number | null): Html {
  const chosen = addressOf({ ...query, sort: null, show: [], from: 0 });
  return row === null
    ? html`<a href="/beside${chosen}">Beside the other run</a>`
    : html`<a href="/beside/${row}${chosen}">This row beside the other run</a>`;
}

const titleOf = ({ run }: View): string => run.paths.join(', ').slice(0, 100);

/** No host of another server: `//` at its beginning would name one. */
const pathOf = ({ pathname, search }: URL): string => `${pathname.replace(/^\/+/, '/')}${search}`;

/** Whatever a client wrote, a path of this server. */
function urlOf({ raw: { url = '/' } }: FastifyRequest): URL {
  return new URL(`http://fw${url.startsWith('/') ? url.replace(/^[/\\]+/, '/') : '/'}`);
}

/** Without what is said to /rows beside the state. */
function queryIn(request: FastifyRequest): Query {
  const { searchParams } = urlOf(request);
  if (request.routeOptions.url === '/rows') searchParams.delete('count');
  return queryOf(searchParams);
}

const rowIn = (view: View, params: unknown): number | null =>
  view.shownRow((params as { row?: string }).row ?? '');

const wholeIn = (text: string | null): number => (text !== null && /^\d{1,9}$/.test(text) ? Number(text) : 0);

const textOf = (header: string | string[] | undefined): string | undefined =>
  Array.isArray(header) ? header.join() : header;

function send(reply: FastifyReply, shell: Parameters<typeof page>[0]): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(page(shell));
}

function trouble(reply: FastifyReply, status: number, message: string): FastifyReply {
  if ((reply.request.headers.accept ?? '').includes('application/json'))
    return reply.code(status).send({ error: message });
  const back = html`<p><a href="/">All rows</a></p>`;
  return reply
    .code(status)
    .type('text/html; charset=utf-8')
    .send(troublePage(status === 404 ? 'Not found' : 'That did not work', message, back));
}
