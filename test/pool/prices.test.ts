/**
 * What servers cost: prices, whom calls go to while some cost nothing, and runs that may spend so much. The seed of the
 * random runs is printed: SEED=… RUNS=1 repeats one.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import {
  moneyOf,
  moneyText,
  moneyWords,
  priceOf,
  timeCost,
  tokenCost,
} from '../../engine/asking/endpoints/price.ts';
import { poolSettings, readPoolFile } from '../../engine/asking/endpoints/settings.ts';
import { openLedger } from '../../engine/asking/ledger/ledger.ts';
import { createPool } from '../../engine/asking/pool/pool.ts';
import { Fatal } from '../../engine/core/item/failure.ts';
import { boundsOf } from '../../engine/running/bounds.ts';
import { runs, slow } from '../all.ts';
import { between, pick, type Random, randomFrom } from '../crash/random.ts';
import { folder, ROOT, shell } from '../fw.ts';
import { fw } from '../here.ts';
import { ASKS } from '../ledger/records.ts';
import { type Ask, callOf, open, outcome, QUICK, serve, until } from './serving.ts';
import { virtual } from './virtual.ts';

const SEED = Number(process.env.SEED ?? Date.now() % 0x7fffffff);

const price = (text: string) => priceOf(text) as NonNullable<ReturnType<typeof priceOf>>;

test('a price is an hour, or tokens in/out, or in/cached/out; sums of it are exact', () => {
  expect(price('2.5')).toMatchObject({ hour: 2_500_000_000n });
  expect(price('0.1/0.4')).toMatchObject({
    hour: null,
    in: 100_000_000n,
    cached: 100_000_000n,
    out: 400_000_000n,
  });
  expect(price('0.15/0.075/0.6')).toMatchObject({ in: 150_000_000n, cached: 75_000_000n, out: 600_000_000n });
  for (const wrong of [
    '',
    '1/',
    '/1',
    '1/2/3/4',
    '-1',
    '1e3',
    '0.1234567891',
    '1 / 2',
    'x',
    '1,5',
    '9'.repeat(70),
  ])
    expect(priceOf(wrong), wrong).toBeNull();
  // 0.1 + 0.2, and ten thousand times that
  let sum = 0n;
  for (let n = 0; n < 10_000; n++) sum += tokenCost(price('0.1/0.2'), { prompt: 1, completion: 1 });
  expect(moneyText(sum, 15)).toBe('0.003000000000000');
  expect(tokenCost(price('1/0/2'), { prompt: 10, completion: 0, cached: 99 })).toBe(0n); // no more than the prompt
  expect(tokenCost(price('1/2'), { prompt: -5, completion: Number.NaN })).toBe(0n);
  expect(moneyWords(timeCost(price('2.4'), 90 * 60_000))).toBe('3.60');
  expect(['5', '0.012345678', '1234.5'].map(text => moneyWords(moneyOf(text) as bigint))).toEqual([
    '5.00',
    '0.012346',
    '1234.50',
  ]);
});

test('a pool file says them, and when the priced ones help; what is none is refused with its place', () => {
  const path = join(folder(), 'pool.yaml');
  const read = (text: string) => {
    writeFileSync(path, text);
    return poolSettings({ pool: readPoolFile(path) }, {});
  };
  const both =
    'endpoints:\n  - http://own/v1\n  - { url: http://far/v1, price: 0.15/0.6 }\n  - { url: http://rent/v1, price: 2.5 }\n';
  const { endpoints, overflow } = read(`${both}overflow: after 10m\n`);
  expect(endpoints.map(one => one.price?.text)).toEqual([undefined, '0.15/0.6', '2.5']);
  expect(overflow).toBe(600_000);
  expect(() => read(both.replace('2.5', 'cheap'))).toThrow(
    /pool\.yaml:4:\d+.*price: expected .*found "cheap"/,
  );
  expect(() => read(`${both}overflow: 10m\n`)).toThrow(/overflow/);
});

const usage = (prompt: number, completion: number, cached = 0) => ({
  usage: {
    prompt_tokens: prompt,
    completion_tokens: completion,
    prompt_tokens_details: { cached_tokens: cached },
  },
});

test('calls go to what costs nothing while it is there, and to the priced one for what only that serves', async () => {
  const own = await serve(ask => ask.answer('own'), { models: ['m'] });
  const far = await serve(ask => ask.answer('far', usage(1, 1)), { models: ['m', 'large'] });
  const endpoints = [
    { url: own.url, limit: 2, pinned: true },
    { url: far.url, limit: 2, pinned: true, price: price('1/2') },
  ];
  const pool = await open(endpoints, { models: ['m', 'large'] });
  expect(new Set(await Promise.all(Array.from({ length: 20 }, () => outcome(pool))))).toEqual(
    new Set(['own']),
  );
  const large = callOf({ model: 'large', body: Buffer.from('{"model":"large","messages":[]}') });
  expect(await outcome(pool, large)).toBe('far');
  await own.close();
  expect(await outcome(pool)).toBe('far');
  expect(pool.stats().spent).toMatchObject({
    cost: 2n * tokenCost(price('1/2'), { prompt: 1, completion: 1 }),
  });
});

test('… and from the time on that overflow says, to both', async () => {
  const after = 4_000;
  const seen: { url: string; at: number }[] = [];
  const { ask, servers, clock } = await virtual({ count: 2 }, ({ servers: [own, far] }) => ({
    endpoints: [
      { url: own?.url as string, limit: 2, pinned: true },
      { url: far?.url as string, limit: 2, pinned: true, price: price('1/2') },
    ],
    overflow: after,
    onAnswer: url => void seen.push({ url, at: clock.now() }),
  }));
  const begun = clock.now();
  await ask(500, { atOnce: 32 });
  const far = seen.filter(({ url }) => url === servers[1]?.url).map(({ at }) => at - begun);
  expect(Math.min(...far)).toBeGreaterThanOrEqual(after);
  expect(far.length).toBeGreaterThan(20);
  expect(far.length).toBeLessThan(seen.length / 2);
});

test('of a server, a call goes to the priced one that has waited so long', async () => {
  const farAnswers = async (atOnce: number): Promise<number> => {
    const { ask, pool } = await virtual({ count: 2 }, ({ servers: [own, far] }) => ({
      endpoints: [
        { url: own?.url as string, limit: 4, pinned: true },
        { url: far?.url as string, limit: 4, pinned: true, price: price('1/2') },
      ],
      overflow: 1_000,
      lasting: true,
    }));
    await ask(200, { atOnce });
    return pool.stats().endpoints[1]?.answered ?? 0;
  };
  expect(await farAnswers(4)).toBe(0); // none has to wait
  expect(await farAnswers(64)).toBeGreaterThan(20);
});

const bounds = (cost: string) => ({
  ...{ cost: moneyOf(cost) as bigint, tokens: null },
  ...{ before: { cost: 0n, tokens: 0 }, isResumable: true },
});

test('a bound of cost leaves those that cost nothing alone, and ends the run for what only priced ones serve', async () => {
  const own = await serve(ask => ask.answer('own'), { models: ['m'] });
  const far = await serve(ask => ask.answer('far', usage(10, 10)), { models: ['m', 'large'] });
  const endpoints = [
    { url: own.url, limit: 2, pinned: true },
    { url: far.url, limit: 2, pinned: true, price: price('1/1') },
  ];
  const models = ['m', 'large'];
  // a call costs 0.00002
  const pool = await open(endpoints, { models, overflow: 0, bounds: bounds('0.00001') });
  const outcomes = await Promise.all(Array.from({ length: 30 }, () => outcome(pool)));
  expect([far.asked, outcomes.filter(text => text === 'own').length, pool.verdict()]).toEqual([
    1,
    29,
    undefined,
  ]);
  const large = callOf({ model: 'large', body: Buffer.from('{"model":"large","messages":[]}') });
  expect(await outcome(pool, large)).toBe('interrupted');
  expect(pool.verdict()).toMatchObject({
    exit: 65,
    message: expect.stringMatching(
      /^expected to spend at most 0\.00001 \(--max-cost\), found 0\.00002 spent\nto go on/,
    ),
  });
  expect(await outcome(pool)).toBe('interrupted');
  // bad answers cost, too, and are in the sums
  const bad = await serve(ask =>
    ask.n === 1 ? ask.answer(null, { ...usage(3, 4), choices: [] }) : ask.answer('far', usage(10, 10)),
  );
  const again = await open([
    { url: bad.url, limit: 2, pinned: true, price: price('1/1') },
  ] as typeof endpoints);
  expect(await outcome(again)).toBe('far');
  expect(again.stats()).toMatchObject({ usage: { prompt: 13, completion: 14 }, spent: { tokens: 27 } });
});

test('an hour of a server is spent while a run has calls there', async () => {
  // one a second
  const { ask, pool } = await virtual({ count: 1 }, ({ servers: [one] }) => ({
    endpoints: [{ url: one?.url as string, limit: 4, pinned: true, price: price('3600') }],
    bounds: bounds('20'),
  }));
  const outcomes = [...(await ask(2_000, { atOnce: 8 })).values()];
  const { spent } = pool.stats();
  // what it had then may finish, which takes some seconds
  expect(Number(moneyText(spent?.cost ?? 0n, 6))).toBeGreaterThanOrEqual(20);
  expect(Number(moneyText(spent?.cost ?? 0n, 6))).toBeLessThan(30);
  expect(outcomes.filter(one => one === 'answered').length).toBeGreaterThan(10);
  expect(outcomes).toContain('interrupted');
  expect(pool.verdict()?.exit).toBe(65);
});

interface Play {
  random: Random;
  /** what the server has said that was used, in money and in tokens, of calls that it has answered */
  cost: bigint;
  tokens: number;
  /** the most that one call may cost, by what is reserved for it */
  most: { cost: bigint; tokens: number };
}

