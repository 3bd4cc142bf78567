/**
 * The gateway: the OpenAI routes that somebody waits for, whole or streamed, over the pool of the batches. A request goes
 * before all calls of batches, to an endpoint that serves its model; it is asked again elsewhere until the first byte of
 * its answer, dropped where the client goes away, and put on record with the answer.
 */
import { join } from 'node:path';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Histogram } from 'prom-client';
import type { CallRecord } from '../../../engine/asking/ledger/ledger-format.ts';
import type { Asked } from '../../../engine/asking/pool/part.ts';
import { isThere } from '../../../engine/asking/pool/pool-stats.ts';
import { OPEN_PATHS } from '../../../engine/asking/pool/raw.ts';
import { version } from '../../../engine/core/config/package.ts';
import type { Call } from '../../../engine/core/item/call.ts';
import { ApiError } from '../errors.ts';
import { isBeyond } from '../http.ts';
import { randomHex } from '../ids.ts';
import type { Parts, Routes } from '../server-context.ts';
import { type Cached, createCache } from './answer-cache.ts';
import { answerOf, downIn, notOnRecord } from './gateway-failures.ts';
import { openGatewayLedger } from './gateway-record.ts';
import { readRequest } from './live-request.ts';
import { namesOf } from './served-models.ts';
import { createSink } from './sink.ts';
import { createUnserved } from './unserved.ts';

/** seconds */
const WAITS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30];
const TTFTS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30];

export const addGateway: Routes = async (app, parts) => {
  const { pool, settings, access, adapters, closing, now, say } = parts;
  const { models, limits, limitsOf, runaway, cacheFor } = settings.gateway;
  const cache = cacheFor === null ? null : createCache(cacheFor, now);
  const names = namesOf(models);
  const ledger = openGatewayLedger({
    path: join(parts.data, 'gateway'),
    fsync: 100,
    version: version(),
    now,
    onBroken: ({ message }) =>
      say(`no request is answered until it can be recorded: ${message.split('\n', 1)[0]}`),
    onAnswer: (item, place) => cache?.note(item, place),
  });
  const own = pool.part({ ledger, lasts: true, share: { owner: 'gateway', batch: '', weight: 1 } });
  const endpoints = () => own.stats().endpoints;
  const served = (): Set<string> => new Set(endpoints().flatMap(one => one.models));
  const isUp = (model: string): boolean =>
    endpoints().some(one => isThere(one) && one.models.includes(model));
  const isKnown = (model: string): boolean => endpoints().some(({ models }) => models.includes(model));
  const unserved = createUnserved(names, parts);
  const standing = { isUp: (model: string) => unserved.note(model, isUp(model)), isKnown };
  const times = timesIn(parts);
  const open = new Set<Asked>();
  let idle = (): void => {};

  for (const path of OPEN_PATHS)
    app.post(path, { config: { scope: 'chat' } }, (request, reply) => ask(path, request, reply));

  app.get('/v1/models', { config: { scope: null } }, async () => {
    const data = [...new Set([...names.aliases, ...served()])].map(id => ({
      ...{ id, object: 'model', created: 0, owned_by: 'fw' },
      status: names.modelsOf(id).some(isUp) ? 'up' : 'down',
    }));
    return { object: 'list', data };
  });

  async function ask(path: string, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { caller } = request;
    access.refuseSpent(caller);
    if (ledger.whyNot() !== null) throw notOnRecord();
    if (isBeyond(request)) throw tooMany();
    const { fields, stream, body, name, model, arm } = readRequest(request.body, names, standing);
    const { raw } = reply;
    const live = limitsOf.get(model) ?? limits;
    const key = randomHex(16);
    const sink = stream
      ? createSink({
          raw,
          headers: { 'x-request-id': request.id, 'x-content-type-options': 'nosniff' },
          runaway,
          onCut: why => asked.cancel(why),
        })
      : undefined;
    const call: Call = {
      ...{ path, model, body, key, item: request.id, agent: path, caller: caller.owner },
      ...{ raw: true, live, head: '', tail: '', round: 0, attempt: 1 },
      ...(arm !== undefined && { arm }),
      ...(sink && { sink }),
    };
    // what an adapter said that was loaded under this name before is no answer of today's
    const which = `${path}\n${adapters.get(model) ?? 0}`;
    const question = cache?.questionOf(caller.owner, which, fields, body) ?? null;
    const known = question === null ? null : cache?.find(question);
    if (known) {
      ledger.append(recordOfCached(call, known, now()));
      const headers = { 'x-fw-cache': 'hit', age: String(Math.floor(known.age / 1000)) };
      return reply.headers(headers).type('application/json').send(known.text);
    }
    if (question !== null) cache?.expect(request.id, question);
    const asked: Asked = own.ask(call);
    open.add(asked);
    request.ends = () => asked.cancel();
    const gone = (): void => {
      if (!raw.writableFinished) asked.cancel();
    };
    raw.on('close', gone);
    try {
      const answer = await asked.answer;
      access.charge(caller.key, answer.usage.prompt + answer.usage.completion);
      if (answer.ttft !== undefined) times.ttft.observe(answer.ttft / 1000);
      if (!raw.headersSent) return reply.type('application/json').send(answer.text);
      if (sink?.enough) raw.write(lastOf(answer.text));
      raw.end();
    } catch (error) {
      cache?.forget(request.id);
      const all = endpoints();
      const isSeen = all.length > 0 && all.every(one => one.models.length > 0 || one.state === 'unusable');
      const targets = names.isAlias(name) ? names.modelsOf(name) : null;
      const down = downIn(all, targets ?? [name]);
      const where = { name, targets, wait: live.place, isOver: closing.aborted, isSeen, down };
      const said = answerOf(error, where);
      if (!raw.headersSent) {
        if (said.log !== undefined) say(said.log);
        return reply.code(said.status).headers(said.headers).type('application/json').send(said.body);
      }
      raw.end(sink?.lastOf(said.body));
    } finally {
      raw.off('close', gone);
      if (asked.waited !== null) times.wait.observe(asked.waited / 1000);
      open.delete(asked);
      if (open.size === 0) idle();
    }
    return reply.hijack();
  }

  return {
    async drain() {
      if (open.size > 0) await new Promise<void>(resolve => (idle = resolve));
      await own.close('stopped');
    },
  };
};

