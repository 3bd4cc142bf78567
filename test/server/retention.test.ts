/** What a server gives up by itself: by age and by bytes, oldest first, never what runs, and nothing that budgets count by. */
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { BatchRecord } from '../../products/serve/batches/batch-state.ts';
import { BatchStore } from '../../products/serve/batches/batch-store.ts';
import { openFiles } from '../../products/serve/file-store.ts';
import { newBatchId, newFileId } from '../../products/serve/ids.ts';
import { Eraser } from '../../products/serve/keep/eraser.ts';
import { bytesOf, bytesWords, type KeepFile, keepOf } from '../../products/serve/keep/keep-settings.ts';
import { Retention } from '../../products/serve/keep/retention.ts';
import { Storage } from '../../products/serve/keep/storage.ts';
import { settingsOf } from '../../products/serve/serve-config.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';
import { begin, lineOf, put, reached } from './batching.ts';
import { keyOf, MODEL, served, simulated } from './serving.ts';

const DAY = 24 * 3_600_000;
const NOW = Date.parse('2026-11-26T12:00:00Z');

/** A server's folder without a server: batches of so many bytes that ended so long ago, and what sweeps it. */
function kept(keep: number | KeepFile | undefined, disk = folder()) {
  const said: string[] = [];
  const told = { now: () => NOW, say: (line: string) => void said.push(line) };
  const files = openFiles(disk, told);
  const store = new BatchStore(disk, told);
  const eraser = new Eraser({ ...told, data: disk, journal: { flush() {} } }, { files, store });
  const storage = new Storage(files, store, () => 0);
  const { settings } = settingsOf({ data: disk });
  const parts = { ...told, data: disk, settings: { ...settings, keep: keepOf(keep) } };
  const retention = new Retention(parts, { files, store, eraser, storage });

  function file(bytes: number, daysLeft = 1): string {
    const id = newFileId(NOW);
    writeFileSync(files.spoolOf(id), Buffer.alloc(bytes));
    const times = { created_at: 0, expires_at: Math.floor((NOW + daysLeft * DAY) / 1000) };
    files.add({ id, owner: 'alice', filename: 'x', purpose: 'batch', bytes, ...times });
    return id;
  }

  function batch({
    days,
    bytes,
    status = 'completed',
  }: {
    days: number;
    bytes: number;
    status?: BatchRecord['status'];
  }) {
    const id = newBatchId(NOW);
    const input = file(1);
    const ended = Math.floor((NOW - days * DAY) / 1000);
    const record: BatchRecord = {
      ...{ id, owner: 'alice', key: null, endpoint: '/v1/chat/completions', input_file_id: input },
      ...{ completion_window: '24h', window: 86_400, status, created_at: ended, errors: [], failures: [] },
      times: { [`${status}_at`]: ended },
      counts: { total: 1, completed: 1, failed: 0 },
      usage: { input: 0, cached: 0, output: 0, reasoning: 0 },
      ...{ metadata: null, models: [], model: null, outputs_kept: null },
      outputs: status === 'completed' ? { output: file(10), error: null } : null,
      asked: { body: '', idempotency: null },
    };
    store.create(record, files.pathOf(input));
    mkdirSync(join(store.folderOf(id), 'ledger', '2026-11-26'), { recursive: true });
    writeFileSync(join(store.folderOf(id), 'ledger', '2026-11-26', 'a.ndjson'), Buffer.alloc(bytes));
    return record;
  }

  function recordOf(day: string, name: string, bytes: number): void {
    mkdirSync(join(disk, 'gateway', day), { recursive: true });
    writeFileSync(join(disk, 'gateway', day, `${name}.ndjson`), Buffer.alloc(bytes));
  }
  const record = (): string[] =>
    readdirSync(join(disk, 'gateway'), { recursive: true, encoding: 'utf8' })
      .filter(name => name.endsWith('.ndjson'))
      .sort();

  async function sweepAll(): Promise<number> {
    let sweeps = 1;
    while (await retention.sweep()) sweeps += 1;
    return sweeps;
  }
  return { disk, said, files, store, eraser, storage, retention, batch, file, recordOf, record, sweepAll };
}

