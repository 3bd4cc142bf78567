/**
 * Many streams at once through a server that has just started, run by hand:
 *   npx esbuild test/by-hand/cold-streams.ts --bundle --format=esm --platform=node --packages=external --outfile=dist/cold-streams.mjs && node dist/cold-streams.mjs [STREAMS...]
 * A server that sends a chunk each 100 ms, in a process of its own, and a client in another one, which has asked before.
 * By turns: directly, through a `fw serve` that has answered nothing yet, and through the same one again, warm. Each round
 * is a new `fw serve` of each folder in FW (`a:b`; this one unless given), and a bare proxy, in turn. Printed are medians
 * over ROUNDS: the 99th percentile of the times to the first chunk, the CPU that the server took for all of its streams,
 * and how long it took from its start to its first line.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const EACH = 100;
const CHUNKS = 10;
const ROUNDS = Number(process.env.ROUNDS ?? 5);
const BARE = 'bare';
const SERVERS = [...(process.env.FW ?? '.').split(':'), BARE];
/** ms of /proc/PID/stat: USER_HZ is 100 on Linux */
const TICK = 10;
/** bound: the 99th percentile by that of the direct streams */
const BOUND = 1.5;

const [, , role, ...rest] = process.argv;
if (role === 'serve') serve();
else if (role === 'ask') ask();
else if (role === 'pass') pass(rest[0] as string);
else await compare([role, ...rest].filter(one => one !== undefined).map(Number));

function serve(): void {
  const models = JSON.stringify({ object: 'list', data: [{ id: 'm', object: 'model' }] });
  const delta = { choices: [{ index: 0, delta: { content: 'word ' }, finish_reason: null }] };
  const chunk = `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 0, model: 'm', ...delta })}\n\n`;
  const last = `${chunk.replace('null}', '"stop"}')}data: [DONE]\n\n`;
  const server = createServer({ keepAliveTimeout: 60_000 }, (got, reply) => {
    if (got.url === '/v1/models') return void reply.end(models);
    if (got.method !== 'POST') return void reply.writeHead(404).end();
    got.resume().on('end', () => {
      reply.writeHead(200, { 'content-type': 'text/event-stream' });
      let left = CHUNKS;
      const timer = setInterval(() => {
        if (--left > 0) return void reply.write(chunk);
        clearInterval(timer);
        reply.end(last);
      }, EACH);
    });
  }).listen({ port: 0, host: '127.0.0.1', backlog: 4_096 });
  server.once('listening', () => process.send?.((server.address() as AddressInfo).port));
  process.on('disconnect', () => process.exit());
}

/** What Node itself costs: what comes goes on to `origin`, and nothing is read, kept or limited. */
function pass(origin: string): void {
  const agent = new Agent({ keepAlive: true });
  const server = createServer({ keepAliveTimeout: 60_000 }, (got, reply) => {
    const { method, headers } = got;
    const sent = request(origin + got.url, { method, headers, agent }, from => {
      reply.writeHead(from.statusCode as number, { 'content-type': from.headers['content-type'] });
      from.pipe(reply);
    });
    got.pipe(sent);
  }).listen({ port: 0, host: '127.0.0.1', backlog: 4_096 });
  server.once('listening', () => {
    console.log(JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }));
  });
}

/** Each message names an origin, and how many streams are wanted at once: the answer has the ms to the first chunk of each. */
function ask(): void {
  const body = JSON.stringify({
    model: 'm',
    messages: [{ role: 'user', content: 'A loan is asked for. '.repeat(20) }],
    ...{ stream: true, max_tokens: 10 },
  });
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  const stream = (origin: string, agent: Agent): Promise<number> =>
    new Promise((resolve, reject) => {
      const from = performance.now();
      let first = 0;
      request(`${origin}/v1/chat/completions`, { method: 'POST', headers, agent }, reply => {
        if (reply.statusCode !== 200) reject(new Error(`HTTP ${reply.statusCode}`));
        reply.on('data', () => (first ||= performance.now() - from)).on('end', () => resolve(first));
      })
        .on('error', reject)
        .end(body);
    });
  process.on('message', async ({ origin, streams }: { origin: string; streams: number }) => {
    const agent = new Agent({ keepAlive: true });
    process.send?.(await Promise.all(Array.from({ length: streams }, () => stream(origin, agent))));
    agent.destroy();
  });
  process.on('disconnect', () => process.exit());
}

