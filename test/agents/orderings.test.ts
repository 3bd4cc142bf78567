/** Orderings: every form that people write gives the same keys, and the named lists have the properties they promise. */
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { loadAgents } from '../../engine/asking/agents/load-agents.ts';
import { orderingLabel, resolveOrdering, resolveOrderings } from '../../engine/asking/agents/orderings.ts';
import { packageRoot } from '../../engine/core/config/package.ts';
import { Fatal } from '../../engine/core/item/failure.ts';

const agents = loadAgents(join(packageRoot(), 'pipelines/fairwatch/agents'));
const study = ['risk_manager', 'data_science', 'regulatory', 'consumer_advocate'];
const initials = (orderings: string[][]): string[] =>
  orderings.map(ordering => ordering.map(key => key[0]).join(''));

function refused(wanted: string | string[]): string {
  try {
    resolveOrderings(wanted, agents);
  } catch (error) {
    if (error instanceof Fatal && error.exit === 64) return error.message;
    throw error;
  }
  throw new Error(`expected ${wanted} to be refused`);
}

test.each([
  'risk_manager,data_science,regulatory,consumer_advocate',
  'risk,data,regulatory,consumer',
  ' risk , Data Science,regulatory, Consumer Advocate ',
  'risk-data-regulatory-consumer',
  'risk -> data -> regulatory -> consumer',
  'Risk Manager → Data Science → Regulatory Compliance → Consumer Advocate',
  'risk>data>regulatory>consumer',
  'sequential_risk_data_regulatory_consumer.json',
  'sequential_risk_data_regulatory_consumer_legacy.json',
  'out/sequential_risk_data_regulatory_consumer_legacy.jsonl',
  '/data/batch 4/sequential_risk_data_regulatory_consumer.ndjson',
  'sequential_risk_manager_data_science_regulatory_consumer_advocate_legacy.jsonl',
  'sequential_Risk Manager_data_regulatory_consumer_advocate.json',
  'default',
])('%s', text => {
  expect(resolveOrderings(text, agents)).toEqual([study]);
});

test('nothing asked for is the default', () => {
  expect(resolveOrderings(undefined, agents)).toEqual([study]);
});

test('several, as an array or separated by semicolons; a part of the agents; one agent', () => {
  const two = [['risk_manager', 'data_science'], ['regulatory']];
  expect(resolveOrderings(['risk,data', 'regulatory'], agents)).toEqual(two);
  expect(resolveOrderings('risk,data; regulatory', agents)).toEqual(two);
  expect(resolveOrdering(['risk', 'Data Science'], agents)).toEqual(two[0]);
});

test.each<[string | string[], RegExp]>([
  [
    'risk,finance',
    /expected an agent, found 'finance' in 'risk,finance'\. The agents are risk_manager \(risk, Risk Manager\)/,
  ],
  ['Risk manager', /expected an agent, found 'Risk manager'\..*lists are all, default, batch4, balanced12/],
  ['risk,risk_manager', /every agent once, found risk_manager twice/],
  ['risk,business_decision', /'business_decision', the synthesis/],
  ['', /expected an agent, found ''/],
  ['risk,,data', /expected an agent, found '' in 'risk,,data'/],
  ['sequential_risk_data_legacy_legacy.json', /found 'legacy'/],
  ['sequential_.json', /found ''/],
  ['__proto__', /found '__proto__'/],
  ['batch4,risk', /found 'batch4'/],
  [['risk,data', 'risk-data'], /expected every ordering once, found risk_manager,data_science twice/],
])('refused by name: %s', (wanted, message) => {
  expect(refused(wanted)).toMatch(message);
});

test('a long unknown name is not repeated in full', () => {
  expect(refused('x'.repeat(100_000)).length).toBeLessThan(1000);
});

test('batch 4 is the twelve of the study, in its numbering', () => {
  expect(initials(resolveOrderings('batch4', agents))).toEqual(
    'rdcr rcrd drrc drcr drrc drcr dcrr crrd crdr crrd crdr cdrr'.split(' '),
  );
  const labels = resolveOrderings('batch4', agents).map(keys => orderingLabel(keys, agents, '_'));
  expect(labels).toEqual([
    'risk_data_consumer_regulatory',
    'risk_consumer_regulatory_data',
    'data_risk_regulatory_consumer',
    'data_risk_consumer_regulatory',
    'data_regulatory_risk_consumer',
    'data_regulatory_consumer_risk',
    'data_consumer_risk_regulatory',
    'consumer_risk_regulatory_data',
    'consumer_risk_data_regulatory',
    'consumer_regulatory_risk_data',
    'consumer_regulatory_data_risk',
    'consumer_data_risk_regulatory',
  ]);
});

test('all is every permutation once', () => {
  const all = resolveOrderings('all', agents);
  expect(new Set(all.map(String)).size).toBe(24);
  expect(all[0]).toEqual(study);
  for (const ordering of all) expect([...ordering].sort()).toEqual([...study].sort());
});

describe('balanced12', () => {
  const orderings = resolveOrderings('balanced12', agents);
  const pairs = study.flatMap(a => study.filter(b => b !== a).map(b => [a, b] as const));

  test('twelve different ones', () => {
    expect(new Set(orderings.map(String)).size).toBe(12);
  });
  test('every agent stands in every position 3 times', () => {
    for (const key of study) {
      for (const position of [0, 1, 2, 3]) {
        expect(orderings.filter(ordering => ordering[position] === key)).toHaveLength(3);
      }
    }
  });
  test('every directed pair of neighbours occurs 3 times', () => {
    for (const [a, b] of pairs) {
      expect(orderings.filter(ordering => ordering.indexOf(b) - ordering.indexOf(a) === 1)).toHaveLength(3);
    }
  });
  test('every agent precedes every other 6 times', () => {
    for (const [a, b] of pairs) {
      expect(orderings.filter(ordering => ordering.indexOf(a) < ordering.indexOf(b))).toHaveLength(6);
    }
  });
});

test('a label, in an id or in the name of a file, resolves to what it came from', () => {
  fc.assert(
    fc.property(fc.shuffledSubarray(study, { minLength: 1 }), keys => {
      expect(resolveOrderings(orderingLabel(keys, agents), agents)).toEqual([keys]);
      const file = `out/sequential_${orderingLabel(keys, agents, '_')}_legacy.jsonl`;
      expect(resolveOrderings(file, agents)).toEqual([keys]);
    }),
  );
});

test('any text either resolves to agents or is refused', () => {
  fc.assert(
    fc.property(fc.string(), text => {
      try {
        for (const ordering of resolveOrderings(text, agents)) {
          for (const key of ordering) expect(study).toContain(key);
        }
      } catch (error) {
        expect(error).toBeInstanceOf(Fatal);
      }
    }),
  );
});