/** Answers in the order that chance says; some tries fail, and some of these have used tokens. */
function playing(play: Play, own: ReturnType<typeof price>) {
  const waiting: (() => void)[] = [];
  function onAsk(ask: Ask): void {
    const { random } = play;
    const body = JSON.parse(ask.body) as { max_tokens: number };
    const prompt = between(random, 1, Math.ceil(ask.body.length / 4));
    const completion = between(random, 0, body.max_tokens);
    const cached = between(random, 0, prompt);
    const bound = { prompt: Math.ceil(ask.body.length / 4), completion: body.max_tokens };
    const cost = tokenCost(own, bound);
    if (cost > play.most.cost) play.most.cost = cost;
    play.most.tokens = Math.max(play.most.tokens, bound.prompt + bound.completion);
    const kind = pick(random, ['ok', 'ok', 'ok', 'ok', 'ok', 'bad', 'full']);
    waiting.push(() => {
      if (kind === 'full') return ask.send(429, {});
      play.cost += tokenCost(own, { prompt, completion, cached });
      play.tokens += prompt + completion;
      // a bad answer: finish_reason is nothing that a completion has
      if (kind === 'bad') return ask.answer(null, { ...usage(prompt, completion, cached), choices: [] });
      return ask.answer('yes', usage(prompt, completion, cached));
    });
    const release = (): void => {
      const [next] = waiting.splice(between(random, 0, waiting.length - 1), 1);
      next?.();
    };
    setImmediate(release);
  }
  return onAsk;
}

