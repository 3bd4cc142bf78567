/** What comes back for a call: answers, retries elsewhere, refusals, timeouts. Real sockets, scripted servers. */
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { manualClock } from './clock.ts';
import { type Ask, callOf, echo, errorOf, open, outcome, QUICK, serve, until } from './serving.ts';

test('an answer, with its usage; the key travels in the header only', async () => {
  const key = { name: '$FW_API_KEY', read: () => 'sk-secret' };
  const seen: (string | undefined)[] = [];
  const fake = await serve(ask => {
    seen.push(ask.headers.authorization, ask.headers['content-type']);
    ask.answer('hi', {
      usage: { prompt_tokens: 7, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 4 } },
    });
  });
  const pool = await open([fake.url], { key });
  expect(await pool.call(callOf())).toEqual({
    text: 'hi',
    finish: 'stop',
    usage: { prompt: 7, completion: 2, cached: 4 },
    replayed: false,
  });
  expect(seen).toEqual(['Bearer sk-secret', 'application/json']);
  const stats = pool.stats();
  expect(stats).toMatchObject({ calls: 1, answered: 1, failed: {}, inFlight: 0, waiting: 0 });
  expect(stats.usage).toEqual({ prompt: 7, completion: 2, cached: 4 });
  expect(stats.endpoints[0]?.medianLatency).toBeGreaterThan(0);
  expect(inspect(pool, { depth: 9 }) + JSON.stringify(stats)).not.toContain('sk-secret');
});

test.each([400, 401, 403, 404, 405, 413, 422, 501, 301])(
  'HTTP %i of the only endpoint is a refusal at once, in the words of the server',
  async status => {
    const key = { name: '$FW_API_KEY', read: () => 'sk-secret' };
    let refusing = true;
    const fake = await serve(ask =>
      refusing ? ask.send(status, { error: { message: `no ${ask.n} for sk-secret` } }) : echo(ask),
    );
    const pool = await open([fake.url], { key });
    for (let n = 1; n <= 3; n++) expect(await outcome(pool)).toBe('call-refused');
    expect(pool.stats().retries).toBe(0);
    expect(pool.warnings).toHaveLength(1);
    expect(pool.warnings[0]).toContain(`HTTP ${status}`);
    expect(pool.warnings[0]).toContain('no 1 for ***');
    expect(pool.stats().failed).toEqual({ 'call-refused': 3 });
    refusing = false;
    expect(await outcome(pool)).toMatch(/^item-/);
    expect(pool.verdict()).toBe(undefined);
  },
);

test('a prompt that does not fit is told with the numbers, and says nothing against the run', async () => {
  const words =
    "This model's maximum context length is 4096 tokens. However, your request has 5120 input tokens.";
  const fake = await serve(ask =>
    ask.send(400, { error: { message: words, type: 'BadRequestError', code: 400 } }),
  );
  const pool = await open([fake.url]);
  const error = await errorOf(pool.call(callOf()));
  expect(error).toMatchObject({ code: 'prompt-too-long' });
  expect(error.message).toContain('5120 input tokens');
  expect(error.message).toContain('the model takes 4096 tokens');
  expect(fake.asked).toBe(1);
  expect(pool.verdict()).toBe(undefined);
});

test.each([
  ['what another endpoint answered', 20_000, 'a'],
  ['the total timeout, where nobody has answered such a call', 600_000, 'b'],
])(
  'no answer in time, by %s: dropped so that the server sees it, and asked elsewhere',
  async (_, limit, agent) => {
    const clock = manualClock();
    const [silent, good] = [await serve(() => {}), await serve(echo)];
    const pool = await open([silent.url, good.url], { clock, timing: {} });
    const known = callOf();
    const calls = Array.from({ length: 4 }, () => callOf({ agent }));
    const answers = [outcome(pool, known), ...calls.map(call => outcome(pool, call))];
    await until(() => pool.stats().answered + silent.inFlight === 5);
    const here = silent.inFlight;
    expect(here).toBeGreaterThan(0);
    clock.pass(limit - 1_000);
    expect(pool.stats().endpoints[0]?.inFlight).toBe(here);
    clock.pass(1_500);
    await silent.dropped(here);
    await until(() => pool.stats().endpoints[0]?.inFlight === 0);
    clock.pass(1_000);
    expect(await Promise.all(answers)).toEqual([known, ...calls].map(({ item }) => item));
    expect(pool.stats().endpoints[0]?.failed).toEqual({ timeout: here });
  },
);

test('once the latency is known, the wait is 30 s; six of them are a timeout of the call', async () => {
  const clock = manualClock();
  let silent = false;
  const fake = await serve(ask => {
    if (!silent) echo(ask);
  });
  const pool = await open([fake.url], { clock, timing: {} });
  for (let i = 0; i < 20; i++) await outcome(pool);
  silent = true;
  const failing = errorOf(pool.call(callOf()));
  for (let n = 1; n <= 6; n++) {
    await fake.reached(20 + n);
    expect(fake.asked).toBe(20 + n);
    clock.pass(30_500);
    await fake.dropped(n);
    await until(() => pool.stats().inFlight === 0);
    clock.pass(20_000);
  }
  const error = await failing;
  expect(error).toMatchObject({ code: 'call-timeout' });
  expect(error.message).toContain('no answer within 30 s');
});

test('a process that stood still does not take that for a silence of the servers', async () => {
  const clock = manualClock();
  const asks: Ask[] = [];
  const fake = await serve(ask => void asks.push(ask));
  const pool = await open([fake.url], { clock, timing: {} });
  const call = callOf();
  const answer = outcome(pool, call);
  await fake.reached(1);
  clock.pass(3_600_000, 3_600_000);
  echo(asks[0] as Ask);
  expect(await answer).toBe(call.item);
  expect(fake.asked).toBe(1);
});

test('retries are bounded over the run by a floor and a share of the calls', async () => {
  // an answer now and then: where nobody is answered, it is not the calls that fail
  const fake = await serve(ask => (ask.n % 8 === 0 ? echo(ask) : ask.send(500, {})));
  const pool = await open([{ url: fake.url, limit: 64 }], {
    retryBudget: 0.5,
    timing: { ...QUICK, tick: 1 },
  });
  const codes = await Promise.all(Array.from({ length: 200 }, () => outcome(pool)));
  expect(new Set(codes.filter(code => !code.startsWith('item-')))).toEqual(new Set(['call-failed']));
  // 200 first tries, and 256 + 0.5 x 200 retries
  expect(fake.asked).toBe(200 + 256 + 100);
  const further = await Promise.all(
    Array.from({ length: 3 }, () => pool.call(callOf()).catch(error => error)),
  );
  const spent = further.map(one => (one as Error).message).filter(message => message !== undefined);
  for (const message of spent) expect(message).toContain('are spent');
  expect(spent.length).toBeGreaterThan(0);
});
