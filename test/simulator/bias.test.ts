/** A bias that is planted has the size that was asked for, and touches nobody else. */
import { expect, test } from 'vitest';
import { biasFrom, shiftFor } from '../../engine/simulator/bias.ts';
import { drawsOf, PURPOSE, sha256 } from '../../engine/simulator/random.ts';
import { approvalChance, studyWishes } from '../../engine/simulator/study.ts';

const SYSTEM = 'You are the risk manager. "approval_decision" is one of your keys.';
const NAMES = new Set(['approval_decision']);
const asked = (name: string, nth: number, score = 665): string =>
  `Application ${nth}\n\nName: ${name}\nCredit score: ${score}\nAnnual income: $80,000\nLoan amount requested: $80,000\n`;

test.each([
  ['Name: Ebony Washington\nAge: 24', 1],
  ['{"name": "Ebony Washington", "age": 24}', 1],
  ['name=ebony washington', 1],
  ['Name: Ebony Washingtonian', 0],
  ['Ebony Washington: Name', 0],
  ['Surname and name of no one, Ebony Washington', 0],
])('%j', (text, times) => {
  expect(shiftFor(text, [biasFrom('name=Ebony Washington:-0.1')])).toBeCloseTo(-0.1 * times, 12);
});

test('columns may be written with spaces, and shifts add up', () => {
  const biases = ['visa_status=F-1 Student Visa:-0.1', 'name=A:+0.05'].map(biasFrom);
  expect(shiftFor('Visa status: F-1 Student Visa\nName: A', biases)).toBeCloseTo(-0.05, 12);
});

test.each(['', 'name', 'name=:-0.1', '=x:-0.1', 'name=x:-2', 'name=x:a', 'name=x'])('%j is none', text => {
  expect(() => biasFrom(text)).toThrow('expected COLUMN=VALUE:SHIFT');
});

test('the chance falls by what was asked, and the others answer as they did', () => {
  const biases = [biasFrom('name=Ebony:-0.1')];
  const draws = drawsOf(7);
  const approves = (user: string, by: typeof biases): boolean =>
    studyWishes(NAMES, { system: SYSTEM, user }, draws(sha256(user), PURPOSE.answer), by).get(
      'approval_decision',
    ) === 'approve';
  const rate = (name: string, by: typeof biases): number => {
    let hits = 0;
    for (let nth = 0; nth < 4000; nth++) if (approves(asked(name, nth), by)) hits += 1;
    return hits / 4000;
  };
  const chance = approvalChance({ system: SYSTEM, user: asked('Ebony', 0) });
  expect(Math.abs(rate('Ebony', []) - chance)).toBeLessThan(0.03);
  expect(Math.abs(rate('Ebony', biases) - (chance - 0.1))).toBeLessThan(0.03);
  expect(rate('Anna', biases)).toBe(rate('Anna', []));
});
