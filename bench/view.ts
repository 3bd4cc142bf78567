/**
 * make bench-view: a million items in `fw view`, as its page asks for them, over HTTP. The process is one of its own, and
 * its memory is what the system counts for it (VmHWM). ITEMS=… for fewer; FILE=… for a file of your own.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, createWriteStream, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { median } from './measure.ts';
import { type Figure, machine, table, writeFigures } from './page.ts';

const ITEMS = Number(process.env.ITEMS ?? 1_000_000);
const ROUNDS = 5;
const folder = mkdtempSync(join(tmpdir(), 'fw-bench-view-'));
const path = process.env.FILE ?? join(folder, 'items.ndjson');
if (process.env.FILE === undefined) await write(path, ITEMS);
const gigabytes = statSync(path).size / 1e9;

try {
  await measureAll();
} finally {
  rmSync(folder, { recursive: true });
}

interface Opened {
  child: ChildProcess;
  /** asks for a path with the cookie; resolves to the text, and the ms that it took */
  ask(route: string): Promise<{ text: string; ms: number }>;
  /** ms from the start of the process until the first rows are on the page */
  first: number;
  peak(): number;
}

async function open(): Promise<Opened> {
  const start = performance.now();
  const child = spawn('node', ['dist/bin/fw.js', 'view', path, '--no-open'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, TMPDIR: folder },
  });
  let address = '';
  for await (const line of createInterface({ input: child.stderr as NodeJS.ReadableStream })) {
    address = /https?:\/\/\S+/.exec(line)?.[0] ?? '';
    if (address !== '') break;
  }
  const entry = await fetch(address, { redirect: 'manual' });
  const cookie = entry.headers.get('set-cookie')?.split(';')[0] ?? '';
  const { origin } = new URL(address);
  const ask: Opened['ask'] = async route => {
    const asked = performance.now();
    const text = await (await fetch(`${origin}${route}`, { headers: { cookie } })).text();
    return { text, ms: performance.now() - asked };
  };
  const { text } = await ask('/');
  if (!text.includes('000000000000/'))
    throw new Error('expected the first rows on the first page, found none');
  const first = performance.now() - start;
  const status = `/proc/${child.pid}/status`;
  const peak = (): number => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(status, 'utf8'))?.[1]) / 1024;
  return { child, ask, first, peak };
}

interface Rows {
  rows: number;
  done: boolean;
  selected: number;
  cells: unknown[][];
}

/** Of one route, until its answer is whole: a search goes on behind the first. */
async function until(
  ask: Opened['ask'],
  route: string,
  isSo: (rows: Rows) => boolean,
): Promise<{ ms: number; found: Rows }> {
  const start = performance.now();
  for (;;) {
    const { text } = await ask(route);
    const found = JSON.parse(text) as Rows;
    if (isSo(found)) return { ms: performance.now() - start, found };
  }
}

