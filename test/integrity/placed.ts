/** The text stages with options that make them work, and an agent whose answers they judge. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect } from 'vitest';
import type { Values } from '../../engine/flow/options.ts';
import type { Stage } from '../../engine/flow/stage.ts';
import fixEscapes from '../../stages/fix-escapes.ts';
import nullFix from '../../stages/null-fix.ts';
import select from '../../stages/select.ts';
import validate from '../../stages/validate.ts';
import verify from '../../stages/verify.ts';
import { ROOT } from '../fw.ts';
import { agentsFolder, type Left, pass } from './inflow.ts';

/** ms: cases are counted, not timed */
export const LONG = 3_600_000;
const open = JSON.parse(readFileSync(`${ROOT}fixtures/rate.schema.json`, 'utf8'));
const agents = agentsFolder({
  judge: open,
  // closed, so that what fw adds to a record would be found
  rate: { ...open, properties: { ...open.properties, note: true }, additionalProperties: false },
});
const rate = `${agents}/rate.schema.json`;
const defaults = `${ROOT}fixtures/rate.defaults.yaml`;

/** The stage opened once for all cases, as it is for all lines of a run. */
function opened(stage: Stage): Stage {
  let each: ReturnType<NonNullable<Stage['each']>> | undefined;
  return {
    ...stage,
    each(options, tools) {
      each ??= stage.each!(options, tools);
      return each;
    },
  };
}

export const STAGES: { [line: string]: [Stage, Values] } = {
  'fix-escapes': [opened(fixEscapes), { agents }],
  'validate --schema rate': [opened(validate), { schema: rate, agents }],
  validate: [opened(validate), { agents }],
  'validate --schema legacy': [opened(validate), { schema: 'legacy', agents }],
  'null-fix --schema rate': [opened(nullFix), { schema: rate, defaults, agents }],
  'null-fix': [opened(nullFix), { agents, defaults }],
  select: [select, {}],
  'select --rung clean --no-failed': [select, { rung: ['clean'], failed: false }],
  'verify --pass': [verify, { pass: true }],
};
export const run = (bytes: Buffer, name: string, chunks?: readonly number[]): Promise<Left> =>
  pass(bytes, ...STAGES[name]!, chunks);
export const mending = fc.constantFrom('fix-escapes', 'validate --schema rate', 'null-fix --schema rate');

export const one = async (text: string, stage: string): Promise<string> => {
  const { lines } = await run(Buffer.from(`${text}\n`), stage);
  expect(lines).toHaveLength(1);
  return lines[0]!.toString();
};
