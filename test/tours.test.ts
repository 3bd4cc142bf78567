/** A stranger's tours: which files to open to learn or to change one thing. Each is held to be enough, and short. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { stages } from '../stages/index.ts';
import { ROOT } from './fw.ts';

interface Tour {
  most: number;
  /** each with a word of its text, so that a tour cannot go stale unseen */
  files: Record<string, string>;
}

const TOURS: Record<string, Tour> = {
  'a row of CSV becomes an item': {
    most: 5,
    files: {
      'engine/table/table.ts': 'readTable',
      'engine/table/row-bytes.ts': 'rowSplitter',
      'engine/table/csv.ts': 'csvReader',
      'engine/table/rows.ts': 'csvRow',
      'engine/table/row-items.ts': 'itemMaker',
    },
  },
  'a run, from its first line to its last word': {
    most: 4,
    files: {
      'engine/run/run.ts': 'async function flow(',
      'engine/run/asking.ts': 'making = make(asksWith)',
      'engine/run/stopping.ts': 'const endAtOnce =',
      'engine/run/ending.ts': 'function exitOf(',
    },
  },
  'add a stage': {
    most: 2,
    files: { 'stages/select.ts': 'export default stage(', 'stages/index.ts': './select.ts' },
  },
  'add an option to every stage that asks': {
    most: 2,
    files: { 'engine/agents/options.ts': 'attempts: options.attempts', 'engine/agents/ask.ts': 'attempts' },
  },
  'what happens on a 503': {
    most: 6,
    files: {
      'engine/pool/reply.ts': 'kindOfStatus(status)',
      'engine/pool/reactions.ts': 'throttled: {',
      'engine/pool/limit.ts': 'function followThrottled',
      'engine/pool/throttling.ts': 'function noteThrottled',
      'engine/pool/health.ts': 'function noteFailure',
      'engine/pool/queue.ts': 'sleep(ticket',
    },
  },
  'add a count of an endpoint': {
    most: 3,
    files: {
      'engine/pool/state.ts': 'const NO_COUNTS',
      'engine/pool/pool.ts': 'endpoint.counts.retries++',
      'engine/watch/metrics.ts': "counter('fw_calls_total'",
    },
  },
  'the questions that CONTRIBUTING answers': {
    most: 12,
    files: {
      'engine/pool/reactions.ts': 'throttled: {',
      'engine/answer/read-answer.ts': 'const rung =',
      'engine/agents/ask.ts': 'function answered(',
      'engine/table/csv.ts': 'csvReader',
      'engine/files/partial.ts': '.partial',
      'engine/files/replace.ts': 'rename(partial, path)',
      'engine/agents/body.ts': 'export function seedOf',
      'engine/pool/exchange.ts': '(--max-body)',
      'engine/pool/outage.ts': 'unavailable(',
      'engine/watch/diagnosis.ts': 'export function diagnose',
      'engine/watch/closing.ts': 'bottleneck: ',
      'engine/item/codes.ts': 'export const CODES',
    },
  },
  "add a metric of a server's own": {
    most: 2,
    files: {
      'engine/pool/load.ts': 'const LOAD',
      'engine/watch/metrics.ts': "gauge('fw_server_requests_running'",
    },
  },
};

describe.each(Object.entries(TOURS))('%s', (_, { most, files }) => {
  test(`at most ${most} files`, () => {
    expect(Object.keys(files).length).toBeLessThanOrEqual(most);
    for (const [file, word] of Object.entries(files)) {
      expect(existsSync(join(ROOT, file)), file).toBe(true);
      expect(readFileSync(join(ROOT, file), 'utf8'), file).toContain(word);
    }
  });
});

test('a stage is known to the list of stages, to what is made of others, and to the library', () => {
  const sources = ['bin', 'engine', 'stages'].flatMap(top =>
    readdirSync(join(ROOT, top), { recursive: true, encoding: 'utf8' }).map(name => join(top, name)),
  );
  const own = new Set(Object.keys(stages).map(name => `stages/${name}.ts`));
  const importers = [...sources.filter(name => name.endsWith('.ts')), 'index.ts'].filter(file =>
    [...readFileSync(join(ROOT, file), 'utf8').matchAll(/(?:from|import\() ?'(\.[^']+)'/g)].some(found =>
      own.has(join(dirname(file), found[1] as string)),
    ),
  );
  const batches = ['bin/commands/batch.ts', 'engine/server/batches/here.ts', 'engine/server/batches/run.ts'];
  expect(importers.sort()).toEqual([...batches, 'stages/legacy.ts', 'index.ts', 'stages/index.ts'].sort());
});

test('no line of docs/design.md is longer than 100 characters', () => {
  const lines = readFileSync(join(ROOT, 'docs/design.md'), 'utf8').split('\n');
  expect(lines.filter(line => line.length > 100)).toEqual([]);
});
