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
      'engine/tables/read-table.ts': 'readTable',
      'engine/tables/row-bytes.ts': 'RowSplitter',
      'engine/tables/csv-rows.ts': 'CsvReader',
      'engine/tables/rows.ts': 'csvRow',
      'engine/tables/row-items.ts': 'ItemMaker',
    },
  },
  'a run, from its first line to its last word': {
    most: 3,
    files: {
      'engine/running/run.ts': 'async function flow(',
      'engine/running/asking.ts': '#making = this.#make(asksWith)',
      'engine/running/stopping.ts': '#endAtOnce(',
    },
  },
  'add a stage': {
    most: 2,
    files: { 'stages/select.ts': 'export default stage(', 'stages/index.ts': './select.ts' },
  },
  'add an option to every stage that asks': {
    most: 2,
    files: {
      'engine/asking/agents/asking-options.ts': 'attempts: options.attempts',
      'engine/asking/agents/ask.ts': 'attempts',
    },
  },
  'what happens on a 503': {
    most: 6,
    files: {
      'engine/asking/pool/read-reply.ts': 'kindOfStatus(status)',
      'engine/asking/pool/reactions.ts': 'throttled: {',
      'engine/asking/pool/limit.ts': 'function followThrottled',
      'engine/asking/pool/throttling.ts': 'function noteThrottled',
      'engine/asking/pool/health.ts': 'function noteFailure',
      'engine/asking/pool/call-queue.ts': 'sleep(ticket',
    },
  },
  'add a count of an endpoint': {
    most: 3,
    files: {
      'engine/asking/pool/pool-state.ts': 'const NO_COUNTS',
      'engine/asking/pool/pool.ts': 'endpoint.counts.retries++',
      'engine/running/watch/run-metrics.ts': "counter('fw_calls_total'",
    },
  },
  'the questions that CONTRIBUTING answers': {
    most: 11,
    files: {
      'engine/asking/pool/reactions.ts': 'throttled: {',
      'engine/answers/read-answer.ts': 'const rung =',
      'engine/asking/agents/ask.ts': 'function answered(',
      'engine/tables/csv-rows.ts': 'CsvReader',
      'engine/core/files/saving.ts': 'rename(partial, path)',
      'engine/asking/agents/request-body.ts': 'export function seedOf',
      'engine/asking/endpoints/exchange.ts': '(--max-body)',
      'engine/asking/pool/outage.ts': 'unavailable(',
      'engine/running/watch/diagnosis.ts': 'export function diagnose',
      'engine/running/watch/closing.ts': 'bottleneck: ',
      'engine/core/item/codes.ts': 'export const CODES',
    },
  },
  "add a metric of a server's own": {
    most: 2,
    files: {
      'engine/asking/endpoints/server-load.ts': 'const LOAD',
      'engine/running/watch/run-metrics.ts': "'fw_server_requests_running'",
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
  const sources = ['bin', 'engine', 'products', 'stages'].flatMap(top =>
    readdirSync(join(ROOT, top), { recursive: true, encoding: 'utf8' }).map(name => join(top, name)),
  );
  const own = new Set(Object.keys(stages).map(name => `stages/${name}.ts`));
  const importers = [...sources.filter(name => name.endsWith('.ts')), 'index.ts'].filter(file =>
    [...readFileSync(join(ROOT, file), 'utf8').matchAll(/(?:from|import\() ?'(\.[^']+)'/g)].some(found =>
      own.has(join(dirname(file), found[1] as string)),
    ),
  );
  const batches = [
    'bin/commands/batch.ts',
    'products/serve/batches/answerers.ts',
    'products/serve/batches/batch-run.ts',
  ];
  expect(importers.sort()).toEqual([...batches, 'stages/legacy.ts', 'index.ts', 'stages/index.ts'].sort());
});

test('no line of docs/design.md is longer than 100 characters', () => {
  const lines = readFileSync(join(ROOT, 'docs/design.md'), 'utf8').split('\n');
  expect(lines.filter(line => line.length > 100 && !line.startsWith('| '))).toEqual([]);
});
