/** What changes while a server runs: by /admin/config, by a schedule, on a clock that the test moves. */
import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { presetNamed } from '../../products/simulator/presets.ts';
import simulate from '../../products/simulator/simulate-command.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../products/simulator/simulator.ts';
import { folder } from '../fw.ts';
import { manualClock } from '../pool/clock.ts';
import { bodyOf, completion, contentOf, post } from './loan.ts';

const running: Simulator[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map(simulator => simulator.close()));
});

async function start(options: SimulatorOptions = {}) {
  const clock = manualClock();
  const simulator = await startSimulator({ clock, ...options });
  running.push(simulator);
  const root = simulator.url.slice(0, -'/v1'.length);
  const statusOf = async (path: string) =>
    (await fetch(root + path).catch(() => undefined))?.status ?? 'refused';
  const configure = async (change: unknown) => {
    const response = await post(root, JSON.stringify(change), '/admin/config');
    return { status: response.status, said: (await response.json()) as { error: { message: string } } };
  };
  return { simulator, url: simulator.url, root, clock, statusOf, configure };
}

describe('/admin/config', () => {
  test('is not there unless asked for', async () => {
    const { statusOf, configure } = await start();
    expect(await statusOf('/admin/config')).toBe(404);
    expect((await configure({ faults: '500=1' })).status).toBe(404);
  });

  test('changes what is named and nothing else, at once', async () => {
    const { url, root, configure } = await start({ admin: true, faults: 'fence=1' });
    const shown = { latency: '0ms', slowdown: 1, faults: 'fence=1', health: 'ok' };
    expect(await (await fetch(`${root}/admin/config`)).json()).toEqual({
      ...shown,
      max_num_queued_reqs: null,
      max_num_queued_tokens: null,
    });
    expect(await contentOf(url, bodyOf())).toMatch(/^```/);
    expect((await configure({ faults: '500=1', max_num_queued_reqs: 9 })).said).toMatchObject({
      ...shown,
      faults: '500=1',
      max_num_queued_reqs: 9,
    });
    expect((await post(url, bodyOf())).status).toBe(500);
    await configure({ max_num_queued_reqs: 0 });
    // a limit is looked at before the request is
    expect((await post(url, bodyOf({ turn: 1 }))).status).toBe(503);
    await configure({ faults: 'none', max_num_queued_reqs: null });
    expect(await contentOf(url, bodyOf())).toMatch(/^\{/);
  });

  test.each([
    [{}, /found: it must NOT have fewer than 1 properties/],
    [{ fault: '500=1' }, /\(fault\)/],
    [{ slowdown: 0 }, /\/slowdown must be >= 0.01/],
    [{ health: 'ill' }, /\/health must be equal to one of/],
    [{ faults: '500=1', latency: 'fast' }, /found "fast"/],
    [{ faults: 'rain=1' }, /found "rain"/],
    [{ health: 'down' }, /expected `for` with health down/],
    [{ slowdown: 2, for: 'ever' }, /found "ever"/],
    [[], /one JSON object/],
  ])('%j is refused, and changes nothing', async (change, message) => {
    const { root, configure } = await start({ admin: true });
    const before = await (await fetch(`${root}/admin/config`)).json();
    const { status, said } = await configure(change);
    expect([status, said.error.message]).toEqual([400, expect.stringMatching(message)]);
    expect(await (await fetch(`${root}/admin/config`)).json()).toEqual(before);
  });

  /** As a program sends it, and not fetch, which names a Host of its own. */
  const send = (url: string, method: string, headers: Record<string, string>, body = '') =>
    new Promise<number>((resolve, reject) => {
      const asked = request(url, { method, headers }, response => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      asked.on('error', reject).end(body);
    });
  const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' };
  const HOSTS: [host: string, isOurs: boolean][] = [
    ['127.0.0.1:8101', true],
    ['10.1.2.3', true],
    ['[::1]:8101', true],
    ['localhost:80', true],
    ['LOCALHOST', true],
    [`${hostname()}:8101`, true],
    ['evil.example:8101', false],
    ['127.0.0.1.evil.example', false],
    ['localhost.evil.example', false],
    ['[::1].evil.example', false],
    ['evil.example#127.0.0.1', false],
    ['127.0.0.1@evil.example', false],
    ['a'.repeat(280), false],
  ];

  test.each(HOSTS)('Host %s: %s', async (host, isOurs) => {
    const { root } = await start({ admin: true });
    const change = '{"slowdown":2}';
    expect(await send(`${root}/admin/config`, 'GET', { host })).toBe(isOurs ? 200 : 403);
    expect(await send(`${root}/admin/config`, 'POST', { ...JSON_TYPE, host }, change)).toBe(
      isOurs ? 200 : 403,
    );
    // what is served to clients goes by any name
    expect(await send(`${root}/v1/models`, 'GET', { host })).toBe(200);
  });

  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'text/plain;application/json',
    '',
  ])('a change that comes as %j, which a form can send, is refused', async type => {
    const { root, simulator } = await start({ admin: true });
    expect(
      await send(`${root}/admin/config`, 'POST', type ? { 'content-type': type } : {}, '{"faults":"500=1"}'),
    ).toBe(415);
    expect(await contentOf(simulator.url, bodyOf())).toMatch(/^\{/);
  });

  test('for some time only', async () => {
    const { url, clock, configure } = await start({ admin: true, faults: 'fence=1' });
    await configure({ faults: 'none', for: '5s' });
    clock.pass(4_000);
    expect(await contentOf(url, bodyOf())).toMatch(/^\{/);
    clock.pass(1_000);
    expect(await contentOf(url, bodyOf())).toMatch(/^```/);
  });

  test('times that overlap: the latest holds, and what is over is over', async () => {
    const { clock, statusOf, configure } = await start({
      schedule: [
        { at: '1s', health: 'dead', for: '2s' },
        { at: '2s', health: 'starting', for: '2s' },
        { at: '10s', every: '5s', health: 'dead', for: '8s' },
      ],
      admin: true,
    });
    const seen: unknown[] = [];
    for (let second = 0; second < 10; second++) {
      seen.push([await statusOf('/health'), await statusOf('/v1/models')]);
      clock.pass(1_000, 250);
    }
    const [ok, dead, starting] = [
      [200, 200],
      [503, 200],
      [503, 503],
    ];
    expect(seen).toEqual([ok, dead, starting, starting, ok, ok, ok, ok, ok, ok]);
    // again and again before it is over: until 8 s after the last time, and what is set meanwhile ends it
    clock.pass(30_000, 250);
    expect(await statusOf('/health')).toBe(503);
    await configure({ health: 'ok' });
    expect(await statusOf('/health')).toBe(200);
    clock.pass(4_000, 250);
    expect(await statusOf('/health')).toBe(200);
  });

  test('a latency is drawn anew, a slowdown stretches it; what is under way stays as it is', async () => {
    const { simulator, url, clock, configure } = await start({ admin: true, latency: '100ms' });
    const until = async (answers: number) => {
      while (simulator.counts().answers < answers) await new Promise(setImmediate);
    };
    const inFlight = async (count: number) => {
      while (simulator.counts().inFlight < count) await new Promise(setImmediate);
    };
    const asked = [completion(url, bodyOf({ turn: 0 }))];
    await inFlight(1);
    await configure({ latency: '1s' });
    asked.push(completion(url, bodyOf({ turn: 1 })));
    await inFlight(2);
    await configure({ slowdown: 3 });
    asked.push(completion(url, bodyOf({ turn: 2 })));
    await inFlight(3);
    for (const [ms, answers] of [
      [99, 0],
      [1, 1],
      [899, 1],
      [1, 2],
      [1_999, 2],
      [1, 3],
    ] as const) {
      clock.pass(ms, 1);
      await until(answers);
      expect(simulator.counts().answers).toBe(answers);
    }
    await Promise.all(asked);
  });
});

