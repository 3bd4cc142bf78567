/** What verification saw, as sums: for the table on stderr and the report. */
import { nameIn } from '../core/item/account.ts';
import {
  failureOf,
  type Item,
  isItem,
  type Mark,
  RUNGS,
  type Rung,
  rungOf,
  type Step,
  worse,
} from '../core/item/item.ts';
import { number } from '../core/item/wording.ts';
import type { JsonObject } from '../core/json/pointer.ts';
import type { Named } from './expected-ids.ts';
import { isUntold } from './legacy/strict-items.ts';

export type Rungs = Record<Rung, number>;
type Counts = Map<string, number>;

const noRungs = (): Rungs => Object.fromEntries(RUNGS.map(rung => [rung, 0])) as Rungs;

export class Tally {
  read = 0;
  /** in = clean + repaired + coerced + unknown + defaulted + failed */
  rungs = noRungs();
  /** accepted lines whose id had not been there before */
  accepted = 0;
  /** items, legacy results and other records that did not come in failed */
  kinds = new Map<string, { accepted: number; refused: number }>();
  /** of each agent, the decision under its agent's name: items = clean + repaired + … + failed + unasked */
  agents = new Map<string, Rungs & { unasked: number }>();
  /** failed lines by the stage that failed them and the code; of this one too */
  stages = new Map<string, Counts>();
  /** lines that came in failed, by code and stage */
  failed: Counts = new Map();
  /** lines refused here, by the rule that they broke first */
  refused: Counts = new Map();
  /** changes to answers and records, by the rule that made them */
  rules: Counts = new Map();
  /** lines = different ids + repeated ids + lines without one */
  withoutId = 0;
  /** agents who decided, and items without a decision: unasked, where it is one agent who decides */
  deciders = new Set<string>();
  undecided = 0;
  /** legacy results that a line of --provenance is of */
  vouched = 0;
  /** answers in items of which neither the model's text is there nor its hash */
  untold = 0;
  /** of each agent, its answers in items by how it was sampled (Step.policy) */
  policies = new Map<string, Counts>();
}

/** What a map has under a name, made where it has nothing; beyond as many names as are kept, under that of the rest. */
function under<T>(map: Map<string, T>, key: string, make: () => T): T {
  const name = nameIn(map, key);
  const known = map.get(name) ?? make();
  map.set(name, known);
  return known;
}

const newCounts = (): Counts => new Map();

