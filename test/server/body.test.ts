/** Senders that are slow, or never end: given up after a time that a test's clock can jump over. */
import { existsSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, expect, test, vi } from 'vitest';
import { excessOf, readBody } from '../../products/serve/http-body.ts';
import { takeUpload } from '../../products/serve/uploads.ts';
import { folder, until } from '../fw.ts';

afterEach(() => void vi.useRealTimers());

const LOOK = 30_000;
const sending = (headers: Record<string, string> = {}): PassThrough & IncomingMessage =>
  Object.assign(new PassThrough(), { headers, complete: false }) as unknown as PassThrough & IncomingMessage;

test('a body that stops coming, or drips, is given up', async () => {
  vi.useFakeTimers();
  const request = sending();
  const read = readBody(request, 1 << 20).catch(error => error.status);
  for (let looks = 0; looks < 4; looks++) {
    request.write(Buffer.alloc(2000));
    await vi.advanceTimersByTimeAsync(LOOK);
  }
  request.write('{"a":');
  await vi.advanceTimersByTimeAsync(LOOK);
  expect(await read).toBe(408);
});

test('a body that is longer than it says, or than is taken, is given up', async () => {
  const request = sending();
  const read = readBody(request, 1000).catch(error => error.status);
  request.write(Buffer.alloc(600));
  request.write(Buffer.alloc(600));
  expect(await read).toBe(413);
  expect(
    await readBody(sending({ 'content-length': '10000000000' }), 1000).catch(error => error.status),
  ).toBe(413);
});

test('an upload that drips is given up, and leaves nothing', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const request = sending({ 'content-type': 'multipart/form-data; boundary=x' });
  const path = join(folder(), 'spool');
  const taken = takeUpload(request, path, { file: 1 << 20, form: 1 << 16 }).catch(error => error.status);
  request.write('--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nabc');
  await until(dirname(path), () => existsSync(path));
  await vi.advanceTimersByTimeAsync(LOOK);
  await vi.advanceTimersByTimeAsync(LOOK);
  expect(await taken).toBe(408);
  expect(existsSync(path)).toBe(false);
});

test('levels, objects and keys are counted outside of strings', () => {
  const deep = (levels: number) => `${'['.repeat(levels)}"${'['.repeat(500)}\\"["${']'.repeat(levels)}`;
  const lists = (count: number) => `[${'[],'.repeat(count - 2)}[]]`;
  const keys = (count: number) => `{${'"a:[":0,'.repeat(count - 1)}"b":0}`;
  const isFine = (text: string) => excessOf(Buffer.from(text)) === null;
  expect([64, 65].map(count => isFine(deep(count)))).toEqual([true, false]);
  expect([100_000, 100_001].map(count => isFine(lists(count)))).toEqual([true, false]);
  expect([200_000, 200_001].map(count => isFine(keys(count)))).toEqual([true, false]);
});
