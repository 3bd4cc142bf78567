/** Workers, and what they have of a batch, as the page shows them. What a worker says of itself is any text. */
import { counted, cut, number, timeWords } from '../../../engine/core/item/wording.ts';
import { type Html, html, NONE } from '../../kit/html.ts';
import type { DeskStats, KnownWorker, WorkStats } from '../../workers/desk-stats.ts';
import type { Hello } from '../../workers/protocol.ts';
import { cell, rows, shownBy, table, text } from './layout.ts';
import { rateWords } from './view-texts.ts';

/** Workers, and parts of each, that are shown; parts of a batch. */
const MOST_WORKERS = 50;
const MOST_HELD = 3;
const MOST_PARTS = 20;
const LONGEST = 60;

const BLANK_HELD = { key: '', href: '', name: '', part: '' };
const BLANK_WORKER = {
  ...{ key: '', host: '', process: '', status: '', state: '', endpoints: '', models: '' },
  held: [] as (typeof BLANK_HELD)[],
  ...{ more: '', took: '', rate: '', seen: '' },
};
type WorkerView = typeof BLANK_WORKER;

export const NO_WORKERS = { workers: [] as WorkerView[], noWorkers: '', moreWorkers: '' };
export type WorkersView = typeof NO_WORKERS;

export interface WorkersMore {
  /** ms of silence after which one is lost */
  lease: number;
  now: number;
  /** of a batch */
  nameOf(work: string): string;
}

/** Those that are there come first. */
export function workersView({ workers }: Pick<DeskStats, 'workers'>, more: WorkersMore): WorkersView {
  const isLost = ({ seen }: KnownWorker): boolean => more.now - seen >= more.lease;
  const all = [...workers].sort(
    (one, other) => Number(isLost(one)) - Number(isLost(other)) || (one.worker < other.worker ? -1 : 1),
  );
  return {
    workers: all.slice(0, MOST_WORKERS).map(one => workerView(one, isLost(one), more)),
    noWorkers: all.length === 0 ? 'No worker is there. Start one beside each server of models: fw work.' : '',
    moreWorkers: all.length > MOST_WORKERS ? `And ${number(all.length - MOST_WORKERS)} more.` : '',
  };
}

function workerView(worker: KnownWorker, isLost: boolean, { now, nameOf }: WorkersMore): WorkerView {
  const { host, pid, version, endpoints, models, held, took, rate, seen } = worker;
  const up = endpoints.filter(({ isUp }) => isUp).length;
  return {
    ...{ key: worker.worker, host: cut(host, LONGEST), process: `process ${pid}, fw ${cut(version, 20)}` },
    ...stateOf(worker, isLost, up),
    endpoints: `${up} of ${number(endpoints.length)} up, ${number(inFlightOf(worker))} of ${number(worker.places)}`,
    models: models.slice(0, 3).join(', ') + (models.length > 3 ? ` and ${models.length - 3} more` : ''),
    held: held.slice(0, MOST_HELD).map(one => ({
      ...{ key: `${one.work} ${one.root} ${one.part}`, href: `/ui/batches/${one.work}` },
      ...{ name: cut(nameOf(one.work), LONGEST), part: partWords(one) },
    })),
    more: held.length > MOST_HELD ? `and ${number(held.length - MOST_HELD)} more` : '',
    ...{ took: number(took), rate: rate > 0 && held.length > 0 ? `${rateWords(rate)} /s` : '' },
    seen: `${timeWords(Math.max(0, now - seen))} ago`,
  };
}

/** `status` is the colour. */
function stateOf(
  { isStopping, held }: KnownWorker,
  isLost: boolean,
  up: number,
): { status: string; state: string } {
  if (isLost) return { status: 'down', state: 'lost' };
  if (isStopping) return { status: 'paused', state: 'stopping' };
  if (up === 0) return { status: 'down', state: 'no endpoint is up' };
  return held.length > 0 ? { status: 'up', state: 'working' } : { status: 'up', state: 'waiting' };
}

const inFlightOf = ({ endpoints }: Hello): number =>
  endpoints.reduce((sum, { inFlight }) => sum + inFlight, 0);

type Held = Hello['held'][number];

const partName = ({ root, part }: Pick<Held, 'root' | 'part'>): string =>
  part === 0 ? `shard ${number(root)}` : `shard ${number(root)}, part ${number(part)}`;
const partWords = (one: Held): string =>
  `${partName(one)}: ${number(one.done)} of ${counted(one.lines, 'line')}`;

