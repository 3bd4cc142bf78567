/** fw as a library: rows of stages in this process, whose process it leaves alone. */
import { createReadStream, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import _ from 'highland';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readAnswer } from '../../answers.ts';
import {
  asThrough,
  chain,
  FairwatchError,
  Fatal,
  type Item,
  ingest,
  itemsOf,
  legacyConvert,
  merge,
  rowOfStage,
  run,
  select,
  stage,
  synthesizeDecision,
  validate,
  verify,
} from '../../index.ts';
import { type Simulator, startSimulator } from '../../products/simulator/simulator.ts';
import { folder, ROOT } from '../fw.ts';

const table = join(ROOT, 'fixtures', 'applications-60.csv');
const rows = 60;
let simulator: Simulator;
let slow: Simulator;
beforeAll(async () => {
  simulator = await startSimulator({ port: 0, seed: 7 });
  slow = await startSimulator({ port: 0, seed: 7, latency: '1h' });
});
afterAll(async () => {
  await simulator.close();
  await slow.close();
});
const asked = (endpoint: string) => chain({ endpoint: [endpoint], 'in-flight': 4, grace: '1ms' });

test('a row of stages runs into a function, which may be slow', async () => {
  const lines: Item[] = [];
  let inHand = 0;
  const { outcome, account } = await run(ingest().through(asked(simulator.url)).through(select()), {
    inputs: [table],
    output: async line => {
      expect(++inHand).toBe(1);
      await new Promise(setImmediate);
      inHand -= 1;
      lines.push(line);
    },
  });
  expect(outcome).toBe('ok');
  expect(lines).toHaveLength(rows);
  expect(account.asked?.calls).toBe(5 * rows);
  expect(new Set(lines.map(({ id }) => id)).size).toBe(rows);
});

test('into files, which get their names at the end, and what there is to say is said to log', async () => {
  const at = folder();
  const said: string[] = [];
  const path = join(at, 'out_{ordering}.jsonl');
  const row = ingest({ orderings: ['risk,data,regulatory,consumer'] })
    .through(asked(simulator.url))
    .through(synthesizeDecision({ endpoint: [simulator.url] }))
    .through(legacyConvert());
  const { outcome } = await run(row, { inputs: [table], output: path, log: text => void said.push(text) });
  expect(outcome, said.join('\n')).toBe('ok');
  expect(readdirSync(at).sort()).toEqual([
    'out_risk_data_regulatory_consumer.jsonl',
    'out_risk_data_regulatory_consumer.jsonl.provenance.ndjson',
  ]);
  expect(said.join('\n')).toContain(`in ${rows} = `);
  const checked = await run(verify({ expect: rows }), {
    inputs: [join(at, 'out_*.jsonl')],
    output: () => {},
  });
  expect(checked.outcome).toBe('ok');
});

test('a pipeline file is run by its path', async () => {
  const at = folder();
  writeFileSync(
    join(at, 'p.yaml'),
    `input: ${table}\nstages:\n  - ingest: {}\n  - select: {}\noutput: ${at}/o.ndjson\n`,
  );
  expect((await run(join(at, 'p.yaml'))).outcome).toBe('ok');
  expect(readFileSync(join(at, 'o.ndjson'), 'utf8').trim().split('\n')).toHaveLength(rows);
});

test('two runs at once do not disturb each other: one is stopped, the other one ends well', async () => {
  const before = ['SIGINT', 'SIGTERM', 'SIGHUP'].map(signal => process.listenerCount(signal));
  const stop = new AbortController();
  const said: [string[], string[]] = [[], []];
  const out: [Item[], Item[]] = [[], []];
  const begin = (endpoint: string, which: 0 | 1, signal?: AbortSignal) =>
    run(ingest().through(asked(endpoint)), {
      inputs: [table],
      output: line => void out[which].push(line),
      log: text => void said[which].push(text),
      ...(signal && { signal }),
    });
  const held = begin(slow.url, 0, stop.signal);
  const free = await begin(simulator.url, 1);
  expect(free.outcome).toBe('ok');
  stop.abort();
  const { outcome } = await held;
  expect(outcome).toBe('stopped');
  expect(said[0].join('\n')).toContain('stopped by the signal');
  expect(out[0].every(({ failure }) => failure !== undefined)).toBe(true);
  expect(said[1].join('\n')).not.toContain('stopped');
  expect(out[1]).toHaveLength(rows);
  expect(['SIGINT', 'SIGTERM', 'SIGHUP'].map(signal => process.listenerCount(signal))).toEqual(before);
});

