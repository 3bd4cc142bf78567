/** What tests of the ledger write: records of calls, whole ledgers of them, and how their properties run. */

import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { type Ledger, type LedgerOptions, openLedger } from '../../engine/asking/ledger/ledger.ts';
import type { CallRecord, Served } from '../../engine/asking/ledger/ledger-format.ts';
import type { AsksWith } from '../../engine/core/item/call.ts';
import type { Fatal } from '../../engine/core/item/failure.ts';
import { runs } from '../all.ts';

const seed = Number(process.env.SEED ?? Date.now() % 0x7fffffff);
const numRuns = runs(100, 500);
console.log(`ledger properties: SEED=${seed} RUNS=${numRuns}`);

export async function holds<T>(
  arbitrary: fc.Arbitrary<T>,
  predicate: (value: T) => void | Promise<void>,
): Promise<void> {
  await fc.assert(
    fc.asyncProperty(arbitrary, async value => predicate(value)),
    { seed, numRuns },
  );
}

/** Any text: all of Unicode, halves of surrogate pairs, NUL, what JSON escapes, and what lines of a ledger are made of. */
export const anyText: fc.Arbitrary<string> = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'binary', maxLength: 12 }),
      fc.constantFrom('\ud800', '\udc00', '\u0000', '\n', '\r', '"', '\\', '\u2028', '\ufeff', '{', '}'),
      fc.constantFrom('","outcome":"answer"', ',"request":{', '"messages":[', '},"crc":"00000000"}', '\\"'),
    ),
    { maxLength: 8 },
  )
  .map(parts => parts.join(''));

export const keyFor = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 32);

const HEAD = '{"model":"m","messages":[{"role":"system","content":"You judge."},';
const TAIL = ',"max_tokens":500}';

/** The record of a call as the agents build its body; `says` is the content of its one message. */
export function recordOf(more: Partial<CallRecord> & { says?: string } = {}): CallRecord {
  const { says = 'May they have it?', ...rest } = more;
  const body = `${HEAD}${JSON.stringify({ role: 'user', content: says })}],"temperature":0.2,"seed":7${TAIL}`;
  return {
    key: keyFor(says),
    outcome: 'answer',
    time: Date.UTC(2026, 0, 1),
    endpoint: 'http://gpu1:8005/v1',
    model: 'm',
    item: 'a/1',
    agent: 'judge',
    round: 0,
    attempt: 1,
    ms: 12,
    path: '/chat/completions',
    body: Buffer.from(body),
    head: HEAD,
    tail: TAIL,
    finish: 'stop',
    usage: { prompt: 10, completion: 3 },
    answer: `{"yes":${JSON.stringify(says)}}`,
    ...rest,
  };
}

export const ASKS: AsksWith = {
  stage: 'chain',
  agents: { judge: { persona: 'p1', schema: 's1', sampling: 'k1' } },
  options: { guided: 'on', seed: 0 },
};

export type Opened = Ledger & { warnings: string[]; broken: Fatal[] };

/** A ledger at `path`, begun; its file comes with the first line that is written. */
export function opened(
  path: string,
  more: Partial<LedgerOptions> = {},
  served: Served = { model: 'm', root: 'r' },
): Opened {
  const warnings: string[] = [];
  const broken: Fatal[] = [];
  const ledger = openLedger({
    path,
    fsync: 'never',
    version: '0',
    label: 'chain',
    files: [],
    asksWith: ASKS,
    shard: undefined,
    warn: message => void warnings.push(message),
    onBroken: error => void broken.push(error),
    ...more,
  });
  ledger.begin(served, ['http://gpu1:8005/v1']);
  return Object.assign(ledger, { warnings, broken });
}

/** Resolves when the record is written. */
export function appended(ledger: Ledger, record: CallRecord): Promise<void> {
  return new Promise((resolve, reject) => {
    ledger.append(record, error => (error ? reject(error) : resolve()));
  });
}

/** Writes one file of a ledger with an answer to each of `says`. */
export async function written(path: string, says: readonly string[]): Promise<void> {
  const ledger = opened(path);
  await Promise.all(says.map(text => appended(ledger, recordOf({ says: text }))));
  for (const text of says) ledger.judge(keyFor(text), 'clean');
  await ledger.close();
}
