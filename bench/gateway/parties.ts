/** Who takes part in the benches of the gateway, each a process of its own: a mock server, a bare proxy, and fw serve. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'undici';

export const MODEL = 'mock';
export const CHUNKS = 64;
/** ms between two chunks of a stream */
const GAP = 50;
const ANSWER = JSON.stringify({
  ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 0, model: MODEL },
  choices: [
    { index: 0, message: { role: 'assistant', content: 'approve '.repeat(60) }, finish_reason: 'stop' },
  ],
  usage: { prompt_tokens: 200, completion_tokens: 60, total_tokens: 260 },
});

/** ms of a clock that all processes of a machine share */
export const clock = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000;

/** Answers at once; a stream has CHUNKS chunks, each of which says when it was sent. */
function mock(request: IncomingMessage, response: ServerResponse): void {
  const parts: Buffer[] = [];
  request.on('data', part => parts.push(part));
  request.on('end', () => {
    response.setHeader('content-type', 'application/json');
    if (request.method === 'GET') return void response.end(JSON.stringify({ data: [{ id: MODEL }] }));
    if (!Buffer.concat(parts).includes('"stream":true')) return void response.end(ANSWER);
    response.setHeader('content-type', 'text/event-stream');
    let left = CHUNKS;
    const timer = setInterval(() => {
      const choices = [
        { index: 0, delta: { content: `${clock()}` }, finish_reason: --left === 0 ? 'stop' : null },
      ];
      response.write(`data: ${JSON.stringify({ id: 'chatcmpl-1', model: MODEL, choices })}\n\n`);
      if (left > 0) return;
      clearInterval(timer);
      response.end('data: [DONE]\n\n');
    }, GAP);
    response.on('close', () => clearInterval(timer));
  });
}

/** The least that a proxy of Node does: bodies and streams go through as they come. */
function bareProxy(origin: string) {
  const pool = new Pool(origin, { connections: 1_024, pipelining: 1 });
  return (request: IncomingMessage, response: ServerResponse): void => {
    const { url = '/', method = 'GET', headers } = request;
    const sent = { 'content-type': headers['content-type'] ?? 'application/json' };
    const body = method === 'GET' ? null : request;
    pool
      .request({ path: url, method: method as 'GET' | 'POST', headers: sent, body })
      .then(reply => {
        response.writeHead(reply.statusCode, { 'content-type': String(reply.headers['content-type']) });
        reply.body.pipe(response);
      })
      .catch(() => response.writeHead(502).end());
  };
}

/** In a process that `start` has begun: serves, and says its URL. False in any other. */
export function isParty(): boolean {
  const [role, origin = ''] = process.argv.slice(2);
  if (role !== 'mock' && role !== 'proxy') return false;
  const server = createServer(role === 'mock' ? mock : bareProxy(origin));
  server.listen(0, '127.0.0.1', 1_024, () => {
    const { port } = server.address() as AddressInfo;
    process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${port}` })}\n`);
  });
  return true;
}

export interface Party {
  name: string;
  url: string;
  pid: number;
}

const children: ChildProcess[] = [];
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

/** A process that says its URL. Its stderr is read, as that of a log is, and dropped. */
export async function start(name: string, args: readonly string[]): Promise<Party> {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  children.push(child);
  child.stderr.resume();
  const url = await new Promise<string>((resolve, reject) => {
    child.once('exit', code => reject(new Error(`${name}: ended with ${code}`)));
    child.stdout.once('data', bytes => resolve((JSON.parse(bytes.toString()) as { url: string }).url));
  });
  return { name, url, pid: child.pid as number };
}

export const serve = (
  name: string,
  data: string,
  endpoint: string,
  more: readonly string[] = [],
): Promise<Party> =>
  start(name, [
    'dist/bin/fw.js',
    'serve',
    '--data',
    data,
    '--listen',
    '127.0.0.1:0',
    '--endpoint',
    `${endpoint}/v1`,
    ...more,
  ]);
