/**
 * Live requests while everything fails, run by hand:
 *   npx esbuild test/by-hand/live-faults.ts --bundle --format=esm --platform=node --packages=external --outfile=dist/live-faults.mjs && MINUTES=60 REQUESTS=20000 SEED=1 node dist/live-faults.mjs
 * `fw serve` over four servers, each of which is by turns well, slow, hung, refusing, failing, breaking off and gone. Callers
 * have three keys, one of which is revoked and made again. A quarter of the requests stream. Each request has a word of its
 * own, which its answer must have. With DISK=1 (root) the data lie on a small tmpfs that is full now and then; with CLOCK=1
 * (libfaketime) the clock of the server jumps by up to a day, forth and back. Bounds: each ends within `interactive_timeout` and a second, with an answer or one error;
 * none has the answer of another; memory at the end is at most 1.5 times that after the first fifth.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const MINUTES = Number(process.env.MINUTES ?? 60);
const REQUESTS = Number(process.env.REQUESTS ?? 20_000);
const SEED = Number(process.env.SEED ?? 1);
const TIMEOUT = 20_000;
const MODES = ['well', 'well', 'well', 'slow', 'hung', 'refuses', 'fails', 'breaks off', 'gone'] as const;
type Mode = (typeof MODES)[number];
const NAMES = ['ada', 'ben', 'cem'];

let state = SEED;
const random = (): number => {
  state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
  return state / 2 ** 31;
};
const one = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;

const place = mkdtempSync(join(tmpdir(), 'fw-live-faults-'));
const data = join(place, 'data');
mkdirSync(data);
const DISK = process.env.DISK === '1';
const CLOCK = process.env.CLOCK === '1';
if (DISK) spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=256m', 'tmpfs', data]);
process.on('exit', () => {
  if (DISK) spawnSync('umount', ['-l', data]);
  rmSync(place, { recursive: true, force: true });
});

class Faulty {
  mode: Mode = 'well';
  port = 0;
  server: Server | null = null;
  readonly open = new Set<Socket>();
  readonly url: () => string = () => `http://127.0.0.1:${this.port}/v1`;

  async listen(): Promise<void> {
    const server = createServer((request, response) => this.answer(request, response));
    server.on('connection', socket => {
      this.open.add(socket);
      socket.on('close', () => this.open.delete(socket));
    });
    await new Promise<void>(resolve => server.listen(this.port, '127.0.0.1', resolve));
    this.port = (server.address() as AddressInfo).port;
    this.server = server;
  }

  async turn(to: Mode): Promise<void> {
    if (this.mode === 'gone' && to !== 'gone') await this.listen();
    this.mode = to;
    if (to !== 'gone') return;
    this.server?.close();
    for (const socket of this.open) socket.destroy();
  }

  answer(request: IncomingMessage, response: ServerResponse): void {
    if (request.url === '/v1/models') return void response.end('{"object":"list","data":[{"id":"m"}]}');
    if (request.method !== 'POST') return void response.writeHead(404).end();
    let body = '';
    request.on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => void this.reply(body, response));
  }

  async reply(body: string, response: ServerResponse): Promise<void> {
    const { messages, stream } = JSON.parse(body);
    const word = messages[0].content as string;
    const { mode } = this;
    if (mode === 'hung') return;
    if (mode === 'refuses') return void response.writeHead(429).end('{"error":{"message":"full"}}');
    if (mode === 'fails') return void response.writeHead(500).end('{"error":{"message":"broken"}}');
    if (mode === 'breaks off') return void response.destroy();
    await pause(mode === 'slow' ? 2_000 + 6_000 * Math.random() : 30 + 200 * Math.random());
    const choice = { index: 0, finish_reason: 'stop' };
    if (!stream) {
      const message = { role: 'assistant', content: word };
      const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 };
      return void response.end(
        JSON.stringify({
          id: 'x',
          object: 'chat.completion',
          model: 'm',
          choices: [{ ...choice, message }],
          usage,
        }),
      );
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const [at, piece] of [...word].entries()) {
      if (this.mode === 'gone' || response.destroyed) return;
      const delta = { content: piece };
      const event = {
        id: 'x',
        object: 'chat.completion.chunk',
        model: 'm',
        choices: [{ index: 0, delta, finish_reason: at === word.length - 1 ? 'stop' : null }],
      };
      response.write(`data: ${JSON.stringify(event)}\n\n`);
      await pause(20);
    }
    response.end('data: [DONE]\n\n');
  }
}

const fw = (...args: string[]): string =>
  spawnSync('node', ['dist/bin/fw.js', ...args], { encoding: 'utf8' }).stdout.trim();
const makeKey = (name: string): string => fw('keys', 'add', name, '--data', data);

const servers = Array.from({ length: 4 }, () => new Faulty());
for (const server of servers) await server.listen();
const config = join(place, 'serve.yaml');
writeFileSync(
  config,
  `interactive_wait: 5s\ninteractive_first_byte: 8s\ninteractive_timeout: ${TIMEOUT / 1000}s\ninteractive_stream: ${TIMEOUT / 1000}s\n`,
);
const clock = join(place, 'clock');
writeFileSync(clock, '+0\n');
const faked = {
  LD_PRELOAD: '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1',
  FAKETIME_TIMESTAMP_FILE: clock,
  FAKETIME_CACHE_DURATION: '1',
  // a step of the system's clock moves no timer
  DONT_FAKE_MONOTONIC: '1',
};
const keys = new Map(NAMES.map(name => [name, makeKey(name)]));
const child = spawn(
  'node',
  [
    'dist/bin/fw.js',
    'serve',
    '--data',
    data,
    '--listen',
    '127.0.0.1:0',
    '--config',
    config,
    ...servers.flatMap(({ url }) => ['--endpoint', url()]),
  ],
  { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ...(CLOCK && faked) } },
);
process.on('exit', () => child.kill('SIGKILL'));
const url = await new Promise<string>(resolve =>
  child.stdout.once('data', bytes => resolve(JSON.parse(`${bytes}`.split('\n')[0] as string).url)),
);
const memory = (): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024;

const counts = new Map<string, number>();
const count = (what: string): void => void counts.set(what, (counts.get(what) ?? 0) + 1);
let longest = 0;
let late = 0;
let wrong = 0;
let unclear = 0;

async function ask(nth: number): Promise<void> {
  const word = `word-${nth}-${Math.floor(1e9 * Math.random())}`;
  const stream = nth % 4 === 0;
  const began = performance.now();
  try {
    const reply = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${keys.get(NAMES[nth % 3] as string)}`,
      },
      body: JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: word }] }),
      signal: AbortSignal.timeout(10 * TIMEOUT),
    });
    const text = await reply.text();
    const took = performance.now() - began;
    longest = Math.max(longest, took);
    // a stream has its own time behind the first byte
    if (took > (stream ? 2 : 1) * TIMEOUT + 1_000) late++;
    if (reply.status !== 200) {
      count(`${reply.status}`);
      if (typeof JSON.parse(text).error?.message !== 'string') unclear++;
      return;
    }
    const said = stream
      ? text
          .split('\n')
          .filter(line => line.startsWith('data: {'))
          .map(line => JSON.parse(line.slice(6)))
      : [JSON.parse(text)];
    const error = said.find(each => each.error !== undefined);
    if (error) return count('a stream that ended with an error');
    const content = said
      .map(({ choices }) => (choices?.[0]?.delta ?? choices?.[0]?.message)?.content ?? '')
      .join('');
    if (content === word) return count(stream ? 'streamed' : 'answered');
    if (stream && word.startsWith(content)) {
      unclear++;
      return count('a stream that ended without an error');
    }
    wrong++;
  } catch (error) {
    unclear++;
    count(
      `${(error as Error).name} ${((error as Error).cause as Error | undefined)?.message ?? (error as Error).message}`,
    );
  }
}

const over = Date.now() + MINUTES * 60_000;
void (async () => {
  while (Date.now() < over) {
    await pause(2_000 + 10_000 * random());
    await one(servers).turn(one(MODES));
    if (random() < 0.1)
      for (const server of servers) await server.turn(one(['hung', 'gone', 'refuses', 'well'] as const));
  }
})();
void (async () => {
  while (Date.now() < over) {
    await pause(30_000);
    fw('keys', 'revoke', 'cem', '--data', data);
    await pause(2_000);
    keys.set('cem', makeKey('cem'));
  }
})();
if (DISK)
  void (async () => {
    const full = join(data, 'full');
    while (Date.now() < over) {
      await pause(30_000 + 120_000 * random());
      spawnSync('dd', ['if=/dev/zero', `of=${full}`, 'bs=1M'], { stdio: 'ignore' });
      await pause(2_000 + 8_000 * random());
      rmSync(full);
    }
  })();
if (CLOCK)
  void (async () => {
    while (Date.now() < over) {
      await pause(20_000 + 60_000 * random());
      writeFileSync(clock, `${one(['+', '-'])}${Math.floor(86_400 * random() ** 3)}\n`);
    }
  })();

const asked: Promise<void>[] = [];
let first = 0;
for (let nth = 0; nth < REQUESTS; nth++) {
  asked.push(ask(nth));
  await pause((2 * random() * MINUTES * 60_000) / REQUESTS);
  if (nth === Math.floor(REQUESTS / 5)) first = memory();
}
await Promise.all(asked);
const last = memory();
for (const [what, times] of [...counts].sort(([, a], [, b]) => b - a)) console.log(`${times}\t${what}`);
console.log(
  `${REQUESTS} requests, seed ${SEED}: the longest took ${(longest / 1000).toFixed(1)} s, ${late} too long, ${wrong} with another's answer, ${unclear} without a clear end; memory ${first.toFixed(0)} MB, at the end ${last.toFixed(0)} MB`,
);
child.kill('SIGTERM');
process.exitCode = late + wrong + unclear > 0 || last > 1.5 * first ? 1 : 0;
setTimeout(() => process.exit(), 500);
