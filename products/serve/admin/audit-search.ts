/**
 * Who asked what when: over the record of the gateway, the batches, and the acts of admins. Each find is a line of JSON; the
 * last line says how it ended. No text of a request is among it unless that was asked for. A search looks at one file after
 * the other and lets requests have their turn, and it ends at its limit.
 */
import { createReadStream, existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { isCall } from '../../../engine/asking/ledger/ledger-format.ts';
import { callIn, type Line, ledgerFiles, linesOf } from '../../../engine/asking/ledger/read-ledger.ts';
import type { JsonObject } from '../../../engine/core/json/pointer.ts';
import type { BatchRecord } from '../batches/batch-state.ts';
import type { BatchStore } from '../batches/batch-store.ts';
import { invalid } from '../errors.ts';
import { objectIn } from '../http-body.ts';
import { actsPath } from './acts.ts';

export const KINDS = ['calls', 'batches', 'acts'] as const;
type Kind = (typeof KINDS)[number];

export interface Search {
  of: ReadonlySet<Kind>;
  owner: string | null;
  model: string | null;
  /** an outcome of a call, `failed` for all but answers, or a status of a batch */
  status: string | null;
  request: string | null;
  /** ms since 1970 */
  since: number;
  until: number;
  most: number;
  prompts: boolean;
}

const USUAL = 1_000;
const MOST = 100_000;
const LONGEST = 300;
/** ms of one turn */
const TURN = 10;
const FIELDS: readonly string[] = [
  'of',
  'owner',
  'model',
  'status',
  'request_id',
  'since',
  'until',
  'limit',
  'prompts',
];

/** Throws 400, naming the parameter that does not fit. */
export function searchIn(query: JsonObject): Search {
  const unknown = Object.keys(query).find(name => !FIELDS.includes(name));
  if (unknown !== undefined) throw invalid(unknown.slice(0, 60), `expected some of ${FIELDS.join(', ')}`);
  const textOf = (name: string): string | null => {
    const value = query[name];
    if (value === undefined || value === '') return null;
    if (typeof value !== 'string' || value.length > LONGEST)
      throw invalid(name, `expected it once, of at most ${LONGEST} characters`);
    return value;
  };
  const kinds = (textOf('of') ?? KINDS.join()).split(',');
  if (!kinds.every(one => KINDS.includes(one as Kind)))
    throw invalid('of', `expected some of ${KINDS.join(', ')}`);
  const limit = textOf('limit') ?? String(USUAL);
  const most = /^\d{1,6}$/.test(limit) ? Number(limit) : 0;
  if (most < 1 || most > MOST) throw invalid('limit', `expected a whole number from 1 to ${MOST}`);
  const prompts = textOf('prompts') ?? 'false';
  if (prompts !== 'true' && prompts !== 'false') throw invalid('prompts', 'expected true or false');
  return {
    of: new Set(kinds as Kind[]),
    ...{ owner: textOf('owner'), model: textOf('model'), status: textOf('status') },
    ...{ request: textOf('request_id'), most, prompts: prompts === 'true' },
    since: timeIn(textOf('since'), 'since') ?? Number.NEGATIVE_INFINITY,
    until: timeIn(textOf('until'), 'until') ?? Number.POSITIVE_INFINITY,
  };
}

/** ms since 1970, of ISO 8601 or Unix seconds. */
function timeIn(text: string | null, name: string): number | null {
  if (text === null) return null;
  const time = /^\d{1,12}$/.test(text) ? Number(text) * 1000 : Date.parse(text);
  if (/^\d/.test(text) && text.length <= 40 && !Number.isNaN(time)) return time;
  throw invalid(name, 'expected a time such as 2026-11-26T03:00:00Z, or Unix seconds');
}

export interface Searched {
  data: string;
  store: Pick<BatchStore, 'ids' | 'of'>;
  /** aborted: the search ends where it is */
  signal: AbortSignal;
}

/** Lines, oldest first within each kind: acts, batches, calls. */
export async function* found(search: Search, { data, store, signal }: Searched): AsyncGenerator<string> {
  let count = 0;
  let looked = 0;
  let from = performance.now();
  const sources: [Kind, Iterable<JsonObject | null> | AsyncIterable<JsonObject | null>][] = [
    ['acts', actsIn(actsPath(data), search)],
    ['batches', batchesIn(store, search)],
    ['calls', callsIn(join(data, 'gateway'), search)],
  ];
  let isCut = false;
  for (const [kind, source] of sources) {
    if (!search.of.has(kind) || isCut) continue;
    for await (const one of source) {
      looked += 1;
      if (performance.now() - from > TURN) {
        await new Promise(setImmediate);
        from = performance.now();
      }
      if (signal.aborted) return;
      if (one === null) continue;
      if (count === search.most) {
        isCut = true;
        break;
      }
      count += 1;
      yield `${JSON.stringify(one)}\n`;
    }
  }
  yield `${JSON.stringify({ end: isCut ? 'limit' : 'all', found: count, looked_at: looked })}\n`;
}

const isWithin = (time: number, { since, until }: Search): boolean => time >= since && time <= until;

async function* actsIn(path: string, search: Search): AsyncGenerator<JsonObject | null> {
  const { owner, model, status, request } = search;
  if (!existsSync(path) || model !== null || status !== null) return;
  for await (const text of createInterface({ input: createReadStream(path) })) {
    const act = objectIn(text);
    // a torn line is that of a disk that was full: the log has it
    const isMeant =
      act !== null &&
      isWithin(Date.parse(String(act.time)), search) &&
      (owner === null || act.by === owner || act.owner === owner) &&
      (request === null || act.request_id === request);
    yield isMeant ? { kind: 'act', ...act } : null;
  }
}

function* batchesIn(store: Searched['store'], search: Search): Generator<JsonObject | null> {
  const { owner, model, status, request } = search;
  if (request !== null) return;
  for (const id of [...store.ids(owner)]) {
    const record = store.of(id) as BatchRecord | undefined;
    const isMeant =
      record !== undefined &&
      isWithin(record.created_at * 1000, search) &&
      (model === null || record.models.includes(model)) &&
      (status === null || record.status === status);
    yield isMeant
      ? {
          ...{
            kind: 'batch',
            time: new Date(record.created_at * 1000).toISOString(),
            id,
            owner: record.owner,
          },
          ...{ key: record.key, endpoint: record.endpoint, models: record.models, status: record.status },
          ...{ lines: { ...record.counts }, tokens: { ...record.usage } },
        }
      : null;
  }
}

function* callsIn(folder: string, search: Search): Generator<JsonObject | null> {
  if (!existsSync(folder)) return;
  const { owner, request } = search;
  // most lines are of others: they are told by their bytes
  const marks = [
    owner === null ? null : `"caller":${JSON.stringify(owner)}`,
    request && JSON.stringify(request),
  ];
  const needed = marks.flatMap(mark => (mark === null ? [] : [Buffer.from(mark)]));
  for (const path of ledgerFiles(folder, () => {})) {
    if ((statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) < search.since) continue;
    for (const line of linesOf(path, () => {})) {
      const mayBe = isCall(line.bytes) && needed.every(mark => line.bytes.includes(mark));
      yield mayBe ? callOf(line, search) : null;
    }
  }
}

function callOf({ bytes }: Line, search: Search): JsonObject | null {
  const call = callIn(bytes);
  if (call === null || !isWithin(Date.parse(call.time), search)) return null;
  const { owner, model, status, request, prompts } = search;
  const { time, caller = null, caller_key = null, item, outcome, usage, ttft } = call;
  if (owner !== null && caller !== owner) return null;
  if (model !== null && call.model !== model && call.arm !== model) return null;
  if (status !== null && (status === 'failed' ? outcome === 'answer' : outcome !== status)) return null;
  if (request !== null && item !== request) return null;
  const said = {
    ...{ kind: 'call', time, owner: caller, key: caller_key, request_id: item, path: call.agent },
    ...{
      model: call.model,
      ...(call.arm !== undefined && { arm: call.arm }),
      outcome,
      attempt: call.attempt,
    },
    ...{ endpoint: call.endpoint, ms: call.ms, ...(ttft !== undefined && { ttft_ms: ttft }) },
    ...(usage !== undefined && { usage: { ...usage } }),
  };
  if (!prompts) return said;
  const { request: asked, answer, detail } = objectIn(bytes.toString()) ?? {};
  return { ...said, request: asked ?? null, answer: answer ?? null, ...(detail !== undefined && { detail }) };
}
