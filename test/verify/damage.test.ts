/** Every result as it was written passes, and one value that breaks a schema or a rule is found and named. */
import { describe, expect, test } from 'vitest';
import { answerSchemas } from '../../engine/audit/legacy/answer-schemas.ts';
import type { Violation } from '../../engine/audit/legacy/leftovers.ts';
import { findInLegacy } from '../../engine/audit/legacy/strict.ts';
import { findInItem } from '../../engine/audit/legacy/strict-items.ts';
import { judgeLines } from '../../engine/audit/verdict.ts';
import { ACCEPTED, type Item } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { every, runs } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { type Damage, damageTo, damageToItem } from './damage.ts';
import { agents, FOLDER, itemOf, resultOf } from './results.ts';

const accept = new Set(ACCEPTED);
const packaged = answerSchemas({}, '.');
const named = answerSchemas({ agents: FOLDER }, '.');
const slowly = Object.assign(answerSchemas({}, '.'), { fitsLegacy: () => false });

const judged = (line: JsonObject, schemas: typeof packaged): string | undefined => {
  const { judge } = judgeLines({ stage: 'verify', accept, schemas, maxLine: 1 << 20 });
  return judge(structuredClone(line) as Item).failure?.message;
};
const kindsOf = (all: Iterable<Damage>): Set<string> => new Set([...all].map(({ kind }) => kind));
const isNamed = ({ at }: Damage, found: readonly Violation[]): boolean =>
  found.some(finding => at.includes(finding.at));

describe.each([
  ['the packaged agents', packaged],
  ['agents that were named', named],
])('by %s', (_name, schemas) => {
  test('a result as it was written passes', () => {
    for (let i = 0; i < runs(60, 300); i++) expect(findInLegacy(resultOf(i), schemas)).toEqual([]);
  });

  test.each(every(2, [0, 5]))('every damage to result %i is found, at its place, with the value there', i => {
    const all = [...damageTo(resultOf(i))];
    expect(kindsOf(all).size).toBeGreaterThan(60);
    for (const damage of all) {
      const { kind, at, damaged } = damage;
      const message = judged(damaged, schemas);
      expect(message, `${kind} at ${at[0]}`).toMatch(/^(?:\/\S*|\(root\)): expected .+, got /);
      if (at[0] === '/_fw') continue; // judged beside these
      expect(isNamed(damage, findInLegacy(damaged, schemas)), `${kind} at ${at[0]}: ${message}`).toBe(true);
    }
  });

  test('every damage to an item is found, at its place', () => {
    for (let i = 0; i < 3; i++) expect(findInItem(itemOf(i), accept, schemas)).toEqual([]);
    const all = [...damageToItem(itemOf(1))];
    expect(kindsOf(all).size).toBeGreaterThan(40);
    for (const damage of all) {
      const found = findInItem(damage.damaged as Item, accept, schemas);
      expect(isNamed(damage, found), `${damage.kind} at ${damage.at[0]}: ${JSON.stringify(found)}`).toBe(
        true,
      );
    }
  });
});

test('what passes quickly passes slowly, and what does not is told in the same words', () => {
  for (const { damaged } of damageTo(resultOf(3)))
    expect(findInLegacy(damaged, packaged)).toEqual(findInLegacy(damaged, slowly));
});

test('of names that the older scripts use, and weights to two places, none is damage', () => {
  for (const schemas of [packaged, named, slowly]) {
    for (const name of [...agents.names].filter(([, key]) => agents.byKey.get(key)?.role === 'agent')) {
      const result = resultOf(1);
      const { agent_influence: influence } = result.business_decision as { agent_influence: JsonObject };
      Object.assign(influence, { primary_influence: name[0], risk_manager_weight: 0.41 });
      expect(findInLegacy(result, schemas), name[0]).toEqual([]);
    }
  }
});

const RESULTS = runs(300, 5_760, 'RESULTS');
test('a study, every kind of damage in one of them: those are refused, and no other', async () => {
  const kinds = new Map<string, Damage>();
  for (const damage of damageTo(resultOf(0))) if (!kinds.has(damage.kind)) kinds.set(damage.kind, damage);
  const damages = [...kinds.values()];
  expect(damages.length).toBeGreaterThanOrEqual(40);
  const lines = Array.from({ length: RESULTS }, (_, i) => resultOf(i));
  const step = Math.floor(lines.length / damages.length);
  const where = new Map(damages.map((damage, nth) => [nth * step + 1, damage.kind]));
  const at = new Map<string, string[]>();
  for (const [index, kind] of where) {
    const damage = [...damageTo(lines[index] as JsonObject)].find(one => one.kind === kind) as Damage;
    lines[index] = { ...damage.damaged, nth: index };
    at.set(String(index), damage.at);
  }
  const { code, stdout, stderr } = await fw(
    `fw verify --pass | jq -c 'select(.failure) | [.nth, .failure.message]'`,
    { cwd: folder(), stdin: lines.map(line => `${JSON.stringify(line)}\n`).join('') },
  );
  const refused: [number, string][] = stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
  expect(refused.map(([nth]) => nth)).toEqual([...where.keys()]);
  for (const [nth, message] of refused) {
    const places = at.get(String(nth)) as string[];
    expect(
      places.some(place => message.includes(`${place}: expected`)),
      `${where.get(nth)}: ${message}`,
    ).toBe(true);
  }
  expect(stderr).toContain(
    `legacy results: ${(RESULTS - damages.length).toLocaleString('en-US')} accepted, ${damages.length} refused`,
  );
  expect(code).toBe(1);
});
