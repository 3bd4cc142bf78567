/**
 * Random requests of ten keys with budgets, live, streamed, in all dialects, with streams that are left, and batches, with kills between: what is spent is what
 * is on record and what is billed, and no budget is exceeded by more than what was in flight.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import { ledgerFiles, linesOf } from '../../engine/asking/ledger/read-ledger.ts';
import { readKeys } from '../../products/serve/api-keys.ts';
import { Budgets, type Snapshot } from '../../products/serve/budgets.ts';
import { runs, slow } from '../all.ts';
import { folder, shell } from '../fw.ts';
import { begin, lineOf, reached } from './batching.ts';
import { keyOf, MODEL, serveProcess, simulated } from './serving.ts';

const KEYS = 10;
/** tokens of the longest answer with its prompt */
const MOST = 40;

interface Act {
  kind: 'chat' | 'stream' | 'counted' | 'embeddings' | 'batch' | keyof typeof OTHERS;
  /** a stream of another dialect; and whether its client leaves at the first bytes */
  streamed: boolean;
  left: boolean;
  key: number;
  tokens: number;
  lines: number;
}

/** What other paths are asked. */
const OTHERS = {
  '/responses': (input: string, tokens: number) => ({ input, max_output_tokens: tokens }),
  '/messages': (content: string, tokens: number) => ({
    messages: [{ role: 'user', content }],
    max_tokens: tokens,
  }),
  '/chat/completions': (content: string, tokens: number) => ({
    messages: [{ role: 'user', content }],
    max_completion_tokens: tokens,
  }),
  '/completions': (prompt: string, tokens: number) => ({ prompt, max_tokens: tokens }),
  '/score': (text: string) => ({ text_1: text, text_2: text }),
  '/audio/transcriptions': () => ({ file_url: 'data:audio/wav;base64,UklGRg==' }),
} as const;
const READS = new Set<string>(['/score', '/audio/transcriptions']);

