/**
 * Whose answer an answer says it is. A model spells its own name as it likes; where it gives the name of another agent of
 * the folder, it has quoted that agent, and its own answer is missing.
 */

import type { Check, SchemaFinding } from '../../answers/schema-check.ts';
import { isObject } from '../../core/json/pointer.ts';
import { problem, show } from '../../core/json/show.ts';
import type { Agent } from './agent-file.ts';

interface Company {
  /** keys of an answer that name its agent */
  keys: readonly string[];
  /** names of the other agents, as `bare` gives them */
  others: ReadonlySet<string>;
}

const companies = new WeakMap<Agent, Company>();

/** Lets the agents of a folder know each other. `keys`: those of an answer that name its agent. */
export function introduce(agents: readonly Agent[], keys: readonly string[]): void {
  for (const agent of agents) {
    const own = new Set(namesOf(agent));
    const others = agents.flatMap(namesOf).filter(name => name !== '' && !own.has(name));
    companies.set(agent, { keys, others: new Set(others) });
  }
}

function namesOf({ key, short, display, agent_name }: Agent): string[] {
  return [key, short, display, agent_name].flatMap(name => (name === undefined ? [] : [bare(name)]));
}

/** A name without case, signs, spaces, and words that say no more than that it is an agent's. */
function bare(name: string): string {
  return name
    .normalize('NFKC')
    .toLowerCase()
    .replace(/\([^()]{0,60}\)/g, ' ')
    .replace(/(?<!\p{L})(?:the|ai|agent|assistant)(?!\p{L})/gu, ' ')
    .replace(/[^\p{L}\p{N}]+/gu, '');
}

/** What is wrong with an answer of `agent` that carries the name of another one; empty where nothing is. */
export function foreignNames(agent: Agent, output: unknown): SchemaFinding[] {
  const company = companies.get(agent);
  if (company === undefined || !isObject(output)) return [];
  return company.keys.flatMap(key => {
    const said = Object.hasOwn(output, key) ? output[key] : undefined;
    if (typeof said !== 'string' || said.length > 200 || !company.others.has(bare(said))) return [];
    const found = problem(`/${key}`, 'agent-name', 'your own answer', `that of another agent, ${show(said)}`);
    return [{ ...found, instance: `/${key}`, data: said, parent: {}, params: {} }];
  });
}

/** The check of an agent's answers, with their name. */
export function withOwnName(agent: Agent, check: Check): Check {
  if (check.text) return check;
  const findings: Check['findings'] = (value, isChanged) => {
    const found = check.findings(value, isChanged);
    const foreign = foreignNames(agent, value);
    return foreign.length === 0 ? found : [...foreign, ...found];
  };
  return Object.assign(
    (value: unknown) => (foreignNames(agent, value).length > 0 ? findings(value) : check(value)),
    {
      ...check,
      findings,
      fittedLast: (value: object) => check.fittedLast(value) && foreignNames(agent, value).length === 0,
    },
  );
}
