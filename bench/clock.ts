/**
 * make bench-clock: are the times of fw bench true? A server of our own in another process sends the shapes of
 * test/bench/shapes.ts at known times over real sockets, and notes when it wrote each chunk; what fw saw is held against
 * that, at 1, 100 and 1,000 streams. Then what the client costs a token, against undici's handlers that only count bytes.
 * STREAMS=1,100 for other numbers. Beside other work on the machine the lag is that of the machine.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client } from 'undici';
import { createEndpoint } from '../engine/asking/pool/pool-state.ts';
import { aligned } from '../engine/core/item/wording.ts';
import { figuresOf } from '../products/measure/bench/bench-figures.ts';
import { percentile, sorted } from '../products/measure/bench/bench-statistics.ts';
import { lineTo } from '../products/measure/bench/bench-wire.ts';
import { limitsOf, watchClient } from '../products/measure/bench/client-health.ts';
import { type Driven, drive } from '../products/measure/bench/drive-load.ts';
import { Samples } from '../products/measure/bench/samples.ts';
import { content, DONE, finished, SHAPES, usage } from '../test/bench/shapes.ts';

const STREAMS = (process.env.STREAMS ?? '1,100,1000').split(',').map(Number);
/** Of the shapes with 1,000 streams one is enough. */
const MOST_FOR_ALL = 100;
const ROUNDS = 5;
const STEADY = { tokens: 200, gap: 20 };
const COST_ROUNDS = 3;
/** Of a connection, where calls are measured and not tokens. */
const CALLS = 20;

/** What the server wrote for one request: when each event with content was whole, on the clock below. */
interface Written {
  number: number;
  words: number[];
  tokens: number;
}

/** ms of the clock that all processes of a machine share. */
const clock = (): number => Number(process.hrtime.bigint()) / 1e6;

if (process.argv[2] === 'serve') serve();
else await compare();

/** Medians, ms: what the server wrote when, from the time at which the client sent the request. */
interface Truth {
  ttft: number;
  tpot: number;
  itl: number;
  e2el: number;
}

function serve(): void {
  process.on('disconnect', () => process.exit());
  const steady = Array.from(
    { length: STEADY.tokens },
    (_, i) => [100 + STEADY.gap * i, content(`t${i}`)] as const,
  );
  const last = steady.at(-1)?.[0] ?? 0;
  const scripts = [
    ...SHAPES.map(({ chunks }) => chunks),
    [...steady, [last + 1, finished + usage(STEADY.tokens) + DONE] as const],
  ];
  let written: Written[] = [];
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const [, path, number] = request.url?.split('/') ?? [];
      const script = scripts[Number(path)];
      if (script === undefined) return void response.writeHead(404).end();
      const came = clock();
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      const words: number[] = [];
      let held = '';
      const next = (at: number): void => {
        const chunk = script[at];
        if (chunk === undefined) {
          response.end();
          const tokens = Number(/"completion_tokens":(\d+)/.exec(held)?.[1] ?? 0);
          written.push({ number: Number(number), words, tokens });
          return;
        }
        const [due, bytes] = chunk;
        setTimeout(
          () => {
            const now = clock();
            response.write(bytes);
            // the words of an event that is whole now
            held += Buffer.from(bytes as string).toString('latin1');
            const whole = held.split(/\r?\n\r?\n/);
            const rest = at === script.length - 1 ? '' : (whole.pop() as string);
            for (const event of whole) if (/"content":\s*"[^"]/.test(event)) words.push(now);
            held = at === script.length - 1 ? held : rest;
            next(at + 1);
          },
          Math.max(0, came + due - clock()),
        );
      };
      next(0);
    });
  });
  process.on('message', () => {
    process.send?.(written);
    written = [];
  });
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () =>
    process.send?.((server.address() as AddressInfo).port),
  );
}

async function compare(): Promise<void> {
  const server = fork(process.argv[1] as string, ['serve'], { serialization: 'advanced' });
  const [port] = (await once(server, 'message')) as [number];
  const rows = [
    [
      'streams',
      'shape',
      'TTFT',
      'TPOT',
      'ITL',
      'E2EL: found − true, ms, medians',
      'within 2 ms or 2 %',
      'client',
    ],
  ];
  for (const streams of STREAMS) {
    const shapes =
      streams <= MOST_FOR_ALL
        ? SHAPES.map(({ name }, at) => [name, at] as const)
        : [[`${STEADY.tokens} tokens, one in ${STEADY.gap} ms`, SHAPES.length] as const];
    await truthOf(server, (await ask(port, 0, streams, 1)).sentAt); // runs all of it once, unmeasured
    for (const [name, at] of shapes) {
      const rounds = streams === 1 ? ROUNDS * 2 : ROUNDS;
      const watching = watchClient();
      const driven = await ask(port, at, streams, streams <= MOST_FOR_ALL ? rounds : 1);
      const client = watching.stop(null);
      const truth = await truthOf(server, driven.sentAt);
      const { metrics } = figuresOf(driven, null);
      const off = (['ttft', 'tpot', 'itl', 'e2el'] as const).map(metric => {
        const [found, real] = [metrics[metric].at[50] as number, truth[metric]];
        return {
          found,
          real,
          by: found - real,
          fits: Number.isNaN(real) || Math.abs(found - real) <= Math.max(2, 0.02 * real),
        };
      });
      const limits = limitsOf(client, {
        medianTtft: metrics.ttft.at[50] as number,
        p99Ttft: metrics.ttft.at[99] as number,
      });
      rows.push([
        String(streams),
        name.slice(0, 44),
        ...off.map(({ by, real }) => (Number.isNaN(real) ? '–' : by.toFixed(2))),
        off.every(({ fits }) => fits) ? 'yes' : 'no',
        limits.length === 0
          ? 'ok'
          : `client-limited (${client.lagMean.toFixed(1)} ms late on average, ${client.lagP99.toFixed(1)} at p99)`,
      ]);
    }
  }
  console.log(aligned(rows, [0, 2, 3, 4, 5]).join('\n'));
  for (const streams of STREAMS.filter(each => each > 1)) await costs(port, streams);
  server.disconnect();
}