test('by age: ended batches with their ledgers, days of the record; files have an end of their own', async () => {
  const one = kept({ batches: 30, record: 7 });
  const old = one.batch({ days: 31, bytes: 1_000 });
  const young = one.batch({ days: 29, bytes: 1_000 });
  const open = one.batch({ days: 100, bytes: 1_000, status: 'in_progress' });
  for (const day of ['2026-11-01', '2026-11-18', '2026-11-19', '2026-11-26']) one.recordOf(day, '10', 100);
  const over = one.file(50, -1);
  await one.sweepAll();
  expect(one.store.all().map(({ id }) => id)).toEqual([young.id, open.id]);
  expect(existsSync(join(one.disk, 'batches', old.id))).toBe(false);
  expect(one.files.kept(old.outputs?.output as string)).not.toBeNull();
  expect(one.files.kept(over)).toBeNull();
  expect(one.record()).toEqual(['2026-11-19/10.ndjson', '2026-11-26/10.ndjson']);
  expect(one.said).toEqual([
    'removed 1 file (50 bytes): their time is over',
    expect.stringMatching(/^removed 1 ended batch \(1\.\d+ kB\): they ended more than 30 days ago$/),
    "removed 2 files of the gateway's record (200 bytes): 2 days up to 2026-11-18",
  ]);
  await one.sweepAll();
  expect(one.said).toHaveLength(3);
});

test('by bytes: what ended first goes first, with its files; the record never of today; nothing without a limit', async () => {
  const limits = { batches_bytes: '60kB', record_bytes: 250 };
  for (const keep of [undefined, 30, limits]) {
    const one = kept(keep);
    const ids = [3, 1, 2].map(days => one.batch({ days, bytes: 25_000 }));
    one.batch({ days: 50, bytes: 500_000, status: 'in_progress' });
    for (const day of ['2026-11-24', '2026-11-25', '2026-11-26'])
      for (const name of ['10', '11']) one.recordOf(day, name, 100);
    await one.sweepAll();
    if (keep !== limits) {
      expect([one.store.all().length, one.record().length, one.said]).toEqual([4, 6, []]);
      continue;
    }
    expect(one.store.ended().map(({ id }) => id)).toEqual([ids[1]?.id, ids[2]?.id]);
    expect(one.files.kept(ids[0]?.outputs?.output as string)).toBeNull();
    expect(one.record()).toEqual(['2026-11-26/10.ndjson', '2026-11-26/11.ndjson']);
    expect(one.said.join('\n')).toContain('removed 1 ended batch');
  }
});

test('a sweep is bounded: what is left comes with the next ones', async () => {
  const one = kept({ batches: 1 });
  for (let n = 0; n < 25; n++) one.batch({ days: 2, bytes: 1 });
  expect(await one.sweepAll()).toBe(2);
  expect(one.store.all()).toEqual([]);
  expect(one.eraser.items.completed).toBe(25);
});

