/**
 * Random faults around a run that workers do: workers that are killed, told to stop, frozen, slow, and cut off from Redis
 * or from the coordinator; a Redis that is killed and loses its data, or keeps them; a coordinator that is killed. Then the
 * books are compared: what the servers sent, what the workers' ledgers have, what the coordinator gave out. The seed is
 * printed: SEED=… ROUNDS=1 repeats a round, ROUNDS=… is how many.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runs } from '../all.ts';
import { freePort } from '../free-port.ts';
import { folder, ROOT } from '../fw.ts';
import { type RealRedis, startRedis, withRedis } from '../shards/redis.ts';
import { answersIn } from './checker.ts';
import { AGENTS, agentFile, type Endpoints, startEndpoints, wordOf } from './endpoint.ts';
import { between, pick, type Random, randomFrom } from './random.ts';

const COUNT = runs(0, 3, 'ROUNDS');
const SEED = Number(process.env.SEED ?? Date.now() % 0x7fffffff);
const ITEMS = 900;
const WORKERS = 3;
/** calls in flight of a worker */
const LIMIT = 16;
const LEASE = 3_000;
/** … and for which a coordinator that was started again waits for workers to say what they have */
const OPENS = LEASE / 3;
const CLI = join(ROOT, 'dist', 'bin', 'fw.js');
const KEY = 'a-worker-key-of-a-test';
const ids = Array.from({ length: ITEMS }, (_, n) => `item-${n}`);
const after = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms));

const FAULTS = [
  ...([
    'kill a worker',
    'kill a worker',
    'kill it twice',
    'stop a worker',
    'freeze a worker',
    'slow worker',
  ] as const),
  ...([
    'cut off from Redis',
    'cut off from the server',
    'kill Redis',
    'freeze Redis',
    'kill the server',
  ] as const),
];
type Fault = (typeof FAULTS)[number];