/** What is true of the requests that were sent at these times. */
async function truthOf(server: ChildProcess, sent: readonly number[]): Promise<Truth> {
  server.send('truth');
  const [all] = (await once(server, 'message')) as [Written[]];
  const lists = { ttft: [] as number[], tpot: [] as number[], itl: [] as number[], e2el: [] as number[] };
  for (const { number, words, tokens } of all) {
    const first = (words[0] ?? Number.NaN) - (sent[number] as number);
    const end = (words.at(-1) ?? Number.NaN) - (sent[number] as number);
    lists.ttft.push(first);
    lists.e2el.push(end);
    if (tokens > 1) lists.tpot.push((end - first) / (tokens - 1));
    for (let i = 1; i < words.length; i++) lists.itl.push((words[i] as number) - (words[i - 1] as number));
  }
  const median = (list: number[]): number => percentile(sorted(list), 50);
  return {
    ttft: median(lists.ttft),
    tpot: median(lists.tpot),
    itl: median(lists.itl),
    e2el: median(lists.e2el),
  };
}

async function ask(
  port: number,
  path: number,
  streams: number,
  rounds: number,
  isTogether = false,
): Promise<Driven & { sentAt: number[] }> {
  const sentAt: number[] = [];
  const endpoint = createEndpoint(
    { url: `http://127.0.0.1:${port}/v1`, limit: 1, pinned: true },
    0,
    undefined,
  );
  const line = lineTo(endpoint, { now: clock, keepText: false });
  const driven = await drive({
    lines: [line],
    // evenly, so many that `streams` are under way: all at once, they would wait for each other in the client and the server
    load:
      streams === 1 || isTogether
        ? { kind: 'closed', concurrency: streams }
        : {
            kind: 'open',
            rate: (1000 * streams) / lastOf(path),
            burstiness: Number.POSITIVE_INFINITY,
            seed: 1,
          },
    extent: { requests: streams * rounds, ms: null },
    requestAt(number) {
      sentAt[number] = clock();
      return { path: `/${path}/${number}`, body: Buffer.from('{}') };
    },
    samples: start => new Samples({ start, isDetailed: false }),
    now: clock,
    after: (ms, run) => {
      const timer = setTimeout(run, ms);
      return () => clearTimeout(timer);
    },
    patience: 60_000,
    signal: new AbortController().signal,
  });
  await line.close();
  if (driven.samples.failed > 0) throw new Error(JSON.stringify(driven.samples.failures()));
  return { ...driven, sentAt };
}

/** ms of the last chunk of a script */
function lastOf(path: number): number {
  return SHAPES[path]?.chunks.at(-1)?.[0] ?? 100 + STEADY.gap * STEADY.tokens;
}

/**
 * CPU of this process, in µs: fw's client, and handlers that only count bytes, in turn. A token of long answers, and a call
 * whose answer is one token.
 */
async function costs(port: number, streams: number): Promise<void> {
  const cpuOf = async (work: () => Promise<unknown>): Promise<number> => {
    const from = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(from);
    return user + system;
  };
  const compare = async (what: string, path: number, rounds: number, parts: number): Promise<void> => {
    const own: number[] = [];
    const bare: number[] = [];
    for (let round = 0; round < COST_ROUNDS; round++) {
      own.push((await cpuOf(() => ask(port, path, streams, rounds, true))) / parts);
      bare.push((await cpuOf(() => read(port, path, streams, rounds))) / parts);
    }
    const median = (list: number[]): number => percentile(sorted(list), 50);
    const ratios = own.map((cost, at) => cost / (bare[at] as number));
    console.log(
      `${streams} streams: ${median(own).toFixed(1)} µs of CPU a ${what}, a bare undici loop ${median(bare).toFixed(1)}: ${median(ratios).toFixed(2)} of it (${ratios.map(ratio => ratio.toFixed(2)).join(', ')})`,
    );
  };
  await compare('token', SHAPES.length, 1, streams * STEADY.tokens);
  const one = SHAPES.findIndex(({ name }) => name === 'one token');
  await compare('call', one, CALLS, streams * CALLS);
}

/** The same streams by handlers that count bytes and do nothing else, one after the other on each connection. */
async function read(port: number, path: number, streams: number, rounds: number): Promise<void> {
  const one = (client: Client): Promise<void> =>
    new Promise((done, failed) => {
      let bytes = 0;
      client.dispatch(
        {
          path: `/${path}/0`,
          method: 'POST',
          headers: ['content-type', 'application/json'],
          body: Buffer.from('{}'),
        },
        {
          onRequestStart() {},
          onResponseStart() {},
          onResponseData(_, chunk) {
            bytes += chunk.length;
          },
          onResponseEnd: () => (bytes > 0 ? done() : failed(new Error('an answer without bytes'))),
          onResponseError: (_, error) => failed(error),
        },
      );
    });
  const all = Array.from({ length: streams }, async () => {
    const client = new Client(`http://127.0.0.1:${port}`, {
      headersTimeout: 0,
      bodyTimeout: 0,
      pipelining: 1,
    });
    for (let i = 0; i < rounds; i++) await one(client);
    await client.close();
  });
  await Promise.all(all);
}
