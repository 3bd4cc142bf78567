/**
 * make bench-gateway: what the gateway of fw serve adds to asking the endpoint itself, in one run: the mock server of the
 * folder RIG answers at once; a client in this process asks it directly and through `fw serve`, in turn. With one user
 * the difference of the medians is what a user waits longer; with 32 the CPU of the server's process is what a call costs.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'undici';
import { median } from './measure.ts';
import { startMock } from './mock.ts';
import { type Figure, machine, table, writeFigures } from './page.ts';

const ROUNDS = 3;
const CALLS = Number(process.env.CALLS ?? 20_000);
const ALONE = Math.round(CALLS / 20);
const USERS = 32;
const RIG = process.env.RIG ?? '';
/** Of /proc/PID/stat, in seconds: USER_HZ is 100 on Linux. */
const TICK = 1 / 100;

if (!existsSync(join(RIG, 'mockd'))) {
  console.error('bench-gateway: left out: RIG names no folder with mockd, the mock server');
  process.exit(0);
}
const mock = await startMock(RIG, 0);
const endpoint = `http://127.0.0.1:${mock.port}`;
const data = mkdtempSync(join(tmpdir(), 'fw-bench-gateway-'));
const line = ['dist/bin/fw.js', 'serve', '--data', data, '--listen', '127.0.0.1:0'];
const server = spawn('node', [...line, '--endpoint', `${endpoint}/v1`], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
process.on('exit', () => {
  server.kill('SIGKILL');
  mock.process.kill();
  rmSync(data, { recursive: true, force: true });
});
const gateway = await new Promise<string>(resolve => {
  server.stdout.once('data', (bytes: Buffer) =>
    resolve((JSON.parse(bytes.toString()) as { url: string }).url),
  );
});
const models = (await (await fetch(`${endpoint}/v1/models`)).json()) as { data: { id: string }[] };
const body = JSON.stringify({
  model: models.data[0]?.id,
  messages: [{ role: 'user', content: 'A loan is asked for. '.repeat(38) }],
  max_tokens: 200,
});

/** ms of each of `calls`, by `users` that ask one after the other. */
async function ask(origin: string, calls: number, users: number): Promise<number[]> {
  const times: number[] = [];
  let left = calls;
  await Promise.all(
    Array.from({ length: users }, async () => {
      const client = new Client(origin, { pipelining: 1 });
      while (left-- > 0) {
        const from = performance.now();
        const reply = await client.request({
          path: '/v1/chat/completions',
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body,
        });
        await reply.body.arrayBuffer();
        if (reply.statusCode !== 200) throw new Error(`HTTP ${reply.statusCode}`);
        times.push(performance.now() - from);
      }
      await client.close();
    }),
  );
  return times;
}

/** Seconds of CPU that the server's process has taken. */
function cpu(): number {
  const fields = readFileSync(`/proc/${server.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK;
}

for (const origin of [endpoint, gateway]) await ask(origin, CALLS / 4, USERS);
const direct: number[] = [];
const through: number[] = [];
const costs: number[] = [];
for (let round = 0; round < ROUNDS; round++) {
  direct.push(median(await ask(endpoint, ALONE, 1)));
  through.push(median(await ask(gateway, ALONE, 1)));
  const before = cpu();
  await ask(gateway, CALLS, USERS);
  costs.push((cpu() - before) / CALLS);
}
const added = median(through.map((one, round) => one - (direct[round] as number)));
const perCall = median(costs);
const rows = [
  ['', 'measured', 'bound'],
  ['P50 with one user, direct', `${median(direct).toFixed(2)} ms`, ''],
  ['P50 with one user, through the gateway', `${median(through).toFixed(2)} ms`, ''],
  ['added at P50', `${added.toFixed(2)} ms`, '≤ 1 ms'],
  [`CPU per call, ${USERS} users`, `${(perCall * 1e6).toFixed(0)} µs`, ''],
  ['calls per second and core', Math.round(1 / perCall).toLocaleString('en'), '≥ 4,000'],
];
writeFigures(
  'gateway',
  rows.slice(1).map(([what = '', found = '', bound]): Figure => [`gateway: ${what}`, found, bound]),
  ['## The gateway of fw serve', '', ...table(rows), '', machine()],
);
process.exit(0);
