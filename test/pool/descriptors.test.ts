/** A low `ulimit -n`: a run finishes with fewer calls at a time or says at once what it needs, and pays for nothing twice. */
import { expect, test } from 'vitest';
import { type OpenWire, openWire } from '../../engine/asking/endpoints/wire.ts';
import { descriptors, limitOf, readersOf, socketsOf } from '../../engine/core/files/process.ts';
import { every } from '../all.ts';
import { folder, shell } from '../fw.ts';
import { makeAgents } from '../ledger/reading.ts';
import { callOf, type Fake, nonceIn, open, outcome, serve } from './serving.ts';

const ITEMS = 150;
const stdin = Array.from({ length: ITEMS }, (_, n) => `{"id":"i${n}","prompt":"${n}"}\n`).join('');

/** Answers late enough that as many calls are under way as may be. */
const late = (): Promise<Fake> =>
  serve(ask => void setTimeout(() => ask.answer(JSON.stringify({ says: nonceIn(ask.body) })), 20));

test.each(
  every(5, [
    [64, 1, true],
    [64, 1, false],
    [64, 8, true],
    [256, 3, true],
    [256, 8, false],
  ] as const),
)('ulimit -n %i, %i endpoints, a ledger: %s', async (limit, count, hasLedger) => {
  const at = folder();
  const agents = makeAgents(at);
  const fakes = await Promise.all(Array.from({ length: count }, late));
  const flags = fakes.map(({ url }) => `--endpoint ${url}`).join(' ');
  const line = `fw chain --agents ${agents} --in-flight 400 ${hasLedger ? '--ledger led' : ''} ${flags}`;
  const ran = await shell(`ulimit -n ${limit}; ${line}`, { cwd: at, stdin });
  expect(ran.code, ran.stderr).toBe(0);
  expect(ran.stdout.trim().split('\n')).toHaveLength(ITEMS);
  expect(ran.stderr).toMatch(
    /at most \d+ calls at a time, because this process may have only \d+ files open/,
  );
  expect(ran.stderr).not.toContain('is down');
  const most = Number(/at most (\d+) calls/.exec(ran.stderr)?.[1]);
  expect(most).toBeLessThan(limit);
  // a call at the most is under way beyond it: one that looks whether a server is there
  for (const { maxInFlight } of fakes) expect(maxInFlight).toBeLessThanOrEqual(most);
  expect(fakes.reduce((sum, { asked }) => sum + asked, 0)).toBe(2 * ITEMS);
  if (!hasLedger) return;
  const again = await shell(`ulimit -n ${limit}; ${line}`, { cwd: at, stdin });
  expect(again.stderr).toContain(`0 calls + ${2 * ITEMS} replayed`);
});

test('too few for any run: said at once, with the limit that is needed, and nothing is asked', async () => {
  const at = folder();
  const agents = makeAgents(at);
  const fake = await late();
  const line = `fw chain --agents ${agents} --ledger led --endpoint ${fake.url}`;
  // at the lower one not even all of fw can be loaded
  for (const limit of [24, 30]) {
    const ran = await shell(`ulimit -n ${limit}; ${line}`, { cwd: at, stdin });
    expect([ran.code, ran.stderr]).toEqual([74, expect.stringContaining('ulimit -n 1024')]);
    expect(ran.stderr).not.toMatch(/^ +at /m);
  }
  expect(fake.asked).toBe(0);
});