describe('health', () => {
  test('starting: every route answers 503 until the delay is over', async () => {
    const { url, clock, statusOf } = await start({ startupDelay: '90s' });
    clock.pass(89_000);
    expect([await statusOf('/v1/models'), await statusOf('/health')]).toEqual([503, 503]);
    expect((await post(url, bodyOf())).status).toBe(503);
    clock.pass(1_000);
    expect([await statusOf('/v1/models'), await statusOf('/health')]).toEqual([200, 200]);
    expect((await post(url, bodyOf())).status).toBe(200);
  });

  test('dead: the engine is gone, the server is not', async () => {
    const { simulator, url, statusOf, configure } = await start({ admin: true });
    await configure({ health: 'dead' });
    expect([await statusOf('/health'), await statusOf('/v1/models'), await statusOf('/metrics')]).toEqual([
      503, 200, 200,
    ]);
    const response = await post(url, bodyOf());
    expect([response.status, await response.json()]).toMatchObject([500, { error: { code: 500 } }]);
    await configure({ health: 'ok' });
    expect((await post(url, bodyOf())).status).toBe(200);
    expect(simulator.counts()).toMatchObject({ requests: 1, unwell: 1, answers: 1 });
  });

  test('down: connections break, nothing listens, and who comes back counts from zero', async () => {
    const preset = presetNamed('3b-a6000');
    const { simulator, url, root, clock, statusOf, configure } = await start({ admin: true, preset });
    const first = completion(url, bodyOf());
    while (simulator.counts().inFlight === 0) await new Promise(setImmediate);
    clock.pass(60_000, 1_000);
    await first;
    const counted = async () =>
      /vllm:prompt_tokens_total\{.*\} (\d+)/.exec(await (await fetch(`${root}/metrics`)).text())?.[1];
    expect(Number(await counted())).toBeGreaterThan(0);
    const broken = expect(completion(url, bodyOf({ turn: 1 }))).rejects.toThrow();
    while (simulator.counts().inFlight === 0) await new Promise(setImmediate);
    expect((await configure({ health: 'down', for: '5s' })).said).toMatchObject({ health: 'down' });
    await broken;
    clock.pass(4_900, 100);
    expect(await statusOf('/health')).toBe('refused');
    clock.pass(100, 100);
    while ((await statusOf('/health')) === 'refused') await new Promise(setImmediate);
    expect(Number(await counted())).toBe(0);
  });
});

