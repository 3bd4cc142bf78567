/** What --retry-failed has got stays: the same question again, with all answers on record, ends as the recovery did. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type AskResult, asker } from '../../engine/asking/agents/ask.ts';
import { loadAgents, packagedAgents } from '../../engine/asking/agents/load-agents.ts';
import { type Answer, type Call, CallFailure, type Pool } from '../../engine/core/item/call.ts';
import { runs, seed } from '../integrity/property.ts';
import { decided } from './decided.ts';

const { byKey, synthesis } = loadAgents(packagedAgents());
const agents = [byKey.get('risk_manager'), synthesis].map(agent => agent as NonNullable<typeof agent>);

const { agent_influence: _influence, ...fits } = decided;
const reasons = {
  approval_decision_reason: 'a',
  approval_type_reason: 'b',
  interest_rate_reason: 'c',
  confidence_reason: 'd',
};

type Outcome = 'fits' | 'zero' | 'broken' | 'nobody';

/** Answers as the outcomes say, one a call that is not on record; a call that nobody answered leaves no record. */
function poolOf(record: Map<string, Answer>, outcomes: Outcome[], whole: object, lastRound: number): Pool {
  return {
    model: 'model',
    itemsInFlight: 1,
    onRecord: { lastRound, has: key => record.has(key) },
    onRoom: () => {},
    async call({ key }: Call) {
      const known = record.get(key);
      if (known) return known;
      const outcome = outcomes.shift() ?? 'fits';
      if (outcome === 'nobody') throw new CallFailure('call-failed', 'HTTP 500');
      const zero = { ...whole, confidence_probability: 0 };
      const text = outcome === 'broken' ? 'I cannot.' : JSON.stringify(outcome === 'zero' ? zero : whole);
      const answer = { text, finish: 'stop', usage: { prompt: 1, completion: 1 }, replayed: false };
      record.set(key, answer);
      return answer;
    },
    judge: () => {},
    close: async () => {},
  };
}

const outcome = fc.constantFrom<Outcome>('fits', 'zero', 'broken', 'nobody');
const cases = fc.record({
  nth: fc.nat(1),
  outcomes: fc.array(outcome, { maxLength: 30 }),
  attempts: fc.integer({ min: 1, max: 3 }),
  more: fc.integer({ min: 1, max: 4 }),
});

test('a recovery of any number of rounds', () => {
  const property = fc.asyncProperty(cases, async ({ nth, outcomes, attempts, more }) => {
    const agent = agents[nth] as (typeof agents)[0];
    const record = new Map<string, Answer>();
    const left = [...outcomes];
    const whole = nth === 0 ? { ...fits, reasoning: reasons } : decided;
    let lastRound = 0;
    const askIn = async (round: number, asks: number): Promise<AskResult> => {
      const before = record.size;
      const pool = poolOf(record, left, whole, lastRound);
      const ask = asker(agent, pool, { attempts: asks, guided: 'off', seed: 0 });
      const asked = await ask({ id: 'a', context: '?', saw: 'clean', round });
      const { round: reached = 0 } = asked.step;
      if (record.size > before) lastRound = Math.max(lastRound, reached);
      return asked;
    };
    let last = await askIn(0, attempts);
    while (last.failure) last = await askIn((last.step.round ?? 0) + 1, more);
    const answers = record.size;
    left.unshift('broken'); // for the call that must not be made
    expect(await askIn(0, attempts)).toEqual(last);
    expect(record.size).toBe(answers);
  });
  return fc.assert(property, { seed, numRuns: runs });
});
