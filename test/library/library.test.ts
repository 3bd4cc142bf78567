/** fw as a library: rows of stages in this process, whose process it leaves alone. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  chain,
  Fatal,
  type Item,
  ingest,
  legacyConvert,
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
  const { exit, account } = await run(ingest().through(asked(simulator.url)).through(select()), {
    inputs: [table],
    output: async line => {
      expect(++inHand).toBe(1);
      await new Promise(setImmediate);
      inHand -= 1;
      lines.push(line);
    },
  });
  expect(exit).toBe(0);
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
  const { exit } = await run(row, { inputs: [table], output: path, log: text => void said.push(text) });
  expect(exit, said.join('\n')).toBe(0);
  expect(readdirSync(at).sort()).toEqual([
    'out_risk_data_regulatory_consumer.jsonl',
    'out_risk_data_regulatory_consumer.jsonl.provenance.ndjson',
  ]);
  expect(said.join('\n')).toContain(`in ${rows} = `);
  const checked = await run(verify({ expect: rows }), {
    inputs: [join(at, 'out_*.jsonl')],
    output: () => {},
  });
  expect(checked.exit).toBe(0);
});

test('a pipeline file is run by its path', async () => {
  const at = folder();
  writeFileSync(
    join(at, 'p.yaml'),
    `input: ${table}\nstages:\n  - ingest: {}\n  - select: {}\noutput: ${at}/o.ndjson\n`,
  );
  expect((await run(join(at, 'p.yaml'))).exit).toBe(0);
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
  expect(free.exit).toBe(0);
  stop.abort();
  const { exit } = await held;
  expect(exit).toBe(130);
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
  expect((await run(ingest().through(shout({ mark: '?' })), { inputs: [table], output })).exit).toBe(0);
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
