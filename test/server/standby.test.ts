/**
 * Two servers over one folder, one of them in standby: who asks it is told so, and it takes over, whatever ends the other.
 * `make standby` has 100,000 lines and says how long it took.
 */

import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import OpenAI from 'openai';
import { expect, onTestFinished, test } from 'vitest';
import { createAccess } from '../../products/serve/access.ts';
import { openKeys } from '../../products/serve/api-keys.ts';
import { Shown } from '../../products/serve/batches/batch-run.ts';
import type { BatchRecord } from '../../products/serve/batches/batch-state.ts';
import { fencedBy, type Standing, waitInStandby } from '../../products/serve/standby.ts';
import { runs, slow } from '../all.ts';
import { folder } from '../fw.ts';
import { begin, type Line, linesOf } from './batching.ts';
import { keyOf, MODEL, served, serveProcess } from './serving.ts';

const FREE = { host: '127.0.0.1', port: 0 };

/** What stands by for the server of `data`; ended with the test. */
function standing(data: string, place = FREE) {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const said: string[] = [];
  const lost: Error[] = [];
  let listening: (url: string) => void = () => {};
  const url = new Promise<string>(resolve => {
    listening = resolve;
  });
  const taken = waitInStandby({
    ...{ data, place, listening, signal: stop.signal },
    access: createAccess(
      openKeys(data, () => {}),
      Date.now,
    ),
    say: message => void said.push(message),
    onLost: error => void lost.push(error),
  });
  return { stop, said, lost, url, taken };
}

test('who was frozen, and has lost the folder, does not complain of its disk beside saying so', async () => {
  const data = folder();
  const one = standing(data);
  const { lock } = (await one.taken) as Standing;
  const disk = fencedBy(lock);
  const said: string[] = [];
  const shown = new Shown(data, { disk, open: () => [] }, words => void said.push(words));
  const counts = { total: 9, completed: 1, failed: 0 };
  const record = { id: 'batch_1', counts, usage: {}, failures: {} } as unknown as BatchRecord;
  shown.keep([record]);
  const kept = readFileSync(join(data, 'progress.json'), 'utf8');
  expect(kept).toContain('"completed":1');
  writeFileSync(lock.path, 'taken over meanwhile');
  shown.keep([{ ...record, counts: { ...counts, completed: 2 } }]);
  expect(readFileSync(join(data, 'progress.json'), 'utf8')).toBe(kept);
  expect([said, one.lost.map(String)]).toEqual([
    [],
    [expect.stringContaining('expected the lock of this run')],
  ]);
  // a disk that takes nothing is told
  const full = { ...disk, rename: () => expect.fail('no room') };
  new Shown(data, { disk: full, open: () => [] }, words => void said.push(words)).keep([record]);
  expect(said).toEqual([expect.stringContaining('progress.json: expected to be written')]);
  lock.release();
});

test('while it stands by it is alive, not ready, and sends everybody else away; at the end of the other it answers at the same place', async () => {
  const first = await served();
  const second = standing(first.data);
  const url = await second.url;
  const about = async (path: string, init?: RequestInit) => {
    const reply = await fetch(`${url}${path}`, init);
    return [reply.status, reply.headers.get('retry-after'), await reply.json()];
  };
  expect(await about('/health')).toEqual([200, null, { status: 'ok' }]);
  expect(await about('/ready')).toEqual([503, '1', { status: 'standby' }]);
  const refused = [503, '1', { error: { ...{ type: 'server_error', param: null }, code: 'standby' } }];
  expect(await about('/v1/models')).toMatchObject(refused);
  const body = 'x'.repeat(1_000_000);
  expect(await about('/v1/chat/completions', { method: 'POST', body })).toMatchObject(refused);
  expect(second.said).toEqual([
    expect.stringMatching(/^standby: .* is served by process \d+ on .*, and is taken over when that one/),
  ]);
  await first.stop();
  const standingNow = await second.taken;
  if (standingNow === null) throw new Error('expected it to take over');
  const { url: after } = await served({ data: first.data, standing: standingNow });
  expect(after).toBe(url);
  expect(await about('/ready')).toMatchObject([200, null, { status: 'ready', endpoints_up: 1 }]);
});

test('who watches it sees that it stands by, with a key where there are some', async () => {
  const first = await served();
  const own = await (await fetch(`${first.url}/metrics`)).text();
  expect(own).toContain('\nfw_standby 0\n');
  const url = await standing(first.data).url;
  const open = await fetch(`${url}/metrics`);
  expect([open.status, open.headers.get('content-type')]).toEqual([
    200,
    expect.stringContaining('text/plain'),
  ]);
  const text = await open.text();
  expect(text).toContain('\nfw_standby 1\n');
  expect(text).toMatch(/^process_cpu_seconds_total /m);
  const [watcher, chatter] = [keyOf(first.data, 'prom', ['metrics']), keyOf(first.data, 'bob', ['chat'])];
  const statusOf = async (key: string | null) =>
    (await fetch(`${url}/metrics`, { headers: key === null ? {} : { authorization: `Bearer ${key}` } }))
      .status;
  expect([await statusOf(null), await statusOf(chatter), await statusOf(watcher)]).toEqual([401, 403, 200]);
});