const COUNT = runs(6, 100);

test(`${COUNT} random runs with a bound end within it and one call, stopped ones too, and not before`, {
  timeout: 60_000 + COUNT * 2_000,
}, async () => {
  console.log(`${COUNT} runs with a bound, from SEED=${SEED}`);
  const own = price('3/1.5/7');
  let play: Play | null = null;
  const fake = await serve(ask => playing(play as Play, own)(ask));
  const { url } = fake;
  const asked = (): number => fake.asked;
  for (let seed = SEED; seed < SEED + COUNT; seed++) {
    const random = randomFrom(seed);
    play = { random, cost: 0n, tokens: 0, most: { cost: 0n, tokens: 0 } };
    const ledger = join(folder(), 'ledger');
    const bodies = Array.from({ length: between(random, 1, 40) }, (_, n) =>
      JSON.stringify({
        model: 'm',
        messages: [{ role: 'user', content: `${seed} ${n}` }],
        max_tokens: between(random, 1, 60),
      }),
    );
    const calls = bodies.map(body => callOf({ body: Buffer.from(body) }));
    const isTokens = random() < 0.5;
    const most = isTokens ? between(random, 1, 1_500) : between(random, 1, 6_000) / 1e6;
    const flags = isTokens ? { 'max-total-tokens': most } : { 'max-cost': most };
    const endpoints = [{ url, limit: between(random, 1, 8), pinned: true, price: own }];
    const bound = isTokens ? BigInt(most) : (moneyOf(String(most)) as bigint);
    const used = (): bigint => (isTokens ? BigInt((play as Play).tokens) : (play as Play).cost);
    let lost = 0n; // what was at the server when a run was stopped, which nobody has on record
    for (let stops = between(random, 0, 2); ; stops--) {
      const opened = openLedger({
        ...{
          path: ledger,
          fsync: 'never',
          version: '0',
          label: 'x',
          files: [],
          asksWith: ASKS,
          shard: undefined,
        },
        ...{ warn() {}, onBroken() {} },
      });
      const bounds = boundsOf(flags, { endpoints, ledger, warn() {} });
      const pool = await createPool({
        ...{ endpoints, retryBudget: 5, timing: QUICK, warn() {}, ledger: opened, bounds },
      });
      onTestFinished(() => pool.close());
      const results = Promise.all(calls.map(call => outcome(pool, call)));
      if (stops > 0) {
        const ends = between(random, 1, 20);
        await Promise.race([
          results,
          until(() => pool.stats().answered >= ends || pool.stats().inFlight === 0),
        ]);
        const { inFlight } = pool.stats();
        const each = isTokens ? BigInt(play.most.tokens) : play.most.cost;
        lost += BigInt(inFlight) * each;
        pool.abort();
      }
      const outcomes = await results;
      const verdict = pool.verdict();
      await pool.close();
      const told = `SEED=${seed}: ${used()} of ${bound} (${isTokens ? 'tokens' : 'cost'}), ${outcomes.join()}`;
      const each = isTokens ? BigInt(play.most.tokens) : play.most.cost;
      expect(used() < bound + each + lost, told).toBe(true);
      if (stops > 0) continue;
      if (verdict instanceof Fatal) {
        expect(verdict, told).toMatchObject({ exit: 65, message: expect.stringContaining('expected to') });
        expect(used() >= bound, told).toBe(true);
      } else
        expect(
          outcomes.every(one => one !== 'interrupted'),
          told,
        ).toBe(true);
      // the same command again: what it paid counts, so it asks nothing more
      if (verdict !== undefined) {
        const again = boundsOf(flags, { endpoints, ledger, warn() {} });
        const next = await createPool({ endpoints, retryBudget: 5, timing: QUICK, warn() {}, bounds: again });
        const before = asked();
        expect(await outcome(next, calls[0]), told).toBe('interrupted');
        expect([next.verdict()?.exit, asked()], told).toEqual([65, before]);
        await next.close();
      }
      break;
    }
  }
});

