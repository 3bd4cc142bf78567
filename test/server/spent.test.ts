/** What removed ledgers cost stays known: added up before they go, once, wherever a server is killed in between. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ledgerFiles } from '../../engine/asking/ledger/read-ledger.ts';
import { costBy } from '../../products/records/cost-by.ts';
import { removedIn, stillThere } from '../../products/records/spent.ts';
import type { BatchRecord } from '../../products/serve/batches/batch-state.ts';
import { BatchStore } from '../../products/serve/batches/batch-store.ts';
import { openFiles } from '../../products/serve/file-store.ts';
import { newBatchId, newFileId } from '../../products/serve/ids.ts';
import { Eraser } from '../../products/serve/keep/eraser.ts';
import { keepOf } from '../../products/serve/keep/keep-settings.ts';
import { Retention } from '../../products/serve/keep/retention.ts';
import { Storage } from '../../products/serve/keep/storage.ts';
import { settingsOf } from '../../products/serve/serve-config.ts';
import { runs } from '../all.ts';
import { between, randomFrom } from '../crash/random.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { appended, opened, recordOf } from '../ledger/records.ts';

const NOW = Date.parse('2026-11-26T12:00:00Z');
const SEED = Number(process.env.SEED ?? Date.now() % 0x7fffffff);

/** What `fw ledger cost` says of a folder. */
function costIn(data: string) {
  const removed = removedIn(data);
  const paths = stillThere(
    data,
    ledgerFiles(data, () => {}),
    removed,
  );
  return costBy(
    paths,
    ['key', 'model', 'day'],
    new Map(),
    () => {},
    removed.flatMap(({ sums }) => sums),
  );
}

/** A folder of a server with batches that have ended, each with a ledger. */
async function withBatches(data: string, keys: readonly string[]) {
  const said: string[] = [];
  const told = { now: () => NOW, say: (line: string) => void said.push(line) };
  const open = () => {
    const files = openFiles(data, told);
    const store = new BatchStore(data, told);
    return { store, eraser: new Eraser({ ...told, data, journal: { flush() {} } }, { files, store }), files };
  };
  const { store, files } = open();
  for (const [at, key] of keys.entries()) {
    const id = newBatchId(NOW);
    const input = newFileId(NOW);
    writeFileSync(files.spoolOf(input), 'x');
    files.add({
      id: input,
      owner: 'alice',
      filename: 'x',
      purpose: 'batch',
      bytes: 1,
      created_at: 0,
    } as never);
    const record: BatchRecord = {
      ...{ id, owner: 'alice', key: null, endpoint: '/v1/chat/completions', input_file_id: input },
      ...{
        completion_window: '24h',
        window: 86_400,
        status: 'completed',
        created_at: 0,
        errors: [],
        failures: [],
      },
      times: { completed_at: 0 },
      counts: { total: 1, completed: 1, failed: 0 },
      usage: { input: 0, cached: 0, output: 0, reasoning: 0 },
      ...{ metadata: null, models: [], model: null, outputs_kept: null, outputs: null },
      asked: { body: '', idempotency: null },
    };
    store.create(record, files.pathOf(input));
    const ledger = opened(join(store.folderOf(id), 'ledger'));
    for (let n = 0; n <= at; n++)
      await appended(
        ledger,
        recordOf({ says: `${at} ${n}`, caller: key, usage: { prompt: 10 + n, completion: n, cached: n } }),
      );
    await ledger.close();
  }
  return { open, said };
}

