/** Legacy results back into items: whatever was written comes back, whatever is no answer is asked again, nothing is lost. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rungOfEntries } from '../../engine/answers/rules.ts';
import { sawIn } from '../../engine/asking/agents/arrangement.ts';
import { loadAgents } from '../../engine/asking/agents/load-agents.ts';
import { takesUp } from '../../engine/asking/agents/reopen.ts';
import { legacyResult, provenanceOf } from '../../engine/audit/legacy/legacy-result.ts';
import { withOwnNames } from '../../engine/audit/legacy/own-names.ts';
import { changedStep } from '../../engine/audit/recheck.ts';
import { type Failure, type Item, type Rung, type Step, worse } from '../../engine/core/item/item.ts';
import { type JsonObject, valueAt } from '../../engine/core/json/pointer.ts';
import { folder, ROOT } from '../fw.ts';
import { blocks, ingested, run } from '../ingest/ingesting.ts';
import { holds, sizes } from '../ingest/property.ts';

const FOLDER = join(ROOT, 'pipelines/fairwatch/agents');
const agents = loadAgents(FOLDER);
const how = join(folder(), 'how.ndjson');
const TIME = '2026-03-01T09:30:00Z';
const given = { format: 'legacy', agents: FOLDER };

const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 20 }),
  fc.constantFrom(
    '\u0000',
    '\u2028',
    '\ud800',
    '\\O',
    '{"a":1}',
    '\n\nRisk Manager:\n{}',
    '__proto__',
    '\ufeff',
  ),
);
/** No model's words are held for an error's here: that is another test's. */
const words = text.map(said => `It says ${said}`);
const value = fc.oneof(
  words,
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
);
const answers: fc.Arbitrary<JsonObject> = fc
  .tuple(
    fc.integer({ min: 1, max: 100 }),
    fc.array(
      fc.tuple(
        text.filter(key => key !== 'error'),
        fc.oneof(value, fc.array(value), fc.dictionary(text, value)),
      ),
      {
        maxLength: 4,
      },
    ),
  )
  .map(([confidence_probability, more]) => ({ ...Object.fromEntries(more), confidence_probability }));

/** As a model spells its name, never that of another agent, and who it says decided: by the key, since the schema asks for that. */
const spelled = fc.option(fc.oneof(words, fc.constantFrom('Compliance', 'loan_desk', 'the Committee')), {
  nil: undefined,
});
const influence = fc.option(fc.constantFrom(...agents.agents.map(({ key }) => key)), { nil: undefined });

const step = (agent: string, output: JsonObject): Step => ({
  agent,
  output,
  rung: 'clean',
  saw: 'clean',
  repairs: [],
  calls: ['c'],
  attempts: 1,
  usage: { prompt: 1, completion: 1 },
});

/** An item as chain leaves it, all answers clean. */
const items: fc.Arbitrary<Item> = fc
  .record({
    row: fc.integer({ min: 1, max: 2 ** 53 - 1 }),
    prompt: words,
    ordering: fc.shuffledSubarray(
      agents.agents.map(({ key }) => key),
      { minLength: 1 },
    ),
    outputs: fc.array(fc.tuple(answers, spelled), { minLength: 5, maxLength: 5 }),
    influence,
  })
  .map(({ row, prompt, ordering, outputs, influence: primary_influence }) => {
    const said = outputs.map(([output, agent_name]) => ({
      ...(agent_name !== undefined && { agent_name }),
      ...output,
    }));
    const decided = primary_influence === undefined ? {} : { agent_influence: { primary_influence } };
    return {
      id: `item ${row}`,
      row,
      prompt,
      ordering,
      steps: ordering.map((agent, index) => step(agent, said[index] as JsonObject)),
      decision: step('business_decision', { ...said[4], ...decided }),
    };
  });

const rungs = fc
  .record({
    rung: fc.constantFrom<Rung>('clean', 'repaired', 'coerced', 'unknown', 'defaulted'),
    saw: fc.constantFrom<Rung>('clean', 'repaired', 'coerced', 'unknown', 'defaulted'),
    attempts: fc.integer({ min: 1, max: 9 }),
    repairs: fc.array(
      fc.constantFrom(
        { rule: 'percent', at: '/a', from: '1%', to: 1 },
        { rule: 'fence', offset: 0, cut: '`', put: '' },
      ),
    ),
  })
  .map(made => ({ ...made, rung: worse(made.rung, rungOfEntries(made.repairs, 'defaulted')) }));

