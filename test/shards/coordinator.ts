/**
 * A coordinator in memory, over HTTP and a queue that is a list: what it says can be bent, and all that it hears is kept.
 * The real one is products/workers/desk.ts.
 */
import { createHash } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import { onTestFinished } from 'vitest';
import type { Hello, Orders, PartName, Result, Task } from '../../products/workers/protocol.ts';
import type { Taker } from '../../products/workers/taker.ts';
import { freePort } from '../free-port.ts';

export const KEY = 'fw_test';

export interface Given {
  task: Partial<Task>;
  files?: Buffer | null;
  shards: string[][];
}

interface Part {
  name: PartName;
  ordinals: number[];
  holder: string | null;
}

export interface FakeCoordinator {
  url: string;
  taker(): Pick<Taker, 'take' | 'close'>;
  hellos: Hello[];
  /** shards whose parts are given out to be asked alone */
  alone: number[];
  /** parts that were held at a time */
  mostHeld: number;
  results: (Result & { name: PartName })[];
  /** the lines of a work in their order; undefined where one has no result */
  lines(work: string): (string | undefined)[];
  /** resolves once `isSo`, which is asked after each thing that it hears */
  until(isSo: () => boolean): Promise<void>;
  done(work: string): Promise<void>;
  orders: Partial<Orders>;
  /** what is answered in place of what was asked; null for as usual */
  answers: (method: string, path: string, body: string) => { status: number; body?: string | Buffer } | null;
  /** puts a pointer into the queue, whatever it says */
  point(pointer: unknown): void;
  /** pointers that nobody has taken yet */
  waiting(): number;
  /** Nobody answers at its URL any more, until `back`. */
  away(): Promise<void>;
  back(): Promise<void>;
}

export const taskOf = (row: Task['row'], more: Partial<Task> = {}): Partial<Task> => ({ row, ...more });

/** The files of a task, and their hash. */
export function filesOf(files: Record<string, string>): { body: Buffer; sha256: string } {
  const entries = Object.entries(files).map(([path, text]) => [
    path,
    { base64: Buffer.from(text).toString('base64') },
  ]);
  const body = Buffer.from(JSON.stringify({ files: Object.fromEntries(entries) }));
  return { body, sha256: createHash('sha256').update(body).digest('hex') };
}

