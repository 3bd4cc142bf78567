/** A whole run, damaged in one way at a time: what finds it is what the table says, and nothing less. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { openOnRecord } from '../../engine/audit/on-record.ts';
import { describeVerdict } from '../../engine/audit/tally.ts';
import { agentsFor, judgeLines, judgeOptions } from '../../engine/audit/verdict.ts';
import type { Item } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { every } from '../all.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';
import { chunked, readAll } from './reading.ts';
import {
  type Damage,
  type Line,
  ORDERINGS,
  TO_DOCUMENT,
  TO_ITEMS,
  TO_PROVENANCE,
  TO_RESULTS,
  type Way,
} from './whole.ts';

const at = folder();
const path = (name: string): string => join(at, name);
const read = (name: string): Line[] =>
  readFileSync(path(name), 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));
const textOf = (lines: readonly unknown[]): string => lines.map(line => `${JSON.stringify(line)}\n`).join('');
let items: Line[];
let results: Line[];
let how: Line[];

beforeAll(async () => {
  const { flags } = await servers(1, { faults: 'chatty=0.15,escape=0.1,null=0.08' });
  const made = await fw(
    `fw ingest ${ROOT}/fixtures/applications-60.csv --limit 5 --orderings '${ORDERINGS.join(';')}' > asked.ndjson; ` +
      `fw chain --ledger ledger ${flags} asked.ndjson > items.ndjson; fw legacy-convert --provenance how.ndjson items.ndjson > out.jsonl`,
    { cwd: at },
  );
  expect(made.stderr).toContain('0 failed');
  const order = read('asked.ndjson').map(({ id }) => id);
  items = read('items.ndjson').sort((a, b) => order.indexOf(a.id) - order.indexOf(b.id));
  const nameOf = (line: Line): string => `${line.prompt_id ?? line.row}/${line.ordering}`;
  const names = items.map(nameOf);
  results = read('out.jsonl').sort((a, b) => names.indexOf(nameOf(a)) - names.indexOf(nameOf(b)));
  how = read('how.ndjson').sort((a, b) => names.indexOf(nameOf(a)) - names.indexOf(nameOf(b)));
});

interface With {
  ids?: boolean;
  provenance?: Line[];
  ledger?: boolean;
}

/** Agents are read once for all of the table. */
const agents = agentsFor(undefined, ROOT);
let schemas: Awaited<ReturnType<typeof judgeOptions>>['schemas'] | undefined;

/** What comes of verification: exit 1, or what it says of lines that all pass. */
async function verified(lines: readonly Item[], { ids, provenance, ledger }: With = {}) {
  if (provenance) writeFileSync(path('now.ndjson'), textOf(provenance));
  const by = await judgeOptions(
    {
      accept: provenance ? ['clean', 'repaired', 'coerced'] : ['clean', 'repaired', 'coerced', 'unknown'],
      decision: true,
      ...(provenance && { provenance: [path('now.ndjson')] }),
    },
    { base: ROOT },
  );
  schemas ??= by.schemas;
  const onRecord = ledger ? openOnRecord(path('ledger'), agents) : undefined;
  const { judge, close } = judgeLines({
    ...{ stage: 'verify', maxLine: 1 << 24, ...by, schemas },
    ...(ids && { ids: path('asked.ndjson') }),
    ...(onRecord && { onRecord }),
  });
  const failures = lines.flatMap(line => judge(line).failure ?? []);
  const verdict = close();
  const said = describeVerdict(verdict).join('\n');
  const isFound = failures.length > 0 || verdict.findings.length > 0;
  return { isFound, said, why: failures.map(({ message }) => message).join('; ') };
}

const parsed = (lines: readonly Line[]): Item[] => lines.map(line => JSON.parse(JSON.stringify(line)));
const SAYS = /sampled in 2 ways|edits of (?:it|them) cannot be found|not on record there/;

