/**
 * The gateway: the routes of OpenAI and Anthropic that somebody waits for, whole or streamed, over the pool of the batches. A request goes
 * before all calls of batches, to an endpoint that serves its model; it is asked again elsewhere until the first byte of
 * its answer, dropped where the client goes away, and put on record with the answer.
 */
import { join } from 'node:path';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Histogram } from 'prom-client';
import type { CallRecord } from '../../../engine/asking/ledger/ledger-format.ts';
import type { Asked, EndpointPool } from '../../../engine/asking/pool/part.ts';
import { type EndpointStats, isSettled, isThere } from '../../../engine/asking/pool/pool-stats.ts';
import { version } from '../../../engine/core/config/package.ts';
import type { Call } from '../../../engine/core/item/call.ts';
import { DIALECTS, type Dialect } from '../../../engine/core/item/dialects.ts';
import { type KeyRules, mayUse } from '../access.ts';
import { type ApiError, comeAgain } from '../errors.ts';
import { isBeyond } from '../http.ts';
import { randomHex } from '../ids.ts';
import { nameIn } from '../log/request-line.ts';
import type { Parts, Routes } from '../server-context.ts';
import { boundOf, promptBound } from '../token-bounds.ts';
import { traced } from '../traces/traced.ts';
import { type Cache, type Cached, createCache } from './answer-cache.ts';
import { answerOf, downIn, noSuchModel, notOnRecord, type Said } from './gateway-failures.ts';
import { GatewayLedger } from './gateway-record.ts';
import { LONGEST_NAME, readRequest } from './read-request.ts';
import { following, type Names, namesOf, type Standing, Unserved } from './served-models.ts';
import { Sink } from './sink.ts';

/** seconds */
const WAITS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30];
const TTFTS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30];

export const addGateway: Routes = async (app, parts) => {
  const gateway = new Gateway(parts);
  for (const [path, { errors, isForm }] of DIALECTS)
    app.post(path, { config: { scope: 'chat', errors, ...(isForm && { isForm }) } }, (request, reply) =>
      gateway.ask(path, request, reply),
    );
  app.get('/v1/models', { config: { scope: null } }, async ({ caller }) => gateway.models(caller.rules));
  // names have slashes, which clients may leave as they are
  app.get('/v1/models/*', { config: { scope: null } }, async ({ caller, params }) => {
    const name = (params as { '*': string })['*'];
    const found = gateway.models(caller.rules).data.find(({ id }) => id === name);
    if (found === undefined) throw noSuchModel(name.slice(0, LONGEST_NAME));
    return found;
  });
  return gateway;
};

/** A request that is under way. */
interface Live {
  request: FastifyRequest;
  reply: FastifyReply;
  asked: Asked;
  /** the key of its call */
  call: string;
  sink: Sink | undefined;
  /** the model as the client calls it */
  name: string;
  /** ms that it may wait for a place */
  wait: number;
  /** gives back what it holds of its key's budget */
  release(): void;
}

class Gateway {
  readonly #parts: Parts;
  /** as the settings have them now */
  readonly #namesNow: () => Names;
  readonly #cacheNow: () => Cache | null;
  readonly #ledger: GatewayLedger;
  readonly #part: EndpointPool;
  readonly #standing: Standing;
  readonly #waits: Histogram;
  readonly #ttfts: Histogram;
  readonly #open = new Set<Asked>();
  #idle = (): void => {};