test('what is spent today stays counted, though its batch is deleted and the server is killed', async () => {
  const { url } = await simulated();
  const data = folder();
  const limits = { tokens_per_day: 1_000_000 };
  const key = keyOf(data, 'alice', ['batch', 'chat'], limits);
  const server = await served({ endpoints: [url], data });
  const openai = server.client(key);
  const { id, usage } = await reached(openai, (await begin(openai, lineOf('a'))).id);
  const total = (usage as { total_tokens: number }).total_tokens;
  expect(total).toBeGreaterThan(0);
  const reply = await fetch(`${server.url}/v1/batches/${id}`, {
    ...{ method: 'DELETE', headers: { authorization: `Bearer ${key}` } },
  });
  expect(reply.status).toBe(200);
  // as a server that is killed now would leave it
  const copy = join(folder(), 'copy');
  cpSync(data, copy, { recursive: true, filter: path => !path.endsWith('locks') });
  await server.stop();
  const next = await served({ endpoints: [url], data: copy });
  const chat = await fetch(`${next.url}/v1/chat/completions`, {
    ...{ method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' } },
    body: JSON.stringify({ model: MODEL, max_tokens: 1, messages: [{ role: 'user', content: 'x' }] }),
  });
  expect(chat.status).toBe(200);
  const left = Number(chat.headers.get('x-ratelimit-remaining-tokens'));
  expect(left).toBeLessThanOrEqual(limits.tokens_per_day - total);
  expect(left).toBeGreaterThan(limits.tokens_per_day - total - 1_000);
});

test('what an owner has is never more than its key may have, whatever it uploads, begins and deletes', () => {
  const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
  const act = fc.record({
    kind: fc.constantFrom('upload', 'upload', 'batch', 'end', 'delete'),
    bytes: fc.integer({ min: 1, max: 5_000 }),
    which: fc.nat(),
  });
  const check = fc.property(fc.array(act, { maxLength: 40 }), acts => {
    const one = kept(undefined);
    const rules = { storage: 10_000, batches: 2 };
    const refused = (ask: () => void): number => {
      try {
        ask();
        return 0;
      } catch (error) {
        return (error as { status: number }).status;
      }
    };
    for (const { kind, bytes, which } of acts) {
      const before = one.storage.of('alice');
      if (kind === 'upload') {
        const status = refused(() => one.storage.refuse('alice', rules, bytes));
        expect(status).toBe(before + bytes > rules.storage ? 413 : 0);
        if (status === 0) one.file(bytes);
        expect(one.storage.of('alice')).toBe(status === 0 ? before + bytes : before);
        expect(one.storage.of('bob')).toBe(0);
      } else if (kind === 'batch') {
        const open = one.store.open().length;
        const status = refused(() => one.storage.refuseBatch('alice', rules));
        expect(status).toBe(open >= rules.batches ? 429 : 0);
        if (status === 0) one.batch({ days: 0, bytes: 1, status: 'in_progress' });
        expect(one.store.open().length).toBeLessThanOrEqual(rules.batches);
      } else if (kind === 'end') {
        const record = one.store.open()[0];
        if (record) one.store.save({ ...record, status: 'cancelled', times: { cancelled_at: 0 } });
      } else {
        const id = one.files.ids('alice')[which % Math.max(1, one.files.ids('alice').length)];
        const size = one.files.kept(id ?? '')?.bytes ?? 0;
        if (id !== undefined) one.files.remove(id);
        if (id !== undefined && !one.store.all().some(({ input_file_id }) => input_file_id === id))
          expect(one.storage.of('alice')).toBe(before - size);
      }
    }
  });
  fc.assert(check, { seed, numRuns: runs(20, 300) });
});

test('over HTTP: what does not fit is refused with a code, and fits again after a DELETE; what is over goes by itself', async () => {
  const { url } = await simulated({ latency: '1h' }); // one that ends has its output too
  const data = folder();
  const key = keyOf(data, 'alice', ['batch'], { storage: 20_000, batches: 1 });
  const server = await served({ endpoints: [url], data });
  const openai = server.client(key);
  const text = lineOf('a', { user: 'u'.repeat(8_000) });
  const { id, input_file_id } = await begin(openai, text);
  const create = openai.batches.create({
    ...{ input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' },
  });
  const refused = await create.catch(error => error);
  expect([refused.status, refused.code, Number(refused.headers.get('retry-after'))]).toEqual([
    429,
    'batch_limit_exceeded',
    60,
  ]);
  const file = (await put(openai, 'x'.repeat(8_000))) as string;
  await expect(put(openai, 'x'.repeat(8_000))).rejects.toMatchObject({
    status: 413,
    code: 'storage_limit_exceeded',
  });
  // without a length that would say so before
  const form =
    '--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n';
  const body = new Blob([form, 'x'.repeat(8_000), '\r\n--b--\r\n']).stream();
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'multipart/form-data; boundary=b' };
  const streamed = await fetch(`${server.url}/v1/files`, {
    method: 'POST',
    headers,
    body,
    duplex: 'half',
  } as RequestInit);
  expect([streamed.status, (await openai.files.list()).data.length]).toEqual([413, 2]);
  await openai.files.delete(file);
  await put(openai, 'x'.repeat(4_000));
  await openai.batches.cancel(id);
  await reached(openai, id);
  await server.stop();

  const days = (count: number) => () => Date.now() + count * DAY;
  const keep = keepOf({ files: 30, batches: 2 });
  const later = await served({ endpoints: [url], data, now: days(3), settings: { keep } });
  await expect
    .poll(() => later.said.join('\n'))
    .toMatch(/removed 1 ended batch \(.* they ended more than 2 days ago/);
  expect((await later.client(key).batches.list()).data).toEqual([]);
});

test('sizes and the old form of keep', () => {
  expect(keepOf(undefined)).toMatchObject({ files: 30 * DAY, batches: null, record: null });
  expect(keepOf(7)).toMatchObject({ files: 7 * DAY, batches: null, batchBytes: null, recordBytes: null });
  expect(keepOf({ batches_bytes: '2GiB' }).batchBytes).toBe(2 ** 31);
  expect([bytesOf('10GB', 'x'), bytesOf('1.5 MB', 'x'), bytesOf(7, 'x')]).toEqual([1e10, 1.5e6, 7]);
  for (const wrong of ['', 'GB', '-1', '1e9', '10 gb', '10PB', '99999999999TB'])
    expect(() => bytesOf(wrong, 'keep.batches_bytes')).toThrow('keep.batches_bytes: expected bytes, such as');
  expect([0, 999, 1234, 2.5e9].map(bytesWords)).toEqual(['0 bytes', '999 bytes', '1.23 kB', '2.5 GB']);
});