async function measureAll(): Promise<void> {
  const cold = await open();
  const start = performance.now() - cold.first;
  await until(cold.ask, '/rows?from=0&count=1', ({ done }) => done);
  const indexed = performance.now() - start;
  const coldPeak = cold.peak();
  await closed(cold.child);
  const firsts: number[] = [];
  const all = new Map<string, number[]>();
  const note = (what: string, ms: number): void => void all.set(what, [...(all.get(what) ?? []), ms]);
  let peak = 0;
  let last = '';
  for (let round = 0; round < ROUNDS; round++) {
    const { child, ask, first, peak: peakOf } = await open();
    firsts.push(first);
    const whole = await until(ask, '/rows?from=0&count=1', ({ done }) => done);
    const rows = whole.found.rows;
    note('filter, one value', (await ask('/rows?in.ethnicity_signal=asian&from=0&count=60')).ms);
    note(
      'filter, a range of another column too',
      (await ask('/rows?in.ethnicity_signal=asian&in.income=50000..60000&from=0&count=60')).ms,
    );
    note('sort by tokens', (await ask('/rows?sort=-tokens.in&from=0&count=60')).ms);
    note('table page with its counts', (await ask('/')).ms);
    const end = await ask(`/rows?from=${rows - 60}&count=60`);
    note('scroll to the last row', end.ms);
    last = String(JSON.parse(end.text).cells.at(-1)?.[1] ?? '');
    const search = await until(ask, '/rows?q=Needle-in-HAYstack&from=0&count=60', ({ done }) => done);
    if (search.found.selected !== Math.ceil(ITEMS / 1_000))
      throw new Error(`found ${search.found.selected} rows`);
    note('search, seconds a GB', search.ms / gigabytes);
    appendFileSync(path, lineOf(1, Math.random));
    note(
      'a row appended, until it is there',
      (await until(ask, `/rows?from=${rows}&count=1`, ({ rows: now }) => now > rows)).ms,
    );
    peak = Math.max(peak, peakOf());
    await closed(child);
  }
  const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`;
  const of = (what: string): string => seconds(median(all.get(what) as number[]));
  const figures: Figure[] = [
    ['fw view, a million items: first rows, never seen before', seconds(cold.first), '≤ 1 s'],
    ['fw view: index of all, beside reading', seconds(indexed), '≤ 30 s'],
    ['fw view: first rows of all, seen before', seconds(median(firsts)), '≤ 1 s'],
    ['fw view: a filter', of('filter, one value'), '≤ 1 s'],
    ['fw view: text search, a GB', of('search, seconds a GB'), '≤ 2 s'],
    [
      'fw view: peak memory, while indexing / later',
      `${coldPeak.toFixed(0)} / ${peak.toFixed(0)} MiB`,
      '≤ 300 MB',
    ],
  ];
  writeFigures('view', figures, [
    `${ITEMS} items, ${gigabytes.toFixed(2)} GB; medians of ${ROUNDS}; the last row is ${last}`,
    ...table([
      ['what', 'median', 'longest'],
      ...[...all].map(([what, ms]) => [what, of(what), seconds(Math.max(...ms))]),
    ]),
    machine(),
  ]);
}

async function closed(child: ChildProcess): Promise<void> {
  child.kill('SIGINT');
  await once(child, 'exit');
}

/** Items of about 3 KB as `fw chain` writes them: four agents and a decision. */
async function write(to: string, items: number): Promise<void> {
  let seed = 7;
  const random = (): number => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
  const out = createWriteStream(to, { highWaterMark: 8 << 20 });
  for (let row = 0; row < items; row++) if (!out.write(lineOf(row, random))) await once(out, 'drain');
  out.end();
  await once(out, 'finish');
}

function lineOf(row: number, random: () => number): string {
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const words =
    'the applicant has a stable income and a low debt ratio, which supports approval under policy 4.2, though recent inquiries raise a concern. ';
  const agents = ['risk_manager', 'data_analyst', 'regulatory', 'consumer_advocate'];
  const input = {
    name: `Person ${row % 5000}`,
    ethnicity_signal: pick(['asian', 'black', 'hispanic', 'white']),
    income: String(20_000 + Math.floor(random() * 90_000)),
    credit_score: String(500 + Math.floor(random() * 350)),
    age: String(18 + Math.floor(random() * 60)),
  };
  const step = (agent: string) => ({
    agent,
    output: {
      recommendation: pick(['approve', 'deny', 'refer']),
      confidence: Math.round(random() * 100) / 100,
      reasoning: `${words.repeat(2)}${row}`,
    },
    rung: random() < 0.97 ? 'clean' : 'repaired',
    saw: 'clean',
    repairs: [],
    calls: [`${row}-${agent}`],
    attempts: random() < 0.98 ? 1 : 2,
    usage: { prompt: 700 + Math.floor(random() * 300), completion: 90 + Math.floor(random() * 80) },
  });
  const failed = random() < 0.001;
  const steps = (failed ? agents.slice(0, 2) : agents).map(step);
  const more = failed
    ? {
        failure: {
          stage: 'chain',
          agent: 'regulatory',
          code: pick(['no-valid-answer', 'timeout']),
          message: 'expected an answer that fits',
        },
      }
    : {
        decision: {
          ...step('synthesis'),
          output: {
            approval_decision: pick(['approve', 'deny']),
            interest_rate: Math.round(random() * 200) / 10,
          },
        },
      };
  const prompt = `Application ${row}\n${words.repeat(7)}${row % 1000 === 0 ? ' needle-in-haystack' : ''}`;
  const id = `${row.toString(16).padStart(12, '0')}/risk-data-regulatory-consumer`;
  return `${JSON.stringify({ id, row: row + 1, input, prompt, ordering: agents, steps, ...more })}\n`;
}
