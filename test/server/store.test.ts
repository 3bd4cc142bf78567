/**
 * A server that dies at any step of its store: an open, a write (of which half is there), a sync, a rename, a removal. The
 * next one finds every batch that was answered for, in a state that the API knows, brings it to its end, and leaves no
 * file that belongs to nobody.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { EndpointPool } from '../../engine/asking/pool/part.ts';
import { DISK, type Disk } from '../../engine/core/files/durable.ts';
import { openLasting } from '../../engine/running/open-pool.ts';
import { createAccess } from '../../products/serve/access.ts';
import { openKeys } from '../../products/serve/api-keys.ts';
import { recordOf } from '../../products/serve/batches/batch-routes.ts';
import {
  type BatchRecord,
  isFinal,
  STATUSES,
  type Status,
  shown,
} from '../../products/serve/batches/batch-state.ts';
import { BatchStore } from '../../products/serve/batches/batch-store.ts';
import { Batches } from '../../products/serve/batches/batches.ts';
import { type FileStore, openFiles } from '../../products/serve/file-store.ts';
import { newFileId } from '../../products/serve/ids.ts';
import { settingsOf } from '../../products/serve/serve-config.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';
import { linesOf } from './batching.ts';
import { simulated } from './serving.ts';

/** each n-th step; every one with STEP=1 */
const STEP = runs(7, 1, 'STEP');
const LINES = 12;
const OWNER = 'alice';
/** events that somebody was to be told of, with the ids of their batches */
const events = new Set<string>();

/** A disk that does `steps` things and then none any more: of the write at which it dies half is there. */
function dying(steps: number): Disk & { steps: number; isDead: boolean } {
  const died = (): never => {
    throw Object.assign(new Error('EIO: the process is dead'), { code: 'EIO' });
  };
  const step = <T>(act: () => T, half?: () => void): T => {
    disk.steps += 1;
    if (disk.steps <= steps) return act();
    if (disk.steps === steps + 1) half?.();
    disk.isDead = true;
    return died();
  };
  const disk: ReturnType<typeof dying> = {
    steps: 0,
    isDead: false,
    open: (...given) => step(() => DISK.open(...given)),
    write: (fd, bytes) =>
      step(
        () => DISK.write(fd, bytes),
        () => DISK.write(fd, bytes.subarray(0, bytes.length >> 1)),
      ),
    fsync: fd => step(() => DISK.fsync(fd)),
    close: fd => DISK.close(fd), // a dead process closes what it had
    rename: (from, to) => step(() => DISK.rename(from, to)),
    remove: path => step(() => DISK.remove(path)),
  };
  return disk;
}

interface Life {
  /** ids of what was answered for */
  answered: string[];
  steps: number;
}

function opened(data: string, pool: EndpointPool, disk: Disk) {
  const { settings } = settingsOf({ data, grace: '10ms' });
  const told = { now: Date.now, say: () => {}, disk };
  const files = openFiles(data, told);
  const store = new BatchStore(data, told);
  const access = createAccess(openKeys(data, told.say), told.now);
  const batches = new Batches({
    ...told,
    data,
    settings,
    pool,
    workers: null,
    access,
    journal: { settleBatch() {}, settle() {}, flush() {} },
    metrics: { calls: { tried() {}, tokens() {} } },
    files,
    store,
    stamp: Date.now,
    isOurs: () => true,
    room: { state: 'ok', isBack: true, isThere: true, why: '', lack: '' },
    webhooks: { tell: (_owner, event, id) => void events.add(`${event} ${id}`) },
  });
  return { files, store, batches };
}

/** A new batch. */
function take(files: FileStore, batches: Batches): BatchRecord {
  const input = newFileId(Date.now());
  writeFileSync(files.spoolOf(input), linesOf(LINES));
  const bytes = Buffer.byteLength(linesOf(LINES));
  const times = { created_at: 0, expires_at: Number.MAX_SAFE_INTEGER };
  files.add({ id: input, owner: OWNER, filename: 'in', purpose: 'batch', bytes, ...times });
  const caller = { owner: OWNER, key: null, scopes: new Set([]), rules: {} } as never;
  const body = Buffer.from(
    JSON.stringify({
      input_file_id: input,
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
    }),
  );
  return batches.add(recordOf({ body, idempotency: null, caller, isRetry: false }, files, Date.now()));
}