test('told to end while it stands by it does; an address that is another program’s is told at once', async () => {
  const first = await served();
  const second = standing(first.data);
  const url = await second.url;
  second.stop.abort();
  expect(await second.taken).toBeNull();
  await expect(fetch(`${url}/health`)).rejects.toThrow();
  const place = { ...FREE, port: Number(new URL(first.url).port) };
  const alone = standing(join(folder(), 'data'), place);
  await expect(alone.taken).rejects.toMatchObject({ exit: 64 });
  // the address may be that of whom it waits for
  const beside = standing(first.data, place);
  while (beside.said.length === 0) await new Promise(setImmediate);
  expect(beside.said[0]).toContain('once that is free');
});

test('one that was frozen and lost its folder changes nothing there any more', async () => {
  const first = await served();
  const openai = first.client();
  const { id } = await openai.files.create({ file: new File([linesOf(1)], 'a.jsonl'), purpose: 'batch' });
  const [name = ''] = readdirSync(join(first.data, 'locks'));
  const lock = join(first.data, 'locks', name);
  const taken = JSON.stringify({ ...JSON.parse(readFileSync(lock, 'utf8')), host: 'b', token: 'another' });
  writeFileSync(lock, taken);
  const there = (): string[] => ['files', 'batches'].flatMap(path => readdirSync(join(first.data, path)));
  const before = there();
  const refused = { status: 503, code: 'stopping' };
  const batch = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' } as const;
  await expect(openai.batches.create(batch)).rejects.toMatchObject(refused);
  await expect(openai.files.list()).rejects.toMatchObject(refused);
  expect(there()).toEqual(before);
  expect(first.broken).toMatchObject([
    { exit: 74, message: expect.stringContaining('taken over by another run, process') },
  ]);
  const budgets = readFileSync(join(first.data, 'budgets.jsonl'), 'utf8');
  await first.stop();
  expect(readFileSync(join(first.data, 'budgets.jsonl'), 'utf8')).toBe(budgets);
  expect(readFileSync(lock, 'utf8')).toBe(taken);
});

/**
 * Answers at once, with what it was asked; `seen` is called before each answer. Lines beyond those that it may answer wait
 * for the next `allow`, so that a batch does not end before what is to happen to it has.
 */
async function model(seen: (nth: number) => void) {
  let requests = 0;
  let most = 0;
  const waiting: (() => void)[] = [];
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      const list = { object: 'list', data: [{ id: MODEL, object: 'model' }] };
      return void response.end(request.url === '/v1/models' ? JSON.stringify(list) : '');
    }
    const chunks: Buffer[] = [];
    request.on('data', chunk => chunks.push(chunk));
    request.on('end', () => {
      const { content } = JSON.parse(Buffer.concat(chunks).toString()).messages[0];
      const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }];
      const usage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };
      const answer = (): void =>
        void response.end(JSON.stringify({ object: 'chat.completion', model: MODEL, choices, usage }));
      if (content === LIVE) return answer();
      seen(++requests);
      if (requests <= most) answer();
      else waiting.push(answer);
    });
  });
  function allow(lines: number): void {
    most = lines;
    for (const answer of waiting.splice(0)) answer();
  }
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests: () => requests,
    allow,
  };
}

const LINES = runs(2_000, 2_000, 'LINES');
/** of each kind */
const ENDS = LINES > 10_000 ? 3 : 1;
const LIVE = 'live';
/** ms that a caller waits for an answer, as clients do */
const PATIENCE = 4_000;
const CALLERS = 4;

interface Counts {
  answered: number;
  refused: number;
  /** the server was gone, or went in the middle of it */
  cut: number;
  /** not within PATIENCE, which ends only with who was frozen */
  givenUp: number;
}

/** Asks as callers behind a balancer do: the one that answered last, and the other one where it does not. */
function calling(urls: () => string[]) {
  const counts: Counts = { answered: 0, refused: 0, cut: 0, givenUp: 0 };
  let at = 0;
  let isOver = false;
  const answers: ((url: string) => void)[] = [];
  const body = JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: LIVE }] });
  async function call(): Promise<void> {
    const mine = at;
    const url = urls()[mine % 2] as string;
    const ask = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
    try {
      const reply = await fetch(`${url}/v1/chat/completions`, {
        ...ask,
        signal: AbortSignal.timeout(PATIENCE),
      });
      const { choices } = (await reply.json()) as OpenAI.ChatCompletion;
      if (reply.status === 200) {
        expect(choices[0]?.message.content).toBe(LIVE);
        counts.answered += 1;
        for (const tell of answers.splice(0)) tell(url);
        return;
      }
      expect(reply.status).toBe(503);
      counts.refused += 1;
    } catch (error) {
      counts[(error as Error).name === 'TimeoutError' ? 'givenUp' : 'cut'] += 1;
    }
    if (at === mine) at += 1;
    await pause(20);
  }
  const all = Array.from({ length: CALLERS }, async () => {
    while (!isOver) {
      await call();
      await pause(10);
    }
  });
  return {
    counts,
    /** Resolves to who gives the next answer. */
    next: () => new Promise<string>(resolve => void answers.push(resolve)),
    async end(): Promise<void> {
      isOver = true;
      await Promise.all(all);
    },
  };
}

