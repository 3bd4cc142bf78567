/** What hostile-servers.sh runs. WORK is an empty folder; a row that is out of bounds makes the exit code 1. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { BEHAVIOURS, type Behaviour } from '../hostile/servers.ts';
import { serveHostile } from '../hostile/serving.ts';

const WORK = process.env.WORK as string;
const JOBS = Number(process.env.JOBS ?? 2);
const ONLY = process.env.ONLY ?? '';
const COPIES = 4;
const MIB = 1024 * 1024;
const MOST = { times: 1.5, more: 30, memory: 600, ledger: 3, requests: 1.2 };

const children: ChildProcess[] = [];
const fw = (args: string[]): ChildProcess => {
  const child = spawn(process.execPath, ['dist/bin/fw.js', ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
  children.push(child);
  return child;
};

async function simulator(latency: string): Promise<string> {
  const child = fw(['simulate', '--port', '0', '--latency', latency]);
  child.stderr?.resume();
  const [line] = await once(createInterface({ input: child.stdout as NodeJS.ReadableStream }), 'line');
  return JSON.parse(String(line)).url;
}

interface Ran {
  code: number;
  seconds: number;
  /** MiB at most, by VmHWM of Linux */
  memory: number;
  /** bytes, and tries on record */
  ledger: number;
  tries: number;
  answers: number;
  /** the items as they should be, in order of their ids */
  items: string[];
  stderr: string;
}

async function run(name: string, urls: string[]): Promise<Ran> {
  const ledger = join(WORK, name);
  mkdirSync(ledger);
  const begun = performance.now();
  const child = fw(['chain', '--ledger', ledger, ...urls.flatMap(url => ['--endpoint', url])]);
  let memory = 0;
  const watch = setInterval(() => {
    try {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      // a process that has ended has none
      memory = Math.max(memory, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
    } catch {}
  }, 50);
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', text => (stdout += text));
  child.stderr?.on('data', text => (stderr += text));
  child.stdin?.on('error', () => {}); // it may end before it has read all
  child.stdin?.end(readFileSync(join(WORK, 'items')));
  const [code] = await once(child, 'close');
  clearInterval(watch);
  const files = readdirSync(ledger, { recursive: true, encoding: 'utf8' }).filter(file =>
    file.endsWith('.ndjson'),
  );
  const bytes = files.map(file => readFileSync(join(ledger, file), 'utf8')).join('');
  return {
    code: Number(code),
    seconds: (performance.now() - begun) / 1000,
    memory,
    ledger: files.reduce((sum, file) => sum + statSync(join(ledger, file)).size, 0),
    tries: bytes.split('\n{"key":"').length - 1,
    answers: bytes.split('","outcome":"answer"').length - 1,
    items: stdout.split('\n').filter(Boolean).map(withoutUsage).sort(),
    stderr,
  };
}

/** A server may say what it likes of tokens; what the model said is the same. */
function withoutUsage(line: string): string {
  const item = JSON.parse(line);
  for (const step of [...(item.steps ?? []), ...(item.decision ? [item.decision] : [])]) delete step.usage;
  return JSON.stringify(item);
}

async function answerOf(url: string, body: string): Promise<string> {
  const reply = await fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  return reply.text();
}

async function main(): Promise<boolean> {
  const ingest = fw(['ingest', 'fixtures/applications-60.csv']);
  let items = '';
  ingest.stdout?.on('data', text => (items += text));
  ingest.stderr?.resume();
  await once(ingest, 'close');
  const copies = Array.from({ length: COPIES }, (_, n) => items.replaceAll('"id":"', `"id":"${n}-`));
  writeFileSync(join(WORK, 'items'), copies.join(''));
  const healthy = await simulator('500ms');
  const sayings = await simulator('0ms');
  const { data } = (await (await fetch(`${healthy}/models`)).json()) as { data: { id: string }[] };
  const model = data[0]?.id as string;

  const alone = await run('alone', [healthy]);
  console.log(
    `The healthy endpoint alone: ${alone.items.length} items, ${alone.tries} calls, ${alone.seconds.toFixed(1)} s, ${alone.memory.toFixed(0)} MiB, ledger ${(alone.ledger / MIB).toFixed(1)} MiB.\n`,
  );
  console.log(
    '| beside it a server with … | makespan | by alone | peak MiB | ledger by alone | tries by answers | its answers | items |',
  );
  console.log('| --- | --- | --- | --- | --- | --- | --- | --- |');

  let isWell = true;
  const one = async ({ name, behave }: Behaviour, index: number): Promise<void> => {
    const hostile = await serveHostile({
      model,
      behave,
      rightTo: body => answerOf(sayings, body),
      after: (ms, act) => {
        const timer = setTimeout(act, ms);
        return () => clearTimeout(timer);
      },
    });
    const ran = await run(`row-${index}`, [hostile.url, healthy]);
    await hostile.close();
    const as = (it: boolean, text: string): string => (it ? text : `**${text}**`);
    const isSame = JSON.stringify(ran.items) === JSON.stringify(alone.items);
    const cells: [boolean, string][] = [
      [ran.seconds <= MOST.times * alone.seconds + MOST.more, `${ran.seconds.toFixed(1)} s`],
      [true, (ran.seconds / alone.seconds).toFixed(2)],
      [ran.memory <= MOST.memory, ran.memory.toFixed(0)],
      [ran.ledger <= MOST.ledger * alone.ledger, (ran.ledger / alone.ledger).toFixed(2)],
      [ran.tries <= MOST.requests * alone.tries, (ran.tries / alone.tries).toFixed(3)],
      [
        true,
        String(
          ran.answers - (ran.stderr.includes(`${healthy}: `) ? answeredBy(ran.stderr, healthy) : ran.answers),
        ),
      ],
      [isSame && ran.code === alone.code, isSame ? 'the same' : `${ran.items.length}, others`],
    ];
    isWell &&= cells.every(([it]) => it);
    console.log(`| ${name} | ${cells.map(([it, text]) => as(it, text)).join(' | ')} |`);
    if (cells.some(([it]) => !it)) console.error(ran.stderr.split('\n').slice(-30).join('\n'));
  };

  const rows = BEHAVIOURS.filter(({ name }) => name.includes(ONLY));
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < rows.length; at = next++) await one(rows[at] as Behaviour, at);
  };
  await Promise.all(Array.from({ length: JOBS }, work));
  return isWell;
}

/** of an endpoint, as the closing lines say */
function answeredBy(stderr: string, url: string): number {
  const line =
    stderr.split('\n').findLast(text => text.includes(`${url}: `) && text.includes(' answers')) ?? '';
  return Number((/([\d,]+) answers/.exec(line)?.[1] ?? '0').replaceAll(',', ''));
}

try {
  process.exitCode = (await main()) ? 0 : 1;
} finally {
  for (const child of children) child.kill();
}
