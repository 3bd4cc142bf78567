/**
 * Limits learned by a process that is late itself, run by hand:
 *   npx esbuild test/by-hand/slow-client.ts --bundle --format=esm --platform=node --packages=external --outfile=dist/slow-client.mjs && SECONDS=10 node dist/slow-client.mjs
 * Two servers of 40 ms in another process, and two owners who keep 600 calls out, each at one of them. The client is busy by
 * phases of its own, and is stopped for 2 s now and then; BUSY="by turns,stopped" leaves the others out. In turn: a limit set
 * by hand, from 8 to 512, and learned ones, from 32. Counted are the answers of SECONDS, of learned limits from the 20th
 * second on. Bounds: learned limits give 0.9 of the best that was set, and none is below 32 in the end.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { createPool } from '../../engine/asking/pool/pool.ts';
import type { Call } from '../../engine/core/item/call.ts';

const LATENCY = 40;
const OUT = 600;
const WARM = 20_000;
const SECONDS = Number(process.env.SECONDS ?? 10);
/** a limit that stays is at work at once */
const WARM_SET = 5_000;
const LIMITS = [8, 16, 32, 64, 128, 256, 512];
const ROUNDS = Number(process.env.ROUNDS ?? 3);
const BUSY = ['never', 'by turns', 'always', 'stopped'] as const;
const LEAST = 0.9;
const COLLAPSED = 32;
type Busy = (typeof BUSY)[number];

const [, , role, ...rest] = process.argv;
if (role === 'serve') serve();
else if (role === 'ask') await ask(JSON.parse(rest[0] as string));
else await compare();

function serve(): void {
  const reply = (model: string) =>
    JSON.stringify({
      choices: [{ index: 0, message: { role: 'assistant', content: '{}' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 500, completion_tokens: 100, total_tokens: 600 },
      model,
    });
  const ports = ['a', 'b'].map(async model => {
    const body = reply(model);
    const server = createServer((request: IncomingMessage, response: ServerResponse) => {
      if (request.url === '/v1/models')
        return void response.end(JSON.stringify({ object: 'list', data: [{ id: model, object: 'model' }] }));
      if (request.method !== 'POST') return void response.writeHead(404).end();
      request.resume().on('end', () => setTimeout(() => response.end(body), LATENCY));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  });
  void Promise.all(ports).then(all => process.send?.(all));
  process.on('disconnect', () => process.exit());
}

async function ask({
  ports,
  limit,
  busy,
  seed,
}: {
  ports: number[];
  limit: number | null;
  busy: Busy;
  seed: number;
}) {
  const endpoints = ports.map(port => ({
    url: `http://127.0.0.1:${port}/v1`,
    limit: limit ?? 32,
    pinned: limit !== null,
  }));
  const pool = await createPool({
    endpoints,
    models: ['a', 'b'],
    needsDefault: false,
    retryBudget: 0.2,
    warn: () => {},
  });
  let answers = 0;
  let next = 0;
  const one = async (model: string): Promise<void> => {
    for (;;) {
      const item = `i${next++}`;
      const body = Buffer.from(JSON.stringify({ model, messages: [{ role: 'user', content: item }] }));
      const call: Call = {
        ...{ path: '/chat/completions', model, body, head: '', tail: '', key: item.padStart(32, '0'), item },
        ...{ agent: model, round: 0, attempt: 1 },
      };
      await pool.call(call).catch(() => pause(10));
      answers++;
    }
  };
  let state = seed;
  const random = (): number => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
  if (busy === 'by turns' || busy === 'always')
    void (async () => {
      for (;;) {
        const until = performance.now() + 500 + 3_000 * random();
        while (performance.now() < until) {
          const end = performance.now() + 10 + 40 * random();
          while (performance.now() < end);
          await pause(20 * random());
        }
        if (busy === 'by turns') await pause(500 + 3_000 * random());
      }
    })();
  for (let n = 0; n < OUT; n++) void one('a');
  await pause(1_000 * random());
  for (let n = 0; n < OUT; n++) void one('b');
  await pause(limit === null ? WARM : WARM_SET);
  const from = answers;
  await pause(SECONDS * 1_000);
  const limits = pool.stats().endpoints.map(endpoint => endpoint.limit);
  process.send?.({ rate: (answers - from) / SECONDS, limits });
}

async function run(ports: number[], limit: number | null, busy: Busy, seed: number) {
  const child = fork(process.argv[1] as string, ['ask', JSON.stringify({ ports, limit, busy, seed })]);
  const stopping = busy === 'stopped' ? setInterval(() => void halt(child), 7_000) : undefined;
  const [said] = (await once(child, 'message')) as [{ rate: number; limits: number[] }];
  clearInterval(stopping);
  child.kill('SIGKILL');
  return said;
}

async function halt(child: ChildProcess): Promise<void> {
  child.kill('SIGSTOP');
  await pause(2_000);
  child.kill('SIGCONT');
}

async function compare(): Promise<void> {
  const server = fork(process.argv[1] as string, ['serve']);
  const [ports] = (await once(server, 'message')) as [number[]];
  const chosen = process.env.BUSY?.split(',') ?? BUSY;
  for (const busy of BUSY.filter(one => chosen.includes(one))) {
    const set: { limit: number; rate: number }[] = [];
    const learned: { rate: number; limits: number[] }[] = [];
    for (const [n, limit] of LIMITS.entries()) {
      set.push({ limit, rate: (await run(ports, limit, busy, 1 + (n % ROUNDS))).rate });
      // between those that are set, since a machine has better minutes and worse ones
      if (n % 2 === 1 && learned.length < ROUNDS)
        learned.push(await run(ports, null, busy, learned.length + 1));
    }
    const best = set.reduce((most, each) => (each.rate > most.rate ? each : most));
    console.log(
      `${busy}: by hand ${set.map(({ limit, rate }) => `${limit}: ${rate.toFixed(0)}/s`).join(', ')}`,
    );
    for (const { rate, limits } of learned) {
      const share = rate / best.rate;
      const isBad = share < LEAST || limits.some(limit => limit < COLLAPSED);
      console.log(
        `  learned ${limits.join(' and ')}: ${rate.toFixed(0)}/s, ${share.toFixed(2)} of the best ${isBad ? 'TOO LOW' : ''}`,
      );
    }
  }
  server.kill();
}
