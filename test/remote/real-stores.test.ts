/** What real stores and hubs do that a careful stub does not: each of these went wrong before it was tried on one. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { addressOf } from '../../engine/core/remote/address.ts';
import { newAsking, pauseOf } from '../../engine/core/remote/exchange.ts';
import { expandRemote } from '../../engine/core/remote/listing.ts';
import { openRemote } from '../../engine/core/remote/reading.ts';
import { between } from '../../engine/core/remote/s3.ts';
import { beginUpload, sizeOfPart } from '../../engine/core/remote/upload.ts';
import { countRows } from '../../engine/tables/selection.ts';
import { type Stub, stubS3 } from './stub-s3.ts';

let stub: Stub;
beforeAll(async () => {
  stub = await stubS3();
});
afterAll(() => stub.close());
beforeEach(() => {
  stub.objects.clear();
  stub.uploads.clear();
  stub.asked.length = 0;
  stub.fault = () => null;
});

const asking = (env: Record<string, string> = {}, stall = 60_000) => ({
  ...newAsking({ HOME: '/nowhere', ...stub.env, ...env }),
  wait: async () => {},
  stall,
});

async function whole(address: string, env?: Record<string, string>): Promise<string> {
  const flow = openRemote(address, asking(env)).flow();
  let text = '';
  for (let block = await flow.block(null); block !== null; block = await flow.block(null)) text += block;
  return text;
}

async function write(key: string, text: string, how = asking()): Promise<string[]> {
  const upload = await beginUpload(`s3://bucket/${key}`, how);
  upload.put(Buffer.from(text));
  return upload.complete();
}

async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a bucket of another region is found there, to read and to write, and the settings stay for others', async () => {
  stub.objects.set('k', Buffer.from('x'));
  expect(await whole('s3://bucket/k', { AWS_REGION: 'us-west-2' })).toBe('x');
  await write('k2', 'y', asking({ AWS_REGION: 'us-west-2' }));
  expect(String(stub.objects.get('k2'))).toBe('y');
  // a store that never agrees is not followed for ever
  let asked = 0;
  const url = await serve((_request, response) =>
    response.writeHead(400, { 'x-amz-bucket-region': `there-${++asked}` }).end(),
  );
  await expect(whole('s3://bucket/k', { AWS_ENDPOINT_URL: url })).rejects.toThrow(
    'another region; set AWS_REGION=there-2',
  );
  expect(asked).toBe(2);
});

test('a store that is busy when it is asked for the old object does not cost it', async () => {
  stub.objects.set('k', Buffer.from('the longer one'));
  let busy = 2;
  stub.fault = ({ method }) => (method === 'HEAD' && busy-- > 0 ? { status: 503 } : null);
  expect(await write('k', 'short')).toEqual([expect.stringContaining('the old one is s3://bucket/k.before')]);
  expect(String(stub.objects.get('k.before'))).toBe('the longer one');
});

test('a store that knows its own ETag no more, as Swift of objects in parts, still keeps the old one', async () => {
  stub.objects.set('k', Buffer.from('the longer one'));
  stub.fault = ({ headers }) =>
    headers['x-amz-copy-source-if-match'] ? { status: 412, code: 'PreconditionFailed' } : null;
  expect(await write('k', 'short')).toEqual([expect.stringContaining('the old one is s3://bucket/k.before')]);
  expect(String(stub.objects.get('k.before'))).toBe('the longer one');
});

test('an answer that does not tell whether there is an old object ends it, and the old one stays', async () => {
  stub.objects.set('k', Buffer.from('the longer one'));
  stub.fault = ({ method }) => (method === 'HEAD' ? { status: 400 } : null);
  await expect(write('k', 'short')).rejects.toThrow('expected to look for an old object, found status 400');
  expect([String(stub.objects.get('k')), stub.uploads.size]).toEqual(['the longer one', 0]);
});

test('a range that comes in pieces, and one hub that is asked too often, still give all bytes', async () => {
  let asked = 0;
  const url = await serve(({ headers }, response) => {
    const from = Number(/^bytes=(\d+)-/.exec(headers.range ?? '')?.[1] ?? 0);
    asked += 1;
    if (asked % 3 === 1) return response.writeHead(429, { ratelimit: '"api";r=0;t=300' }).end();
    const to = Math.min(10, from + 3);
    const range = { 'content-range': `bytes ${from}-${to - 1}/10`, etag: '"e"', 'content-length': to - from };
    response.writeHead(206, range).end('0123456789'.slice(from, to));
  });
  const waits: number[] = [];
  const how = { ...asking(), wait: async (ms: number) => void waits.push(ms) };
  expect(String(await openRemote(`${url}/a`, how).part(0, 10))).toBe('0123456789');
  expect(waits).toContain(300_000);
});

test('an old object beyond 5 GB, which one request cannot copy, is copied in parts', async () => {
  const size = 6_000_000_000;
  const ranges: string[] = [];
  let completed = '';
  const url = await serve(({ method, url = '', headers }, response) => {
    const range = headers['x-amz-copy-source-range'];
    if (method === 'HEAD')
      return url.endsWith('before')
        ? response.writeHead(404).end()
        : response.writeHead(200, { 'content-length': size, etag: '"old"' }).end();
    if (range !== undefined) {
      ranges.push(`${range} ${headers['x-amz-copy-source-if-match']}`);
      return response.end(`<CopyPartResult><ETag>&quot;p${ranges.length}&quot;</ETag></CopyPartResult>`);
    }
    if (method === 'POST' && url.includes('uploads')) return response.end('<UploadId>u</UploadId>');
    if (method === 'POST' && url.includes('before')) completed = url;
    response.writeHead(200, { etag: '"e"' }).end('<ok/>');
  });
  const said = await write('k', 'short', asking({ AWS_ENDPOINT_URL: url }));
  expect(said).toEqual([expect.stringContaining('had 6,000,000,000 bytes and has 5 now')]);
  expect(ranges).toHaveLength(6);
  expect(ranges[0]).toBe('bytes=0-1073741823 "old"');
  expect(ranges[5]).toBe('bytes=5368709120-5999999999 "old"');
  expect(completed).toBe('/bucket/k.before?uploadId=u');
});

test.each([
  ['at once', 4_000_000_000],
  ['in parts', 6_000_000_000],
])('a store that copies %s, and is silent meanwhile, has as long as its copy is long', async (_, size) => {
  let silent = 0;
  const copies: string[] = [];
  const url = await serve(async ({ method, url = '', headers }, response) => {
    if (url.includes('list-type'))
      return silent++ === 0 ? undefined : void response.end('<ListBucketResult></ListBucketResult>');
    if (method === 'HEAD')
      return url.endsWith('before')
        ? response.writeHead(404).end()
        : response.writeHead(200, { 'content-length': size, etag: '"old"' }).end();
    if (headers['x-amz-copy-source'] !== undefined) {
      copies.push(url);
      // what is asked behind it is given up, and asked again, before the copy is there
      if (copies.length === 1) await expandRemote('s3://bucket/zz*', how).catch(() => {});
      return response.end('<CopyResult><ETag>&quot;e&quot;</ETag></CopyResult>');
    }
    if (method === 'POST' && url.includes('uploads')) return response.end('<UploadId>u</UploadId>');
    response.writeHead(200, { etag: '"e"' }).end('<ok/>');
  });
  const how = asking({ AWS_ENDPOINT_URL: url }, 300);
  expect(await write('k', 'short', how)).toEqual([expect.stringContaining('the old one is s3://')]);
  expect(silent).toBeGreaterThan(1);
  expect(new Set(copies).size).toBe(copies.length);
});

test('uploads of the same key that a killed run has left are told, and none of another key', async () => {
  for (const key of ['k', 'k', 'kk']) await beginUpload(`s3://bucket/${key}`, asking());
  expect(await write('k', 'x')).toEqual([
    expect.stringMatching(
      /^the store has 2 unfinished uploads of s3:\/\/bucket\/k, the first begun 2026-01-02T/,
    ),
  ]);
  expect(stub.uploads.size).toBe(3);
});

test('a completion that is answered with 200 and an error is tried again', async () => {
  let left = 2;
  stub.fault = ({ line }) =>
    line === 'POST k?uploadId' && left-- > 0 ? { status: 200, code: 'InternalError' } : null;
  await write('k', 'x');
  expect([String(stub.objects.get('k')), left]).toEqual(['x', -1]);
});

test('a list whose body never comes is asked for again', async () => {
  stub.objects.set('a1', Buffer.from('x'));
  let asked = 0;
  stub.fault = () => (asked++ === 0 ? { silentAfter: 5 } : null);
  expect(await expandRemote('s3://bucket/a*', asking({}, 300))).toEqual(['s3://bucket/a1']);
});

test('keys are what a list says, encoded or not', async () => {
  const url = await serve((_request, response) =>
    response.end('<ListBucketResult><Contents><Key>a+b%20&amp;&#x27;c</Key></Contents></ListBucketResult>'),
  );
  expect(await expandRemote('s3://bucket/a*', asking({ AWS_ENDPOINT_URL: url }))).toEqual([
    "s3://bucket/a+b%20&'c",
  ]);
  expect(between('<Key>&#x1F600;&#233;&lt;</Key>', 'Key')).toBe('😀é<');
});

test('a server may ask to wait: by seconds, by a date, as the hub does, and not for ever', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  expect(pauseOf({ 'retry-after': '300' }, now)).toBe(300_000);
  expect(pauseOf({ 'retry-after': 'Thu, 01 Jan 2026 00:01:00 GMT' }, now)).toBe(60_000);
  expect(pauseOf({ ratelimit: '"api";r=0;t=55' }, now)).toBe(55_000);
  expect([
    pauseOf({}, now),
    pauseOf({ 'retry-after': '86400' }, now),
    pauseOf({ 'retry-after': 'soon' }, now),
  ]).toEqual([0, 0, 0]);
});

test('a page of the hub that has folders alone is not the last one', async () => {
  const hub = await serve(({ url }, response) => {
    if (url?.includes('cursor')) return response.end('[{"type":"file","path":"d/a.csv"}]');
    response.writeHead(200, { link: '</api/next?cursor=1>; rel="next"' });
    response.end('[{"type":"directory","path":"d"}]');
  });
  expect(await expandRemote('hf://datasets/o/n/**', asking({ HF_ENDPOINT: hub }))).toEqual([
    'hf://datasets/o/n/d/a.csv',
  ]);
});

test.each([
  ['@refs/convert/parquet/default/train/0000.parquet', 'refs/convert/parquet', 'default/train/0000.parquet'],
  ['@~parquet/default/x.parquet', 'refs/convert/parquet', 'default/x.parquet'],
  ['@refs/pr/7/x.csv', 'refs/pr/7', 'x.csv'],
  ['@refs%2Fpr%2F7/x.csv', 'refs/pr/7', 'x.csv'],
  ['@v1/refs/pr/7', 'v1', 'refs/pr/7'],
])('revisions as the own client of the hub takes them: %s', (text, revision, path) => {
  expect(addressOf(`hf://datasets/o/n${text}`)).toMatchObject({ dataset: 'o/n', revision, path });
});

test('bytes in an encoding that nobody unpacks are refused, not read as lines', async () => {
  const url = await serve((_request, response) =>
    response.writeHead(200, { 'content-encoding': 'br' }).end('x'),
  );
  await expect(whole(`${url}/a.csv`)).rejects.toThrow('found the Content-Encoding br');
});

test('the total of files elsewhere is counted where that is cheap', async () => {
  for (const [name, value] of Object.entries({ ...stub.env, HOME: '/nowhere' })) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  const counting = { maxLine: 1 << 20, signal: new AbortController().signal };
  stub.objects.set('a.csv', Buffer.from('id,b\n1,"x\ny"\n2,z\n'));
  stub.objects.set('b.ndjson', Buffer.from('{"id":"a"}\n\n{"id":"b"}\n{"id":"c"}'));
  stub.objects.set(
    'c.parquet',
    Buffer.from(parquetWriteBuffer({ columnData: [{ name: 'id', data: ['a', 'b'], type: 'STRING' }] })),
  );
  const files = ['s3://bucket/a.csv', 's3://bucket/c.parquet'];
  expect(await countRows(files, counting)).toBe(4);
  expect(await countRows(['s3://bucket/b.ndjson'], { ...counting, format: 'lines' })).toBe(3);
  expect(await countRows(['s3://bucket/none.csv'], counting)).toBeNull();
  const large = await serve((_request, response) =>
    response.writeHead(200, { 'content-length': 2 ** 30 }).write('id\n'),
  );
  expect(await countRows([`${large}/a.csv`], counting)).toBeNull();
});

test('where a store wants parts of equal size, they are', () => {
  expect(new Set([1, 5000, 10_000].map(part => sizeOfPart(part, true))).size).toBe(1);
});
