/** The context of an agent, to the byte: the legacy `input` of a turn is this text. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { contextAfter } from '../../engine/asking/agents/arrangement.ts';
import { loadAgents } from '../../engine/asking/agents/load-agents.ts';
import { packageRoot } from '../../engine/core/config/package.ts';
import type { Step } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';

const agents = loadAgents(join(packageRoot(), 'pipelines/fairwatch/agents'));

function step(agent: string, output?: JsonObject): Step {
  return {
    agent,
    ...(output && { output }),
    rung: output ? 'clean' : 'failed',
    saw: 'clean',
    repairs: [],
    calls: [],
    attempts: 1,
    usage: { prompt: 1, completion: 1 },
  };
}

test('the prompt alone, then each answer as compact JSON under the name on display', () => {
  expect(contextAfter('Judge this.\n', [], agents)).toBe('Judge this.\n');
  const steps = [
    step('risk_manager', { rate: 8.5, why: 'a "b"\n' }),
    step('regulatory', { x: [1, { y: null }] }),
  ];
  expect(contextAfter('Judge this.', steps, agents)).toBe(
    'Judge this.\n\nRisk Manager:\n{"rate":8.5,"why":"a \\"b\\"\\n"}\n\nRegulatory Compliance:\n{"x":[1,{"y":null}]}',
  );
});

test('a failed step and an unknown agent fail the item: neither is left out', () => {
  expect(() => contextAfter('p', [step('risk_manager')], agents)).toThrow(
    expect.objectContaining({ code: 'no-valid-answer', agent: 'risk_manager' }),
  );
  expect(() => contextAfter('p', [step('risk', {})], agents)).toThrow(
    expect.objectContaining({ code: 'unknown-agent', agent: 'risk' }),
  );
});