const linesOf = (results: readonly unknown[]): string =>
  results.map(each => `${JSON.stringify(each)}\n`).join('');
const asInResults = ({ agent, output }: Step): string =>
  JSON.stringify(withOwnNames(output as JsonObject, agents.byKey.get(agent), agents).output);
const answersOf = ({ steps = [], decision }: Item): Step[] => [...steps, ...(decision ? [decision] : [])];

describe('round trip', () => {
  test('items → legacy → items → legacy gives the same bytes', () =>
    holds(
      fc.tuple(fc.uniqueArray(items, { maxLength: 6, selector: ({ row }) => row }), sizes),
      async ([all, cut]) => {
        const written = linesOf(all.map(item => legacyResult(item, agents, TIME)));
        const back = await run([blocks(written, cut)], given);
        expect(linesOf(back.map(item => legacyResult(item, agents, item.timestamp as string)))).toBe(written);
      },
    ));

  test('from a document, indented or not, come the items that come from its lines', () =>
    holds(
      fc.tuple(
        fc.uniqueArray(items, { minLength: 1, maxLength: 4, selector: ({ row }) => row }),
        sizes,
        fc.nat(2),
      ),
      async ([all, cut, indent]) => {
        const results = all.map(item => legacyResult(item, agents, TIME));
        const document = JSON.stringify({ results, status: 'complete' }, null, indent);
        expect(await run([blocks(document, cut)], given)).toEqual(await ingested(linesOf(results), given));
      },
    ));

  test('with their provenance come the rungs and entries that they had', () =>
    holds(fc.tuple(items, fc.array(rungs, { minLength: 5, maxLength: 5 })), async ([item, marks]) => {
      for (const [index, answer] of answersOf(item).entries()) {
        Object.assign(answer, marks[index]);
        answer.saw = worse(answer.saw, sawIn(answersOf(item).slice(0, index)));
      }
      const result = legacyResult(item, agents, TIME);
      writeFileSync(how, linesOf([{ other: 1 }, provenanceOf(item, result, agents)]));
      const [back] = (await ingested(linesOf([result]), { ...given, provenance: how })) as [Item];
      expect(back.id).toBe(item.id);
      const shownOf = ({ agent, output, rung, saw, repairs, attempts }: Step) => ({
        agent,
        output: JSON.stringify(output),
        rung,
        saw,
        repairs,
        attempts,
      });
      expect(answersOf(back).map(shownOf)).toEqual(answersOf(item).map(shownOf));
    }));

  test('without it, what later agents were shown is known: every answer but the last, and whom the decision names', () =>
    holds(items, async item => {
      const result = legacyResult(item, agents, TIME);
      const [back] = (await ingested(linesOf([result]), given)) as [Item];
      const shown = (from: Item): unknown[] => [
        ...(from.steps ?? []).slice(0, -1).map(({ output }) => JSON.stringify(output)),
        valueAt(from.decision?.output, '/agent_influence/primary_influence'),
      ];
      expect(shown(back)).toEqual(shown(item));
    }));

  test('no answer that was read back passes for the words of a model', () =>
    holds(items, async item => {
      const [back] = await ingested(linesOf([legacyResult(item, agents, TIME)]), given);
      for (const answer of answersOf(back as Item)) {
        expect(answer.rung).toBe('unknown');
        expect(answer.repairs).toEqual([{ rule: 'read-back', at: '' }]);
        const changed = changedStep(answer, { now: 1 }, 'coerced', [
          { rule: 'percent', at: '/now', from: '1', to: 1 },
        ]);
        expect([answer.raw, changed.raw]).toEqual([undefined, undefined]);
      }
    }));
});

const leftover = fc.constantFrom(
  'System Error',
  'a Parsing Failure came up',
  'Manual Review Required: timeout',
  '...',
  '<your reason>',
  'approve | deny',
);

