/** Runs that are stopped by who started them, or by a line that broke: they end in time and say how to go on. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { runs } from '../all.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { agentFile, type Endpoints, startEndpoints, wordOf } from './endpoint.ts';

const CLI = join(ROOT, 'dist', 'bin', 'fw.js');

/** Items for one agent, and a server that answers some of them and then no more. */
async function stuck(answered: number, inFlight: number) {
  const at = folder();
  mkdirSync(join(at, 'agents'));
  writeFileSync(join(at, 'agents', 'first.yaml'), agentFile('first'));
  const ids = Array.from({ length: answered + inFlight }, (_, n) => `item-${n}`);
  const lines = ids.map(id => `{"id":"${id}","prompt":"This is ${id.replace('-', ' ')}."}\n`);
  writeFileSync(join(at, 'items.ndjson'), lines.join(''));
  let answers = 0;
  let isStuck = true;
  let late = 3_600_000;
  const endpoints = await startEndpoints(1, () => (isStuck && answers++ >= answered ? late : 1));
  onTestFinished(() => endpoints.close());
  writeFileSync(join(at, 'pool.yaml'), `endpoints: [{ url: '${endpoints.urls[0]}', limit: ${inFlight} }]\n`);
  const flags = `--no-decision --agents agents --pool pool.yaml --in-flight ${inFlight} --ledger ledger --grace 1s`;
  return {
    at,
    ids,
    endpoints,
    command: `chain ${flags} items.ndjson`,
    /** resolves when nothing but calls that will not be answered are out */
    reached: (): Promise<void> => reached(endpoints, ids.length),
    /** what would not be answered is, after a while */
    slowDown(): void {
      late = 300;
    },
    unstick(): void {
      isStuck = false;
    },
  };
}

function reached(endpoints: Endpoints, count: number): Promise<void> {
  return new Promise(resolve => {
    endpoints.onRequest = () => {
      if (endpoints.received >= count) resolve();
    };
    endpoints.onRequest();
  });
}

/** The same command again asks what was not answered, and gives each item once. */
async function expectFinish({
  at,
  ids,
  endpoints,
  command,
  unstick,
}: Awaited<ReturnType<typeof stuck>>): Promise<void> {
  unstick();
  const kept = endpoints.sent.size;
  const before = endpoints.received;
  const again = await fw(`fw ${command}`, { cwd: at });
  expect(again.code, again.stderr).toBe(0);
  expect(endpoints.received - before).toBe(ids.length - kept);
  const items = again.stdout
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line));
  expect(items.map(({ id }) => id).sort()).toEqual([...ids].sort());
  for (const { id, steps } of items) expect(steps[0].output.word).toBe(wordOf(id, 'first'));
}

const IN_FLIGHT = runs(400, 2_000, 'IN_FLIGHT');

test(`SIGINT with ${IN_FLIGHT} calls in flight ends within the grace, and says how to resume`, async () => {
  const world = await stuck(200, IN_FLIGHT);
  const child = spawn(process.execPath, [CLI, ...world.command.split(' ')], { cwd: world.at });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on('data', chunk => out.push(chunk));
  child.stderr.on('data', chunk => err.push(chunk));
  await world.reached();
  child.kill('SIGINT');
  expect(await once(child, 'close')).toEqual([130, null]);
  expect(Buffer.concat(err).toString()).toContain('stopped by SIGINT; to resume, run the same command again');
  // those in flight came out as what they are, and of a file that was read to its end nothing is missing
  const lines = Buffer.concat(out)
    .toString()
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));
  const codes = lines.map(({ failure }) => failure?.code ?? 'answered');
  const count = (code: string): number => codes.filter(each => each === code).length;
  expect([count('answered'), count('interrupted'), count('input-incomplete')]).toEqual([200, IN_FLIGHT, 0]);
  await expectFinish(world);
});

/** Starts the command on a terminal whose line breaks when `broken` is called; resolves to its exit code. */
function onTerminal(
  at: string,
  command: string,
  passesOn: boolean,
): { broken(): void; code: Promise<number> } {
  // the leader of the session is told, and a login shell tells what it has started, unless that was left behind
  const leader = `trap ${passesOn ? "'kill -HUP $pid'" : "''"} HUP
    bash run.sh & pid=$!
    wait $pid; code=$?
    while kill -0 $pid 2> /dev/null; do wait $pid; code=$?; done
    echo $code > code.next; mv code.next code`;
  writeFileSync(join(at, 'leader.sh'), leader);
  writeFileSync(join(at, 'run.sh'), `exec "${process.execPath}" "${CLI}" ${command}\n`);
  const terminal = spawn('script', ['-qec', 'bash leader.sh', '/dev/null'], {
    cwd: at,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, SHELL: '/bin/bash' },
  });
  const code = async (): Promise<number> => {
    while (!existsSync(join(at, 'code'))) await new Promise(resolve => setTimeout(resolve, 5));
    return Number(readFileSync(join(at, 'code'), 'utf8'));
  };
  return { broken: () => void terminal.kill('SIGKILL'), code: code() };
}

test.each([
  ['stderr', '> out.ndjson', [129]],
  // what is written to a terminal that is gone fails
  ['stdout and stderr', '', [129, 74]],
])('a session that is lost, with %s', async (_what, to, codes) => {
  const world = await stuck(20, 40);
  const { broken, code } = onTerminal(world.at, `${world.command} ${to}`, true);
  await world.reached();
  broken();
  expect(codes).toContain(await code);
  await expectFinish(world);
});

test('a run that was left behind by a session goes on to its end', async () => {
  const world = await stuck(20, 40);
  world.slowDown();
  const { broken, code } = onTerminal(world.at, `${world.command} > out.ndjson`, false);
  await world.reached();
  broken();
  expect(await code).toBe(0);
  expect(readFileSync(join(world.at, 'out.ndjson'), 'utf8').split('\n')).toHaveLength(61);
  await expectFinish(world);
});

test('without a terminal a run goes on when the line breaks', async () => {
  const world = await stuck(20, 40);
  const child = spawn(process.execPath, [CLI, ...world.command.split(' ')], {
    cwd: world.at,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const closed = once(child, 'close');
  child.stdout?.resume();
  await world.reached();
  child.kill('SIGHUP');
  world.unstick();
  await expect(
    Promise.race([closed, new Promise(resolve => setTimeout(resolve, 300, 'goes on'))]),
  ).resolves.toBe('goes on');
  child.kill('SIGTERM');
  expect(await closed).toEqual([143, null]);
  await expectFinish(world);
});