test('a stage of one’s own knows its options, and a failure of its is data', async () => {
  const shout = rowOfStage(
    stage({
      name: 'shout',
      summary: 'Write prompts in capitals.',
      options: { mark: { type: 'string', default: '!', description: 'What comes behind them.' } },
      each:
        ({ mark }) =>
        item => ({ ...item, prompt: `${item.prompt?.toUpperCase()}${mark}` }),
    }),
  );
  const lines: Item[] = [];
  const output = (line: Item): void => void lines.push(line);
  expect((await run(ingest().through(shout({ mark: '?' })), { inputs: [table], output })).outcome).toBe('ok');
  expect(lines.every(({ prompt }) => prompt?.endsWith('?') && prompt === prompt.toUpperCase())).toBe(true);
});

test('what is wrong with a row is said before it runs', async () => {
  // @ts-expect-error: no such option, which the types say too
  expect(() => validate({ schem: 'x' })).toThrow(/validate: .*no option 'schem'; did you mean 'schema'\?/);
  expect(() => chain({ 'in-flight': 0 })).toThrow(/in-flight: expected a whole number of at least 1/);
  await expect(run(validate(), { inputs: [table] })).rejects.toThrow(/output: expected a path or a function/);
  await expect(run(validate(), { inputs: ['gone.csv'], output: () => {} })).rejects.toBeInstanceOf(Fatal);
  await expect(run(select(), { inputs: [table], output: table })).rejects.toThrow(/looks like a CSV/);
});

test.each([
  [
    'at once',
    () => {
      throw new Error('full');
    },
  ],
  [
    'later',
    async () => {
      throw new Error('full');
    },
  ],
])('what an output throws %s is what the run rejects with', async (_when, output) => {
  await expect(run(ingest(), { inputs: [table], output })).rejects.toThrow(/^full$/);
});

describe('lines of the program itself', () => {
  const prompts = ['a', 'b', 'c'].map(id => ({ id, prompt: `What is ${id}?` }));
  const later = async function* <T>(values: readonly T[]): AsyncGenerator<T> {
    for (const value of values) {
      await new Promise(setImmediate);
      yield value;
    }
  };
  const text = prompts.map(line => `${JSON.stringify(line)}\n`).join('');
  const bytes = new TextEncoder().encode(text);

  test.each([
    ['objects', prompts],
    ['objects that come later', later(prompts)],
    ['text', text],
    ['bytes, cut anywhere', later([bytes.slice(0, 5), bytes.slice(5, 41), bytes.slice(41)])],
    ['text without its last newline', later([text.slice(0, 50), text.slice(50, -1)])],
  ])('%s are read', async (_what, input) => {
    const lines: Item[] = [];
    const { outcome, account } = await run(select(), { input, output: line => void lines.push(line) });
    expect([outcome, account.read]).toEqual(['ok', 3]);
    expect(lines).toEqual(prompts);
  });

  test('a table may come through a stream, and its items are read in a loop', async () => {
    const ids: unknown[] = [];
    for await (const { id } of itemsOf(ingest(), { input: createReadStream(table) })) ids.push(id);
    expect(ids).toHaveLength(rows);
  });

  test('who leaves the loop ends the run, and asks the input for nothing more', async () => {
    let given = 0;
    let closed = false;
    const endless = async function* () {
      try {
        for (;;) yield { id: `${given++}`, prompt: '?' };
      } finally {
        closed = true;
      }
    };
    for await (const _line of itemsOf(select(), { input: endless() })) break;
    expect([closed, given < 100]).toEqual([true, true]);
  });

  test('a row is a stage of a Highland pipe', async () => {
    const lines = [...prompts, { id: 'd', failure: { stage: 'x', code: 'call-failed', message: '' } }];
    const failed = asThrough(select({ failed: true }))(_(lines as Item[]));
    const out = await failed.collect().toPromise(Promise);
    expect(out).toMatchObject([{ id: 'd' }]);
  });

  test('a signal ends a wait for a line', async () => {
    const stop = new AbortController();
    const input = (async function* () {
      yield prompts[0] as object;
      stop.abort();
      await new Promise(() => {});
    })();
    const { outcome } = await run(select(), { input, output: () => {}, signal: stop.signal });
    expect(outcome).toBe('stopped');
  });

  test('what goes wrong has a code, and what an input throws is what the run rejects with', async () => {
    const failing = (async function* () {
      yield prompts[0] as object;
      throw new Error('gone');
    })();
    await expect(run(select(), { input: failing, output: () => {} })).rejects.toThrow(/^gone$/);
    const codeOf = (of: Promise<unknown>) => of.catch(error => error.code);
    expect(await codeOf(run(select(), { inputs: ['gone.csv'], output: () => {} }))).toBe('data');
    expect(await codeOf(run(merge(), { input: [], output: () => {} }))).toBe('usage');
    const nobody = chain({ endpoint: ['http://127.0.0.1:1/v1'] });
    expect(await codeOf(run(nobody, { input: prompts, output: () => {} }))).toBe('unavailable');
    expect(() => select({ rug: 3 } as never)).toThrow(FairwatchError);
    expect(() => readAnswer('{}', { type: 'nothing' })).toThrow(FairwatchError);
  });
});
