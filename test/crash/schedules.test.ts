/**
 * Random schedules of faults: servers that fail, vanish and come back, processes that are stopped, killed, frozen and
 * whose clock jumps, a second process that wants the same; then the same command again until it ends well, and the
 * checker. The seed is printed: SEED=… SCHEDULES=1 repeats a schedule, SCHEDULES=… is how many (make crash).
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runs } from '../all.ts';
import { folder, ROOT } from '../fw.ts';
import { check, type Ended } from './checker.ts';
import { AGENTS, agentFile, type Endpoints, startEndpoints, TROUBLES } from './endpoint.ts';
import { between, pick, type Random, randomFrom } from './random.ts';

const COUNT = runs(1, 20, 'SCHEDULES');
const SEED = Number(process.env.SEED ?? Date.now() % 0x7fffffff);
/** side by side: most of their time is spent waiting */
const AT_ONCE = 4;
const ITEMS = 20;
const IN_FLIGHT = 6;
const CALLS = ITEMS * AGENTS.length;
/** Runs until one ends well; after half of them the servers behave. */
const MOST_RUNS = 12;
const CLI = join(ROOT, 'dist', 'bin', 'fw.js');

const ids = Array.from({ length: ITEMS }, (_, n) => `item-${n}`);
const libfaketime = readdirSync('/usr/lib')
  .map(name => `/usr/lib/${name}/faketime/libfaketime.so.1`)
  .find(path => existsSync(path));
if (libfaketime === undefined) console.log('left out, for libfaketime is not here: steps of the clock');

const after = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms));

const KINDS = ['kill', 'kill', 'stop', 'stop', 'freeze', 'clock', 'rival', 'none'] as const;

interface World {
  at: string;
  ledger: string;
  endpoints: Endpoints;
  random: Random;
  ends: Ended[];
  inFlight: number;
}

/** Runs the command; `event` happens once when the run has asked for some more calls. */
async function run(
  world: World,
  event: (child: ChildProcess) => void,
  grace = '20s',
): Promise<Ended & { stdout: string }> {
  const { at, ledger, endpoints, random, ends } = world;
  const clock = join(at, 'clock');
  const args = ['chain', '--no-decision', '--agents', join(at, 'agents'), '--in-flight', String(IN_FLIGHT)];
  args.push('--grace', grace, '--ledger', ledger, ...endpoints.urls.flatMap(url => ['--endpoint', url]));
  const child = spawn(process.execPath, [CLI, ...args, join(at, 'items.ndjson')], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      ...(libfaketime && {
        LD_PRELOAD: libfaketime,
        FAKETIME_TIMESTAMP_FILE: clock,
        FAKETIME_NO_CACHE: '1',
        FAKETIME_DONT_FAKE_MONOTONIC: '1',
      }),
    },
  });
  // early enough that there is something left to do
  let due = endpoints.received + between(random, 1, CALLS / 3);
  endpoints.onRequest = () => {
    if (endpoints.received < due) return;
    due = Number.POSITIVE_INFINITY;
    event(child);
  };
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on('data', chunk => out.push(chunk));
  child.stderr.on('data', chunk => err.push(chunk));
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  endpoints.onRequest = () => {};
  const ended = { code: code ?? (signal === 'SIGKILL' ? 137 : -1), stderr: Buffer.concat(err).toString() };
  ends.push(ended);
  return { ...ended, stdout: Buffer.concat(out).toString() };
}

function setClock({ at }: World, seconds: number): void {
  // written beside it and moved, so that nobody reads half a number
  writeFileSync(join(at, 'clock.next'), `${seconds < 0 ? '' : '+'}${seconds}s\n`);
  renameSync(join(at, 'clock.next'), join(at, 'clock'));
}