/** It is told before it is begun, and its connection ends: that is what there are too many of. */
const tooMany = (): ApiError =>
  new ApiError(503, 'The server has as many connections as its file limit allows (ulimit -n).', {
    ...{ code: 'overloaded', headers: { 'retry-after': '1', connection: 'close' } },
  });

/** It cost nothing: its tokens are those of the first answer. */
function recordOfCached(call: Call, { text }: Cached, time: number): CallRecord {
  const usage = { prompt: 0, completion: 0 };
  const { caller, arm, ...rest } = call;
  return {
    ...rest,
    ...(caller !== undefined && { caller }),
    ...(arm !== undefined && { arm }),
    ...{ outcome: 'answer', time, endpoint: 'cache', ms: 0, finish: 'stop', usage, answer: text },
  };
}

/** What a client of a stream that was cut off gets last: the choice ends as one that was too long, and says why beside it. */
function lastOf(text: string): string {
  const { id, model, cut } = JSON.parse(text) as { id?: string; model?: string; cut?: string };
  const choices = [{ index: 0, delta: {}, finish_reason: 'length' }];
  const last = JSON.stringify({ id, object: 'chat.completion.chunk', created: 0, model, choices });
  return `: cut off: ${cut}\n\ndata: ${last}\n\ndata: [DONE]\n\n`;
}

function timesIn({ metrics: { registry } }: Parts) {
  const registers = [registry];
  return {
    wait: new Histogram({
      name: 'fw_gateway_wait_seconds',
      help: 'Time that a request waited for a place at an endpoint.',
      buckets: WAITS,
      registers,
    }),
    ttft: new Histogram({
      name: 'fw_gateway_ttft_seconds',
      help: 'Time from sending a request to the first token of its streamed answer.',
      buckets: TTFTS,
      registers,
    }),
  };
}
