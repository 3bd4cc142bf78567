/** The faulty answers made by rule, as they lie in items and records: the stages sort them as the reader does. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Item, Mark, Step } from '../../engine/core/item/item.ts';
import { isObject, type JsonObject } from '../../engine/core/json/pointer.ts';
import fixEscapes from '../../stages/fix-escapes.ts';
import nullFix from '../../stages/null-fix.ts';
import validate from '../../stages/validate.ts';
import { FAULTS, type Fault, loanSchema } from './faults.ts';
import { agentsFolder, pass } from './inflow.ts';

const agents = agentsFolder({ loan: loanSchema });
const defaults = path.join(agents, 'defaults.yaml');
writeFileSync(
  defaults,
  'loan:\n  - { at: /rate, when: { /verdict: deny }, put: 25 }\n  - { at: /rate, when: { /verdict: approve }, put: 10 }\n',
);
const schema = path.join(agents, 'loan.schema.json');

/** The item that chain leaves behind where this was the last answer. */
function failedItem({ text, finish, code }: Fault, index: number): Item {
  const problem = {
    code: finish === 'stop' ? (code ?? 'schema-mismatch') : 'truncated',
    message: '…',
  } as const;
  const step: Step = {
    ...{
      agent: 'loan',
      raw: text,
      rung: 'failed',
      saw: 'clean',
      repairs: [],
      calls: [],
      attempts: 3,
      problem,
    },
    usage: { prompt: 10, completion: 10 },
  };
  const failure = { stage: 'chain', agent: 'loan', code: 'no-valid-answer', message: '…' } as const;
  return { id: `${index}`, prompt: '?', steps: [step], failure };
}

const items = FAULTS.map(failedItem);
const bytes = Buffer.from(items.map(item => `${JSON.stringify(item)}\n`).join(''));
const stepOf = (line: Buffer): Step => (JSON.parse(line.toString()) as Item).steps![0]!;

describe('a thousand faulty answers in failed items', () => {
  it('are put right by validate, or left as they are', async () => {
    const { lines } = await pass(bytes, validate, { agents });
    expect(lines).toHaveLength(FAULTS.length);
    for (const [index, { name, rung, output }] of FAULTS.entries()) {
      const line = lines[index]!;
      if (rung === 'failed') {
        expect(line.toString(), name).toBe(JSON.stringify(items[index]));
        continue;
      }
      const item = JSON.parse(line.toString()) as Item;
      expect(item.failure, name).toBeUndefined();
      expect(item.steps![0], name).toMatchObject({ rung, raw: FAULTS[index]!.text });
      expect(stepOf(line).output, name).toEqual(output);
    }
  });

  it('are mended by fix-escapes where backslashes are all that is wrong', async () => {
    const { lines } = await pass(bytes, fixEscapes, { agents });
    const mended = FAULTS.filter((_, index) => stepOf(lines[index]!).output !== undefined);
    expect(new Set(mended.map(({ name }) => name.replace(/ \(\d+\)$/, '')))).toEqual(
      new Set(['clean', 'illegal escape', 'an escaped apostrophe']),
    );
    expect(mended).toHaveLength(48);
    for (const [index, { name, output }] of FAULTS.entries()) {
      const step = stepOf(lines[index]!);
      if (step.output === undefined)
        expect(lines[index]!.toString(), name).toBe(JSON.stringify(items[index]));
      else expect(step.output, name).toEqual(output);
    }
  });

  it('are filled by null-fix where a default is all that is missing', async () => {
    const { lines } = await pass(bytes, nullFix, { agents, defaults });
    for (const [index, { name }] of FAULTS.entries()) {
      const step = stepOf(lines[index]!);
      // a certainty has no default: it is asked again
      const isFilled = name.startsWith('none in python');
      expect(step.rung === 'defaulted', name).toBe(isFilled);
      if (!isFilled) expect(lines[index]!.toString(), name).toBe(JSON.stringify(items[index]));
      else {
        const { rate, verdict } = step.output as JsonObject;
        expect(rate, name).toBe(verdict === 'deny' ? 25 : 10);
      }
    }
  });
});

describe('those among them that are JSON, as records', () => {
  const records = FAULTS.filter(({ text, finish }) => finish === 'stop' && isObject(parsed(text))).map(
    fault => ({ ...fault, text: fault.text.replaceAll('\n', ' ') }),
  );
  it('are sorted by validate --schema', async () => {
    expect(records.length).toBeGreaterThan(450);
    const input = Buffer.from(records.map(({ text }) => `${text}\n`).join(''));
    const { lines } = await pass(input, validate, { schema, agents });
    expect(lines).toHaveLength(records.length);
    for (const [index, { name, text, rung, output, code }] of records.entries()) {
      const line = lines[index]!.toString();
      const { _fw, failure, ...value } = JSON.parse(line) as JsonObject & {
        _fw?: Mark;
        failure?: JsonObject;
      };
      if (rung === 'clean' || code === 'value-not-kept') expect(line, name).toBe(text);
      else if (rung === 'failed') expect(failure?.code, name).toBe(code);
      else {
        expect(_fw?.rung, name).toBe(rung);
        expect(value, name).toEqual(output);
      }
    }
  });
});

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