export async function fakeCoordinator(works: Record<string, Given>): Promise<FakeCoordinator> {
  const parts = new Map<string, Part>();
  const answers = new Map<string, string>();
  const waiting: { pointer: unknown }[] = [];
  let takers: { resolve(pointer: unknown): void; signal: AbortSignal }[] = [];
  let watchers: { isSo: () => boolean; resolve: () => void }[] = [];
  const nextPart = new Map<string, number>();
  const keyOf = ({ work, root, part }: PartName): string => `${work}/${root}/${part}`;

  function tell(): void {
    const now = watchers;
    watchers = [];
    for (const watcher of now) watcher.isSo() ? watcher.resolve() : watchers.push(watcher);
  }
  function offer(pointer: unknown): void {
    const taker = takers.shift();
    if (taker === undefined) waiting.push({ pointer });
    else taker.resolve(pointer);
  }
  function open(work: string, root: number, ordinals: number[]): void {
    const shard = `${work}/${root}`;
    const part = nextPart.get(shard) ?? 0;
    nextPart.set(shard, part + 1);
    const name = { work, root, part };
    parts.set(keyOf(name), { name, ordinals, holder: null });
    offer(name);
  }
  for (const [work, { shards }] of Object.entries(works))
    for (const [root, lines] of shards.entries()) open(work, root, [...lines.keys()]);

  const taskFor = (work: string): Task => ({
    label: work,
    row: [],
    files: null,
    models: [],
    owner: 'somebody',
    weight: 1,
    ...works[work]?.task,
  });

  function respond(
    path: string,
    body: Buffer,
    send: (status: number, body?: unknown) => void,
    raw: ServerResponse,
  ) {
    const [, , work = '', root, part, verb] = path.split('/');
    if (path === '/shards/hello') {
      const hello = JSON.parse(body.toString()) as Hello;
      fake.hellos.push(hello);
      const queues = hello.isStopping ? [] : ['any'];
      return send(200, { queues, drop: [], sharing: {}, every: 20, lease: 2_000, ...fake.orders });
    }
    if (root === 'task') return send(200, taskFor(work));
    if (root === 'files') return raw.writeHead(200).end(works[work]?.files ?? '');
    const found = parts.get(`${work}/${root}/${part}`);
    if (found === undefined) return send(410, { error: { message: 'This part is done.' } });
    const lines = works[work]?.shards[Number(root)] as string[];
    if (verb === 'take') {
      const { worker } = JSON.parse(body.toString()) as { worker: string };
      if (found.holder !== null && found.holder !== worker) return send(409);
      found.holder = worker;
      const held = [...parts.values()].filter(part => part.holder !== null).length;
      fake.mostHeld = Math.max(fake.mostHeld, held);
      const isAlone = fake.alone.includes(found.name.root);
      const own = found.ordinals.map(at => lines[at]);
      return raw.writeHead(200).end([JSON.stringify({ isAlone }), ...own, ''].join('\n'));
    }
    const [head = '', ...rest] = body.toString().split('\n');
    const result = JSON.parse(head) as Result;
    fake.results.push({ ...result, name: found.name });
    if (result.answered.length === 0) {
      found.holder = null;
      if (result.broken === undefined) offer(found.name);
      return send(200, { rest: found.ordinals.length });
    }
    parts.delete(keyOf(found.name));
    for (const [at, index] of result.answered.entries()) {
      const key = `${work}/${root}/${found.ordinals[index]}`;
      if (answers.has(key)) throw new Error(`${key} was answered twice`);
      answers.set(key, rest[at] as string);
    }
    const left = found.ordinals.filter((_, index) => !result.answered.includes(index));
    if (left.length > 0) open(work, Number(root), left);
    send(200, { rest: left.length });
  }

  const port = await freePort(); // it goes away, and comes back
  const listen = () => {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', chunk => chunks.push(chunk));
      request.on('end', () => {
        const path = request.url?.replace(/^\/below/, '') ?? '';
        const send = (status: number, body: unknown = {}) =>
          void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
        const other = fake.answers(request.method ?? '', path, Buffer.concat(chunks).toString());
        if (other !== null) response.writeHead(other.status).end(other.body);
        else if (request.headers.authorization !== `Bearer ${KEY}`) send(401);
        else respond(path, Buffer.concat(chunks), send, response);
        tell();
      });
    });
    return new Promise<typeof server>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, '127.0.0.1', () => resolve(server));
    });
  };
  let server = await listen();
  const away = () =>
    new Promise<void>(resolve => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  onTestFinished(away);
  const linesOf = (work: string): (string | undefined)[] =>
    (works[work]?.shards ?? []).flatMap((lines, root) =>
      lines.map((_, at) => answers.get(`${work}/${root}/${at}`)),
    );
  const fake: FakeCoordinator = {
    url: `http://127.0.0.1:${port}/below`,
    hellos: [],
    results: [],
    alone: [],
    mostHeld: 0,
    orders: {},
    answers: () => null,
    lines: linesOf,
    until: isSo => new Promise(resolve => (isSo() ? resolve() : watchers.push({ isSo, resolve }))),
    done: work => fake.until(() => !linesOf(work).includes(undefined)),
    point: offer,
    waiting: () => waiting.length,
    away,
    async back() {
      server = await listen();
    },
    taker: () => ({
      async take(_queues, signal) {
        const there = waiting.shift();
        const done = async () => {};
        if (there !== undefined) return { pointer: there.pointer as PartName, id: '', done };
        const pointer = await new Promise(resolve => {
          const one = { resolve, signal };
          takers.push(one);
          signal.addEventListener('abort', () => {
            takers = takers.filter(other => other !== one);
            resolve(null);
          });
        });
        return pointer === null ? null : { pointer: pointer as PartName, id: '', done };
      },
      async close() {},
    }),
  };
  return fake;
}