/** False where the run was over before anything happened to it. */
async function disturbed(world: World): Promise<boolean> {
  const { random } = world;
  const kind = pick(random, KINDS);
  const rivals: Promise<unknown>[] = [];
  const isShort = random() < 0.5;
  let happened = false;
  await run(
    world,
    child => {
      happened = true;
      if (kind === 'kill') {
        world.inFlight += IN_FLIGHT;
        child.kill('SIGKILL');
      } else if (kind === 'stop') {
        if (isShort) world.inFlight += IN_FLIGHT;
        child.kill(pick(random, ['SIGTERM', 'SIGINT'] as const));
      } else if (kind === 'freeze') {
        child.kill('SIGSTOP');
        // beyond 5 s the pool takes it that nobody is to blame; only in the long run
        const ms = COUNT > 20 && random() < 0.1 ? 6_000 : between(random, 20, 400);
        setTimeout(() => child.kill('SIGCONT'), ms);
      } else if (kind === 'clock') setClock(world, pick(random, [-86_400, -3_600, -1, 3_600, 86_400]));
      else if (kind === 'rival') rivals.push(run(world, () => {}));
    },
    isShort ? '0s' : '20s',
  );
  await Promise.all(rivals);
  return happened;
}

/** Takes endpoints away and brings them back until told to stop. */
function flapping({ endpoints, random }: World): () => Promise<void> {
  let on = true;
  const loop = async (): Promise<void> => {
    while (on) {
      await after(between(random, 50, 500));
      const index = between(random, 0, 1);
      endpoints.down(index);
      await after(between(random, 20, 300));
      await endpoints.up(index);
    }
  };
  const done = loop();
  return () => {
    on = false;
    return done;
  };
}

async function schedule(seed: number): Promise<{ runs: number; sent: number }> {
  const random = randomFrom(seed);
  const at = folder();
  mkdirSync(join(at, 'agents'));
  for (const key of AGENTS) writeFileSync(join(at, 'agents', `${key}.yaml`), agentFile(key));
  writeFileSync(
    join(at, 'items.ndjson'),
    ids.map(id => `{"id":"${id}","prompt":"This is ${id.replace('-', ' ')}."}\n`).join(''),
  );
  const endpoints = await startEndpoints(2, () => between(random, 1, 8));
  const world: World = {
    at,
    ledger: join(at, 'ledger'),
    endpoints,
    random,
    ends: [],
    inFlight: 0,
  };
  setClock(world, 0);
  const share = pick(random, [0, 0.05, 0.2]);
  endpoints.trouble = () => (random() < share ? pick(random, TROUBLES) : null);
  let settle = random() < 0.4 ? flapping(world) : async () => {};
  try {
    for (let n = between(random, 1, 4); n > 0 && (await disturbed(world)); n--);
    for (let n = 1; n <= MOST_RUNS; n++) {
      if (n === MOST_RUNS / 2) {
        endpoints.trouble = () => null;
        await settle();
        settle = async () => {};
      }
      const { code, stdout: output } = await run(world, () => {});
      if (code !== 0) continue;
      await settle();
      const before = endpoints.received;
      const { stdout: again } = await run(world, () => {});
      const more = endpoints.received - before;
      check({ ...world, ids, output, again, more });
      return { runs: world.ends.length, sent: endpoints.sent.size };
    }
    throw new Error(`no run of ${MOST_RUNS} ended well: ${JSON.stringify(world.ends.at(-1))}`);
  } finally {
    await settle();
    await endpoints.close();
    rmSync(at, { recursive: true });
  }
}

test('whatever happens, the same command again ends with what would have been', {
  timeout: 600_000 + COUNT * 30_000,
}, async () => {
  console.log(`${COUNT} schedules of faults, from SEED=${SEED}`);
  let next = 0;
  let runs = 0;
  let twice = 0;
  const failures: unknown[] = [];
  const worker = async (): Promise<void> => {
    while (next < COUNT && failures.length === 0) {
      const seed = SEED + next++;
      try {
        const done = await schedule(seed);
        runs += done.runs;
        twice = Math.max(twice, done.sent - CALLS);
      } catch (error) {
        console.log(`the schedule of SEED=${seed} failed`);
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  if (failures.length > 0) throw failures[0];
  console.log(`${COUNT} schedules, ${runs} runs, 0 lost, ≤ ${twice} of ${CALLS} calls answered twice`);
  expect(runs).toBeGreaterThan(COUNT);
});
