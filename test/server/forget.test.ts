/** What DELETE takes with it: all prompts and answers, wherever the server had them, also where it is killed meanwhile. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type OpenAI from 'openai';
import { expect, test } from 'vitest';
import { ledgerFiles, linesOf } from '../../engine/asking/ledger/read-ledger.ts';
import { DISK, type Disk } from '../../engine/core/files/durable.ts';
import { costBy } from '../../products/records/cost-by.ts';
import { forgetOwner } from '../../products/records/forget-owner.ts';
import { BatchStore } from '../../products/serve/batches/batch-store.ts';
import { openFiles } from '../../products/serve/file-store.ts';
import { Eraser } from '../../products/serve/keep/eraser.ts';
import { folder } from '../fw.ts';
import { serve } from '../pool/serving.ts';
import { begin, ENDPOINT, lineOf, put, reached } from './batching.ts';
import { keyOf, served } from './serving.ts';

const CANARY = 'canary-in-the-coal-mine';

/** Paths below `root` of files with the canary in them. */
function canariesIn(root: string): string[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .map(name => join(root, name))
    .filter(path => statSync(path).isFile() && readFileSync(path).includes(CANARY));
}

const saying = () => serve(one => one.answer(CANARY));

const secret = (id: string) =>
  lineOf(id, { model: 'm', messages: [{ role: 'user', content: `${CANARY} ${id}` }] });

interface Deleted {
  deleted: boolean;
  files: string[];
  bytes: number;
  stays: string[];
}

test('deleted batches and files leave no prompt and no answer behind', async () => {
  const model = await serve(one =>
    one.body.includes('hold')
      ? undefined
      : one.body.includes('bad')
        ? one.send(400, { error: { message: CANARY } })
        : one.answer(CANARY),
  );
  const { data, url, client, said } = await served({
    endpoints: [model.url],
    gateway: { cacheFor: 60_000 },
    data: join(folder(), 'data'),
  });
  const key = keyOf(data, 'alice');
  const other = keyOf(data, 'bob');
  const openai = client(key);
  const ask = async (path: string, method = 'DELETE', as = key) => {
    const reply = await fetch(`${url}/v1/${path}`, { method, headers: { authorization: `Bearer ${as}` } });
    return { status: reply.status, body: (await reply.json()) as Deleted & { error: { message: string } } };
  };
  const text = [secret('a'), secret('bad'), secret('c')].join('\n');
  const first = await reached(openai, (await begin(openai, text)).id);
  expect(first).toMatchObject({ status: 'completed', request_counts: { completed: 2, failed: 1 } });
  expect(canariesIn(data).length).toBeGreaterThanOrEqual(4); // input, output, errors, ledger

  // one that runs is not deleted; another owner's is not there
  const running = await begin(openai, secret('hold'));
  await model.reached(4);
  const refused = await ask(`batches/${running.id}`);
  expect([refused.status, refused.body.error.message]).toEqual([
    400,
    expect.stringContaining('cancel it first'),
  ]);
  await openai.batches.cancel(running.id);
  expect((await ask(`batches/${first.id}`, 'DELETE', other)).status).toBe(404);

  // its input is another batch's too: it stays, and the answer says so
  const again = await openai.batches.create({
    ...{ input_file_id: first.input_file_id, endpoint: ENDPOINT, completion_window: '24h' },
  });
  await reached(openai, again.id);
  const half = await ask(`batches/${first.id}`);
  expect(half.body).toMatchObject({
    deleted: true,
    files: [first.output_file_id, first.error_file_id],
    stays: expect.arrayContaining([`the input ${first.input_file_id}, which ${again.id} names too`]),
  });
  expect(half.body.bytes).toBeGreaterThan(1_000);
  expect((await ask(`batches/${first.id}`)).status).toBe(404);
  await expect(openai.batches.retrieve(first.id)).rejects.toMatchObject({ status: 404 });
  await expect(openai.files.content(first.output_file_id as string)).rejects.toMatchObject({ status: 404 });

  // by the standard API alone: the ledger goes with the last file
  const { output_file_id, error_file_id, input_file_id } = await openai.batches.retrieve(again.id);
  const files = [output_file_id, error_file_id, input_file_id] as string[];
  for (const file of files.slice(0, 2))
    expect(await openai.files.delete(file)).toMatchObject({ deleted: true });
  expect(existsSync(join(data, 'batches', again.id, 'ledger'))).toBe(true);
  expect(await openai.files.delete(input_file_id)).toMatchObject({ forgotten_batches: [again.id] });
  expect(existsSync(join(data, 'batches', again.id, 'ledger'))).toBe(false);
  expect(await openai.batches.retrieve(again.id)).toMatchObject({ status: 'completed' });

  const cancelled = await reached(openai, running.id);
  const last = await ask(`batches/${running.id}`);
  expect(last.body.files).toContain(cancelled.input_file_id);
  expect(canariesIn(data)).toEqual([]);
  expect(said.filter(line => line.includes('was deleted'))).toHaveLength(2);
  const metrics = await (await fetch(`${url}/metrics`, auth(keyOf(data, 'm', ['metrics'])))).text();
  expect(metrics).toMatch(/^fw_batch_items_total\{outcome="completed"\} 4$/m);
});