/** Bytes go through until it is cut: then it takes connections and answers nothing, as behind a router that lost its way. */
async function proxyTo(port: number) {
  const sockets = new Set<Socket>();
  let isCut = false;
  const server = createServer(near => {
    const far = createConnection(port, '127.0.0.1');
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one.on('data', data => void (!isCut && other.write(data)));
      one.on('error', () => {});
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port: own } = server.address() as { port: number };
  return {
    port: own,
    cut(): void {
      isCut = true;
    },
    mend(): void {
      isCut = false;
      for (const socket of sockets) socket.destroy(); // what was swallowed is missing
    },
    close(): void {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
type Proxy = Awaited<ReturnType<typeof proxyTo>>;

interface Process {
  child: ChildProcess;
  stderr: string;
  ended: Promise<number>;
}

function begin(args: readonly string[]): Process {
  const child = spawn(process.execPath, [CLI, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env.PATH, FW_WORKER_KEY: KEY },
  });
  const one: Process = { child, stderr: '', ended: once(child, 'close').then(([code]) => code ?? 137) };
  child.stderr?.on('data', text => {
    one.stderr += text;
  });
  return one;
}

interface World {
  random: Random;
  redis: RealRedis;
  endpoints: Endpoints;
  server: () => Process;
  /** what all coordinators have said so far */
  words(): string;
  startServer(): void;
  workers: { run: Process; data: string; toRedis: Proxy; toServer: Proxy; start(): void }[];
  /** calls that were at a server when their worker was killed, at most */
  inFlight: number;
  /** workers that were killed, and how often they had been silent before that */
  killed: Map<number, number>;
  /** lines in the hands of those at their end, and of who went silent before a new coordinator heard of them */
  lost: number;
  slow: number | null;
}

/** Of a worker that is told to stop: it handed back what it had, or nobody was there to take it. */
const ENDS = [0, 69];

/** It began while Redis was away: whoever looks after it starts it again. */
const hadNoRedis = ({ stderr }: Process, code: number): boolean =>
  code === 69 && stderr.includes('expected a Redis');

/** Lines that a worker has in hand. */
function linesIn(parts: string): number {
  const paths = readdirSync(parts).map(name => join(parts, name, 'lines.ndjson'));
  const own = paths.filter(path => existsSync(path)).map(path => readFileSync(path, 'utf8'));
  return own.reduce((sum, text) => sum + text.split('\n').length - 1, 0);
}

/**
 * Lines in the hands of a worker that goes silent before the coordinator that is there now has heard of it: they go to
 * others, and nobody says whose they were.
 */
function unheardLines({ server }: World, { run, data }: World['workers'][number]): number {
  const isHeard = server().stderr.includes(`/${run.child.pid} is here`);
  return isHeard || !existsSync(join(data, 'parts')) ? 0 : linesIn(join(data, 'parts'));
}

const SILENCE = /nothing was heard of \S+\/(\d+)\/\S+ for .* to others: ([\d,]+) line/g;

/** The workers that coordinators waited for in vain, and the lines of each that went to others. */
function silences(world: World): { pid: number; lines: number }[] {
  return [...world.words().matchAll(SILENCE)].map(([, pid, lines = '']) => ({
    pid: Number(pid),
    lines: Number(lines.replaceAll(',', '')),
  }));
}

/** Lines of workers that were silent and lived: what a killed one lost with its end is counted there. */
function silentLines(world: World): number {
  const seen = new Map<number, number>();
  let sum = 0;
  for (const { pid, lines } of silences(world)) {
    const before = seen.get(pid) ?? 0;
    seen.set(pid, before + 1);
    if (before < (world.killed.get(pid) ?? Number.POSITIVE_INFINITY)) sum += lines;
  }
  return sum;
}

/** The processes of a busy machine may be too slow to tell a new coordinator in time what they have. */
async function lateAfterStart(world: World): Promise<void> {
  const server = world.server();
  let isOver = false;
  void server.ended.then(() => {
    isOver = true;
  });
  while (!server.stderr.includes('find this run') && !isOver) await after(5);
  await after(0.9 * OPENS);
  for (const worker of world.workers) world.lost += unheardLines(world, worker);
}

/** A process that has just begun would be ended by a signal. */
async function told(run: Process): Promise<number> {
  while (run.stderr === '' && run.child.exitCode === null) await after(10);
  run.child.kill('SIGTERM');
  return run.ended;
}

/** How long a fault lasts is sometimes longer than a lease. */
const lasting = (random: Random): number => (random() < 0.4 ? LEASE * 1.5 : between(random, 100, LEASE / 2));

async function suffer(world: World, fault: Fault): Promise<void> {
  const { random, redis, workers } = world;
  const worker = pick(random, workers);
  const kill = async (): Promise<void> => {
    world.inFlight += LIMIT;
    const pid = worker.run.child.pid as number;
    world.killed.set(pid, silences(world).filter(one => one.pid === pid).length);
    worker.run.child.kill('SIGKILL');
    await worker.run.ended;
    if (existsSync(join(worker.data, 'parts'))) world.lost += linesIn(join(worker.data, 'parts'));
    await after(between(random, 0, 500));
    worker.start();
  };
  if (fault === 'kill a worker') await kill();
  else if (fault === 'kill it twice') {
    await kill();
    await after(between(random, 300, 1_500));
    await kill();
  } else if (fault === 'stop a worker') {
    world.inFlight += LIMIT;
    expect(ENDS).toContain(await told(worker.run));
    worker.start();
  } else if (fault === 'freeze a worker') {
    const { child } = worker.run;
    child.kill('SIGSTOP');
    world.lost += unheardLines(world, worker);
    await after(lasting(random));
    child.kill('SIGCONT');
  } else if (fault === 'slow worker') {
    world.slow = workers.indexOf(worker);
    await after(lasting(random));
    world.slow = null;
  } else if (fault === 'cut off from Redis' || fault === 'cut off from the server') {
    const proxy = fault === 'cut off from Redis' ? worker.toRedis : worker.toServer;
    proxy.cut();
    if (proxy === worker.toServer) world.lost += unheardLines(world, worker);
    await after(lasting(random));
    proxy.mend();
  } else if (fault === 'kill Redis') {
    await redis.kill();
    await after(between(random, 0, LEASE));
    await redis.start();
  } else if (fault === 'freeze Redis') {
    redis.stop();
    await after(lasting(random));
    redis.go();
  } else {
    world.server().child.kill('SIGKILL');
    await world.server().ended;
    await after(between(random, 0, LEASE));
    world.startServer();
    void lateAfterStart(world);
  }
}

/** Agents, items and a pipeline in a folder. */
function material(items: readonly string[]): string {
  const at = folder();
  mkdirSync(join(at, 'agents'));
  for (const key of AGENTS) writeFileSync(join(at, 'agents', `${key}.yaml`), agentFile(key));
  const lines = items.map(id => `{"id":"${id}","prompt":"This is ${id.replace('-', ' ')}."}\n`);
  writeFileSync(join(at, 'items.ndjson'), lines.join(''));
  writeFileSync(
    join(at, 'run.yaml'),
    'stages:\n  - chain: { agents: agents, decision: false }\noutput: out.ndjson\nledger: ledger\n',
  );
  return at;
}

/** The arguments of a coordinator. */
const running = (at: string, redis: string, listen: string, lease: number): string[] => [
  ...['run', join(at, 'run.yaml'), join(at, 'items.ndjson'), '--redis', redis, '--listen', listen],
  ...['--lease', `${lease}ms`, '--output', join(at, 'out.ndjson'), '--ledger', join(at, 'ledger')],
];

async function round(seed: number): Promise<{ faults: Fault[]; twice: number; bound: number }> {
  const random = randomFrom(seed);
  const at = material(ids);
  const isKept = random() < 0.5;
  const redis = await startRedis({ kept: isKept });
  const port = await freePort();
  const world: World = {
    ...{ random, redis, inFlight: 0, lost: 0, killed: new Map(), slow: null, workers: [] },
  } as unknown as World;
  const latencies = (index: number): number => (world.slow === index ? 400 : 0) + between(random, 20, 60);
  const own = await Promise.all(
    Array.from({ length: WORKERS }, (_, index) =>
      startEndpoints(1, () => latencies(index), index * 1_000_000),
    ),
  );
  world.endpoints = own[0] as Endpoints;

  const servers: Process[] = [];
  world.server = () => servers.at(-1) as Process;
  world.words = () => servers.map(({ stderr }) => stderr).join('');
  const listen = `127.0.0.1:${port}`;
  world.startServer = () => {
    servers.push(begin(running(at, redis.url, listen, LEASE)));
  };
  world.startServer();
  const all: Process[] = [];
  for (const index of Array.from({ length: WORKERS }).keys()) {
    const [toRedis, toServer] = [await proxyTo(redis.port), await proxyTo(port)];
    const where = [
      '--redis',
      `redis://127.0.0.1:${toRedis.port}`,
      '--server',
      `http://127.0.0.1:${toServer.port}`,
    ];
    const data = join(at, `worker-${index}`);
    const worker = { data, toRedis, toServer } as World['workers'][number];
    worker.start = () => {
      const url = (own[index] as Endpoints).urls[0] as string;
      worker.run = begin([
        ...['work', ...where, '--endpoint', url, '--endpoint-limit', `${LIMIT}`],
        ...['--data', data, '--grace', '2s'],
      ]);
      const { run } = worker;
      all.push(run);
      void run.ended.then(async code => {
        if (hadNoRedis(run, code)) await after(300).then(worker.start);
      });
    };
    worker.start();
    world.workers.push(worker);
  }
  const faults: Fault[] = [];
  try {
    let isOver = false;
    const over = (async () => {
      // until one of them, started again after each kill, ends by itself
      for (;;) {
        const one = world.server();
        const code = await one.ended;
        if (code !== 137 && !hadNoRedis(one, code)) return code;
        if (hadNoRedis(one, code)) await after(300).then(world.startServer);
        while (one === world.server()) await after(10);
      }
    })().finally(() => {
      isOver = true;
    });
    const received = (): number => own.reduce((sum, one) => sum + one.received, 0);
    for (let n = between(random, 2, 5); n > 0 && !isOver; n--) {
      const due = received() + between(random, 50, (ITEMS * AGENTS.length) / 4);
      while (received() < due && !isOver) await after(5);
      const fault = pick(random, FAULTS);
      faults.push(fault);
      await suffer(world, fault);
    }
    expect(await over, world.server().stderr).toBe(0);
    for (const code of await Promise.all(world.workers.map(({ run }) => told(run))))
      expect(ENDS).toContain(code);

    // each item once, whole, and as it would have been
    const text = readFileSync(join(at, 'out.ndjson'), 'utf8').trimEnd();
    const out = text.split('\n').map(line => JSON.parse(line) as Line);
    expect(out.map(({ id }) => id).sort()).toEqual([...ids].sort());
    expect(out.filter(({ failure }) => failure !== undefined)).toEqual([]);
    const sent = new Map(own.flatMap(one => [...one.sent]));
    const recorded = new Map(
      world.workers.flatMap((_, index) =>
        answersIn(join(at, `worker-${index}`)).map(
          one => [JSON.parse(one.answer).nonce as string, one] as const,
        ),
      ),
    );
    for (const { id, steps } of out) {
      expect(steps.map(({ agent, output }) => [agent, output.word])).toEqual(
        AGENTS.map(agent => [agent, wordOf(id, agent)]),
      );
      // what came out was said by a server, for this item and agent, and is on a worker's record
      for (const { agent, output } of steps) {
        expect(sent.get(output.nonce)).toMatchObject({ item: id, agent });
        expect(recorded.get(output.nonce)).toMatchObject({ item: id, agent });
      }
    }
    // what is on record was sent; what was sent and is not on record was in flight at a kill or a stop
    for (const nonce of recorded.keys()) expect(sent.has(nonce)).toBe(true);
    expect(sent.size - recorded.size).toBeLessThanOrEqual(world.inFlight);

    // no more calls than were needed, in flight at a kill, and in the parts that went to others
    const lines = world.lost + silentLines(world);
    const back = all.flatMap(({ stderr }) => [
      ...stderr.matchAll(/handed back with (\d+) of ([\d,]+) line/g),
    ]);
    const returned = back.reduce(
      (sum, [, done, of = '']) => sum + Number(of.replaceAll(',', '')) - Number(done),
      0,
    );
    const bound = world.inFlight + (lines + returned) * AGENTS.length;
    const twice = sent.size - ITEMS * AGENTS.length;
    expect(twice, `${faults.join(', ')}\n${world.words()}`).toBeLessThanOrEqual(bound);
    for (const { stderr } of [...servers, ...all]) {
      expect(stderr).not.toContain('a bug');
      expect(stderr).not.toMatch(/^\s+at .*:\d+:\d+\)?$/m);
    }
    return { faults, twice, bound };
  } catch (error) {
    console.log(`${faults.join(', ')}\n${servers.map(({ stderr }) => stderr).join('\n---\n')}`);
    for (const { stderr } of all) console.log(`--- a worker\n${stderr}`);
    throw error;
  } finally {
    for (const { child } of [...servers, ...all]) child.kill('SIGKILL');
    for (const { toRedis, toServer } of world.workers) {
      toRedis.close();
      toServer.close();
    }
    await Promise.all(own.map(one => one.close()));
  }
}

interface Line {
  id: string;
  failure?: object;
  steps: { agent: string; output: { word: string; nonce: string } }[];
}

(COUNT > 0 ? withRedis : test.skip)(
  'whatever happens to workers, Redis and coordinator, each item is answered once',
  { timeout: 120_000 * (COUNT + 1) },
  async () => {
    console.log(`${COUNT} rounds of faults, from SEED=${SEED}`);
    let all = 0;
    let least = Number.POSITIVE_INFINITY;
    for (let n = 0; n < COUNT; n++) {
      try {
        const { faults, twice, bound } = await round(SEED + n);
        console.log(`SEED=${SEED + n}: ${faults.join(', ')}; ${twice} calls twice, bound ${bound}`);
        all += twice;
        least = Math.min(least, bound - twice);
      } catch (error) {
        console.log(`the round of SEED=${SEED + n} failed`);
        throw error;
      }
    }
    console.log(
      `${COUNT} rounds, 0 lost, 0 twice in outputs, ${all} calls of ${COUNT * ITEMS * AGENTS.length} twice`,
    );
    expect(least).toBeGreaterThanOrEqual(0);
  },
);

(COUNT > 0 ? withRedis : test.skip)(
  'a request that takes its worker with it is alone in the end, and fails by name',
  async () => {
    const items = Array.from({ length: 16 }, (_, n) => `item-${n}`);
    const at = material(items);
    const redis = await startRedis();
    const endpoints = await startEndpoints(1, () => 5);
    const listen = `127.0.0.1:${await freePort()}`;
    const coordinator = begin(running(at, redis.url, listen, 1_000));
    const workers: Process[] = [];
    let isOver = false;
    const start = (): void => {
      const one = begin([
        ...[
          'work',
          '--redis',
          redis.url,
          '--server',
          `http://${listen}`,
          '--endpoint',
          endpoints.urls[0] as string,
        ],
        ...['--data', join(at, 'worker')],
      ]);
      workers.push(one);
      void one.ended.then(() => !isOver && start());
    };
    endpoints.onRequest = (item = '') => {
      if (item === 'item-11') workers.at(-1)?.child.kill('SIGKILL');
    };
    start();
    const code = await coordinator.ended;
    isOver = true;
    for (const { child } of workers) child.kill('SIGKILL');
    await endpoints.close();
    expect(code, coordinator.stderr).toBe(1);
    const out = readFileSync(join(at, 'out.ndjson'), 'utf8').trimEnd().split('\n');
    const lines = out.map(line => JSON.parse(line) as Line);
    expect(lines.map(({ id }) => id).sort()).toEqual([...items].sort());
    expect(lines.filter(({ failure }) => failure)).toMatchObject([
      { id: 'item-11', failure: { stage: 'sharding', code: 'worker-lost' } },
    ]);
    // three losses to suspect it, four to halve 16 lines down to it, two more alone; and those of what was in hand beside it
    expect(coordinator.stderr.match(/nothing was heard of/g)?.length).toBeGreaterThanOrEqual(9);
  },
);
