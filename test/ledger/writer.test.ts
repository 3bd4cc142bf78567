/** Appending: who is told, when, and what a disk that fails leaves behind. The disk fails on command. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test, vi } from 'vitest';
import { createWriter, type Fsync, nameOf } from '../../engine/asking/ledger/writer.ts';
import type { Fatal } from '../../engine/core/item/failure.ts';
import { folder } from '../fw.ts';

/** What the next calls of the system do: write at most so many bytes at a time, and fail from some byte or sync on. */
const disk = vi.hoisted(() => ({
  atOnce: Number.POSITIVE_INFINITY,
  room: Number.POSITIVE_INFINITY,
  failing: '' as '' | 'fdatasyncSync' | 'fdatasync' | 'fsyncSync' | 'openSync',
  code: 'EIO',
  writes: 0,
  syncs: 0,
  synced: [] as (() => void)[],
  holdsSyncs: false,
}));

vi.mock('node:fs', async original => {
  const fs = await original<typeof import('node:fs')>();
  const refuse = (call: string) =>
    Object.assign(new Error(`${disk.code}: ${call}`), { code: disk.code, syscall: call });
  const failing =
    <A extends unknown[], R>(name: typeof disk.failing, work: (...args: A) => R) =>
    (...args: A): R => {
      if (name.startsWith('fdatasync')) disk.syncs += 1;
      if (disk.failing === name) throw refuse(name);
      return work(...args);
    };
  return {
    ...fs,
    openSync: failing('openSync', fs.openSync),
    fsyncSync: failing('fsyncSync', fs.fsyncSync),
    fdatasyncSync: failing('fdatasyncSync', fs.fdatasyncSync),
    fdatasync: (file: number, done: (error: Error | null) => void) => {
      disk.syncs += 1;
      const end = (): void =>
        disk.failing === 'fdatasync' ? done(refuse('fdatasync')) : fs.fdatasync(file, done);
      if (disk.holdsSyncs) disk.synced.push(end);
      else setImmediate(end);
    },
    writeSync: (file: number, bytes: Buffer, at: number, length: number) => {
      disk.writes += 1;
      if (disk.room === 0) throw refuse('write');
      const taken = fs.writeSync(file, bytes, at, Math.min(length, disk.atOnce, disk.room));
      disk.room -= taken;
      return taken;
    },
  };
});

beforeEach(() => {
  const forever = Number.POSITIVE_INFINITY;
  Object.assign(disk, {
    atOnce: forever,
    room: forever,
    failing: '',
    code: 'EIO',
    writes: 0,
    syncs: 0,
    holdsSyncs: false,
  });
});

function writing(fsync: Fsync = 'never') {
  const path = join(folder(), 'deep', 'down', 'l.ndjson');
  const broken: Fatal[] = [];
  const writer = createWriter({
    path,
    fsync,
    head: () => ['{"a":1'],
    onBroken: error => void broken.push(error),
  });
  /** Resolves to what who appends is told, with what is in the file by then. */
  const append = (line: string) =>
    new Promise<{ error: Fatal | undefined; file: string }>(resolve => {
      writer.append(line, error =>
        resolve({ error: error ?? undefined, file: existsSync(path) ? readFileSync(path, 'utf8') : '' }),
      );
    });
  return { path, broken, writer, append };
}

const linesIn = (text: string): string[] =>
  text
    .split('\n')
    .slice(0, -1)
    .map(line => `${line.slice(0, line.lastIndexOf(',"crc"'))}}`);

test('nothing is made before there is something to write, and then the head comes first', async () => {
  const { path, writer, append } = writing();
  expect(existsSync(path)).toBe(false);
  const { error, file } = await append('{"b":2');
  expect(error).toBe(undefined);
  expect(linesIn(file)).toEqual(['{"a":1}', '{"b":2}']);
  await writer.close();
  expect(readFileSync(path, 'utf8')).toBe(file);
});

test('what comes in one turn goes out in one write, and all are told once it is there', async () => {
  const { append, writer } = writing();
  const told = await Promise.all(Array.from({ length: 500 }, (_, n) => append(`{"n":${n}`)));
  expect(disk.writes).toBe(1);
  for (const { error, file } of told) {
    expect(error).toBe(undefined);
    expect(linesIn(file)).toHaveLength(501);
  }
  await append('{"n":500');
  expect(disk.writes).toBe(2);
  await writer.close();
});

test('lines beyond a write of 1 MiB go out at once', async () => {
  const { append, writer } = writing();
  const long = `{"t":${JSON.stringify('é'.repeat(300_000))}`;
  const told = await Promise.all([append(long), append(long), append(long), append('{"n":1')]);
  expect(disk.writes).toBe(2);
  expect(linesIn(told.at(-1)!.file)).toEqual(['{"a":1}', `${long}}`, `${long}}`, `${long}}`, '{"n":1}']);
  await writer.close();
});

test('a disk that takes a few bytes at a time is given the rest', async () => {
  disk.atOnce = 7;
  const { append, writer } = writing();
  const { error, file } = await append('{"b":"é\ud83d\ude00"');
  expect(error).toBe(undefined);
  expect(linesIn(file)).toEqual(['{"a":1}', '{"b":"é\ud83d\ude00"}']);
  await writer.close();
});

