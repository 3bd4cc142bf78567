/** The first look at a Redis: what is wrong with it, or with its URL, is said in plain words, and never with the password. */
import { spawnSync } from 'node:child_process';
import { createServer as createHttp } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openPointers } from '../../products/workers/part-queue.ts';
import { slow } from '../all.ts';
import { freePort } from '../free-port.ts';
import { folder } from '../fw.ts';
import { childFile, startChild } from './children.ts';
import { QUEUE } from './queue-name.ts';
import { nothingOnConsole, offer, pointersOf, taken, takerOf } from './queueing.ts';
import { startRedis, withRedis } from './redis.ts';

const PASSWORD = 'p/w:@geheim#1';
const SECRET = encodeURIComponent(PASSWORD);

nothingOnConsole();

/** The words of the refusal, with its exit code before them. */
async function refusal(url: string): Promise<string> {
  try {
    const pointers = await openPointers({ url, prefix: 'fw', say: () => {} });
    await pointers.close();
  } catch (error) {
    const { exit, message } = error as Error & { exit: number };
    expect(message).not.toContain('geheim');
    return `${exit} ${message}`;
  }
  throw new Error('expected a refusal, found an open queue');
}

async function listening(server: Server): Promise<number> {
  onTestFinished(() => void server.close());
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

test.each([
  ['127.0.0.1:6379', /one that cannot be parsed: it must begin with redis:/],
  ['localhost:6379', /found localhost:/],
  ['http://127.0.0.1:6379', /found http:/],
  ['redis://:p/w@geheim:6379', /one that cannot be parsed: .* in a password as %2F/],
  ['redis://h:99999', /one that cannot be parsed/],
  ['redis:///0', /found no host/],
  ['redis://h/geheim', /found something other than a database number after the host/],
  ['redis://h:6379/0?family=6', /leave out \? and #/],
  ['redis://:100%@h:6379/0', /write % as %25/],
])('a URL that is none: %s', async (url, words) => {
  const said = await refusal(url);
  expect(said).toMatch(/^64 expected a Redis URL, such as redis:/);
  expect(said).toMatch(words);
});

describe('nobody is there', () => {
  test('nothing listens', async () => {
    const port = await freePort();
    expect(await refusal(`redis://:${SECRET}@127.0.0.1:${port}/1`)).toBe(
      `69 expected a Redis at 127.0.0.1:${port}, found none: nothing listens there\nstart it, or correct the URL`,
    );
    expect(await refusal('redis://no-such-host.invalid')).toMatch(/^69 .* there is no such host \(E/);
  });

  test('something else listens', async () => {
    const port = await listening(createHttp((_, response) => response.end()));
    expect(await refusal(`redis://:${SECRET}@127.0.0.1:${port}`)).toMatch(
      /^69 .* what answers there is no Redis/,
    );
    const rude = await listening(createServer(socket => socket.destroy()));
    expect(await refusal(`redis://127.0.0.1:${rude}`)).toMatch(/^69 .* where it wants TLS, write rediss:/);
  });

  slow('something listens and says nothing', async () => {
    const port = await listening(createServer(() => {}));
    expect(await refusal(`redis://127.0.0.1:${port}`)).toMatch(/^69 .* found none: it does not answer\n/);
    expect(await refusal(`rediss://127.0.0.1:${port}`)).toMatch(
      /^69 .* where it speaks no TLS, write redis:/,
    );
  });
});

withRedis('passwords and users', async () => {
  const { port, url, cli } = await startRedis({ args: ['--requirepass', PASSWORD] });
  const at = `127.0.0.1:${port}`;
  expect(await refusal(url)).toBe(
    `64 Redis at ${at} wants a password, found none in the URL: redis://:PASSWORD@${at}`,
  );
  expect(await refusal(`redis://:geheim@${at}`)).toMatch(
    /^64 .* expected the right user and password in the URL, found: WRONGPASS/,
  );
  const user = ['~fw:*', '+@all', '-info', '-@admin'];
  cli('--no-auth-warning', '-a', PASSWORD, 'acl', 'setuser', 'worker', 'on', `>${PASSWORD}`, ...user);
  expect(await refusal(`redis://worker:geheim@${at}`)).toMatch(/WRONGPASS/);
  cli(
    '--no-auth-warning',
    '-a',
    PASSWORD,
    'acl',
    'setuser',
    'narrow',
    'on',
    `>${PASSWORD}`,
    '+ping',
    '+select',
    '+info',
  );
  expect(await refusal(`redis://narrow:${SECRET}@${at}`)).toMatch(
    /^64 .* refuses scripts, which a queue is made of: NOPERM/,
  );
  const pointers = await pointersOf(`redis://:${SECRET}@${at}/3`);
  const taker = await takerOf(`redis://worker:${SECRET}@${at}/3`); // one that may not ask INFO
  await pointers.add(QUEUE, [offer(0)]);
  await (await taken(taker)).done();
  expect(cli('--no-auth-warning', '-a', PASSWORD, '-n', '3', 'exists', `fw:${QUEUE}:meta`)).toBe('1');
  expect([...pointers.said, ...taker.said]).toEqual([]);
});

withRedis('a password that nobody asked for', async () => {
  const { port } = await startRedis();
  const { said, add } = await pointersOf(`redis://:${SECRET}@127.0.0.1:${port}`);
  await add(QUEUE, [offer(0)]);
  expect(said).toEqual([`Redis at 127.0.0.1:${port} needs no password: the one in the URL is ignored`]);
});

withRedis('a Redis that will not do, and one that forgets', async () => {
  const replica = await startRedis({ args: ['--replicaof', '127.0.0.1', `${await freePort()}`] });
  expect(await refusal(replica.url)).toMatch(/^64 .* is a replica, which takes no writes/);
  const cluster = await startRedis({ args: ['--cluster-enabled', 'yes'] });
  expect(await refusal(cluster.url)).toMatch(/^64 .* is part of a cluster/);
  expect(await refusal(`${replica.url}/99`)).toMatch(
    /^64 .* refuses database 99: ERR DB index is out of range/,
  );
  const { url } = await startRedis({ args: ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'] });
  const { said } = await pointersOf(url);
  expect(said).toEqual([expect.stringMatching(/\(maxmemory-policy allkeys-lru\).* set it to noeviction$/)]);
});

withRedis('a full Redis refuses pointers, and the coordinator hears it', async () => {
  const { url, cli } = await startRedis();
  const pointers = await pointersOf(url);
  cli('config', 'set', 'maxmemory', '1');
  await expect(pointers.add(QUEUE, [offer(0)])).rejects.toThrow(/^OOM/);
  cli('config', 'set', 'maxmemory', '0');
  await pointers.add(QUEUE, [offer(0)]);
});

const hasOpenssl = spawnSync('openssl', ['version']).error === undefined;
(hasOpenssl ? withRedis : test.skip)('TLS', async () => {
  const at = folder();
  const [key, cert] = [join(at, 'key.pem'), join(at, 'cert.pem')];
  const request = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const subject = ['-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  spawnSync('openssl', [...request, '-keyout', key, '-out', cert, ...subject]);
  const port = await freePort();
  const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert];
  const redis = await startRedis({ args: ['--tls-port', `${port}`, ...files, '--tls-auth-clients', 'no'] });
  expect(await refusal(`rediss://localhost:${port}`)).toMatch(
    /^69 .* its certificate is not trusted \(DEPTH_ZERO_SELF_SIGNED_CERT\): name a file .* NODE_EXTRA_CA_CERTS/,
  );
  expect(await refusal(`redis://localhost:${port}`)).toMatch(/^69 .* where it wants TLS, write rediss:/);
  await (await pointersOf(redis.url)).add(QUEUE, [offer(0)]);
  const env = { NODE_EXTRA_CA_CERTS: cert };
  const child = await startChild(childFile(), 'ours', {
    url: `rediss://localhost:${port}`,
    lock: 60_000,
    env,
  });
  await child.says('has w-0-0');
});
