/** Three simulated servers, processes of their own, each with troubles that change; what they counted is told at the end. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** What a server says of itself when it is stopped. */
export interface Counted {
  url: string;
  requests: number;
  /** requests that it turned away because it was not well, beside the others */
  unwell: number;
  answers: number;
}

export interface Server {
  url: string;
  /** stops it */
  counted(): Promise<Counted>;
}

/** Every two minutes each of these, at different times, so that every pair of them is met sooner or later. */
const EVERY = '2m';
const TROUBLES: Record<string, string | number>[][] = [
  [
    { at: '30s', faults: '429=0.3', for: '10s' },
    { at: '80s', max_num_queued_reqs: 50, for: '15s' },
  ],
  [
    { at: '45s', health: 'down', for: '5s' },
    { at: '95s', slowdown: 3, for: '15s' },
  ],
  [
    { at: '15s', faults: '500=0.2,drop=0.1,hang=0.02', for: '10s' },
    { at: '60s', health: 'dead', for: '5s' },
    { at: '105s', health: 'starting', for: '5s' },
  ],
];

/** What is wrong all the time, beside that. */
const ALWAYS =
  'null=0.01,zero=0.0003,escape=0.01,fence=0.02,chatty=0.02,truncated=0.005,500=0.0015,drop=0.001,hang=0.0005';

/** They answer after `latency`; `folder` is for their schedules. */
export function startServers(folder: string, latency: string): Promise<Server[]> {
  return Promise.all(
    TROUBLES.map(async (troubles, index): Promise<Server> => {
      const schedule = join(folder, `server${index}.ndjson`);
      writeFileSync(
        schedule,
        troubles.map(entry => `${JSON.stringify({ ...entry, every: EVERY })}\n`).join(''),
      );
      const child = spawn(
        process.execPath,
        [
          'dist/bin/fw.js',
          'simulate',
          '--port',
          '0',
          '--faults',
          ALWAYS,
          '--latency',
          latency,
          '--schedule',
          schedule,
        ],
        { stdio: ['ignore', 'pipe', 'ignore'] },
      );
      process.on('exit', () => child.kill());
      const lines = linesOf(child);
      const { url } = JSON.parse(await lines()) as { url: string };
      return {
        url,
        async counted() {
          child.kill();
          return JSON.parse(await lines()) as Counted;
        },
      };
    }),
  );
}

function linesOf({ stdout }: ChildProcess): () => Promise<string> {
  const lines = createInterface({ input: stdout as NodeJS.ReadableStream });
  const read: string[] = [];
  lines.on('line', line => read.push(line));
  return async () => {
    while (read.length === 0) await once(lines, 'line');
    return read.shift() as string;
  };
}
