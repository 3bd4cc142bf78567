/** What a template would start, as plain processes until the end of the test; and batches of who sends them there. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import OpenAI from 'openai';
import { expect, onTestFinished, test } from 'vitest';
import { ALL } from '../all.ts';
import { binFolder, environment, folder } from '../fw.ts';
import { begin, linesIn, linesOf, reached } from '../server/batching.ts';
import { withRedis } from '../shards/redis.ts';

/** in the place of `test`, for what is a whole of processes with a Redis and left out by `make test` */
export const wholeWithRedis = ALL ? withRedis : test.skip;

export interface Running {
  child: ChildProcess;
  /** stdout and stderr, as far as they came */
  said(): string;
  /** Its exit code; the signal's name where one ended it. */
  ended: Promise<number | string>;
  /** Waits until it has said this; throws with all that it said where it ends before. */
  says(text: string): Promise<void>;
}

interface Place {
  env?: Record<string, string>;
  cwd?: string;
  /** a folder that goes before all others of PATH */
  bin?: string;
}

export function begun(
  program: string,
  args: readonly string[],
  { env = {}, cwd = folder(), bin }: Place = {},
): Running {
  const own = environment(env);
  const PATH = bin === undefined ? own.PATH : `${bin}:${own.PATH}`;
  const child = spawn(program, args, { cwd, env: { ...own, PATH }, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (text += chunk));
  const ended = new Promise<number | string>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve(code ?? `${signal}`));
  });
  ended.catch(() => {}); // told by who waits for it
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  const says = async (wanted: string): Promise<void> => {
    let isOver = false;
    void ended.finally(() => (isOver = true));
    while (!text.includes(wanted)) {
      if (isOver) throw new Error(`expected ${program} to say "${wanted}", found its end: ${text}`);
      await new Promise(resolve => setTimeout(resolve, 10));
    }
  };
  return { child, said: () => text, ended, says };
}

export const fwOf = (words: readonly string[], place: Place = {}): Running =>
  begun(join(binFolder, 'fw'), words, place);

/** Asks again and again, until it is true. */
export async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await new Promise(resolve => setTimeout(resolve, 20));
}

/** `fw serve` by the words of a template, on a free port; its URL. */
export async function serving(
  words: readonly string[],
  data: string,
  env: Record<string, string> = {},
): Promise<string> {
  const args = words.map((word, at) =>
    words[at - 1] === '--data' ? data : words[at - 1] === '--listen' ? '127.0.0.1:0' : word,
  );
  const server = fwOf(args, { env });
  await server.says('"url"');
  return JSON.parse(server.said().match(/^\{"url".*\}$/m)?.[0] as string).url;
}

/** A key as a template says that it is made. */
export async function newKey(data: string, ...words: string[]): Promise<string> {
  const made = fwOf(['keys', 'add', ...words, '--data', data]);
  expect(await made.ended, made.said()).toBe(0);
  return made.said().split('\n', 1)[0] as string;
}

/** A batch of so many lines; once it is completed each has an answer. */
export async function expectAnswered(url: string, key: string, lines: number): Promise<void> {
  const client = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 });
  const { id } = await begin(client, linesOf(lines));
  const batch = await reached(client, id);
  expect(batch).toMatchObject({ status: 'completed', request_counts: { completed: lines, failed: 0 } });
  expect(new Set((await linesIn(client, batch.output_file_id)).map(line => line.custom_id)).size).toBe(lines);
}