/** One server on `data`: takes a new batch where `isNew`, cancels it where `cancels`, and lives until it ends or dies. */
async function live(
  data: string,
  pool: EndpointPool,
  { disk, isNew, cancels = false }: { disk: ReturnType<typeof dying>; isNew: boolean; cancels?: boolean },
): Promise<Life> {
  const answered: string[] = [];
  let drain = async (): Promise<void> => {};
  try {
    const { files, store, batches } = opened(data, pool, disk);
    drain = () => batches.drain();
    if (isNew) {
      const made = take(files, batches);
      answered.push(made.id);
      if (cancels) batches.cancel(store.of(made.id));
    }
    while (!disk.isDead && store.all().some(({ status }) => !isFinal(status)))
      await new Promise(resolve => setTimeout(resolve, 1));
  } catch (error) {
    if (!disk.isDead) throw error;
  }
  await drain();
  return { answered, steps: disk.steps };
}

/** All is as the API promises, whoever died before. */
function check(data: string, answered: readonly string[], ends: readonly Status[], point: string): void {
  const told = { now: Date.now, say: (said: string) => expect(said, point).toBe('') };
  const files = openFiles(data, told);
  const records = new BatchStore(data, told).all();
  const named = new Set<string>();
  expect(
    records.map(({ id }) => id),
    point,
  ).toEqual(expect.arrayContaining([...answered]));
  for (const record of records) {
    const seen = shown(record);
    expect(STATUSES, point).toContain(record.status);
    expect(ends, point).toContain(record.status);
    expect(events.has(`batch.${record.status} ${record.id}`), point).toBe(true);
    const ids = [seen.output_file_id, seen.error_file_id].filter(Boolean) as string[];
    let lines = 0;
    for (const id of ids) {
      named.add(id);
      expect(files.get(OWNER, id), point).not.toBeNull();
      lines += readFileSync(files.pathOf(id), 'utf8').trimEnd().split('\n').length;
    }
    if (record.status === 'completed')
      expect([lines, record.counts.completed], point).toEqual([LINES, LINES]);
    else expect(lines, point).toBe(record.counts.total);
    expect(
      readdirSync(join(data, 'batches', record.id)).filter(name => name !== 'ledger'),
      point,
    ).toEqual(['state.json']);
    named.add(record.input_file_id);
  }
  // no output that no batch names; an input may be there without a batch
  const outputs = files.list(OWNER).filter(({ purpose }) => purpose === 'batch_output');
  expect(
    outputs.filter(({ id }) => !named.has(id)),
    point,
  ).toEqual([]);
  for (const name of readdirSync(join(data, 'files')))
    expect(existsSync(join(data, 'files', name.replace(/\.\w+$/, '.json'))), `${point}: ${name}`).toBe(true);
}

test.each([
  ['a batch that runs', false, ['completed']],
  ['a batch that is cancelled', true, ['cancelled', 'completed']],
] as [string, boolean, Status[]][])('%s: killed at every step', async (_what, cancels, ends) => {
  const { url } = await simulated();
  const pool = await openLasting(
    { endpoint: [url], wait: '0s', 'max-body': 1 << 20 },
    { warn: () => {}, signal: new AbortController().signal, reserve: 0 },
  );
  onTestFinished(() => pool.close());
  const whole = await live(folder(), pool, { disk: dying(Number.POSITIVE_INFINITY), isNew: true, cancels });
  expect(whole.steps).toBeGreaterThan(30);
  for (let step = cancels ? 3 : 0; step < whole.steps; step += STEP) {
    const point = `step ${step} of ${whole.steps}`;
    const data = folder();
    const first = await live(data, pool, { disk: dying(step), isNew: true, cancels });
    // the second one dies too, somewhere else
    await live(data, pool, { disk: dying((step * 7) % whole.steps), isNew: false });
    await live(data, pool, { disk: dying(Number.POSITIVE_INFINITY), isNew: false });
    check(data, first.answered, ends, point);
  }
});

test('counts that are shown do not fall back where the disk takes no more', async () => {
  const { url } = await simulated();
  const pool = await openLasting(
    { endpoint: [url], wait: '0s', 'max-body': 1 << 20 },
    { warn: () => {}, signal: new AbortController().signal, reserve: 0 },
  );
  onTestFinished(() => pool.close());
  let isFull = false;
  const write: Disk['write'] = (...given) => {
    if (isFull) throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
    return DISK.write(...given);
  };
  const { files, store, batches } = opened(folder(), pool, { ...DISK, write });
  onTestFinished(() => batches.drain());
  const { id } = take(files, batches);
  await expect.poll(() => store.of(id).status, { interval: 1 }).toBe('in_progress');
  isFull = true;
  await expect.poll(() => batches.paused, { interval: 1 }).toBe(1);
  expect(batches.seen(store.of(id)).counts).toEqual({ total: LINES, completed: LINES, failed: 0 });
});