test('a run that is killed and started again counts what it paid before; its exit is 65, and a higher bound goes on', async () => {
  const at = folder();
  let sent = 0;
  let hold = true;
  const { url, reached } = await serve(ask => {
    sent += 1;
    if (hold && sent > 10) return ask.ignore();
    ask.answer('yes', usage(100, 100));
  });
  const lines = Array.from({ length: 40 }, (_, n) => ({
    custom_id: `${n}`,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model: 'm', messages: [{ role: 'user', content: `${n}` }], max_tokens: 100 },
  }));
  writeFileSync(join(at, 'in.jsonl'), lines.map(line => `${JSON.stringify(line)}\n`).join(''));
  // a call costs 0.0002, and 20 of them 0.004
  writeFileSync(join(at, 'pool.yaml'), `endpoints:\n  - { url: "${url}", price: 1/1, limit: 2 }\n`);
  const args = ['batch', '-i', 'in.jsonl', '-o', 'out.jsonl', '--pool', 'pool.yaml', '--ledger', 'ledger'];
  const child = spawn(
    process.execPath,
    [join(ROOT, 'dist/bin/fw.js'), ...args, '--max-cost', '0.004', '--fsync', 'always'],
    {
      cwd: at,
      stdio: 'ignore',
    },
  );
  await reached(12);
  child.kill('SIGKILL');
  await once(child, 'close');
  hold = false;
  const before = sent;
  const again = await shell(`fw ${args.join(' ')} --max-cost 0.004`, { cwd: at });
  expect(again.code).toBe(65);
  expect(again.stderr).toMatch(
    /expected to spend at most 0\.004 \(--max-cost\), found 0\.00\d+ spent, 0\.00(?:16|18|2) of it on record before this run/,
  );
  // ten were answered before the kill, and the last ones may not be on record
  expect(sent - before).toBeGreaterThanOrEqual(10);
  expect(sent - before).toBeLessThanOrEqual(12);
  const more = await shell(`fw ${args.join(' ')} --max-cost 1`, { cwd: at });
  expect(more.code, more.stderr).toBe(0);
  expect(more.stderr).toMatch(/cost 0\.00\d+, and 0\.004\d* before it/);
  const cost = await fw('fw ledger cost --ledger ledger --by endpoint --pool pool.yaml --json', { cwd: at });
  expect(JSON.parse(cost.stdout).total).toMatchObject({ answers: 40, in: 4_000, out: 4_000, cost: 0.008 });
});

