/** 100,000 levels through every text stage, as processes: kept to the byte, or refused with a code; never a crash. */
import { describe, expect, it } from 'vitest';
import { ROOT } from '../fw.ts';
import { fw } from '../here.ts';

const LEVELS = 100_000;
const list = '['.repeat(LEVELS) + ']'.repeat(LEVELS);
const object = `${'{"a":'.repeat(LEVELS)}1${'}'.repeat(LEVELS)}`;
const rate = `--schema ${ROOT}fixtures/rate.schema.json`;
const defaults = `--defaults ${ROOT}fixtures/rate.defaults.yaml`;

interface Refused {
  failure: { code: string; message: string; text: string };
}

describe('a line of 100,000 levels', () => {
  it.each([
    'fw fix-escapes',
    'fw validate',
    'fw null-fix',
    `fw null-fix ${rate} ${defaults}`,
    'fw select --no-failed',
    'fw verify --pass',
    'fw fix-escapes | fw validate | fw null-fix | fw verify --pass',
  ])('passes %s as it came', async line => {
    const input = `{"deep":${list}}\n{ "deep": ${object}, "rate": 8, "decision": "deny" }\n`;
    const { stdout, code } = await fw(line, { stdin: input });
    expect(stdout === input).toBe(true);
    expect(code).toBe(0);
  });

  it.each([
    ['fw fix-escapes', `{"deep":${list},"text":"\\$"}`, 'too-deep'],
    ['fw fix-escapes', `{"deep":${object},"text":"\\$"}`, 'too-deep'],
    [`fw validate ${rate}`, `{"deep":${list},"rate":"8%"}`, 'too-deep'],
    [`fw validate ${rate}`, `{"deep":${object},"rate":"a lot"}`, 'schema-mismatch'],
    [`fw null-fix ${rate} ${defaults}`, `{"deep":${list},"rate":null,"decision":"deny"}`, 'too-deep'],
    ['fw select --failed', list, 'not-an-object'],
    ['fw select --failed', '['.repeat(LEVELS), 'not-json'],
    ['fw select --failed', '{"a":'.repeat(LEVELS), 'not-json'],
    ['fw verify --pass', `{"id":"a","prompt":"?","steps":[],"deep":${object}}`, 'not-strict'],
    ['fw verify --pass', `{"conversation_history":${list}}`, 'not-strict'],
  ])('is refused by %s where it is touched, and held whole', async (line, text, code) => {
    const { stdout, stderr } = await fw(line, { stdin: `${text}\n{"a":1}\n` });
    const { failure } = JSON.parse(stdout.split('\n')[0]!) as Refused;
    expect(failure.code).toBe(code);
    expect(failure.text === text).toBe(true);
    expect(stderr).not.toMatch(/RangeError|\n\s+at /);
  });

  it('in an answer is a failed step, not a failed run', async () => {
    const step = { agent: 'risk_manager', raw: `so: {"deep":${list}}`, rung: 'failed', repairs: [] };
    const failure = { stage: 'chain', code: 'no-valid-answer', message: '?' };
    const input = `${JSON.stringify({ id: 'a', prompt: '?', steps: [step], failure })}\n`;
    const { stdout, code } = await fw('fw fix-escapes | fw validate | fw null-fix', { stdin: input });
    expect(stdout === input).toBe(true);
    expect(code).toBe(0);
  });
});