export function addOne(counts: Counts, key: string): void {
  const name = nameIn(counts, key);
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

export type Kind = 'items' | 'legacy results' | 'batch results' | 'other records';

export function addVerdict(tally: Tally, kind: Kind, isAccepted: boolean): void {
  const counts = tally.kinds.get(kind) ?? { accepted: 0, refused: 0 };
  counts[isAccepted ? 'accepted' : 'refused'] += 1;
  tally.kinds.set(kind, counts);
}

/** Counts a line as it leaves, failed where it was refused, and the answers in it. */
export function addLine(tally: Tally, line: Item): void {
  tally.read += 1;
  tally.rungs[rungOf(line)] += 1;
  const failure = failureOf(line);
  if (failure !== undefined) addOne(under(tally.stages, failure.stage, newCounts), failure.code);
  if (!isItem(line)) {
    const { _fw: mark } = line as { _fw?: Mark | null };
    if (mark) addRules(tally, mark.repairs);
    return;
  }
  const { steps, ordering, decision } = line;
  const answers = Array.isArray(steps) ? steps : [];
  for (const step of answers) addStep(tally, step);
  // a chain that broke off asked nobody after the step that failed
  if (Array.isArray(ordering)) {
    for (const agent of ordering.slice(answers.length))
      if (typeof agent === 'string') agentIn(tally, agent).unasked += 1;
  }
  if (decision) {
    addStep(tally, decision);
    if (typeof decision.agent === 'string') tally.deciders.add(decision.agent);
  } else tally.undecided += 1;
}

/** Once, after the last line: what only the whole can tell. */
export function closeTally({ deciders, undecided, agents }: Tally): void {
  const [decider, ...others] = deciders;
  const counts = decider === undefined || others.length > 0 ? undefined : agents.get(decider);
  if (counts) counts.unasked += undecided;
}

function addStep(tally: Tally, step: Step | null): void {
  const { agent, rung, saw, repairs, policy } = step ?? {};
  if (typeof agent !== 'string' || rung === undefined || !RUNGS.includes(rung)) return;
  agentIn(tally, agent)[worse(rung, saw ?? rung)] += 1;
  addRules(tally, repairs);
  if (typeof policy === 'string') addOne(under(tally.policies, agent, newCounts), policy);
  if (step && isUntold(step as unknown as JsonObject)) tally.untold += 1;
}

function agentIn({ agents }: Tally, agent: string): Rungs & { unasked: number } {
  return under(agents, agent, () => ({ ...noRungs(), unasked: 0 }));
}

function addRules(tally: Tally, repairs: unknown): void {
  if (!Array.isArray(repairs)) return;
  for (const repair of repairs) if (typeof repair?.rule === 'string') addOne(tally.rules, repair.rule);
}

export interface Verdict extends Tally {
  ids: { expected?: number; missing?: Named; unknown: Named; duplicates: Named };
  /** with --ledger */
  record?: { compared: number; unrecorded: number; lines: Named; notes: string[] };
  findings: string[];
}

/** The lines for stderr: a table of the agents' answers, then what was refused, then what is wrong with the whole. */
export function describeVerdict(verdict: Verdict): string[] {
  const { agents, failed, refused, rules, kinds, untold, policies, findings } = verdict;
  const lines: string[] = [];
  if (agents.size > 0) {
    const widest = Math.max(...[...agents.keys()].map(agent => agent.length), 'answers of'.length);
    const row = (head: string, cells: string[]): string =>
      `${head.padEnd(widest)}${cells.map(cell => cell.padStart(11)).join('')}`;
    const counted = [...agents.values()];
    const columns = [
      ...RUNGS.filter(rung => rung !== 'unknown' || counted.some(({ unknown }) => unknown > 0)),
      ...(counted.some(({ unasked }) => unasked > 0) ? ['unasked' as const] : []),
    ];
    lines.push(row('answers of', columns));
    for (const [agent, of] of agents) {
      const cells = columns.map(column => number(of[column]));
      lines.push(row(agent, cells));
    }
  }
  for (const [kind, { accepted, refused }] of kinds) {
    lines.push(`${kind}: ${number(accepted)} accepted, ${number(refused)} refused`);
  }
  const counts = (of: Counts): string =>
    [...of]
      .sort((a, b) => b[1] - a[1])
      .map(([what, times]) => `${number(times)} ${what}`)
      .join(', ');
  if (refused.size > 0) lines.push(`refused: ${counts(refused)}`);
  if (failed.size > 0) lines.push(`failed before: ${counts(failed)}`);
  if (rules.size > 0) lines.push(`changes: ${counts(rules)}`);
  if (untold > 0) {
    const which = `of ${number(untold)} ${untold === 1 ? 'answer' : 'answers'} the text is not kept, nor its hash`;
    lines.push(`${which}: edits of ${untold === 1 ? 'it' : 'them'} cannot be found`);
  }
  for (const [agent, of] of policies)
    if (of.size > 1)
      lines.push(
        `answers of ${agent} were sampled in ${of.size} ways (policy): ${counts(of)}; another seed, another temperature or another agent file makes another policy`,
      );
  return [...lines, ...(verdict.record?.notes ?? []), ...findings];
}

/** The report as plain JSON; its keys are always in this order. */
export function reportOf(verdict: Verdict) {
  const { read, rungs, accepted, kinds, agents, stages, refused, rules, policies } = verdict;
  const { withoutId, ids, record, findings } = verdict;
  const { unknown, duplicates, expected, missing } = ids;
  return {
    in: read,
    ...rungs,
    accepted,
    kinds: Object.fromEntries(kinds),
    agents: Object.fromEntries(agents),
    stages: Object.fromEntries([...stages].map(([name, codes]) => [name, Object.fromEntries(codes)])),
    refused: Object.fromEntries(refused),
    rules: Object.fromEntries(rules),
    ...(policies.size > 0 && {
      policies: Object.fromEntries([...policies].map(([agent, of]) => [agent, Object.fromEntries(of)])),
    }),
    ids: {
      different: read - duplicates.count - withoutId,
      repeated: duplicates.count,
      without: withoutId,
      ...(expected !== undefined && { expected, missing }),
      unknown,
      duplicates,
    },
    ...(record && {
      ledger: { compared: record.compared, unrecorded: record.unrecorded, lines: record.lines },
    }),
    findings,
    ok: rungs.failed === 0 && findings.length === 0,
  };
}