test('the record of an owner is forgotten beside a server that works: what it cost stays, the cache gives nothing', async () => {
  const model = await saying();
  const data = folder();
  const limits = { tokens_per_day: 1_000_000 };
  const keys = [keyOf(data, 'alice', ['chat'], limits), keyOf(data, 'bob', ['chat'], limits)] as const;
  const { url } = await served({ data, endpoints: [model.url], gateway: { cacheFor: 60_000 } });
  const ask = (key: string, content: string) =>
    fetch(`${url}/v1/chat/completions`, {
      ...{ method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' } },
      body: JSON.stringify({ model: 'm', temperature: 0, messages: [{ role: 'user', content }] }),
    });
  const cached = async (key: string, content: string): Promise<string | null> => {
    const reply = await ask(key, content);
    expect(await reply.text()).toContain(CANARY);
    return reply.headers.get('x-fw-cache');
  };
  for (const key of keys) {
    expect(await cached(key, `${CANARY} é 1`)).toBe(null);
    expect(await cached(key, `${CANARY} é 1`)).toBe('hit');
  }
  const record = join(data, 'gateway');
  const before = costBy(
    ledgerFiles(record, () => {}),
    ['key', 'outcome'],
    new Map(),
    () => {},
  );
  const trouble: string[] = [];
  const tell = ({ message }: { message: string }): void => void trouble.push(message);
  expect(forgetOwner(record, 'nobody', null, tell).calls).toBe(0);
  expect(forgetOwner(record, 'alice', '2000-01-01', tell).calls).toBe(0);
  expect(forgetOwner(record, 'alice', null, tell)).toMatchObject({ calls: 2, files: 1 });
  expect(forgetOwner(record, 'alice', null, tell).calls).toBe(0);
  expect(await cached(keys[0], `${CANARY} é 1`)).toBe(null); // asked again, at the end of the same file
  expect(forgetOwner(record, 'alice', null, tell).calls).toBe(1);
  expect(trouble).toEqual([]);
  const left = ledgerFiles(record, () => {}).flatMap(path =>
    [...linesOf(path, tell)].map(({ bytes }) => JSON.parse(bytes.toString())),
  );
  const texts = (owner: string) =>
    left.filter(({ caller }) => caller === owner).map(one => JSON.stringify(one));
  expect(texts('alice').map(text => text.includes(CANARY))).toEqual([false, false, false]);
  expect(texts('bob').map(text => text.includes(CANARY))).toEqual([true, true]);
  const after = costBy(
    ledgerFiles(record, () => {}),
    ['key', 'outcome'],
    new Map(),
    tell,
  );
  expect(after.groups.map(({ names, tries, out }) => [names, tries > 0, out])).toEqual(
    before.groups.map(({ names, tries, out }) => [names, tries > 0, out]),
  );
  // of a line that a full disk cut off, too, once nobody writes it any more
  const [file] = ledgerFiles(record, () => {}) as [string];
  const torn = join(dirname(file), '000000000-host-1-abcdef.ndjson');
  const whole = readFileSync(file, 'utf8').split('\n');
  const bobs = whole.find(line => line.includes('"caller":"bob"') && line.includes(CANARY)) as string;
  writeFileSync(torn, `${whole[0]}\n${bobs.slice(0, -30)}`);
  expect(forgetOwner(record, 'bob', '2000-01-01', tell).calls).toBe(0);
  expect(trouble.splice(0)).toEqual([expect.stringContaining('torn')]);
  utimesSync(torn, 0, 0);
  expect(forgetOwner(record, 'bob', null, tell).calls).toBe(3);
  expect([canariesIn(data), trouble]).toEqual([[], []]);
});

const auth = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });

