/**
 * An answer is what the model said last, or nothing: every fault of every schema of the repository, in answers with
 * drafts, reasoning, fences and prose around them. Each leaf of what is read stands in the last object, or has an entry.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readAnswer } from '../../engine/answers/read-answer.ts';
import { compileSchema } from '../../engine/answers/schema.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { drawsOf, PURPOSE, sha256 } from '../../products/simulator/random.ts';
import { FAULTS, judges, onlyThought, saidWith } from './last.ts';
import { isSaid, leavesOf } from './leaves.ts';
import { holds } from './property.ts';

const all = judges();
const faults = Object.entries(FAULTS);
const one = fc.record({
  judge: fc.constantFrom(...all),
  fault: fc.constantFrom(...faults),
  seed: fc.nat(),
});

const randomOf = (seed: number) => drawsOf(seed)(sha256('answer'), PURPOSE.answer);

it('a fence that calls itself json decides nothing, where json is what might have been said instead', () => {
  const schema = { type: 'object', properties: { format: { enum: ['json', 'text'] } }, required: ['format'] };
  const check = compileSchema(schema, 'formats');
  const answer = '{"format": "text"}';
  const read = (text: string) => readAnswer(text, check, { finish: 'stop' }).output;
  expect(read(`Decision:\n\`\`\`json\n${answer}\n\`\`\``)).toEqual({ format: 'text' });
  expect(read(`Final answer: \`\`\`json\n${answer}\n\`\`\``)).toEqual({ format: 'text' });
  expect(read(`My decision: json.\n\`\`\`json\n${answer}\n\`\`\``)).toBeUndefined();
});

describe(`${faults.length} faults of ${all.length} schemas`, () => {
  it('give what stands last, or nothing', () => {
    holds(one, ({ judge, fault: [, put], seed }) => {
      const random = randomOf(seed);
      const value = judge.made(random);
      const last = put(value, random);
      const said = saidWith(last, () => JSON.stringify(judge.made(random)), random);
      const reading = readAnswer(said.whole, judge.check, { finish: 'stop' });
      if (reading.output === undefined || reading.problem !== undefined) {
        expect(reading.rung, said.whole).toBe('failed');
        if (!said.isSeveral && said.fate === 'value') expect(reading.problem, said.whole).toBeUndefined();
        return;
      }
      expect(said.fate, said.whole).not.toBe('failed');
      expect(reading.rung, said.whole).not.toBe('failed');
      if (said.fate === 'value')
        expect(reading.output, said.whole).toEqual(JSON.parse(JSON.stringify(value)));
      for (const leaf of leavesOf(reading.output))
        expect(isSaid(leaf, said.text, reading.repairs), `${leaf.at} of ${said.whole}`).toBe(true);
      if (reading.repairs.length === 0) expect(JSON.parse(said.whole)).toEqual(reading.output);
      expect(reading.rung === 'clean').toBe(reading.repairs.length === 0);
    });
  });

  it('give several-answers where two that differ stand side by side', () => {
    holds(one, ({ judge, seed }) => {
      const random = randomOf(seed);
      const [first, second] = [judge.made(random), judge.made(random)].map(made => JSON.stringify(made));
      const fence = '```';
      for (const text of [
        `[${first},${second}]`,
        `${first}\n${second}`,
        `${first} ${second}`,
        `Well:\n${first},\n${second}\nThat is it.`,
        `${fence}json\n${first}\n${fence}\n\n${fence}json\n${second}\n${fence}`,
        `${fence}\n${first}\n${second}\n${fence}`,
      ]) {
        const { rung, problem } = readAnswer(text, judge.check, { finish: 'stop' });
        if (sameValue(first, second)) expect(rung, text).toBe('repaired');
        else expect(problem?.code, text).toBe('several-answers');
      }
    });
  });

  it('give nothing where all stands in reasoning', () => {
    holds(one, ({ judge, seed }) => {
      const random = randomOf(seed);
      const text = onlyThought(() => JSON.stringify(judge.made(random)), random);
      expect(readAnswer(text, judge.check, { finish: 'stop' }).problem?.code, text).toBe('no-json-found');
    });
  });
});

function sameValue(a: string | undefined, b: string | undefined): boolean {
  const sorted = (value: unknown): unknown =>
    typeof value !== 'object' || value === null || Array.isArray(value)
      ? Array.isArray(value)
        ? value.map(sorted)
        : value
      : Object.fromEntries(
          Object.entries(value as JsonObject)
            .sort(([one], [other]) => (one < other ? -1 : 1))
            .map(([key, below]) => [key, sorted(below)]),
        );
  return JSON.stringify(sorted(JSON.parse(a ?? '0'))) === JSON.stringify(sorted(JSON.parse(b ?? '1')));
}