test('the same before and after, at each point where a server may be killed, and only once', async () => {
  console.log(`spent: SEED=${SEED}`);
  const data = folder();
  const { open } = await withBatches(data, ['alice', 'bob', 'alice']);
  const before = costIn(data);
  expect(before.groups.map(({ names, tries, in: prompt }) => [...names, tries, prompt])).toEqual([
    ['alice', 'm', '2026-01-01', 4, 43],
    ['bob', 'm', '2026-01-01', 2, 21],
  ]);
  const [first, second, third] = open().store.all() as [BatchRecord, BatchRecord, BatchRecord];
  const folderOf = (id: string) => join(data, 'batches', id);
  const copy = join(folder(), 'copy');
  cpSync(folderOf(first.id), copy, { recursive: true });
  await open().eraser.overdue(first);
  expect(existsSync(folderOf(first.id))).toBe(false);
  expect(costIn(data)).toEqual(before);
  const spent = readFileSync(join(data, 'spent.jsonl'));
  // killed between the two: the line is there, or a part of it, and so is the batch
  const random = randomFrom(SEED);
  const cuts = [0, 1, spent.length - 2, spent.length - 1, spent.length];
  for (let n = runs(5, 100); n > 0; n--) cuts.push(between(random, 0, spent.length));
  for (const cut of cuts) {
    writeFileSync(join(data, 'spent.jsonl'), spent.subarray(0, cut));
    for (const name of [first.id, `${first.id}.gone`]) {
      rmSync(folderOf(first.id), { recursive: true, force: true });
      cpSync(copy, folderOf(name), { recursive: true });
      expect(costIn(data), `cut at ${cut}`).toEqual(before);
      const next = open();
      await next.eraser.finish();
      const left = next.store.get('alice', first.id);
      if (left !== null) await next.eraser.overdue(left);
      expect([existsSync(folderOf(first.id)), existsSync(`${folderOf(first.id)}.gone`)]).toEqual([
        false,
        false,
      ]);
      expect(costIn(data), `cut at ${cut}, removed`).toEqual(before);
    }
  }
  // deleted by two at a time; and a batch that stays in the list, whose ledger goes with its files
  const last = open();
  await Promise.all([last.eraser.batch(second), last.eraser.batch(second)]);
  last.files.remove(third.input_file_id);
  const file = { id: third.input_file_id, owner: 'alice' } as never;
  expect(await last.eraser.afterFile(file)).toEqual([third.id]);
  expect(existsSync(join(folderOf(third.id), 'ledger'))).toBe(false);
  expect(costIn(data)).toEqual(before);
  const table = await fw(`fw ledger cost --ledger ${data} --by key --price m=1000/2000`);
  expect(table.stdout).toMatch(/^alice +4 +4 +43 +3 +3 +0\.0490$/m);
  expect((await fw(`fw ledger cost --ledger ${data}`)).stdout).toMatch(
    /^removed since, and in no sum above: 6 tries, tokens 64 in \(6 % cached\), 4 out; --by has them$/m,
  );
});

test('a full disk does not stand in the way of removing; it is written once there is room', async () => {
  const data = folder();
  const { open, said } = await withBatches(data, ['alice', 'bob']);
  const before = costIn(data);
  const { store, eraser } = open();
  const [first, second] = store.all() as [BatchRecord, BatchRecord];
  symlinkSync('/dev/full', join(data, 'spent.jsonl'));
  await eraser.overdue(first);
  expect(store.get('alice', first.id)).toBeNull();
  expect(said.join('\n')).toContain('is full: it is written once there is room');
  rmSync(join(data, 'spent.jsonl'));
  await eraser.overdue(second);
  expect(costIn(data)).toEqual(before);
});

test("days of the gateway's record that are given up cost what they cost", async () => {
  const data = folder();
  const { open } = await withBatches(data, []);
  const ledger = opened(join(data, 'gateway'));
  for (let n = 0; n < 5; n++) await appended(ledger, recordOf({ says: `${n}`, caller: 'carol' }));
  await ledger.close();
  const before = costIn(data);
  expect(before.groups.map(({ names, tries }) => [names[0], tries])).toEqual([['carol', 5]]);
  const { store, files, eraser } = open();
  const later = { now: () => Date.now() + 10 * 86_400_000, say() {} };
  const settings = { ...settingsOf({ data }).settings, keep: keepOf({ record: 3 }) };
  const storage = new Storage(files, store, () => 0);
  const retention = new Retention({ ...later, data, settings }, { files, store, eraser, storage });
  while (await retention.sweep());
  expect(ledgerFiles(join(data, 'gateway'), () => {})).toEqual([]);
  expect(costIn(data)).toEqual(before);
});

test("files of the gateway's record, too; and what is no line of it says nothing", () => {
  const data = folder();
  mkdirSync(join(data, 'gateway', '2026-11-01'), { recursive: true });
  const sum = {
    key: 'alice',
    model: 'm',
    day: '2026-11-01',
    agent: '/v1/x',
    endpoint: 'http://a/v1',
    outcome: 'answer',
  };
  const line = {
    ledger: 'gateway/2026-11-01/a.ndjson',
    sums: [{ ...sum, tries: 1, answers: 1, in: 5, cached: 0, out: 7, ms: 9 }],
  };
  const wrong = [
    { ...line, ledger: '' },
    { ...line, ledger: 'b', sums: [{ ...line.sums[0], in: -1 }] },
    { ...line, ledger: 'c', sums: [{ ...line.sums[0], in: '5' }] },
    { ...line, ledger: 'd', sums: null },
    [],
    null,
  ];
  const twice = { ...line, sums: [...line.sums, ...line.sums] };
  writeFileSync(
    join(data, 'spent.jsonl'),
    [...wrong, line, twice].map(one => `${JSON.stringify(one)}\n`).join(''),
  );
  expect(removedIn(data)).toEqual([line]);
  const paths = ['a', 'b'].map(name => join(data, 'gateway', '2026-11-01', `${name}.ndjson`));
  expect(stillThere(data, paths, removedIn(data))).toEqual([paths[1]]);
  renameSync(join(data, 'spent.jsonl'), join(data, 'other'));
  expect([removedIn(data), removedIn(join(data, 'none'))]).toEqual([[], []]);
});