test('deleted while somebody reads it: a download goes on to its end, an open page says so, what comes later is not found', async () => {
  const { url, client, said } = await served();
  const openai = client();
  const size = 24 * 1024 * 1024; // more than a connection holds
  const input = await put(openai, `${lineOf('a')}\n${' '.repeat(size)}`);
  const { id } = await reached(
    openai,
    (
      await openai.batches.create({
        ...{ input_file_id: input, endpoint: ENDPOINT, completion_window: '24h' },
      })
    ).id,
  );
  const download = await fetch(`${url}/v1/files/${input}/content`);
  const page = await fetch(`${url}/ui/events?batch=${id}`);
  const reply = await fetch(`${url}/v1/batches/${id}`, { method: 'DELETE' });
  expect([reply.status, ((await reply.json()) as Deleted).files]).toEqual([
    200,
    expect.arrayContaining([input]),
  ]);
  expect((await download.arrayBuffer()).byteLength).toBeGreaterThan(size);
  expect(await page.text()).toMatch(/event: gone\ndata: "Not live: this was deleted\."\n\n$/);
  for (const path of [
    `v1/files/${input}/content`,
    `v1/batches/${id}`,
    `ui/batches/${id}`,
    `ui/batches/${id}/results`,
  ])
    expect((await fetch(`${url}/${path}`)).status, path).toBe(404);
  expect((await fetch(`${url}/ui/`)).status).toBe(200);
  expect(said.filter(line => line.includes('    at '))).toEqual([]);
});

/** A disk that does `steps` things and then none any more. */
function dying(steps: number): Disk & { done: number } {
  const step = <T>(act: () => T): T => {
    if (disk.done >= steps) throw Object.assign(new Error('EIO: the process is dead'), { code: 'EIO' });
    disk.done += 1;
    return act();
  };
  const disk: Disk & { done: number } = {
    done: 0,
    open: (...given) => step(() => DISK.open(...given)),
    write: (...given) => step(() => DISK.write(...given)),
    fsync: fd => step(() => DISK.fsync(fd)),
    close: fd => DISK.close(fd),
    rename: (from, to) => step(() => DISK.rename(from, to)),
    remove: path => step(() => DISK.remove(path)),
  };
  return disk;
}

test('killed at every step of a deletion: the batch is there with all it had, or all of it is gone', async () => {
  const model = await saying();
  const made = await served({ endpoints: [model.url] });
  const openai: OpenAI = made.client();
  const { id } = await reached(openai, (await begin(openai, secret('a'))).id);
  await made.stop();
  const open = (data: string, disk: Disk) => {
    const told = { now: Date.now, say: (line: string) => expect(line).toBe(''), disk };
    const files = openFiles(data, told);
    const store = new BatchStore(data, told);
    return { files, store, eraser: new Eraser({ ...told, data, journal: { flush() {} } }, { files, store }) };
  };
  const outcomes = new Set<string>();
  for (let steps = 0; ; steps++) {
    const data = join(folder(), 'copy');
    mkdirSync(data);
    cpSync(made.data, data, { recursive: true });
    const disk = dying(steps);
    let isDone = true;
    try {
      const { store, eraser } = open(data, disk);
      await eraser.batch(store.of(id));
    } catch (error) {
      expect((error as Error).message).toContain('dead');
      isDone = false;
    }
    const next = open(data, DISK);
    await next.eraser.finish();
    const record = next.store.get('local', id);
    const isThere = record !== null;
    outcomes.add(isThere ? 'there' : 'gone');
    if (isThere) {
      expect(next.files.get('local', record.outputs?.output as string), `step ${steps}`).not.toBeNull();
      expect(existsSync(join(data, 'batches', id, 'ledger'))).toBe(true);
      expect(next.eraser.items.completed).toBe(0);
    } else {
      expect(canariesIn(data), `step ${steps}`).toEqual([]);
      expect(next.eraser.items.completed, `step ${steps}`).toBe(1);
      expect(readdirSync(join(data, 'batches'))).toEqual([]);
    }
    if (isDone) break;
  }
  expect([...outcomes]).toEqual(['there', 'gone']);
});

test('the input may go while a batch runs: its ledger then goes with its output', async () => {
  const model = await saying();
  const { data, client } = await served({ endpoints: [model.url] });
  const openai = client();
  const input = await put(openai, secret('a'));
  const { id } = await openai.batches.create({
    ...{ input_file_id: input, endpoint: ENDPOINT, completion_window: '24h' },
  });
  await openai.files.delete(input);
  const { output_file_id } = await reached(openai, id);
  expect(canariesIn(data).length).toBeGreaterThan(1);
  await openai.files.delete(output_file_id as string);
  expect(canariesIn(data)).toEqual([]);
});