  constructor(parts: Parts) {
    const { data, pool, settings, metrics, now, say, access, journal } = parts;
    this.#parts = parts;
    this.#namesNow = following(() => settings.gateway.models, namesOf);
    this.#cacheNow = following(
      () => settings.gateway.cacheFor,
      lasts => (lasts === null ? null : createCache(lasts, now)),
    );
    this.#ledger = new GatewayLedger({
      ...{ path: join(data, 'gateway'), fsync: 100, version: version(), now },
      ...{ isRequired: settings.gateway.isRecordRequired, say },
      onUsed: ({ key: used, outcome, usage, caller_key: key = null }, place) => {
        if (outcome === 'answer' && place !== null) this.#cache?.note(used, place);
        if (usage !== undefined) access.budgets.charge(key, usage.prompt + usage.completion);
        if (place !== null) journal.note(place);
      },
    });
    const share = { owner: 'gateway', batch: '', weight: 1 };
    this.#part = pool.part({
      ...{ ledger: this.#ledger, lasts: true, share },
      onTry: record => metrics.calls.tried('live', record),
    });
    metrics.measure(
      { fw_gateway_unrecorded_total: ['Requests that were answered without a record.'] },
      () => ({
        fw_gateway_unrecorded_total: this.#ledger.missed,
      }),
    );
    const unserved = new Unserved(this.#namesNow, parts);
    this.#standing = {
      isUp: model => unserved.note(model, this.#isUp(model)),
      isKnown: model => this.#endpoints.some(({ models }) => models.includes(model)),
    };
    this.#waits = metrics.times(
      'fw_gateway_wait_seconds',
      'Time that a request waited for a place at an endpoint.',
      WAITS,
    );
    this.#ttfts = metrics.times(
      'fw_gateway_ttft_seconds',
      'Time from sending a request to the first token of its streamed answer.',
      TTFTS,
    );
  }

  /** Those that a key may name. */
  models(rules: KeyRules) {
    const served = this.#endpoints.flatMap(one => one.models);
    const all = [...new Set([...this.#names.aliases, ...served])].filter(id => mayUse(rules, id));
    const data = all.map(id => ({
      ...{ id, object: 'model', created: 0, owned_by: 'fw' },
      status: this.#names.modelsOf(id).some(model => this.#isUp(model)) ? 'up' : 'down',
    }));
    return { object: 'list', data };
  }

  async ask(path: string, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { access, adapters, settings, now, tracer } = this.#parts;
    const { limits, limitsOf, runaway } = settings.gateway;
    const { budgets } = access;
    const { caller } = request;
    const { key, rules } = caller;
    if (this.#ledger.refusal() !== null) throw notOnRecord();
    if (isBeyond(request)) throw tooMany();
    const dialect = DIALECTS.get(path) as Dialect;
    const read = readRequest(request.body, dialect, this.#names, this.#standing);
    const { fields, stream, body, name, model, arm } = read;
    const { noted } = request;
    noted.model = nameIn(model);
    if (name !== model) noted.alias = nameIn(name);
    if (!mayUse(rules, name)) throw noSuchModel(name);
    const live = limitsOf.get(model) ?? limits;
    const most = this.#part.maxModelLength;
    void reply.headers(budgets.headers(key, rules)); // of one that is refused, too
    const release = budgets.begin(key, rules, boundOf(path, fields, body.length, most));
    const left = budgets.headers(key, rules);
    void reply.headers(left);
    const sink = stream
      ? new Sink({
          raw: reply.raw,
          headers: { 'x-request-id': request.id, 'x-content-type-options': 'nosniff', ...left },
          stream: dialect.stream,
          prompt: promptBound(body.length, most),
          runaway,
          onCut: why => asked.cancel(why),
        })
      : undefined;
    const call: Call = {
      ...{ path, model, body, key: randomHex(16), item: request.id, agent: path, caller: caller.owner },
      ...(key !== null && { callerKey: key }),
      ...{ raw: true, live, head: '', tail: '', round: 0, attempt: 1 },
      ...(arm !== undefined && { arm }),
      ...(sink && { sink }),
      ...traced(request, tracer, { path, model, isStream: stream }),
    };
    // what an adapter said that was loaded under this name before is no answer of today's
    const which = `${path}\n${adapters.get(model) ?? 0}`;
    const question = this.#cache?.questionOf(caller.owner, which, fields, body) ?? null;
    const cached = question === null ? null : this.#cache?.find(question);
    if (cached) {
      release();
      noted.cached = true;
      this.#ledger.append(recordOfCached(call, cached, now()));
      const headers = { 'x-fw-cache': 'hit', age: String(Math.floor(cached.age / 1000)) };
      return reply.headers(headers).type('application/json').send(cached.text);
    }
    if (question !== null) this.#cache?.expect(call.key, question);
    const asked: Asked = this.#part.ask(call);
    return this.#answered({ request, reply, asked, call: call.key, sink, name, wait: live.place, release });
  }

  async drain(): Promise<void> {
    if (this.#open.size > 0) await new Promise<void>(resolve => (this.#idle = resolve));
    await this.#part.close('stopped');
  }

  get #names(): Names {
    return this.#namesNow();
  }

  get #cache(): Cache | null {
    return this.#cacheNow();
  }

  get #endpoints(): readonly EndpointStats[] {
    return this.#part.stats().endpoints;
  }

  #isUp(model: string): boolean {
    return this.#endpoints.some(one => isThere(one) && one.models.includes(model));
  }

  async #answered(live: Live): Promise<FastifyReply> {
    const { request, reply, asked, sink, release } = live;
    const { raw } = reply;
    this.#open.add(asked);
    request.ends = () => asked.cancel();
    const gone = (): void => {
      if (!raw.writableFinished) asked.cancel();
    };
    raw.on('close', gone);
    try {
      const { text, ttft } = await asked.answer;
      if (ttft !== undefined) this.#ttfts.observe(ttft / 1000);
      if (!raw.headersSent) return reply.type('application/json').send(text);
      if (sink?.enough) raw.write(sink.cutOff);
      raw.end();
    } catch (error) {
      const { status, headers, body, log, code } = this.#failed(error, live);
      request.noted.error = code;
      if (!raw.headersSent) {
        if (log !== undefined)
          this.#parts.say(log, { event: 'endpoint-refuses-key', level: 'warn', request: request.id });
        return reply.code(status).headers(headers).type('application/json').send(body);
      }
      raw.end(sink?.lastOf(body));
    } finally {
      release();
      raw.off('close', gone);
      if (asked.waited !== null) this.#waits.observe(asked.waited / 1000);
      request.noted.waited_ms = asked.waited === null ? undefined : Math.round(asked.waited);
      this.#open.delete(asked);
      if (this.#open.size === 0) this.#idle();
    }
    return reply.hijack();
  }

  #failed(error: unknown, { request, call, name, wait }: Live): Said {
    this.#cache?.forget(call);
    const all = this.#endpoints;
    const isSeen = all.length > 0 && all.every(one => one.models.length > 0 || isSettled(one));
    const targets = this.#names.isAlias(name) ? this.#names.modelsOf(name) : null;
    const down = downIn(all, targets ?? [name]);
    const isOver = this.#parts.closing.aborted;
    return answerOf(error, { name, targets, wait, isOver, isSeen, down }, request.routeOptions.config.errors);
  }
}

/** It is told before it is begun, and its connection ends: that is what there are too many of. */
const tooMany = (): ApiError =>
  comeAgain(
    503,
    'The server has as many connections as its file limit allows (ulimit -n).',
    'overloaded',
    1,
    {
      headers: { connection: 'close' },
    },
  );

/** It cost nothing: its tokens are those of the first answer. */
function recordOfCached(call: Call, { text }: Cached, time: number): CallRecord {
  const usage = { prompt: 0, completion: 0 };
  const { caller, callerKey, arm, tried: _tried, headers: _headers, requestId: _id, ...rest } = call;
  return {
    ...rest,
    ...(caller !== undefined && { caller }),
    ...(callerKey !== undefined && { caller_key: callerKey }),
    ...(arm !== undefined && { arm }),
    ...{ outcome: 'answer', time, endpoint: 'cache', ms: 0, finish: 'stop', usage, answer: text },
  };
}