test('a descriptor that is not there is no fault of an endpoint, and costs the call nothing', async () => {
  const error = (): Error => Object.assign(new Error('connect EMFILE'), { code: 'EMFILE' });
  const fake = await late();
  let failures = 0;
  // every third exchange fails as it is opened
  const openFailing: OpenWire = (origin, authorization) => {
    const wire = openWire(origin, authorization);
    let sent = 0;
    return {
      send(request, settle) {
        if (request.method === 'GET' || ++sent % 3 !== 0) return wire.send(request, settle);
        failures++;
        setImmediate(settle, error());
        return { received: null, overrun: null, abort: () => {} };
      },
      close: () => wire.close(),
    };
  };
  const pool = await open([fake.url], { openWire: openFailing });
  const calls = Array.from({ length: 100 }, () => callOf());
  const answers = await Promise.all(calls.map(call => outcome(pool, call)));
  expect(answers).toEqual(calls.map(({ item }) => JSON.stringify({ says: item })));
  expect(failures).toBeGreaterThan(10);
  const { endpoints, retries } = pool.stats();
  expect(endpoints[0]).toMatchObject({ state: 'up', failed: {} });
  expect(retries).toBe(0);
  expect(fake.asked).toBe(100);
  expect(pool.warnings).toEqual([]);
});

test('the simulator and the demo, which has both ends of each connection, keep what they need beside those', async () => {
  const at = folder();
  const line =
    '(ulimit -n 64; exec fw simulate --port 0 --latency 20ms --model m > url) & SERVER=$!; until [ -s url ]; do sleep 0.1; done';
  const schema = { type: 'object', properties: { a: { type: 'string', pattern: '^[a-z]{3}$' } } };
  const response_format = { type: 'json_schema', json_schema: { name: 's', schema } };
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }], response_format });
  // more at once than it may have open: those beyond are reset, and it lives
  const flood = `import('node:http').then(({ request }) => {
    const { url } = JSON.parse(require('node:fs').readFileSync('url', 'utf8'));
    for (let n = 0; n < 200; n++)
      request(url + '/chat/completions', { method: 'POST', agent: false }, r => r.resume()).on('error', () => {}).end(process.argv[1]);
  })`;
  const env = { FLOOD: flood, BODY: body };
  const flooded = await shell(`${line}; node -e "$FLOOD" "$BODY"; kill $SERVER && echo alive`, {
    cwd: at,
    env,
  });
  expect([flooded.stdout.trim(), flooded.stderr]).toEqual([
    'alive',
    expect.not.stringContaining('Assertion'),
  ]);
  const demo = await shell('ulimit -n 64; fw demo', { cwd: at });
  expect([demo.code, demo.stderr]).toEqual([0, expect.not.stringContaining('reset')]);
});

test('where nothing at all can be opened, the run ends with 74', async () => {
  const fake = await late();
  const none: OpenWire = (origin, authorization) => {
    const wire = openWire(origin, authorization);
    return {
      send(request, settle) {
        if (request.method === 'GET') return wire.send(request, settle);
        setImmediate(settle, Object.assign(new Error('connect EMFILE'), { code: 'EMFILE' }));
        return { received: null, overrun: null, abort: () => {} };
      },
      close: () => wire.close(),
    };
  };
  const pool = await open([fake.url], { openWire: none });
  expect(await outcome(pool)).toBe('interrupted');
  expect(pool.verdict()).toMatchObject({ exit: 74, message: expect.stringContaining('ulimit -n') });
});

test('the limit is read as the system says it', () => {
  const text = (soft: string): string =>
    `Max processes   1 2 processes\nMax open files            ${soft}  4096   files     \n`;
  expect(limitOf(text('256'))).toBe(256);
  expect(limitOf(text('unlimited'))).toBe(Number.POSITIVE_INFINITY);
  expect(limitOf('')).toBe(undefined);
  expect(descriptors().limit).toBeGreaterThan(0);
  expect(descriptors().open).toBeGreaterThan(3);
});

test('at every limit all parts fit below it, or the run is refused', () => {
  for (let limit = 1; limit <= 5_000; limit++) {
    try {
      const most = socketsOf({ limit, open: 22 });
      expect(most).toBeGreaterThan(0);
      expect(22 + most + readersOf({ limit, open: 22 })).toBeLessThan(limit);
    } catch (error) {
      expect(limit, String(error)).toBeLessThan(60);
      expect(error).toMatchObject({ exit: 74 });
    }
  }
  expect(socketsOf({ limit: Number.POSITIVE_INFINITY, open: 22 })).toBe(Number.POSITIVE_INFINITY);
});