slow(
  'killed at random again and again: what the server has said is within the bound and what was in flight at each kill',
  { timeout: 600_000 },
  async () => {
    console.log(`kills, from SEED=${SEED}`);
    for (let seed = SEED; seed < SEED + 5; seed++) {
      const random = randomFrom(seed);
      const at = folder();
      let [answered, due] = [0, Number.POSITIVE_INFINITY];
      let kill = (): void => {};
      const { url } = await serve(ask => {
        if (ask.n >= due) kill();
        answered += 1;
        ask.answer('yes', usage(20, 100)); // as much as is reserved
      });
      const calls = between(random, 20, 60);
      const [most, limit] = [between(random, 5, calls), between(random, 1, 8)];
      const line = (n: number) => ({
        custom_id: `${n}`,
        method: 'POST',
        url: '/v1/chat/completions',
        body: { model: 'm', messages: [{ role: 'user', content: `${n}` }], max_tokens: 100 },
      });
      const lines = Array.from({ length: calls }, (_, n) => `${JSON.stringify(line(n))}\n`);
      writeFileSync(join(at, 'in.jsonl'), lines.join(''));
      writeFileSync(
        join(at, 'pool.yaml'),
        `endpoints:\n  - { url: "${url}", price: 0/1, limit: ${limit} }\n`,
      );
      const bound = ['--max-cost', String(most / 10_000), '--fsync', 'always'];
      const args = [
        'batch',
        '-i',
        'in.jsonl',
        '-o',
        'out.jsonl',
        '--pool',
        'pool.yaml',
        '--ledger',
        'ledger',
        ...bound,
      ];
      let kills = 0;
      for (let n = between(random, 1, 3); n >= 0; n--) {
        due = n === 0 ? Number.POSITIVE_INFINITY : answered + between(random, 1, most);
        const child = spawn(process.execPath, [join(ROOT, 'dist/bin/fw.js'), ...args], {
          cwd: at,
          stdio: 'ignore',
        });
        kill = () => void child.kill('SIGKILL');
        const [code, signal] = await once(child, 'close');
        if (signal === 'SIGKILL') kills += 1;
        const told = `SEED=${seed}: ${answered} of ${most}, ${kills} kills, limit ${limit}, exit ${code}`;
        // a kill loses what is in flight, and answers that are not written yet, whose places others have by then
        expect(answered, told).toBeLessThanOrEqual(most + kills * 2 * limit);
        if (signal === null) expect([0, 65], told).toContain(code);
        if (code === 65) expect(answered, told).toBeGreaterThanOrEqual(most);
      }
    }
  },
);

test('what cannot be bounded is refused before anything is asked', async () => {
  const at = folder();
  writeFileSync(join(at, 'in.ndjson'), '{"id":"a","prompt":"x"}\n');
  writeFileSync(join(at, 'free.yaml'), 'endpoints: [http://127.0.0.1:9/v1]\n');
  const ask = (more: string) => fw(`fw chain --ledger l ${more} < in.ndjson`, { cwd: at });
  for (const [more, words] of [
    ['--pool free.yaml --max-cost 1', '--max-cost: expected an endpoint with a price, found none'],
    ['--pool free.yaml --max-cost 0', '--max-cost: expected an amount above 0'],
    ['--pool free.yaml --max-total-tokens 0', '--max-total-tokens: expected a whole number of at least 1'],
  ] as const) {
    const { code, stderr } = await ask(more);
    expect([more, code]).toEqual([more, 64]);
    expect(stderr).toContain(words);
  }
});