/** A `fw serve`, or the bare proxy, and the ms until its first line. */
async function start(which: string, origin: string) {
  const data = mkdtempSync(join(tmpdir(), 'fw-cold-'));
  const from = performance.now();
  const flags = (process.env.NODE_FLAGS ?? '').split(' ').filter(Boolean);
  const options = ['--data', data, '--listen', '127.0.0.1:0', '--endpoint', `${origin}/v1`];
  const line =
    which === BARE
      ? [process.argv[1] as string, 'pass', origin]
      : [join(which, 'dist/bin/fw.js'), 'serve', ...options];
  const server = spawn('node', [...flags, ...line], { stdio: ['ignore', 'pipe', 'ignore'] });
  const [said] = (await once(server.stdout, 'data')) as [Buffer];
  const took = performance.now() - from;
  const stop = async (): Promise<void> => {
    server.kill('SIGINT');
    await once(server, 'exit');
    rmSync(data, { recursive: true, force: true });
  };
  /** ms of CPU */
  const cpu = (): number => {
    const fields = readFileSync(`/proc/${server.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return (Number(fields[11]) + Number(fields[12])) * TICK;
  };
  return { url: (JSON.parse(said.toString()) as { url: string }).url, took, stop, cpu };
}

async function compare(counts: number[]): Promise<void> {
  const self = process.argv[1] as string;
  const server = fork(self, ['serve']);
  const [port] = (await once(server, 'message')) as [number];
  const client = fork(self, ['ask']);
  const origin = `http://127.0.0.1:${port}`;
  const worst = async (where: string, streams: number): Promise<number> => {
    client.send({ origin: where, streams });
    const [times] = (await once(client, 'message')) as [number[]];
    await pause(200);
    return at(times, 0.99);
  };
  for (let n = 0; n < 4; n++) await worst(origin, 500);
  for (const streams of counts.length > 0 ? counts : [100, 1_000]) {
    const found: Record<string, number[]> = {};
    const note = (name: string, value: number): void => {
      found[name] = [...(found[name] ?? []), value];
    };
    for (let round = 0; round < ROUNDS; round++)
      for (const which of SERVERS) {
        note(`${which}, direct`, await worst(origin, streams));
        const server = await start(which, origin);
        await pause(300);
        const [before, cold, between, warm, after] = [
          ...[server.cpu(), await worst(server.url, streams)],
          ...[server.cpu(), await worst(server.url, streams), server.cpu()],
        ] as [number, number, number, number, number];
        note(`${which}, cold`, cold);
        note(`${which}, warm`, warm);
        note(`${which}, cold, CPU`, between - before);
        note(`${which}, warm, CPU`, after - between);
        note(`${which}, start`, server.took);
        await server.stop();
      }
    for (const [name, all] of Object.entries(found)) {
      const direct = at(found[`${name.split(',', 1)[0]}, direct`] as number[], 0.5);
      const share = at(all, 0.5) / direct;
      const isJudged = name.endsWith('cold') || name.endsWith('warm');
      const judged = isJudged ? `, ${share.toFixed(2)} × direct${share > BOUND ? ' TOO LONG' : ''}` : '';
      console.log(
        `${streams} streams, ${name}: ${at(all, 0.5).toFixed(0)} ms (${at(all, 0).toFixed(0)} to ${at(all, 1).toFixed(0)})${judged}`,
      );
    }
  }
  for (const child of [server, client] as ChildProcess[]) child.disconnect();
}

function at(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] as number;
}