async function expectFound(
  damage: Pick<Damage, 'name' | 'by'>,
  ways: Record<string, () => ReturnType<typeof verified>>,
) {
  const { by } = damage;
  const got: Record<string, boolean> = {};
  const words: string[] = [];
  for (const [way, run] of Object.entries(ways)) {
    const { isFound, said, why } = await run();
    got[way] = isFound;
    words.push(`${way}: ${why || said}`);
  }
  const all = Object.keys(ways);
  const finders = by === 'said' || 'never' in by ? [] : (by as readonly Way[]);
  // what verify finds alone is found with everything beside it, and so is what provenance tells with a ledger
  const expected = Object.fromEntries(
    all.map(way => [
      way,
      finders.includes('alone') ||
        finders.includes(way as Way) ||
        (way === 'ledger' && all.includes('provenance') && finders.includes('provenance')),
    ]),
  );
  expect(got, `${damage.name}\n${words.join('\n')}`).toEqual(expected);
  if (by === 'said') expect(words.join('\n')).toMatch(SAYS);
}

test('the base passes in every way', async () => {
  for (const more of [{}, { ids: true }, { ledger: true }]) {
    expect(await verified(parsed(items), more)).toMatchObject({
      isFound: false,
      said: expect.not.stringMatching(SAYS),
    });
    const provenance = 'ledger' in more ? { provenance: how } : {};
    expect(await verified(parsed(results), { ...more, ...provenance })).toMatchObject({ isFound: false });
  }
});

describe('damage to items', () => {
  test.each(
    every(
      4,
      TO_ITEMS.map(damage => [damage.name, damage] as const),
    ),
  )('%s', async (_name, damage) => {
    const damaged = damage.to(items);
    expect(damaged).not.toEqual(items);
    await expectFound(damage, {
      alone: () => verified(parsed(damaged)),
      ids: () => verified(parsed(damaged), { ids: true }),
      ledger: () => verified(parsed(damaged), { ledger: true }),
    });
  });
});

describe('damage to legacy results', () => {
  test.each(
    every(
      3,
      TO_RESULTS.map(damage => [damage.name, damage] as const),
    ),
  )('%s', async (_name, damage) => {
    const damaged = damage.to(results);
    expect(damaged).not.toEqual(results);
    await expectFound(damage, {
      alone: () => verified(parsed(damaged)),
      ids: () => verified(parsed(damaged), { ids: true }),
      provenance: () => verified(parsed(damaged), { provenance: how }),
      ledger: () => verified(parsed(damaged), { provenance: how, ledger: true }),
    });
  });
});

describe('damage to their provenance', () => {
  test.each(TO_PROVENANCE.map(damage => [damage.name, damage] as const))('%s', async (_name, damage) => {
    const provenance = damage.to(how);
    expect(provenance).not.toEqual(how);
    await expectFound(damage, {
      provenance: () => verified(parsed(results), { provenance }),
      ledger: () => verified(parsed(results), { provenance, ledger: true }),
    });
  });
});

describe('damage to a document', () => {
  const linesOf = async (text: string): Promise<Item[]> =>
    (await readAll([chunked(text, [1 << 16])], { documents: true, maxLine: 1 << 24 })).items;
  test.each(TO_DOCUMENT.map(damage => [damage.name, damage] as const))('%s', async (_name, damage) => {
    const one = results.filter(({ ordering }) => ordering === results[0]?.ordering);
    const metadata = { model: 'm', ordering: one[0]?.ordering, count: one.length };
    const text = JSON.stringify({ metadata, results: one, status: 'complete' } satisfies JsonObject);
    expect(await verified(await linesOf(text))).toMatchObject({ isFound: false });
    await expectFound(damage, { alone: async () => verified(await linesOf(damage.to(text))) });
  });
});

test('the tables have a hundred damages and more', () => {
  const all = [...TO_ITEMS, ...TO_RESULTS, ...TO_PROVENANCE, ...TO_DOCUMENT];
  expect(all.length).toBeGreaterThanOrEqual(100);
  expect(new Set([...TO_ITEMS.map(({ name }) => name)]).size).toBe(TO_ITEMS.length);
});