test.each(['ENOSPC', 'EIO', 'EDQUOT'])(
  '%s in the middle of a line: nobody is told that it is there, and nothing is written behind it',
  async code => {
    const { path, broken, append, writer } = writing();
    const before = (await append('{"b":2')).file;
    Object.assign(disk, { room: 40, code });
    const told = await Promise.all([append('{"c":3'), append('{"d":4')]);
    for (const { error } of told) {
      expect(error).toMatchObject({ exit: 74, message: expect.stringContaining(code) });
      expect(error?.message).toContain('run the same command again');
    }
    expect(broken).toEqual([told[0]!.error]);
    disk.room = Number.POSITIVE_INFINITY; // the disk has room again, too late
    const { writes } = disk;
    expect((await append('{"e":5')).error).toBe(broken[0]);
    await writer.close();
    expect(disk.writes).toBe(writes);
    const after = readFileSync(path, 'utf8');
    expect(after.startsWith(before)).toBe(true);
    expect(after.length).toBe(before.length + 40);
    expect(broken).toHaveLength(1);
  },
);

test('a folder that cannot be made or synced breaks the first write', async () => {
  for (const failing of ['openSync', 'fsyncSync'] as const) {
    const { broken, append, writer } = writing();
    disk.failing = failing;
    expect((await append('{"b":2')).error).toBe(broken[0]);
    expect(broken[0]?.exit).toBe(74);
    await writer.close();
    disk.failing = '';
  }
});

test.each(['EINVAL', 'EPERM', 'ENOTSUP'])(
  'a file system that does not sync folders (%s) will do',
  async code => {
    const { broken, append, writer } = writing();
    Object.assign(disk, { failing: 'fsyncSync', code });
    expect((await append('{"b":2')).error).toBe(undefined);
    await writer.close();
    expect(broken).toEqual([]);
  },
);

test('--fsync always syncs before anybody is told; what could not be synced is not used', async () => {
  const { broken, append, writer } = writing('always');
  await append('{"b":2');
  expect(disk.syncs).toBe(1);
  await Promise.all([append('{"c":3'), append('{"d":4')]);
  expect(disk.syncs).toBe(2);
  disk.failing = 'fdatasyncSync';
  expect((await append('{"e":5')).error).toBe(broken[0]);
  expect(broken[0]?.exit).toBe(74);
  await writer.close();
});

test('--fsync never leaves it to the system', async () => {
  const { append, writer } = writing('never');
  await append('{"b":2');
  await writer.close();
  expect(disk.syncs).toBe(0);
});

test('a sync that fails behind breaks the ledger, as does the last one', async () => {
  const behind = writing(0);
  disk.failing = 'fdatasync';
  await behind.append('{"b":2');
  await expect.poll(() => behind.broken.length).toBeGreaterThan(0);
  expect((await behind.append('{"c":3')).error).toBe(behind.broken[0]);
  await behind.writer.close();
  expect(behind.broken).toHaveLength(1);

  const last = writing(60_000);
  await last.append('{"b":2');
  disk.failing = 'fdatasyncSync';
  await last.writer.close();
  expect(last.broken).toMatchObject([{ exit: 74 }]);
});

test('a sync that is under way when the ledger is closed is waited for, and so is its error', async () => {
  disk.holdsSyncs = true;
  const { broken, append, writer } = writing(0);
  await append('{"b":2');
  await expect.poll(() => disk.synced.length).toBeGreaterThan(0);
  const closing = writer.close();
  disk.failing = 'fdatasync';
  disk.synced.shift()?.();
  await closing;
  expect(broken).toMatchObject([{ exit: 74 }]);
});

test('what comes after the end is told so, and makes no file', async () => {
  const { path, append, writer } = writing();
  await writer.close();
  await writer.close();
  expect((await append('{"b":2')).error?.exit).toBe(74);
  expect(existsSync(path)).toBe(false);
});

test('a file that is there already is not written to', async () => {
  const first = writing();
  await first.append('{"b":2');
  await first.writer.close();
  const broken: Fatal[] = [];
  const again = createWriter({
    path: first.path,
    fsync: 'never',
    head: () => [],
    onBroken: error => void broken.push(error),
  });
  const error = await new Promise(resolve => again.append('{"c":3', resolve));
  expect(error).toBe(broken[0]);
  expect(linesIn(readFileSync(first.path, 'utf8'))).toEqual(['{"a":1}', '{"b":2}']);
});

test('names sort by start, and two runs of one moment have two', () => {
  const at = (time: string) => nameOf('L', new Date(time));
  expect(at('2026-01-02T03:04:05.678Z')).toMatch(
    /^L\/2026-01-02\/030405678-[\w.-]+-\d+-[0-9a-f]{6}\.ndjson$/,
  );
  expect(at('2026-01-02T03:04:05.678Z')).not.toBe(at('2026-01-02T03:04:05.678Z'));
  const times = [
    '2025-12-31T23:59:59.999Z',
    '2026-01-01T00:00:00.000Z',
    '2026-01-01T00:00:00.001Z',
    '2026-10-01T00:00:00.000Z',
  ];
  expect(
    times
      .map(at)
      .sort()
      .map(name => name.slice(2, 22)),
  ).toEqual(times.map(time => at(time).slice(2, 22)));
});

test('the folders above it are made as they are needed', async () => {
  const { path, append, writer } = writing();
  await append('{"b":2');
  await writer.close();
  expect(readdirSync(join(path, '..'))).toEqual(['l.ndjson']);
});
