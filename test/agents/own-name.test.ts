/** An answer under the name of another agent is that agent's, quoted: asked again, and never renamed. */
import { describe, expect, it } from 'vitest';
import { asker } from '../../engine/asking/agents/ask.ts';
import { checkOf } from '../../engine/asking/agents/form.ts';
import { loadAgentFiles, loadAgents, packagedAgents } from '../../engine/asking/agents/load-agents.ts';
import { legacyResult } from '../../engine/audit/legacy/legacy-result.ts';
import type { Call } from '../../engine/core/item/call.ts';
import type { Item, Step } from '../../engine/core/item/item.ts';
import { decided } from './decided.ts';

const agents = loadAgents(packagedAgents());
const all = [...agents.byKey.values()];
const namesOf = (key: string): string[] => {
  const { short, display, agent_name } = agents.byKey.get(key) as (typeof all)[number];
  return [key, short, display, agent_name].filter(name => name !== undefined);
};
const spellings = (name: string): string[] => [
  name,
  name.toUpperCase(),
  name.toLowerCase(),
  ` ${name.replaceAll(/[ _]/g, '  ')} `,
  name.replaceAll(/[ _]/g, '-'),
  name.replaceAll(/[ _]/g, ''),
  `The ${name}`,
  `${name} Agent`,
  `**${name}**`,
  `${name} (AI)`,
];
const isForeign = (key: string, agent_name: string): boolean =>
  checkOf(agents.byKey.get(key) as (typeof all)[number])
    .findings({ agent_name })
    .some(({ at, keyword }) => at === '/agent_name' && keyword === 'agent-name');

describe('the name in an answer', () => {
  it('of another agent is found, however it is spelled', () => {
    let tried = 0;
    for (const { key } of all)
      for (const other of all.filter(one => one.key !== key))
        for (const name of namesOf(other.key).flatMap(spellings)) {
          expect(isForeign(key, name), `${key} says ${name}`).toBe(true);
          tried += 1;
        }
    expect(tried).toBe(600);
  });

  it('of its own, or of nobody, is as the model likes', () => {
    for (const { key } of all)
      for (const name of [
        ...namesOf(key).flatMap(spellings),
        ...[
          'Regulatory Affairs',
          'Credit Committee',
          'Senior Risk Analyst',
          'Loan Officer',
          '',
          'Датасаенс',
          'me',
        ],
      ])
        expect(isForeign(key, name), `${key} says ${name}`).toBe(false);
  });

  it('is found in a folder that is read for judging alone', () => {
    const { byKey } = loadAgentFiles(packagedAgents());
    const found = checkOf(byKey.get('regulatory') as (typeof all)[number])({ agent_name: 'risk manager' });
    expect(found[0]).toMatchObject({ at: '/agent_name', got: 'that of another agent, "risk manager"' });
  });
});

it('such an answer is asked again with a complaint, and the own one is taken', async () => {
  const bodies: string[] = [];
  const regulatory = agents.byKey.get('regulatory') as (typeof all)[number];
  const own = answerOf('Regulatory');
  const answers = [`I have read it.\n\n${answerOf('Risk Manager')}`, answerOf('risk-manager'), own];
  const pool = {
    model: 'model',
    itemsInFlight: 1,
    onRoom: () => {},
    call: async ({ body }: Call) => {
      bodies.push(String(body));
      const text = answers[bodies.length - 1] as string;
      return { text, finish: 'stop', usage: { prompt: 1, completion: 1 }, replayed: false };
    },
    judge: () => {},
    close: async () => {},
  };
  const ask = asker(regulatory, pool, { attempts: 3, guided: 'off', seed: 0 });
  const { step, failure } = await ask({ id: 'a', context: '?', saw: 'clean', round: 0 });
  expect(failure).toBeUndefined();
  expect(step.rejected?.map(({ code }) => code)).toEqual(['schema-mismatch', 'schema-mismatch']);
  expect(bodies[1]).toContain('expected your own answer, got that of another agent, \\"Risk Manager\\"');
  expect(JSON.stringify(step.output)).toBe(own);
});

it('a legacy result never renames it', () => {
  const step = (agent: string, agent_name: string): Step => ({
    ...({ rung: 'clean', saw: 'clean', repairs: [], calls: [], attempts: 1 } as unknown as Step),
    agent,
    output: { agent_name },
  });
  const item = (agent_name: string): Item =>
    ({
      id: 'a',
      row: 1,
      prompt: 'May I?',
      ordering: ['regulatory'],
      steps: [step('regulatory', agent_name)],
      decision: { ...step('business_decision', 'Committee'), output: decided },
    }) as unknown as Item;
  expect(() => legacyResult(item('RISK MANAGER'), agents, 'now')).toThrow(
    /found under regulatory that of another/,
  );
  const { final_output } = legacyResult(item('Regulatory Affairs'), agents, 'now');
  expect(final_output).toEqual({ agent_name: 'Regulatory' });
});

function answerOf(agent_name: string): string {
  const { agent_influence: _influence, ...example } = decided;
  const reasons = ['approval_decision', 'approval_type', 'interest_rate', 'confidence'];
  const reasoning = Object.fromEntries(reasons.map(of => [`${of}_reason`, 'It fits.']));
  return JSON.stringify({ ...example, agent_name, reasoning });
}