async function asked({ baseURL, apiKey }: OpenAI, act: Act, nonce: string): Promise<void> {
  const { kind, tokens, streamed, left } = act;
  const stream = streamed && !READS.has(kind) ? { stream: true } : {};
  const controller = new AbortController();
  try {
    const answer = await fetch(`${baseURL}${kind}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: MODEL,
        ...OTHERS[kind as keyof typeof OTHERS](nonce, tokens),
        ...stream,
      }),
      signal: controller.signal,
    });
    if (![200, 429].includes(answer.status)) expect(`${kind} ${answer.status}`).toMatch(/ 50[234]$/);
    for await (const _chunk of answer.body ?? []) if (left) controller.abort();
  } catch (error) {
    if (!/abort|terminated|fetch failed|socket/i.test(String(error))) throw error;
  }
}

const acts = fc.record<Act>({
  kind: fc.constantFrom(
    ...(['chat', 'stream', 'counted', 'embeddings', 'batch'] as const),
    ...(Object.keys(OTHERS) as (keyof typeof OTHERS)[]),
  ),
  streamed: fc.boolean(),
  left: fc.boolean(),
  key: fc.integer({ min: 0, max: KEYS - 1 }),
  tokens: fc.integer({ min: 1, max: 20 }),
  lines: fc.integer({ min: 1, max: 20 }),
});

/** Does it; resolves to the id of a batch that was made. What is refused, or lost with the server, is no error. */
async function done(client: OpenAI, act: Act, nonce: string): Promise<string | null> {
  const { kind, tokens, lines } = act;
  const ask = { model: MODEL, messages: [{ role: 'user' as const, content: nonce }], max_tokens: tokens };
  try {
    if (Object.hasOwn(OTHERS, kind)) await asked(client, act, nonce);
    else if (kind === 'chat') await client.chat.completions.create(ask);
    else if (kind === 'embeddings') await client.embeddings.create({ model: MODEL, input: nonce });
    else if (kind === 'batch') {
      const all = Array.from({ length: lines }, (_, n) => lineOf(`${nonce} ${n}`, { max_tokens: tokens }));
      return (await begin(client, `${all.join('\n')}\n`)).id;
    } else {
      const more = kind === 'counted' ? { stream_options: { include_usage: true } } : {};
      for await (const _chunk of await client.chat.completions.create({ ...ask, ...more, stream: true }));
    }
  } catch (error) {
    if (!(error instanceof OpenAI.APIError) && !/terminated|socket|aborted/i.test(String(error))) throw error;
  }
  return null;
}

/** Tokens on record, by key: those of the gateway name it, those of a batch are of the key that made it. */
function recorded(data: string): Map<string, number> {
  const sums = new Map<string, number>();
  const add = (path: string, whose: string | null): void => {
    for (const file of ledgerFiles(path, () => {}))
      for (const { bytes } of linesOf(file, () => {})) {
        const { usage, caller_key } = JSON.parse(bytes.toString());
        if (usage === undefined) continue;
        const key = whose ?? caller_key;
        sums.set(key, (sums.get(key) ?? 0) + usage.prompt + usage.completion);
      }
  };
  add(join(data, 'gateway'), null);
  for (const id of readdirSync(join(data, 'batches'))) {
    const state = JSON.parse(readFileSync(join(data, 'batches', id, 'state.json'), 'utf8'));
    if (readdirSync(join(data, 'batches', id)).includes('ledger'))
      add(join(data, 'batches', id, 'ledger'), state.key);
  }
  return sums;
}

async function tenants(count: number, kills: number): Promise<void> {
  const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
  console.log(`budgets: SEED=${seed} REQUESTS=${count}`);
  const all = fc.sample(acts, { numRuns: count, seed });
  const limits = fc.sample(fc.integer({ min: 50, max: 3 * count }), { numRuns: KEYS, seed });
  const { url } = await simulated({ latency: '1ms-8ms' });
  const data = folder();
  const secrets = limits.map((tokens_per_day, n) =>
    keyOf(data, `k${n}`, ['chat', 'batch'], { tokens_per_day, ...(n % 3 === 0 && { parallel: 2 }) }),
  );
  const serve = () => serveProcess(['--data', data, '--endpoint', url, '--endpoint-limit', '8']);
  const begun = new Date().toISOString().slice(0, 10);
  let server = await serve();
  const clients = () =>
    secrets.map(key => new OpenAI({ apiKey: key, baseURL: `${server.url}/v1`, maxRetries: 0 }));
  const made: { id: string; key: number }[] = [];
  const each = Math.ceil(count / (kills + 1));
  for (let part = 0; part <= kills; part++) {
    const openai = clients();
    const mine = all.slice(part * each, (part + 1) * each);
    let over = 0;
    let dying: Promise<unknown> = Promise.resolve();
    const one = async (act: Act, at: number): Promise<void> => {
      const id = await done(openai[act.key] as OpenAI, act, `${part} ${at}`);
      if (id !== null) made.push({ id, key: act.key });
      over += 1;
      // some are under way, and batches among them
      if (part < kills && over === Math.ceil(0.7 * mine.length)) {
        dying = new Promise(resolve => server.child.once('exit', resolve));
        server.child.kill('SIGKILL');
      }
    };
    await Promise.all(mine.map(one));
    await dying;
    if (part < kills) server = await serve();
  }
  const openai = clients();
  for (const { id, key } of made) await reached(openai[key] as OpenAI, id);
  const ended = new Promise(resolve => server.child.once('exit', resolve));
  server.child.kill('SIGTERM');
  expect(await ended).toBe(0);
  if (new Date().toISOString().slice(0, 10) !== begun) return; // budgets are of a day

  const budgets = new Budgets(Date.now);
  for (const line of readFileSync(join(data, 'budgets.jsonl'), 'utf8').trim().split('\n'))
    budgets.restore(JSON.parse(line) as Snapshot);
  const onRecord = recorded(data);
  const { stdout } = await shell(`fw ledger cost --by key --json --ledger ${data}`);
  const billed = new Map(
    (JSON.parse(stdout) as { groups: { key: string; in: number; out: number }[] }).groups.map(one => [
      one.key,
      one.in + one.out,
    ]),
  );
  for (const [n, { id }] of (readKeys(data) ?? []).entries()) {
    const used = onRecord.get(id) ?? 0;
    const what = `key ${n}, seed ${seed}`;
    expect(budgets.usedToday(id), `spent, ${what}`).toBe(used);
    expect(billed.get(`k${n}`) ?? 0, `billed, ${what}`).toBe(used);
    expect(used, `budget, ${what}`).toBeLessThan(Number(limits[n]) + MOST);
  }
  expect([...onRecord.values()].reduce((sum, used) => sum + used, 0)).toBeGreaterThan(0);
}

test('spent, recorded and billed are one number, through kills', () => tenants(runs(80, 200, 'REQUESTS'), 2));
slow('the same of a thousand requests', () => tenants(1_000, 6));
