/** A decision's confidence is asked again; no default ever stands in for it, not even one that somebody wrote. */
import { expect, test } from 'vitest';
import { parseDefaults } from '../../engine/answers/defaults.ts';
import { asker } from '../../engine/asking/agents/ask.ts';
import { loadAgents, packagedAgents } from '../../engine/asking/agents/load-agents.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { decided } from './decided.ts';

const { synthesis } = loadAgents(packagedAgents());
const defaults = parseDefaults(
  'decision: [{ at: /interest_rate, put: 10 }, { at: /confidence_probability, put: 50 }]',
  'defaults.yaml',
);

/** Asks with `--on-invalid default`, of a model that always answers with this. */
async function asked(answer: JsonObject) {
  const pool = {
    model: 'model',
    itemsInFlight: 1,
    onRoom: () => {},
    call: async () => ({
      text: JSON.stringify(answer),
      finish: 'stop',
      usage: { prompt: 1, completion: 1 },
      replayed: false,
    }),
    judge: () => {},
    close: async () => {},
  };
  const ask = asker(synthesis as never, pool, { attempts: 2, guided: 'off', seed: 0, defaults });
  const { step, failure } = await ask({ id: 'a', context: '?', saw: 'clean', round: 0 });
  return { rung: step.rung, output: step.output, code: failure?.code };
}

const { confidence_probability: _confidence, ...unsure } = decided;

test.each([
  ['another null is filled', { ...decided, interest_rate: null }, 'defaulted', undefined],
  ['a null confidence is not', { ...decided, confidence_probability: null }, 'failed', 'zero-confidence'],
  ['nor a zero', { ...decided, confidence_probability: 0 }, 'failed', 'zero-confidence'],
  ['nor one that is missing', unsure, 'failed', 'no-valid-answer'],
  ['nor one beside another null', { ...unsure, interest_rate: null }, 'failed', 'no-valid-answer'],
])('%s', async (_name, answer, rung, code) => {
  const got = await asked(answer);
  expect([got.rung, got.code]).toEqual([rung, code]);
  expect((got.output as JsonObject | undefined)?.confidence_probability).toBe(
    rung === 'defaulted' ? 70 : undefined,
  );
});
