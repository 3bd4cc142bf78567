/** fw run --redis: workers do the asking stages of a pipeline, wherever they are; all else is a run as any other. */
import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { EndpointPool } from '../../engine/asking/pool/part.ts';
import type { PoolStats } from '../../engine/asking/pool/pool-stats.ts';
import { EXIT, type Fatal, usageError } from '../../engine/core/item/failure.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { counted } from '../../engine/core/item/wording.ts';
import type { PoolAsked } from '../../engine/running/run.ts';
import type { Start, Unplaced } from '../../engine/running/to-files.ts';
import { execute } from '../kit/execute.ts';
import { createHandedIn, createNews, type DeskStats } from '../workers/desk-stats.ts';
import { handingOf } from '../workers/handing.ts';
import { placeOf as redisOf } from '../workers/part-queue.ts';
import { type QueueSettings, WORKER_KEY } from '../workers/queue-options.ts';
import { openCoordinator, workerKey } from './run-coordinator.ts';

export interface OverWorkers {
  run: Unplaced & { sets: readonly string[] };
  queue: QueueSettings;
  listen: string | undefined;
  say: Say;
}

const LISTEN = '127.0.0.1:8080';
/** ms between two looks at who is there */
const LOOK = 250;
/** models of workers that a message names */
const MOST_NAMED = 20;

/**
 * `act` is handed what runs the pipeline, and resolves to its exit code. Where that is a good one, all has its place in the
 * outputs, and nothing stays of the shards.
 */
export async function overWorkers(
  { run, queue, listen = LISTEN, say }: OverWorkers,
  act: (start: Start) => Promise<number>,
): Promise<number> {
  const { placeOf } = await import('./serve-config.ts');
  const place = placeOf(listen);
  const key = workerKey(process.env, place.host);
  const work = commandTo(queue.url, key);
  const handing = await handingOf(run);
  const folder = join(ledgerOf(run), 'shards');
  for (const words of handing.unused) say(words);

  let lost: Fatal | undefined;
  let giveUp = (): void => {};
  const onLost = (error: Fatal): void => {
    lost = error;
    giveUp();
  };
  const coordinator = await openCoordinator({ folder, queue, place, key, say, onLost });
  const { desk, pool, url } = coordinator;
  say(`workers find this run at ${url}`);
  let { model } = handing;
  let stopped = new AbortController().signal;
  const works: string[] = [];
  const news = createNews(`${work} --server ${url} --endpoint http://127.0.0.1:8005/v1`, true);
  const handedIn = createHandedIn();
  const tell = (): void => {
    const said = desk.stats();
    handedIn.note(said);
    for (const words of news.look(said, Date.now())) say(words);
  };
  const telling = setInterval(tell, LOOK);

  async function settleModel(): Promise<void> {
    model = await firstModel(desk.stats, stopped);
    tell();
    say(`asking ${model}, which the first worker serves; another one: --model NAME`);
  }

  async function openPool({ onGivenUp, signal }: PoolAsked): Promise<EndpointPool> {
    giveUp = onGivenUp;
    stopped = signal;
    if (handing.needsModel) await settleModel();
    return Object.create(pool, {
      verdict: { value: () => lost },
      giveUp: { value: onLost },
      stats: { value: stats },
      // nobody says it any more where all had been handed in before
      model: { get: () => (pool.model === 'unknown' ? (model ?? pool.model) : pool.model) },
    }) as EndpointPool;
  }
  function stats(): PoolStats {
    const said = pool.stats();
    handedIn.note(desk.stats());
    return { ...said, elsewhere: { items: said.elsewhere?.items ?? 0, told: handedIn.words() } };
  }

  try {
    const code = await act(execution =>
      execute({
        ...execution,
        row: handing.rowOf(execution.row, {
          ...{ desk, folder, model: () => model, firstModel: settleModel },
          onOpen(work) {
            works.push(work.id);
            coordinator.opened(work);
          },
        }),
        openPool,
        atStop: 'workers keep what they have, and hand it in when the same command is run again',
      }),
    );
    if (code <= EXIT.failed) removeDone(folder, works, say);
    return code;
  } finally {
    clearInterval(telling);
    handing.dropUnplanned(folder);
    await coordinator.stop();
  }
}

/** A worker is started so, without the secrets. Exit 64 where the URL is none of a queue. */
function commandTo(queue: string, key: string | null): string {
  const { name, isTls, password } = redisOf(queue);
  const redis = `redis${isTls ? 's' : ''}://${password === undefined ? '' : ':PASSWORD@'}${name}`;
  return `${key === null ? '' : `${WORKER_KEY}=… `}fw work --redis ${redis}`;
}

/** What is of no use any more goes; what other runs have there is named. */
function removeDone(folder: string, works: readonly string[], say: OverWorkers['say']): void {
  for (const id of works) rmSync(join(folder, id), { recursive: true, force: true });
  const others = readdirSync(folder).filter(name => name.startsWith('run-'));
  if (others.length > 0)
    say(
      `${folder} also holds results for ${counted(others.length, 'run')} of other lines or options; delete what you no longer need`,
    );
}

/** The folder of the ledger, in which the shards are. Exit 64 where there is none. */
function ledgerOf({ row, ledger }: OverWorkers['run']): string {
  const named = row.find(({ stage }) => stage.asks)?.options.ledger as string | undefined;
  const path = named ?? (ledger || process.env.FW_LEDGER);
  const found = path && statSync(path, { throwIfNoEntry: false })?.isDirectory() !== false ? path : undefined;
  if (found !== undefined && !found.endsWith('.ndjson')) return found;
  throw usageError(
    `--redis: expected a folder for what workers hand in, found ${path || 'none'}: --ledger DIR`,
  );
}

/** Waits for a worker, where nobody has said what to ask for. Exit 64 where that is not plain. */
async function firstModel(stats: () => DeskStats, signal: AbortSignal): Promise<string> {
  for (;;) {
    const served = stats().workers.flatMap(({ models }) => (models.length > 0 ? [models] : []));
    const [first, ...others] = served;
    const shared = (first ?? []).filter(model => others.every(models => models.includes(model)));
    if (shared.length === 1) return shared[0] as string;
    if (first !== undefined) {
      const all = [...new Set(served.flat())];
      const more = all.length > MOST_NAMED ? [`${all.length - MOST_NAMED} more`] : [];
      const found = [...all.slice(0, MOST_NAMED), ...more].join(', ');
      throw usageError(
        `expected workers that serve one and the same model, found ${found}\nsay which one: --model NAME`,
      );
    }
    await pause(LOOK, undefined, { signal });
  }
}
