/**
 * 1 GB from a real store to it through `fw run`, killed with SIGKILL at places in turn: before, in the middle of and behind each request that
 * writes (the begin, each part, the completion). Between fw and the store stands a relay that counts and kills. After each kill
 * the object must be absent or whole; at the end the same command writes the same bytes. stores.sh runs it.
 *   MIB=1024 EVERY=11 FROM=0 TO=400   every EVERY-th place of the three for each write; do not build meanwhile
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newAsking } from '../../engine/core/remote/exchange.ts';
import { openRemote } from '../../engine/core/remote/reading.ts';
import { Bucket, between, blocks } from '../../engine/core/remote/s3.ts';
import { beginUpload } from '../../engine/core/remote/upload.ts';

const SIZE = Number(process.env.MIB ?? 1024);
const EVERY = Number(process.env.EVERY ?? 11);
const NAME = process.env.BUCKET ?? 'try';
const store = new URL(process.env.AWS_ENDPOINT_URL as string);
const work = mkdtempSync(join(tmpdir(), 'fw-kills-'));
const bucket = new Bucket(NAME, newAsking());
(await bucket.ask({ method: 'PUT' })).resume();

async function digest(address: string): Promise<string> {
  const hash = createHash('sha256');
  const flow = openRemote(address).flow();
  for (let block = await flow.block(null); block !== null; block = await flow.block(null)) hash.update(block);
  return hash.digest('hex');
}

const there = async (): Promise<boolean> =>
  (await bucket.head('a look at the output', 'kills/out.ndjson')) !== null;

/** What the relay does at the next places: it kills at place `at`. */
let at = -1;
let place = 0;
let kill: () => Promise<void> = async () => {};

async function relay(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const { method, url, headers } = incoming;
  const isWrite = method === 'PUT' || method === 'POST';
  const mine = isWrite ? place : -1;
  if (isWrite) place += 3;
  const bytes: Buffer[] = [];
  for await (const piece of incoming) bytes.push(piece as Buffer);
  const body = Buffer.concat(bytes);
  if (mine === at && isWrite) return kill();
  const onward = request({ host: store.hostname, port: store.port, method, path: url, headers });
  const answer = once(onward, 'response') as Promise<[IncomingMessage]>;
  onward.on('error', () => outgoing.destroy());
  if (isWrite && mine + 1 === at) {
    onward.write(body.subarray(0, body.length >> 1));
    await kill();
    onward.destroy();
    answer.catch(() => {});
    return;
  }
  onward.end(body);
  const [reply] = await answer;
  if (isWrite && mine + 2 === at) {
    reply.resume();
    return kill();
  }
  outgoing.writeHead(reply.statusCode ?? 500, reply.headers);
  reply.pipe(outgoing);
}

const server = createServer(
  (incoming, outgoing) => void relay(incoming, outgoing).catch(() => outgoing.destroy()),
);
await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const file = join(work, 'pass.yaml');
const input = `s3://${NAME}/kills/in.ndjson`;
const output = `s3://${NAME}/kills/out.ndjson`;
writeFileSync(file, `input: ${input}\nstages:\n  - select: {}\noutput: ${output}\n`);

async function run(): Promise<{ code: number | null; usage: string; stderr: string }> {
  const timed = [
    '-f',
    '%U s of user CPU, %S s of system, %M KiB',
    '-o',
    join(work, 'time'),
    process.execPath,
  ];
  const child = spawn('/usr/bin/time', [...timed, 'dist/bin/fw.js', 'run', file], {
    env: { ...process.env, AWS_ENDPOINT_URL: endpoint, HOME: work },
    detached: true,
  });
  let stderr = '';
  child.stderr.on('data', text => {
    stderr += text;
  });
  const closed = once(child, 'close');
  kill = async () => {
    process.kill(-(child.pid as number), 'SIGKILL');
    await closed;
  };
  const [code] = (await closed) as [number | null];
  return { code, usage: code === null ? '' : readFileSync(join(work, 'time'), 'utf8').trim(), stderr };
}

console.log(`${SIZE} MiB`);
const upload = await beginUpload(input);
for (let line = 0; line < SIZE * 16; line++) {
  const random = createHash('sha256').update(`${line}`).digest('hex');
  const bytes = Buffer.from(`${JSON.stringify({ id: `${line}`, text: random.repeat(1023) })}\n`);
  if (!upload.put(bytes)) await new Promise<void>(resolve => upload.ready(resolve));
}
await upload.complete();
const expected = await digest(input);
await (await bucket.ask({ method: 'DELETE', key: 'kills/out.ndjson' })).resume();
const whole = await run();
console.log(`not killed: exit ${whole.code}, ${whole.usage}; ${whole.stderr.trim().split('\n').at(-1)}`);
let wrong = whole.code === 0 && (await digest(output)) === expected ? 0 : 1;
const places = place;
let kills = 0;
for (at = Number(process.env.FROM ?? 0); at < Math.min(places, Number(process.env.TO ?? 1e6)); at += EVERY) {
  (await bucket.ask({ method: 'DELETE', key: 'kills/out.ndjson' })).resume();
  place = 0;
  const { code, stderr } = await run();
  const left = await there();
  const isWhole = left && (await digest(output)) === expected;
  const isRight = code === null && (!left || isWhole);
  kills += 1;
  if (!isRight) {
    wrong += 1;
    console.log(`exit ${code}: ${stderr.slice(-500)}`);
  }
  const where = ['before', 'in the middle of', 'behind'][at % 3];
  console.log(
    `${isRight ? 'ok  ' : 'FAIL'} killed ${where} write ${Math.floor(at / 3) + 1}: ${left ? (isWhole ? 'the whole object' : 'HALF AN OBJECT') : 'no object'}`,
  );
}
at = -1;
const again = await run();
const isSame = again.code === 0 && (await digest(output)) === expected;
console.log(
  `${kills} kills, ${wrong} wrong; then: exit ${again.code}, ${isSame ? 'the same bytes' : 'OTHER BYTES'}, ${again.usage}`,
);
console.log(again.stderr.trim().split('\n').slice(-2).join('\n'));
// what the kills left: named, and removed as the documentation says
const list = { method: 'GET', query: { uploads: '', prefix: 'kills/' } } as const;
const found = await bucket.text('a list of uploads', list, 1 << 22).catch(() => null);
const ids = [...blocks(found?.text ?? '', 'Upload')].map(one => between(one, 'UploadId') as string);
for (const uploadId of ids)
  (await bucket.ask({ method: 'DELETE', key: 'kills/out.ndjson', query: { uploadId } })).resume();
console.log(found === null ? 'this store lists no uploads' : `${ids.length} unfinished uploads, removed`);
server.closeAllConnections();
server.close();
rmSync(work, { recursive: true });
process.exitCode = wrong === 0 && isSame ? 0 : 1;