/** One line on how it goes. */
export function workersWords({ alive, workers, isQueueUp }: DeskStats, { lease, now }: WorkersMore): string {
  const working = workers.filter(({ seen, held }) => now - seen < lease && held.length > 0);
  const rate = working.reduce((sum, one) => sum + one.rate, 0);
  const lines = `${rateWords(rate)} lines a second`;
  return `${counted(alive, 'worker')}, ${lines}, Redis is ${isQueueUp ? 'connected' : 'away'}`;
}

export function workerSection({ workers, noWorkers, moreWorkers }: WorkersView): Html {
  const numbers = ['Lines', 'Rate', 'Heard of'];
  return html`<h2>Workers</h2>
<p class="empty"${shownBy('noWorkers', noWorkers)} data-text="noWorkers">${noWorkers}</p>
${table(
  'workers',
  'Workers',
  [
    { label: 'Worker' },
    { label: 'State' },
    { label: 'Endpoints, calls' },
    { label: 'Models' },
    { label: 'Has' },
    ...numbers.map(label => ({ label, isNumber: true })),
  ],
  rows(workers, BLANK_WORKER, workerRow),
)}
<p class="dim"${shownBy('moreWorkers', moreWorkers)} data-text="moreWorkers">${moreWorkers}</p>`;
}

function workerRow(one: WorkerView): Html {
  return html`<tr data-key="${one.key}"><th scope="row" data-label="Worker">${text('host', one.host)}
<span class="dim" data-text="process">${one.process}</span></th>
<td data-label="State"><span class="state" data-is="${one.status}" data-state="status" data-text="state">${one.state}</span></td>
${cell('Endpoints, calls', 'endpoints', one.endpoints)}
${cell('Models', 'models', one.models)}
<td data-label="Has"><ul class="held" data-list="held">${rows(
    one.held,
    BLANK_HELD,
    held => html`<li data-key="${held.key}"><a data-href="href" data-text="name" href="${held.href}">${held.name}</a>
<span class="dim" data-text="part">${held.part}</span></li>`,
  )}</ul> <span class="dim"${shownBy('more', one.more)} data-text="more">${one.more}</span></td>
${cell('Lines', 'took', one.took, 'n')}
${cell('Rate', 'rate', one.rate, 'n')}
${cell('Heard of', 'seen', one.seen, 'n')}</tr>`;
}

const BLANK_PART = { key: '', part: '', done: '', host: '' };

export const NO_SHARDS = {
  /** how far its shards are; empty where workers do not have it */
  shards: '',
  /** those that workers have */
  parts: [] as (typeof BLANK_PART)[],
  moreParts: '',
};
export type ShardsView = typeof NO_SHARDS;

/** Of a batch that workers answer. `isAdmin`: sees on which host a part is. */
export function shardsView(
  { shards, shardsDone, running, workers: holders }: WorkStats,
  id: string,
  workers: readonly KnownWorker[],
  isAdmin: boolean,
): ShardsView {
  const parts = workers.flatMap(({ host, held }) =>
    held.filter(({ work }) => work === id).map(one => ({ ...one, host })),
  );
  return {
    shards:
      `${number(shardsDone)} of ${counted(shards, 'shard')} done; ` +
      `${counted(holders, 'worker has', 'workers have')} ${counted(running, 'line')} without an answer`,
    parts: parts.slice(0, MOST_PARTS).map(one => ({
      ...{ key: `${one.root} ${one.part} ${one.host}`, part: partName(one) },
      ...{ done: `${number(one.done)} of ${number(one.lines)}`, host: isAdmin ? cut(one.host, LONGEST) : '' },
    })),
    moreParts: parts.length > MOST_PARTS ? `And ${number(parts.length - MOST_PARTS)} more.` : '',
  };
}

export function shardSection({ shards, parts, moreParts }: ShardsView, isAdmin: boolean): Html {
  return html`<section${shownBy('shards', shards)}><h2>Shards</h2>
<p data-text="shards">${shards}</p>
${table(
  'parts',
  'Shards that workers have',
  [{ label: 'Shard' }, { label: 'Answered', isNumber: true }, isAdmin ? { label: 'Worker' } : null],
  rows(
    parts,
    BLANK_PART,
    one => html`<tr data-key="${one.key}"><th scope="row" data-label="Shard" data-text="part">${one.part}</th>
${cell('Answered', 'done', one.done, 'n')}
${isAdmin ? cell('Worker', 'host', one.host) : NONE}</tr>`,
  ),
)}
<p class="dim"${shownBy('moreParts', moreParts)} data-text="moreParts">${moreParts}</p></section>`;
}