describe('a schedule', () => {
  test('flaps, five seconds well and five seconds gone, for as long as it runs', async () => {
    const { clock, statusOf } = await start({
      schedule: [{ at: '5s', every: '10s', health: 'dead', for: '5s' }],
    });
    const seen: unknown[] = [];
    for (let second = 0; second < 30; second++) {
      clock.pass(500, 100);
      seen.push(await statusOf('/health'));
      clock.pass(500, 100);
    }
    const five = (status: number) => Array(5).fill(status);
    expect(seen).toEqual([
      ...five(200),
      ...five(503),
      ...five(200),
      ...five(503),
      ...five(200),
      ...five(503),
    ]);
  });

  test('an engine becomes slow after a minute', async () => {
    const preset = presetNamed('3b-a6000');
    const { simulator, url, clock } = await start({ preset, schedule: [{ at: '1m', slowdown: 4 }] });
    const time = async (turn: number) => {
      const { answers } = simulator.counts();
      const asked = completion(url, bodyOf({ turn, more: { max_tokens: 100 } }));
      while (simulator.counts().inFlight === 0) await new Promise(setImmediate);
      let ms = 0;
      for (; simulator.counts().answers === answers; ms += 10) clock.pass(10, 10);
      const { usage } = await asked;
      while (simulator.counts().inFlight > 0) await new Promise(setImmediate);
      return ms / usage.completion_tokens;
    };
    const before = await time(0);
    clock.pass(60_000);
    const after = await time(1);
    expect(after / before).toBeGreaterThan(3.8);
    expect(after / before).toBeLessThan(4.2);
  });

  test.each([
    [{}, /--schedule: expected a schedule, found: it must be array/],
    [[{ health: 'ok', slowdown: 2 }], /\/0 must have required property 'at'/],
    [[{ at: '1s' }], /\/0 must NOT have fewer than 2 properties/],
    [
      [
        { at: '1s', health: 'ok' },
        { at: 'noon', health: 'ok' },
      ],
      /entry 2: .* found "noon"/,
    ],
    [[{ at: '1s', every: '0s', health: 'ok' }], /entry 1: expected `every` of at least 1ms/],
    [[{ at: '1s', latency: 'x' }], /entry 1: .* found "x"/],
  ])('%j is refused', async (schedule, message) => {
    await expect(startSimulator({ schedule })).rejects.toThrow(message);
  });

  test('that changes a latency where an engine decides is refused', async () => {
    const schedule = [{ at: '1s', latency: '1s' }];
    await expect(startSimulator({ schedule, preset: presetNamed('3b-a6000') })).rejects.toThrow(
      /entry 1: expected no latency where there is a preset/,
    );
  });
});

describe('fw simulate', () => {
  const defaults = { port: 0, host: '127.0.0.1', seed: 7, faults: 'none', model: 'm', 'max-model-len': 512 };
  const options = { 'startup-delay': '0ms', 'metric-names': 'new' };
  const file = (name: string, text: string) => {
    const path = join(folder(), name);
    writeFileSync(path, text);
    return path;
  };

  test.each([
    [{ preset: '3b-abacus' }, 64, /--preset: expected a preset among .* found "3b-abacus"/],
    [{ preset: './none.json' }, 65, /none\.json: expected a preset, found no such file/],
    [{ preset: file('p.json', '{') }, 65, /p\.json: expected JSON/],
    [
      { preset: file('q.json', '{}') },
      65,
      /q\.json: expected a preset, found: it must have required property/,
    ],
    [{ preset: '3b-a6000', latency: '1s' }, 64, /expected --latency or --preset, found both/],
    [{ 'max-num-queued-tokens': 9 }, 64, /expected --preset with --max-num-queued-tokens/],
    [{ 'gpu-memory-utilization': 0.8 }, 64, /expected --preset with --gpu-memory-utilization/],
    [{ preset: '3b-a6000', 'max-num-batched-tokens': 128 }, 64, /--max-num-seqs \(256\), found 128/],
    [{ preset: '3b-a6000', 'gpu-memory-utilization': 0.2 }, 64, /found none left at .* 0\.2: raise it/],
    [
      { preset: '8b-a6000', 'gpu-memory-utilization': 0.46, 'max-model-len': 8192 },
      64,
      /at most 6976 tokens, the KV cache of/,
    ],
    [{ 'startup-delay': 'long' }, 64, /found "long"/],
    [{ schedule: file('s.yaml', '- {at: 5s, helth: down}\n') }, 65, /s\.yaml:1:12: .*helth/],
    [{ schedule: file('s.yaml', '- {at: soon, health: ok}\n') }, 64, /entry 1: .* found "soon"/],
    [{ schedule: file('s.ndjson', '{"at":"5s","health":"ok"}\n{]\n') }, 65, /s\.ndjson:2: expected JSON/],
  ])('%j is an error that says what to do', async (wrong, exit, message) => {
    const ran = simulate.run({ ...defaults, ...options, ...wrong } as never, []);
    await expect(ran).rejects.toMatchObject({ exit, message: expect.stringMatching(message) });
  });
});