describe('what is no answer', () => {
  test('is asked again, with all that read it, and the answers before it stay', () =>
    holds(fc.tuple(items, fc.nat(), leftover, fc.nat(2)), async ([item, place, said, depth]) => {
      const bad = place % answersOf(item).length;
      const damaged = structuredClone(item);
      const answer = answersOf(damaged)[bad] as Step;
      answer.output = {
        ...(answer.output as JsonObject),
        late: depth === 0 ? said : depth === 1 ? [said] : { in: { it: said } },
      };
      const [back] = (await ingested(linesOf([legacyResult(damaged, agents, TIME)]), given)) as [Item];
      const { failure, steps = [], decision } = back;
      expect(failure).toMatchObject({ stage: 'ingest', agent: answer.agent });
      expect(takesUp(failure as Failure, true)).toBe(true);
      const kept = answersOf(back).filter(({ output }) => output !== undefined);
      // the last answer's spelling of its agent's name is nowhere in a result
      expect(kept.map(asInResults)).toEqual(answersOf(item).slice(0, bad).map(asInResults));
      const failed = decision ?? steps.at(-1);
      expect(failed).toMatchObject({ agent: answer.agent, rung: 'failed', problem: { code: failure?.code } });
      expect(failed).not.toHaveProperty('raw');
    }));

  test("a confidence of zero or null in the decision is one; a null in an assessment is null-fix's, a zero an answer", () =>
    holds(fc.tuple(items, fc.constantFrom(0, null), fc.boolean()), async ([item, zero, inDecision]) => {
      const damaged = structuredClone(item);
      const answer = (inDecision ? damaged.decision : damaged.steps?.[0]) as Step;
      answer.output = { ...(answer.output as JsonObject), confidence_probability: zero };
      const [back] = (await ingested(linesOf([legacyResult(damaged, agents, TIME)]), given)) as [Item];
      expect(back.failure?.code).toBe(
        inDecision ? 'zero-confidence' : zero === null ? 'null-value' : undefined,
      );
    }));
});

describe('any line', () => {
  const anything = fc.oneof(
    fc.jsonValue(),
    fc.constantFrom(null, '', [], {}, 0, -1, 'risk,data', 'System Error', { agent: 'risk' }, [
      { agent: 7, output: 1 },
    ]),
  );
  const keys = [
    ...['mode', 'initial_prompt', 'conversation_history', 'all_agent_outputs', 'final_output'],
    ...[
      'business_decision',
      'prompt_id',
      'ordering',
      'timestamp',
      '_fw',
      'failure',
      'id',
      'steps',
      '__proto__',
    ],
  ];
  const mangled = fc
    .tuple(
      items,
      fc.array(fc.tuple(fc.constantFrom(...keys), fc.option(anything, { nil: undefined })), { maxLength: 4 }),
    )
    .map(([item, changes]) => {
      const entries = new Map(Object.entries(legacyResult(item, agents, TIME)));
      for (const [key, to] of changes) to === undefined ? entries.delete(key) : entries.set(key, to);
      return JSON.stringify(Object.fromEntries(entries));
    });

  test('comes out once, as an item or as its own failure, with all that it said', () =>
    holds(
      fc.tuple(fc.array(fc.oneof(mangled, fc.json(), fc.string()), { maxLength: 6 }), sizes),
      async ([lines, cut]) => {
        // a line break in a line would make two of it, and a document is another test's
        const whole = lines
          .map(line => line.replace(/[\n\r]/g, ' '))
          .filter(line => !/^\s*$|"results"/.test(line));
        const back = await run([blocks(whole.map(line => `${line}\n`).join(''), cut)], given);
        expect(back).toHaveLength(whole.length);
        for (const [index, item] of back.entries()) {
          if (item.failure === undefined)
            expect(item).toMatchObject({ id: expect.anything(), prompt: expect.any(String) });
          else if (item.prompt === undefined && item.failure?.text === undefined) {
            const { failure: _failure, ...record } = item;
            const { failure: _before, ...said } = JSON.parse(whole[index] as string);
            expect(record).toEqual(said);
          }
        }
      },
    ));
});
