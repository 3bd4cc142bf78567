/**
 * How many calls a simulated server answers, and what each costs it: `fw simulate` at latency 0, asked by a client that
 * does as little as it can with bodies as the chain sends them. Both processes get a core of their own where taskset is.
 *
 *   make bench-simulator
 */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Client } from 'undici';
import { loadAgents, packagedAgents } from '../engine/asking/agents/load-agents.ts';
import { bodies, escaped } from '../engine/asking/agents/request-body.ts';
import { median } from './measure.ts';
import { type Figure, machine, table, writeFigures } from './page.ts';

const CALLS = 20_000;
const ROUNDS = 5;
const MODEL = 'simulated-3b';

/** Bodies of every agent with its schema, at the context lengths of a chain, no two alike. */
function chainBodies(count: number): Buffer[] {
  const agents = [...loadAgents(packagedAgents()).byKey.values()].map(agent => bodies(agent, MODEL, 'on'));
  return Array.from({ length: count }, (_, index) => {
    const application = `Application ${index}. Credit score: ${500 + (index % 300)}. ${'Income, loan, debts, purpose. '.repeat(18)}`;
    const context = escaped(application + 'Earlier: {"approval_decision":"deny"} '.repeat(15 * (index % 5)));
    const asked = { context, temperature: 0.7, seed: index };
    return agents[index % agents.length]!.bodyOf(asked, { id: 'row', agent: 'any', round: 0, attempt: 1 })
      .body;
  });
}

/** Keeps `inFlight` calls under way until all are answered; seconds. */
async function ask(port: number, all: readonly Buffer[], inFlight: number): Promise<number> {
  const clients = Array.from({ length: inFlight }, () => new Client(`http://127.0.0.1:${port}`));
  let sent = 0;
  let answered = 0;
  const began = performance.now();
  await new Promise<void>((done, failed) => {
    const next = (client: Client): void => {
      if (sent === CALLS) return;
      const body = all[sent++ % all.length]!;
      const request = {
        path: '/v1/chat/completions',
        method: 'POST' as const,
        headers: { 'content-type': 'application/json' },
        body,
      };
      client.dispatch(request, {
        onRequestStart() {},
        onResponseStart(_controller, status) {
          if (status !== 200) failed(new Error(`expected 200, found ${status}`));
        },
        onResponseData() {},
        onResponseEnd() {
          if (++answered === CALLS) done();
          else next(client);
        },
        onResponseError: (_controller, error) => failed(error),
      });
    };
    for (const client of clients) next(client);
  });
  const seconds = (performance.now() - began) / 1_000;
  await Promise.all(clients.map(client => client.close()));
  return seconds;
}

/** Seconds of CPU that a process has had, as Linux counts them: in hundredths. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const hasTaskset = spawnSync('taskset', ['-p', String(process.pid)]).status === 0;
if (hasTaskset) spawnSync('taskset', ['-apc', '0', String(process.pid)]);
const server = ['dist/bin/fw.js', 'simulate', '--port', '0', '--latency', '0ms', '--model', MODEL];
const [command, ...args] = hasTaskset
  ? ['taskset', '-c', '1', process.execPath, ...server]
  : [process.execPath, ...server];
const child = spawn(command as string, args, { stdio: ['ignore', 'pipe', 'ignore'] });
try {
  const line = await new Promise<string>(said => child.stdout.once('data', chunk => said(String(chunk))));
  const port = Number(new URL(JSON.parse(line).url).port);
  const all = chainBodies(4_000);
  const bytes = all.reduce((sum, body) => sum + body.length, 0) / all.length;
  // warms the server up
  await ask(port, all, 64);
  const rows = [
    ['in flight', 'calls/s', 'CPU of the server, µs a call', 'calls/s of a core without the client'],
  ];
  for (const inFlight of [64, 512, 2_000]) {
    const wall: number[] = [];
    const cpu: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const before = cpuOf(child.pid as number);
      wall.push(await ask(port, all, inFlight));
      cpu.push(cpuOf(child.pid as number) - before);
    }
    const each = median(cpu) / CALLS;
    rows.push([inFlight, CALLS / median(wall), each * 1e6, 1 / each].map(value => value.toFixed(0)));
  }
  const lines = [
    '## The simulator',
    '',
    `\`fw simulate --latency 0ms\`, asked with the guided bodies of the packaged agents (mean ${bytes.toFixed(0)} bytes): medians of ${ROUNDS} rounds of ${CALLS.toLocaleString('en-US')} calls. ${machine()}`,
    '',
    ...table(rows),
  ];
  writeFigures(
    'simulator',
    rows
      .slice(1)
      .map(
        ([inFlight, calls, cpu]): Figure => [
          `simulator: ${Number(inFlight).toLocaleString('en')} calls in flight`,
          `${Number(calls).toLocaleString('en')} calls/s, ${cpu} µs of CPU per call`,
        ],
      ),
    lines,
  );
} finally {
  child.kill();
}
