/** What verification saw, as sums: for the table on stderr and the report. */
import { nameIn, number } from '../flow/account.ts';
import type { Named } from '../flow/expected.ts';
import { type Item, isItem, RUNGS, type Rung, rungOf, type Step, worse } from '../flow/item.ts';

export type Rungs = Record<Rung, number>;

export interface Tally {
  read: number;
  /** in = clean + repaired + coerced + defaulted + failed */
  rungs: Rungs;
  /** accepted lines whose id had not been there before */
  accepted: number;
  /** items, legacy results and other records that did not come in failed */
  kinds: Map<string, { accepted: number; refused: number }>;
  /** answers of each agent, the decision under its agent's name */
  agents: Map<string, Rungs>;
  /** lines that came in failed, by stage and code */
  failed: Map<string, number>;
  /** lines refused here, by the rule that they broke first */
  refused: Map<string, number>;
}

export function newTally(): Tally {
  return {
    read: 0,
    rungs: noRungs(),
    accepted: 0,
    kinds: new Map(),
    agents: new Map(),
    failed: new Map(),
    refused: new Map(),
  };
}

const noRungs = (): Rungs => Object.fromEntries(RUNGS.map(rung => [rung, 0])) as Rungs;

export function addOne(counts: Map<string, number>, key: string): void {
  const name = nameIn(counts, key);
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

export type Kind = 'items' | 'legacy results' | 'other records';

export function addVerdict({ kinds }: Tally, kind: Kind, isAccepted: boolean): void {
  let counts = kinds.get(kind);
  if (counts === undefined) {
    counts = { accepted: 0, refused: 0 };
    kinds.set(kind, counts);
  }
  counts[isAccepted ? 'accepted' : 'refused'] += 1;
}

/** Counts a line as it leaves, failed where it was refused, and the answers in it. */
export function addLine(tally: Tally, line: Item): void {
  tally.read += 1;
  tally.rungs[rungOf(line)] += 1;
  if (!isItem(line)) return;
  for (const step of Array.isArray(line.steps) ? line.steps : []) addStep(tally, step);
  if (line.decision) addStep(tally, line.decision);
}

function addStep({ agents }: Tally, step: Step | null): void {
  const { agent, rung, saw } = step ?? {};
  if (typeof agent !== 'string' || rung === undefined || !RUNGS.includes(rung)) return;
  const name = nameIn(agents, agent);
  let rungs = agents.get(name);
  if (rungs === undefined) {
    rungs = noRungs();
    agents.set(name, rungs);
  }
  rungs[worse(rung, saw ?? rung)] += 1;
}

export interface Verdict extends Tally {
  ids: { expected?: number; missing?: Named; unknown: Named; duplicates: Named };
  findings: string[];
}

/** The lines for stderr: a table of the agents' answers, then what was refused, then what is wrong with the whole. */
export function describeVerdict({ agents, failed, refused, kinds, findings }: Verdict): string[] {
  const lines: string[] = [];
  if (agents.size > 0) {
    const widest = Math.max(...[...agents.keys()].map(agent => agent.length), 'answers of'.length);
    const row = (head: string, cells: string[]): string =>
      `${head.padEnd(widest)}${cells.map(cell => cell.padStart(11)).join('')}`;
    lines.push(row('answers of', [...RUNGS]));
    for (const [agent, rungs] of agents)
      lines.push(
        row(
          agent,
          RUNGS.map(rung => number(rungs[rung])),
        ),
      );
  }
  for (const [kind, { accepted, refused }] of kinds) {
    lines.push(`${kind}: ${number(accepted)} accepted, ${number(refused)} refused`);
  }
  const counts = (of: Map<string, number>): string =>
    [...of]
      .sort((a, b) => b[1] - a[1])
      .map(([what, times]) => `${number(times)} ${what}`)
      .join(', ');
  if (refused.size > 0) lines.push(`refused: ${counts(refused)}`);
  if (failed.size > 0) lines.push(`failed before: ${counts(failed)}`);
  return [...lines, ...findings];
}

/** The report as plain JSON; its keys are always in this order. */
export function reportOf({ read, rungs, accepted, kinds, agents, failed, refused, ids, findings }: Verdict) {
  return {
    in: read,
    ...rungs,
    accepted,
    kinds: Object.fromEntries(kinds),
    agents: Object.fromEntries(agents),
    failed_before: Object.fromEntries(failed),
    refused: Object.fromEntries(refused),
    ids,
    findings,
    ok: rungs.failed === 0 && findings.length === 0,
  };
}
