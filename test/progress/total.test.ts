/** How many items a run will have: counted of files, and of pipes what --total says, in the user's own rows or lines. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { newAccount } from '../../engine/core/item/account.ts';
import { resolveOptions } from '../../engine/flow/options.ts';
import type { Stage, Tools } from '../../engine/flow/stage.ts';
import { optionsOf } from '../../engine/running/stage-options.ts';
import { countItems } from '../../engine/running/watch/run-facts.ts';
import chain from '../../stages/chain.ts';
import ingest from '../../stages/ingest.ts';
import merge from '../../stages/merge.ts';
import { slow } from '../all.ts';
import { folder, ROOT, shell } from '../fw.ts';
import { serve, until } from '../pool/serving.ts';

type Given = [stage: Stage, values: Record<string, unknown>];
const CSV = join(ROOT, 'fixtures', 'applications-60.csv');
/** no regular file, so that nobody counts it */
const PIPE = '/dev/null';

async function totalOf(row: Given[], files: string[], aside = 0) {
  const placed = row.map(([stage, values]) => ({
    stage,
    options: resolveOptions(optionsOf(stage), values, (name, message) => {
      throw new Error(`${name}: ${message}`);
    }),
  }));
  const { signal } = new AbortController();
  const tools = { base: ROOT, files, signal, account: newAccount('x') } as unknown as Tools;
  const total = countItems(placed, tools);
  let turns = 0;
  await until(() => total.items(aside) !== null || ++turns > 200);
  return { items: total.items(aside), missed: total.missed };
}

test.each<[string, Given[], string[], number, number | null]>([
  [
    'a file of rows',
    [
      [ingest, {}],
      [chain, {}],
    ],
    [CSV],
    0,
    60,
  ],
  [
    'a pipe of rows',
    [
      [ingest, {}],
      [chain, {}],
    ],
    [PIPE],
    0,
    null,
  ],
  [
    'a pipe of rows of which somebody knows how many',
    [
      [ingest, {}],
      [chain, { total: 50 }],
    ],
    [PIPE],
    0,
    50,
  ],
  [
    'rows times orderings',
    [
      [ingest, { orderings: ['risk,data', 'data,risk'] }],
      [chain, { total: 50 }],
    ],
    [PIPE],
    0,
    100,
  ],
  [
    'only the first rows',
    [
      [ingest, { limit: 20 }],
      [chain, { total: 50 }],
    ],
    [PIPE],
    0,
    20,
  ],
  [
    'a limit beyond what is there',
    [
      [ingest, { limit: 80 }],
      [chain, { total: 50 }],
    ],
    [PIPE],
    0,
    50,
  ],
  [
    'old results',
    [
      [ingest, { format: 'legacy' }],
      [chain, { total: 50 }],
    ],
    [PIPE],
    0,
    50,
  ],
  ['lines', [[chain, { total: 50 }]], [PIPE], 0, 50],
  ['lines without those that were left out', [[chain, { total: 50 }]], [PIPE], 7, 43],
  [
    'what two files become',
    [
      [merge, {}],
      [chain, { total: 50 }],
    ],
    [PIPE, PIPE],
    0,
    50,
  ],
  [
    'what is counted wins over what is said',
    [
      [ingest, {}],
      [chain, { total: 50 }],
    ],
    [CSV],
    0,
    60,
  ],
])('%s', async (_name, row, files, aside, total) => {
  const { items } = await totalOf(row, files, aside);
  expect(items).toBe(total);
});

const ended = (read: number) => ({ read, endedAt: 1 });

test('a --total that was wrong is said at the end, in rows and in what they make', async () => {
  const pipe: Given[] = [
    [ingest, {}],
    [chain, { total: 5_000 }],
  ];
  const { missed } = await totalOf(pipe, [PIPE]);
  expect(missed(ended(300))).toBe('--total 5,000: 300 items came, less than that: did its writer end early?');
  expect(missed(ended(5_001))).toBe('--total 5,000: 5,001 items came, more: the bar could not know the end');
  expect(missed(ended(5_000))).toBeNull();
  // a run that was stopped has not seen the end of its input
  expect(missed({ read: 300, endedAt: null })).toBeNull();
  const orderings: Given[] = [
    [ingest, { orderings: ['risk,data', 'data,risk'] }],
    [chain, { total: 50 }],
  ];
  const two = await totalOf(orderings, [PIPE]);
  expect(two.missed(ended(1))).toMatch(/^--total 50, which makes 100 items: 1 item came, less/);
  expect(two.missed(ended(100))).toBeNull();
});

test.each<[string, Given[], string]>([
  [
    'files are counted, whatever is said',
    [
      [ingest, {}],
      [chain, { total: 50 }],
    ],
    CSV,
  ],
  ['nothing was said', [[chain, {}]], PIPE],
  [
    'old lines come too',
    [
      [chain, { total: 50 }],
      [merge, { old: ['old.ndjson'] }],
    ],
    PIPE,
  ],
])('… and not where %s', async (_name, row, file) => {
  const { missed } = await totalOf(row, [file]);
  expect(missed(ended(7))).toBeNull();
});

slow(
  'a pipe with --total has a share from the beginning, and one without it from the end of its input on',
  async () => {
    const { url } = await serve(ask => setTimeout(() => ask.answer('{"ok":true}'), 150));
    const cwd = folder();
    writeFileSync(
      join(cwd, 'one.yaml'),
      'key: one\nshort: one\ndisplay: One\nrole: agent\npersona: P.\nsampling: { temperature: 0, max_tokens: 9 }\n' +
        'schema: { type: object, required: [ok], properties: { ok: { type: boolean } } }\n',
    );
    const items = Array.from({ length: 40 }, (_, id) => `{"id":"${id}","prompt":"p"}\n`);
    writeFileSync(join(cwd, 'items.ndjson'), items.join(''));
    const run = async (flags: string, err: string): Promise<string[]> => {
      // the rest of the input comes once the first line of progress was written
      const line = `{ head -n 20 items.ndjson; until grep -q 'in flight' ${err}; do sleep 0.1; done; tail -n 20 items.ndjson; } | fw chain --agents . --no-decision --in-flight 2 ${flags} --endpoint ${url} > ${err}.out 2> ${err}; cat ${err} >&2`;
      const { stderr } = await shell(`touch ${err}; ${line}`, { cwd });
      return stderr.split('\n').filter(one => one.includes('in flight'));
    };
    const [said, unsaid] = await Promise.all([run('--total 40', 'said'), run('', 'unsaid')]);
    expect(said[0]).toMatch(/^chain: \d+ % of calls · \d+ of 40 items done · /);
    expect(unsaid[0]).toMatch(/^chain: \d+ items done · /);
  },
);
