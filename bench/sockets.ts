/**
 * make bench-sockets: limits that fw finds on real sockets, against the best of a sweep set by hand (--endpoint-limit).
 * A server of our own in another process takes so many calls at once; whole processes with their start. What
 * bench-limits does in virtual time for all cells, for six of them here.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measure, medianOf, ratio } from './measure.ts';
import { type Figure, machine, table, writeFigures } from './page.ts';

const ROUNDS = 3;
const AGENTS = 4;
/** ms of an answer where there is room, ± 20 % */
const ANSWER = 200;
/** Seconds that the best limit takes, about: what is found late costs less in a long run. */
const SECONDS = Number(process.env.SECONDS ?? 12);

interface Cell {
  places: number;
  beyond: 'waits' | 'is refused' | 'slows all';
  /** share of the calls that are refused with 429 whatever the load */
  random: number;
}
const CELLS: readonly Cell[] = [
  { places: 8, beyond: 'waits', random: 0 },
  { places: 64, beyond: 'waits', random: 0.01 },
  { places: 64, beyond: 'slows all', random: 0 },
  { places: 64, beyond: 'is refused', random: 0 },
  { places: 256, beyond: 'waits', random: 0 },
  { places: 256, beyond: 'is refused', random: 0.05 },
];

if (process.argv[2] === 'serve') serve(JSON.parse(process.argv[3] as string) as Cell);
else await sweepAll();

function serve({ places, beyond, random }: Cell): void {
  process.on('disconnect', () => process.exit());
  const body = JSON.stringify({
    choices: [{ index: 0, message: { role: 'assistant', content: '{}' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 500, completion_tokens: 100, total_tokens: 600 },
  });
  const waiting: (() => void)[] = [];
  let here = 0;
  const away = (response: ServerResponse, status: number): void => void response.writeHead(status).end();
  const server = createServer((request, response) => {
    if (request.url === '/v1/models')
      return void response.end('{"object":"list","data":[{"id":"limited","object":"model"}]}');
    if (request.method !== 'POST') return away(response, 404);
    request.resume().on('end', () => {
      if (Math.random() < random) return away(response, 429);
      if (beyond === 'is refused' && here >= places) return away(response, 503);
      if (beyond === 'waits' && here >= places) return void waiting.push(answer);
      answer();
    });
    function answer(): void {
      here += 1;
      const slowed = beyond === 'slows all' ? Math.max(1, here / places) : 1;
      setTimeout(
        () => {
          here -= 1;
          response.writeHead(200, { 'content-type': 'application/json' }).end(body);
          waiting.shift()?.();
        },
        ANSWER * (0.8 + 0.4 * Math.random()) * slowed,
      );
    }
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
}

async function startServer(cell: Cell): Promise<{ server: ChildProcess; port: string }> {
  const server = spawn(process.execPath, [process.argv[1] as string, 'serve', JSON.stringify(cell)], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const [bytes] = await once(server.stdout as NodeJS.ReadableStream, 'data');
  return { server, port: String(bytes).trim() };
}

async function sweepAll(): Promise<void> {
  const data = mkdtempSync(join(tmpdir(), 'fw-bench-sockets-'));
  process.on('exit', () => rmSync(data, { recursive: true, force: true }));
  const keys = Array.from({ length: AGENTS }, (_, index) => `agent_${index}`);
  mkdirSync(join(data, 'agents'));
  for (const [index, key] of keys.entries())
    writeFileSync(
      join(data, 'agents', `${key}.yaml`),
      `key: ${key}\nshort: agent${index}\ndisplay: ${key}\nrole: agent\npersona: Answer.\nschema: { type: object }\nsampling: { temperature: 0, max_tokens: 100 }\n`,
    );
  writeFileSync(join(data, 'agents', 'orderings.yaml'), `default: [[${keys.join(', ')}]]\n`);

  const rows = [['places', 'a call beyond them', 'random 429', 'chains', 'best of the sweep', 'found']];
  for (const cell of CELLS) {
    const { places, beyond, random } = cell;
    const chains = Math.round((SECONDS * 1000 * places) / (AGENTS * ANSWER));
    const items = Array.from({ length: chains }, (_, row) => `{"id":"r${row}","prompt":"Item ${row}."}\n`);
    writeFileSync(join(data, 'items.ndjson'), items.join(''));
    const { server, port } = await startServer(cell);
    const line = (set: string): string =>
      `node dist/bin/fw.js chain --no-decision --guided off --agents $DATA/agents --endpoint http://127.0.0.1:${port}/v1${set} $DATA/items.ndjson > /dev/null`;
    const limits = [places / 2, places, 2 * places];
    const contestants = [
      { name: 'nothing set', line: line('') },
      ...limits.map(limit => ({ name: `${limit}`, line: line(` --endpoint-limit ${limit}`) })),
    ];
    const env = { DATA: data, FW_LEDGER: '' };
    const [own, ...swept] = measure(contestants, { rounds: ROUNDS, env });
    server.kill();
    if (own === undefined) throw new Error('nothing was measured');
    const best = swept.reduce((a, b) => (medianOf(b, 'wall') < medianOf(a, 'wall') ? b : a));
    rows.push([
      String(places),
      beyond,
      `${100 * random} %`,
      chains.toLocaleString('en'),
      `${best.name}: ${medianOf(best, 'wall').toFixed(1)} s`,
      `${(100 * ratio(best, own, 'wall')).toFixed(1)} %`,
    ]);
    console.error(rows.at(-1)?.join(' | '));
  }
  writeFigures(
    'sockets',
    rows
      .slice(1)
      .map(
        ([places, beyond, random, , , found]): Figure => [
          `limits on sockets, ${places} places, a call beyond them ${beyond}, ${random} random 429: share of the best set by hand`,
          found as string,
        ],
      ),
    [
      '## Limits that are found, on real sockets',
      '',
      `\`fw chain --endpoint URL\` with nothing set, against the best of three limits set by hand, on a server without metrics that answers after ${ANSWER} ms ± 20 %; whole processes, wall time, medians of ${ROUNDS}.`,
      machine(),
      '',
      ...table(rows),
    ],
  );
}
