/**
 * What another user of the machine may have put into a folder before fw had it: links to files outside, pipes, folders and
 * devices in the place of files, a folder that is open to all. Nothing outside is written to, nothing is waited for, and what
 * fw keeps is for its owner alone. From the start on the folder is closed to others.
 */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import { readKeys } from '../../products/serve/api-keys.ts';
import { linesInto, newTally } from '../../products/serve/batches/batch-output.ts';
import { newPlanner, readPlan } from '../../products/workers/shard-plan.ts';
import { openFolder } from '../../products/workers/worker/worker-folder.ts';
import { folder } from '../fw.ts';
import { begin, linesOf, reached } from './batching.ts';
import { keyOf, MODEL, served, serveProcess, simulated } from './serving.ts';

const FILE_ID = `file-${'a'.repeat(24)}`;
const BATCH_ID = `batch_${'0'.repeat(32)}`;

const modeOf = (path: string): number => lstatSync(path).mode & 0o777;
const openTo = (root: string): string[] =>
  ['', ...readdirSync(root, { recursive: true, encoding: 'utf8' })].filter(
    name => (modeOf(join(root, name)) & 0o077) !== 0,
  );

test('with no umask at all, nothing that a server keeps is open to others', async () => {
  const data = join(folder(), 'data');
  mkdirSync(data, { mode: 0o777 });
  chmodSync(data, 0o777);
  const key = keyOf(data, 'alice');
  const { url: endpoint } = await simulated();
  const { child, url } = await serveProcess(['--data', data, '--endpoint', endpoint], 'umask 0');
  const openai = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 });
  const { id } = await begin(openai, linesOf(3));
  await openai.chat.completions.create({ model: MODEL, messages: [{ role: 'user', content: 'x' }] });
  await reached(openai, id, ({ status }) => status === 'completed');
  child.kill('SIGTERM');
  await once(child, 'exit');
  expect(readdirSync(data).sort()).toEqual(
    expect.arrayContaining(['batches', 'files', 'gateway', 'keys.json']),
  );
  expect(openTo(data)).toEqual([]);
});

type Plant = (path: string, outside: string) => void;
const pipe: Plant = path => void spawnSync('mkfifo', [path]);
const inPlace: Plant = path => mkdirSync(path);
const device: Plant = path => symlinkSync('/dev/zero', path);
const link: Plant = (path, outside) => symlinkSync(outside, path);

/** A folder with something in it, and a file outside that nobody is to touch. */
function planted(name: string, plant: Plant) {
  const root = folder();
  const [data, outside] = [join(root, 'data'), join(root, 'outside')];
  writeFileSync(outside, 'as it was');
  mkdirSync(join(data, dirname(name)), { recursive: true });
  plant(join(data, name), outside);
  return { data, outside, isUntouched: () => readFileSync(outside, 'utf8') === 'as it was' };
}

const PLANTS: [string, Plant][] = [
  ['a pipe', pipe],
  ['a folder', inPlace],
  ['a device', device],
  ['a link to a file outside', link],
];

test.each(PLANTS)('keys.json is %s: the server starts, says so, and no key is valid', async (_, plant) => {
  const { data, isUntouched } = planted('keys.json', plant);
  const { said, url } = await served({ data });
  expect(said.join('\n')).toMatch(/keys\.json: expected (the keys of fw keys|\{"keys)/);
  expect((await fetch(`${url}/v1/files`, { headers: { authorization: 'Bearer fw_x' } })).status).toBe(401);
  expect(isUntouched()).toBe(true);
});

test.each(PLANTS)(
  'what the endpoints had learned is %s: it is left out, or replaced, and nothing outside is',
  async (_, plant) => {
    const { data, isUntouched } = planted('endpoints.json', plant);
    const { said, stop } = await served({ data });
    await stop();
    expect(said.join('\n')).toMatch(/endpoints\.json is ignored/);
    expect(isUntouched()).toBe(true);
  },
);

test.each(PLANTS)(
  'the time that was kept is %s: it is replaced, and nothing outside is',
  async (_, plant) => {
    const { data, isUntouched } = planted('clock.json', plant);
    const { stop } = await served({ data });
    await stop();
    expect(isUntouched()).toBe(true);
  },
);

test.each(
  [`files/${FILE_ID}.json`, `batches/${BATCH_ID}/state.json`, 'loras.json', 'webhooks/evt_x.json'].flatMap(
    name => [pipe, inPlace, device].map(plant => [name, plant] as const),
  ),
)('%s is no file: the start ends at once, or leaves it out', async (name, plant) => {
  const { data, isUntouched } = planted(name, plant);
  const started = await served({ data }).catch((error: Error) => error);
  if (started instanceof Error) expect(started.message).toMatch(/EINVAL|EISDIR/);
  expect(isUntouched()).toBe(true);
});

test('keys that are written in the place of a link leave the file behind it as it was', () => {
  const { data, outside } = planted('keys.json', link);
  writeFileSync(outside, '{"keys":[]}');
  keyOf(data, 'alice');
  expect(readKeys(data)).toHaveLength(1);
  expect(lstatSync(join(data, 'keys.json')).isFile()).toBe(true);
  expect(modeOf(join(data, 'keys.json'))).toBe(0o600);
  expect(readFileSync(outside, 'utf8')).toBe('{"keys":[]}');
});

test.each([link, device, pipe].map(plant => [plant.name, plant] as const))(
  'lines of a batch, of a plan and of a part are written to files of their own where a %s has the name',
  async (_, plant) => {
    const { data, isUntouched } = planted('output', plant);
    const out = linesInto(
      { output: join(data, 'output'), error: join(data, 'error') },
      { tally: newTally(), isFresh: () => false },
      () => null,
      () => {},
    );
    await out.end();
    const spool = planted('spool', plant);
    const planner = newPlanner(join(spool.data, 'spool'));
    planner.add(Buffer.from('{"id":"secret"}\n'));
    const { folder: work } = planner.finish(() => join(spool.data, 'work'));
    const parts = planted('parts/w.0.0/lines.ndjson', plant);
    const kept = await openFolder(parts.data, OPEN);
    kept.putLines({ work: 'w', root: 0, part: 0 }, Buffer.from('secret\n'));
    kept.close();
    const written = [
      join(data, 'output'),
      join(work, 'lines.jsonl'),
      join(parts.data, 'parts/w.0.0/lines.ndjson'),
    ];
    expect(written.map(path => [lstatSync(path).isFile(), modeOf(path)])).toEqual(
      written.map(() => [true, 0o600]),
    );
    expect([isUntouched(), spool.isUntouched(), parts.isUntouched()]).toEqual([true, true, true]);
  },
);

const OPEN = { say: () => {}, onLost: () => {}, signal: new AbortController().signal };

test('the folder of a worker is closed to others, and a result that is no file is forgotten', async () => {
  for (const [, plant] of PLANTS.slice(0, 3)) {
    const { data } = planted('parts/w.0.0/result.ndjson', plant);
    chmodSync(data, 0o777);
    const kept = await openFolder(data, OPEN);
    expect(modeOf(data)).toBe(0o700);
    expect(kept.unsent()).toEqual([]);
    expect(readdirSync(join(data, 'parts'))).toEqual([]);
    kept.close();
  }
});

test.each(PLANTS)('a manifest that is %s is none', (_, plant) => {
  const { data } = planted('manifest.json', plant);
  expect(() => readPlan(data)).toThrow();
});
