/** The way to an endpoint: what stands in it, and what fw doctor says to do. */
import { createServer } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { causeOf, obstacleOf, unsentFor } from '../../engine/asking/endpoints/endpoint-words.ts';
import { judge } from '../../products/measure/doctor/judge.ts';
import { manualClock } from '../pool/clock.ts';
import { deadUrl } from '../pool/serving.ts';
import { at, expectRow, factsOf, type Play, play, type Row, reportOf, status } from './playing.ts';

const key = { name: '$FW_API_KEY', read: () => 'sk-secret-0123456789' };

function dated(ahead: number): Play {
  return (_, response) => void response.setHeader('date', new Date(Date.now() + ahead).toUTCString());
}
const dateless: Play = (_, response) => {
  response.sendDate = false;
};
function signal() {
  let resolve = (): void => {};
  const promise = new Promise<void>(done => {
    resolve = done;
  });
  return { promise, resolve };
}
const enormous: Play = (_, response) => response.end(Buffer.alloc(17 << 20, 32));

// biome-ignore format: a row a line
const rows: Row[] = [
  ['reachable', 'another server', at('/v1/models', '{"models":[]}'), {}, 'trouble', 'no OpenAI-style list', 'host and port'],
  ['reachable', 'HTML of a proxy', at('/v1/models', '<html>Sign in'), {}, 'trouble', 'HTML page', 'proxy or a login'],
  ['reachable', 'an error', status(/./, 500, '{"detail":"boom"}'), {}, 'trouble', 'HTTP 500 at', 'log'],
  ['reachable', '401', status(/./, 401), {}, 'trouble', 'it wants a key', 'FW_API_KEY'],
  ['reachable', '401 with a key', status(/./, 401), { key }, 'trouble', 'the key of $FW_API_KEY was refused', '--api-key-env'],
  ['reachable', '503', status(/./, 503), {}, 'trouble', 'still loading', '--wait 10m'],
  ['reachable', 'an enormous list', enormous, {}, 'trouble', 'larger than 4 MiB', 'log'],
  ['clock', 'an hour ahead', dated(3_600_000), {}, 'trouble', /^the server's clock is 3(599|600|601) s ahead$/, 'chronyc'],
  ['clock', 'half a minute behind', dated(-30_000), {}, 'note', / (29|30|31) s behind$/, 'timedatectl'],
  ['clock', 'no date', dateless, {}, 'note', 'no Date', ''],
];
test.each(rows)('%s: %s', (...row) => expectRow(row));

test.each([
  ['', 'did you mean'],
  ['/v1/chat/completions', 'did you mean'],
  ['/v2', 'is the path right?'],
])('a URL that ends in "%s"', async (path, words) => {
  const server = await play();
  const { origin } = new URL(server.url);
  const { endpoints, exit } = await reportOf(origin + path);
  expect(exit).toBe(69);
  expect(endpoints[0]?.findings).toHaveLength(1);
  const [finding] = endpoints[0]?.findings ?? [];
  expect(finding).toMatchObject({
    check: 'reachable',
    mark: 'trouble',
    found: expect.stringContaining(words),
  });
  if (words === 'did you mean') expect(finding?.found).toContain(`${origin}/v1?`);
});

test('what is not there, or is something else: each with what to do', async () => {
  const raw = createServer(socket => socket.on('error', () => {}).end('SSH-2.0-OpenSSH\r\n'));
  await new Promise<void>(resolve => raw.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void raw.close());
  const plain = await play();
  const reset = await play((_, response) => response.destroy());
  const one = async (url: string, env: NodeJS.ProcessEnv = {}) =>
    judge([await factsOf(url)], env).endpoints[0]?.findings[0];
  const { port } = raw.address() as { port: number };
  expect(await one(await deadUrl())).toMatchObject({
    found: 'connection refused',
    advice: expect.stringContaining('ss -ltn'),
  });
  expect(await one('http://nowhere.invalid/v1')).toMatchObject({
    found: expect.stringContaining('no such host'),
    advice: 'check the name: getent hosts nowhere.invalid',
  });
  const proxied = await one('http://nowhere.invalid/v1', { https_proxy: 'http://user:pass@p:3128' });
  expect(proxied?.advice).toMatch(/does not use \$https_proxy$/);
  expect(await one(`http://127.0.0.1:${port}/v1`)).toMatchObject({ found: 'the answer is not HTTP' });
  expect(await one(plain.url.replace('http:', 'https:'))).toMatchObject({
    found: expect.stringContaining('did you mean http://'),
    advice: `--endpoint ${plain.url}`,
  });
  expect(await one(reset.url)).toMatchObject({
    found: expect.stringContaining('closed before'),
    advice: expect.stringContaining(reset.url.replace('http:', 'https:')),
  });
});

test('TLS that fails, and every way in which a certificate can', async () => {
  const server = createTlsServer(() => {}); // it has no certificate
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  const report = await reportOf(`https://127.0.0.1:${port}/v1`);
  expect(report.endpoints[0]?.findings).toMatchObject([
    { found: expect.stringContaining('TLS failed'), advice: expect.stringContaining('NODE_EXTRA_CA_CERTS') },
  ]);
  const codes =
    'DEPTH_ZERO_SELF_SIGNED_CERT SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_VERIFY_LEAF_SIGNATURE UNABLE_TO_GET_ISSUER_CERT_LOCALLY CERT_HAS_EXPIRED ERR_TLS_CERT_ALTNAME_INVALID EPROTO';
  for (const code of codes.split(' ')) {
    const error = Object.assign(new Error('x'), { code });
    expect([obstacleOf(error), unsentFor(error)], code).toEqual(['tls', 'no-endpoint']);
    expect(causeOf(error, undefined), code).toContain('TLS failed');
  }
});

test('a path in the URL is kept for everything that is asked', async () => {
  const server = await play(undefined, { root: '/llm/a' });
  const report = await reportOf(server.url);
  expect(report.exit).toBe(0);
  expect(server.asked.filter(line => !line.includes(' /llm/a/'))).toEqual([]);
});

test('a server that never answers costs its time and no more', async () => {
  const clock = manualClock();
  const reached = signal();
  const server = await play((path, response) => {
    response.setHeader('date', new Date(clock.date()).toUTCString());
    if (!path.endsWith('completions')) return undefined;
    reached.resolve();
    return response;
  });
  const examining = reportOf(server.url, { clock, most: 60_000 });
  await reached.promise;
  clock.pass(60_000);
  const { endpoints, exit } = await examining;
  expect(exit).toBe(69);
  expect(endpoints[0]?.findings.filter(({ mark }) => mark === 'trouble')).toMatchObject([
    { check: 'answers', found: 'no answer within 60 s', advice: expect.stringContaining('--timeout') },
  ]);
  expect(server.asked.filter(line => line.startsWith('POST'))).toHaveLength(1);
});

test('a server that stops answering in the middle: what was seen until then is told', async () => {
  const clock = manualClock();
  const reached = signal();
  const server = await play((_, response, body) => {
    if (!body?.seed) return undefined;
    reached.resolve();
    return response;
  });
  const examining = reportOf(server.url, { clock, most: 60_000 });
  await reached.promise;
  clock.pass(60_000);
  const { endpoints } = await examining;
  const marks = Object.fromEntries(endpoints[0]?.findings.map(({ check, mark }) => [check, mark]) ?? []);
  expect(marks).toMatchObject({ answers: 'trouble', 'guided decoding': 'ok' });
  expect(Object.keys(marks)).not.toContain('seed');
  expect(Object.keys(marks)).not.toContain('prefix cache');
  expect(Object.keys(marks)).not.toContain('speed');
});

test('a key that goes over http to another machine is said', async () => {
  const facts = await factsOf((await play()).url);
  const told = (url: string, named: typeof key | undefined) =>
    judge(
      [{ ...facts, key: named, setting: { url, limit: 1, pinned: false } }],
      {},
    ).endpoints[0]?.findings.some(({ check }) => check === 'key');
  expect(told('http://gpu1:8005/v1', key)).toBe(true);
  expect(told('http://gpu1:8005/v1', undefined)).toBe(false);
  expect(told('https://gpu1:8005/v1', key)).toBe(false);
  expect(told('http://[::1]:8005/v1', key)).toBe(false);
});