slow(
  'killed and frozen in turn, with a batch and live calls under way: each line once, each call answered or refused',
  async () => {
    const say = (words: string): void => void (LINES > 2_000 && process.stderr.write(`${words}\n`));
    const since = (from: number): string => `${((performance.now() - from) / 1000).toFixed(2)} s`;
    let endAt = Number.POSITIVE_INFINITY;
    let end: () => void = () => {};
    const {
      url: endpoint,
      requests,
      allow,
    } = await model(nth => {
      if (nth < endAt) return;
      endAt = Number.POSITIVE_INFINITY;
      end();
    });
    const data = join(folder(), 'data');
    const start = (place = '127.0.0.1:0') =>
      serveProcess(['--data', data, '--standby', '--endpoint', endpoint, '--listen', place]);
    const servers = [await start(), await start()];
    const urls = (): string[] => servers.map(({ url }) => url);
    const active = async (): Promise<number> => {
      for (let n = 0; ; n = 1 - n) {
        const url = urls()[n] as string;
        const reply = await fetch(`${url}/ready`, { signal: AbortSignal.timeout(PATIENCE) }).catch(
          () => null,
        );
        if (reply?.status === 200) return n;
      }
    };
    const clientOf = (n: number) => new OpenAI({ apiKey: 'none', baseURL: `${urls()[n]}/v1`, maxRetries: 0 });
    const { id } = await begin(clientOf(await active()), linesOf(LINES));
    const calls = calling(urls);
    for (let times = 0; times < 2 * ENDS; times++) {
      const isFrozen = times % 2 === 1;
      const old = await active();
      const { child, url } = servers[old] as (typeof servers)[0];
      const ended = once(child, 'exit');
      const words = wordsOf(child);
      const at = await new Promise<number>(resolve => {
        end = () => {
          child.kill(isFrozen ? 'SIGSTOP' : 'SIGKILL');
          resolve(performance.now());
        };
        endAt = Math.floor((LINES * (times + 1)) / (2 * ENDS + 1));
        allow(endAt);
      });
      while ((await calls.next()) === url);
      say(
        `${isFrozen ? 'frozen' : 'killed'} after ${requests()} calls; the first live answer after ${since(at)}`,
      );
      const before = requests();
      while (requests() === before) await pause(5);
      say(`the first line of the batch after ${since(at)}`);
      if (isFrozen) {
        await pause(LINES > 2_000 ? 30_000 - (performance.now() - at) : 0);
        child.kill('SIGCONT');
        const thawed = performance.now();
        expect(await ended).toEqual([74, null]);
        expect(words()).toMatch(
          /\.lock: expected the lock of this run, found it taken over by another run, process \d+ on /,
        );
        say(`continued it ended after ${since(thawed)}`);
      } else await ended;
      servers[old] = await start(new URL(url).host);
    }
    allow(Number.POSITIVE_INFINITY);
    const openai = clientOf(await active());
    for (;;) {
      const batch = await openai.batches.retrieve(id);
      if (batch.status !== 'completed') {
        expect(['in_progress', 'finalizing']).toContain(batch.status);
        await pause(50);
        continue;
      }
      expect(batch.request_counts).toEqual({ total: LINES, completed: LINES, failed: 0 });
      const text = await (await openai.files.content(batch.output_file_id as string)).text();
      const lines: Line[] = text
        .trimEnd()
        .split('\n')
        .map(line => JSON.parse(line));
      expect(lines.map(({ custom_id }) => custom_id)).toEqual(
        Array.from({ length: LINES }, (_, n) => `r-${n}`),
      );
      for (const { custom_id, response } of lines)
        if (response?.body.choices[0]?.message.content !== `Say ${custom_id}`)
          expect(response).toBe(custom_id);
      break;
    }
    await calls.end();
    say(`${requests() - LINES} lines were asked twice; live calls: ${JSON.stringify(calls.counts)}`);
    expect(calls.counts.answered).toBeGreaterThan(0);
  },
  Math.max(600_000, LINES * 10),
);

/** What a process has said on stderr. */
function wordsOf(child: ChildProcess): () => string {
  let words = '';
  child.stderr?.on('data', chunk => {
    words += chunk;
  });
  return () => words;
}
