/** An answer that somebody edited is found, also where the text of the model is not kept because the answer is that text. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { findInDerivation, isUntold } from '../../engine/audit/legacy/strict-items.ts';
import { whoSaid } from '../../engine/audit/value-provenance.ts';
import type { Item, Step } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';

const CSV = join(ROOT, 'fixtures', 'applications-60.csv');
const at = folder();
let items: Item[] = [];

beforeAll(async () => {
  const one = await servers(1, { faults: 'escape=0.1,fence=0.1' });
  const ran = await fw(`fw ingest ${CSV} --limit 12 | fw chain ${one.flags} > items.ndjson`, { cwd: at });
  expect(ran.code, ran.stderr).toBe(0);
  items = readFileSync(join(at, 'items.ndjson'), 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));
});

const stepsOf = ({ steps = [], decision }: Item): [string, Step][] => [
  ...steps.map((step, index): [string, Step] => [`/steps/${index}`, step]),
  ...(decision ? [['/decision', decision] as [string, Step]] : []),
];

const other = (value: unknown): unknown =>
  typeof value === 'number' ? value + 1 : typeof value === 'boolean' ? !value : `${value} `;

/** The value with one leaf changed, once for each leaf, and where that is. */
function edits(value: unknown, place = ''): [string, unknown][] {
  if (typeof value !== 'object' || value === null) return [[place, other(value)]];
  return Object.entries(value).flatMap(([key, child]) =>
    edits(child, `${place}/${key}`).map(([below, edited]): [string, unknown] => [
      below,
      { ...value, [key]: edited },
    ]),
  );
}

test('every leaf of every answer: verify refuses the edit, and explain does not say yes', () => {
  let tried = 0;
  let hashed = 0;
  for (const item of items) {
    for (const [place, step] of stepsOf(item)) {
      expect(findInDerivation({ ...step }, place)).toBeNull();
      expect(step.raw === undefined).toBe(step.sha256 !== undefined);
      if (step.sha256 !== undefined) hashed += 1;
      for (const [below, output] of edits(step.output)) {
        tried += 1;
        const edited = { ...step, output } as Step;
        expect(findInDerivation({ ...edited }, place), below).not.toBeNull();
        const line = place === '/decision' ? { ...item, decision: edited } : withStep(item, edited);
        const said = whoSaid({ ...line }, `${place}/output${below}`, null);
        expect(said?.[1], below).toMatch(/^ {2}unknown: the text of/);
      }
    }
  }
  expect(tried).toBeGreaterThan(500);
  expect(hashed).toBeGreaterThan(20);
});

const withStep = (item: Item, edited: Step): Item => ({
  ...item,
  steps: (item.steps ?? []).map(step => (step.agent === edited.agent ? edited : step)),
});

test('without text and hash, as version 0.1.0 wrote it, it cannot be known, and nobody says yes', async () => {
  const lines = items.map(item => {
    const old = ({ sha256: _hash, ...step }: Step): Step => step;
    return { ...item, steps: item.steps?.map(old), decision: old(item.decision as Step) };
  });
  writeFileSync(join(at, 'old.ndjson'), lines.map(line => `${JSON.stringify(line)}\n`).join(''));
  const untold = lines.flatMap(line => stepsOf(line as Item)).filter(([, step]) => isUntold({ ...step }));
  expect(untold.length).toBeGreaterThan(20);
  const verified = await fw('fw verify old.ndjson', { cwd: at });
  expect(verified.code, verified.stderr).toBe(0);
  expect(verified.stderr).toContain(`verify: of ${untold.length} answers the text is not kept, nor its hash`);
  const [place] = untold[0] as [string, Step];
  const said = await fw(`fw explain ${lines[0]?.id} old.ndjson --value ${place}/output/interest_rate`, {
    cwd: at,
  });
  expect(said.stdout).toMatch(/unknown: neither the text of \w+ is on record nor its hash/);
});

test('an edit stays found behind a stage that mends the answer', async () => {
  // items come in any order; of an answer with its text beside it something else is found
  const isHashed = (item: Item): boolean => item.steps?.[0]?.sha256 !== undefined;
  const first = items.find(isHashed) as Item;
  const rest = items.filter(item => item !== first);
  const [step, ...steps] = first.steps as [Step, ...Step[]];
  // validate makes a number of the text: what it takes for the model's is the edited answer
  const output = { ...(step.output as JsonObject), interest_rate: '9' };
  const edited = { ...first, steps: [{ ...step, output }, ...steps] };
  writeFileSync(
    join(at, 'edited.ndjson'),
    [edited, ...rest].map(line => `${JSON.stringify(line)}\n`).join(''),
  );
  const ran = await fw('fw validate edited.ndjson | fw verify', { cwd: at });
  expect(ran.code).toBe(1);
  expect(ran.stderr).toContain('refused: 1 edited answer');
});
