/**
 * Connections of strangers to fw serve, run by hand:
 *   npx esbuild test/by-hand/strangers.ts --bundle --format=esm --platform=node --packages=external --outfile=dist/strangers.mjs && (ulimit -n 20000; node dist/strangers.mjs)
 * In turn: 600 under ulimit -n 1024, 10,100 under ulimit -n 20000. They say nothing, or headers that do not end, a letter a
 * second, or ask without a key. Then a tenant asks 20 times, each on a connection of its own, and the server gets SIGTERM. Bound:
 * all 20 are answered; a connection takes less than 20 KiB; the server has ended within 10 s.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const FW = join(import.meta.dirname, 'bin', 'fw.js');
const CASES = [
  { count: 600, limit: 1024 },
  { count: 10_100, limit: 20_000 },
];
const WORDS = {
  silent: '',
  dripping: 'GET /health HTTP/1.1\r\nHost: localhost\r\nX: ',
  'without a key': 'GET /v1/files HTTP/1.1\r\nHost: localhost\r\n\r\n',
};
const CALLS = 20;
const MOST_KIB = 20;
const MOST_END = 10_000;

const answer = '{"choices":[{"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}';
const model = createServer((asked, reply) => {
  const isModels = asked.url === '/v1/models';
  asked.resume().on('end', () => {
    if (asked.method === 'POST') reply.end(answer);
    else reply.writeHead(isModels ? 200 : 404).end(isModels ? '{"data":[{"id":"m"}]}' : '');
  });
}).listen(0, '127.0.0.1');
await once(model, 'listening');
const endpoint = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`;

let isFine = true;
for (const { count, limit } of CASES)
  for (const [name, words] of Object.entries(WORDS)) {
    const data = mkdtempSync(join(tmpdir(), 'strangers-'));
    const key = execFileSync('node', [FW, 'keys', 'add', 'm', '--data', data], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const line = `ulimit -n ${limit}; exec node ${FW} serve --data ${data} --listen 127.0.0.1:0 --endpoint ${endpoint}`;
    const server = spawn('bash', ['-c', line], { stdio: ['ignore', 'pipe', 'ignore'] });
    const [said] = (await once(server.stdout, 'data')) as [Buffer];
    const { port } = new URL(
      (JSON.parse(said.toString().split('\n', 1)[0] as string) as { url: string }).url,
    );
    const rss = (): number =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]);
    const before = rss();
    const open: Socket[] = [];
    for (let n = 0; n < count; n++) {
      const socket = connect(Number(port), '127.0.0.1', () => socket.write(words));
      socket.on('error', () => {}).resume();
      open.push(socket);
      if (n % 200 === 199) await pause(20);
    }
    const dripping = setInterval(() => {
      if (name === 'dripping') for (const socket of open) if (!socket.destroyed) socket.write('x');
    }, 1_000);
    await pause(8_000); // until it has taken all that came, and they have rested
    const each = (rss() - before) / count;
    const statuses = new Map<string, number>();
    for (let n = 0; n < CALLS; n++) {
      const status = await ask(Number(port), key.toString().trim());
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    const left = open.filter(({ destroyed }) => !destroyed).length;
    console.log(
      `${count} ${name}, ulimit -n ${limit}: ${left} are open, ${each.toFixed(1)} KiB each; ${CALLS} calls: ${[...statuses].map(([status, times]) => `${times} times ${status}`).join(', ')}`,
    );
    const toldAt = performance.now();
    server.kill('SIGTERM');
    await once(server, 'exit');
    const end = performance.now() - toldAt;
    console.log(`  it has ended ${(end / 1_000).toFixed(1)} s after SIGTERM`);
    isFine &&= statuses.get('200') === CALLS && each < MOST_KIB && end < MOST_END;
    clearInterval(dripping);
    for (const socket of open) socket.destroy();
    rmSync(data, { recursive: true });
  }
model.close();
process.exit(isFine ? 0 : 1);

function ask(port: number, key: string): Promise<string> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const options = {
    port,
    method: 'POST',
    path: '/v1/chat/completions',
    headers,
    agent: false,
    timeout: 10_000,
  };
  return new Promise(resolve => {
    const asked = request(
      options,
      reply => void reply.resume().on('end', () => resolve(String(reply.statusCode))),
    );
    asked
      .on('error', error => resolve(error.message))
      .on('timeout', () => asked.destroy(new Error('no answer in 10 s')));
    asked.end('{"model":"m","messages":[{"role":"user","content":"x"}]}');
  });
}
