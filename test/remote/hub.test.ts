/** Files of the Hugging Face hub, and of the web: redirections, tokens, revisions, and servers that give no parts. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { newAsking } from '../../engine/core/remote/exchange.ts';
import { expandRemote } from '../../engine/core/remote/listing.ts';
import { openRemote } from '../../engine/core/remote/reading.ts';
import { folder } from '../fw.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A server of its own; `asked` are the requests, in order. */
async function serve(answer: Answer) {
  const asked: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    asked.push(request);
    answer(request, response);
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

const COMMIT = 'c'.repeat(40);
const BYTES = randomBytes(200_000);

/** Bytes with ranges; every second answer is cut after `cut` bytes. */
function bytesWithRanges(cut?: number): Answer {
  let count = 0;
  return ({ headers }, response) => {
    const from = Number(/^bytes=(\d+)-/.exec(headers.range ?? '')?.[1] ?? 0);
    const body = BYTES.subarray(from);
    response.writeHead(headers.range ? 206 : 200, {
      etag: '"v1"',
      'content-length': body.length,
      ...(headers.range && { 'content-range': `bytes ${from}-${BYTES.length - 1}/${BYTES.length}` }),
    });
    count += 1;
    if (cut === undefined || count % 2 === 0) response.end(body);
    else response.write(body.subarray(0, cut), () => response.destroy());
  };
}

async function whole(path: string, env: Record<string, string> = {}): Promise<Buffer> {
  const asking = { ...newAsking({ HOME: '/nowhere', ...env }), wait: async () => {} };
  const flow = openRemote(path, asking).flow();
  const pieces: Buffer[] = [];
  for (let block = await flow.block(null); block !== null; block = await flow.block(null)) pieces.push(block);
  return Buffer.concat(pieces);
}

test('a file of a data set: by the hub to another host, which never sees the token, and at one commit', async () => {
  const cdn = await serve(bytesWithRanges(50_000));
  const hub = await serve((_request, response) =>
    response.writeHead(302, { location: `${cdn.url}/blob?key=s3cr3t`, 'x-repo-commit': COMMIT }).end(),
  );
  const env = { HF_ENDPOINT: hub.url, HF_TOKEN: 'hf_token' };
  expect((await whole('hf://datasets/o/n/data/é 1.csv', env)).equals(BYTES)).toBe(true);
  expect(hub.asked.map(({ url }) => url)).toEqual(
    ['main', COMMIT].map(at => `/datasets/o/n/resolve/${at}/data/%C3%A9%201.csv`),
  );
  expect(hub.asked.map(({ headers }) => headers.authorization)).toEqual([
    'Bearer hf_token',
    'Bearer hf_token',
  ]);
  expect(cdn.asked.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined]);
});

test('a revision is named behind an @, and the token may be in the file that a login writes', async () => {
  const hub = await serve(bytesWithRanges());
  const home = folder();
  mkdirSync(join(home, '.cache', 'huggingface'), { recursive: true });
  writeFileSync(join(home, '.cache', 'huggingface', 'token'), 'hf_file\n');
  await whole('hf://datasets/o/n@refs%2Fconvert%2Fparquet/x.parquet', { HF_ENDPOINT: hub.url, HOME: home });
  expect(hub.asked[0]?.url).toBe('/datasets/o/n/resolve/refs%2Fconvert%2Fparquet/x.parquet');
  expect(hub.asked[0]?.headers.authorization).toBe('Bearer hf_file');
});

test('a pattern is the files that fit it, over pages; the next page of another host gets no token', async () => {
  const page = (paths: string[]) => JSON.stringify(paths.map(path => ({ type: 'file', path, size: 1 })));
  const other = await serve((_request, response) => response.end(page(['data/c.parquet'])));
  const hub = await serve((_request, response) =>
    response
      .writeHead(200, { link: `<${other.url}/next>; rel="next"` })
      .end(page(['data/b.parquet', 'data/a.csv', 'data/x/d.parquet'])),
  );
  const env = { HOME: '/nowhere', HF_ENDPOINT: hub.url, HF_TOKEN: 'hf_token' };
  expect(await expandRemote('hf://datasets/o/n/data/*.parquet', newAsking(env))).toEqual(
    ['b', 'c'].map(name => `hf://datasets/o/n/data/${name}.parquet`),
  );
  expect(hub.asked[0]?.url).toBe('/api/datasets/o/n/tree/main/data?recursive=true');
  expect(hub.asked[0]?.headers.authorization).toBe('Bearer hf_token');
  expect(other.asked[0]?.headers.authorization).toBeUndefined();
});

test.each([
  [
    401,
    'RepoNotFound',
    'there is no such data set, or it is private: set HF_TOKEN to a token that may read it',
  ],
  [403, 'GatedRepo', 'accept the conditions at http'],
  [404, 'EntryNotFound', 'the data set has no such file'],
  [404, 'RevisionNotFound', 'there is no such branch, tag or commit'],
])('the hub says %i %s', async (status, code, message) => {
  const hub = await serve((_request, response) => response.writeHead(status, { 'x-error-code': code }).end());
  await expect(whole('hf://datasets/o/n/x.csv', { HF_ENDPOINT: hub.url })).rejects.toThrow(message);
  expect(hub.asked).toHaveLength(1);
});

test('of a link that was signed no message has the key, and no other host the password', async () => {
  const other = await serve((_request, response) => response.writeHead(403).end());
  const web = await serve((_request, response) =>
    response.writeHead(302, { location: `${other.url}/there` }).end(),
  );
  const link = `${web.url.replace('//', '//user:pass@')}/data.csv?X-Amz-Signature=s3cr3t`;
  const error = (await whole(link).catch(thrown => thrown)) as Error;
  expect(error.message).toBe(
    `${web.url}/data.csv: expected to read it, found status 403: it is not for everybody, or the link has run out; sign it again`,
  );
  expect(web.asked[0]?.headers.authorization).toMatch(/^Basic /);
  expect(other.asked[0]?.headers.authorization).toBeUndefined();
});

test('a server without ranges is read over from its beginning, as long as it shows that the file is the same', async () => {
  let etag: string | null = '"v1"';
  let count = 0;
  const web = await serve((_request, response) => {
    response.writeHead(200, { ...(etag && { etag }), 'content-length': BYTES.length });
    count += 1;
    if (count % 2 === 0) response.end(BYTES);
    else response.write(BYTES.subarray(0, 90_000), () => response.destroy());
  });
  expect((await whole(`${web.url}/a.csv`)).equals(BYTES)).toBe(true);
  etag = null;
  await expect(whole(`${web.url}/a.csv`)).rejects.toThrow('does not tell whether the file is still the same');
});

test('more redirections than ten, and one that leads nowhere, end it', async () => {
  const web = await serve(({ url }, response) =>
    response.writeHead(302, { location: url === '/a' ? 'file:///etc/passwd' : '/loop' }).end(),
  );
  await expect(whole(`${web.url}/a`)).rejects.toThrow('found file:');
  await expect(whole(`${web.url}/loop`)).rejects.toThrow('found more than 10 redirections');
});
