/**
 * The account is the closing sum of a run: in = clean + repaired + coerced + unknown + defaulted + failed, what was asked
 * and what it cost. It is counted where items leave, so it adds up only if nothing was lost.
 */
import type { JsonObject } from '../json/pointer.ts';
import { visible } from '../json/visible.ts';
import { type Failure, failureOf, idOf, RUNGS, type Rung, rungOf, type Step } from './item.ts';
import { counted, cut, number, shown } from './wording.ts';

export interface Account {
  stage: string;
  /** items that came in: lines read, or rows times orderings for a source; and when the last had come, in ms */
  read: number;
  endedAt: number | null;
  rungs: Record<Rung, number>;
  /** how many failed for each cause (causeOf), and the first of them */
  failures: Map<string, Failed>;
  /** items that a stage left out on purpose (select) or took aside (--failures); still accounted for */
  aside: number;
  /** what a stage found wrong with the run as a whole (verify: missing ids), beyond single items */
  findings: number;
  /** what the pool says it did; absent for stages that ask nothing */
  asked?: AskedTotals;
  /** bytes that requests begin with, as far as they were compared, and those of them that an earlier one began with too */
  beginnings: { bytes: number; repeated: number };
  times: Times;
  /** of each stage that asks, in their order */
  workloads: Workload[];
  /** one-line facts that a stage wants under the sum */
  notes: string[];
}

export interface Failed {
  times: number;
  /** what the first said, and which it was: its id, its line where it has none, or nothing */
  first: string;
  which: string;
  /** as in CODES; lines come from anywhere, so it may be none of them */
  code: string;
  /** of a step that failed for its last answer: what was wrong with that */
  problem?: string;
}

export interface AskedTotals {
  calls: number;
  retries: number;
  /** calls that were answered from the ledger; null where there is none, so that a stop loses what was not passed on */
  replayed: number | null;
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
}

export const noneAsked = (): AskedTotals => ({
  ...{ calls: 0, retries: 0, replayed: 0, promptTokens: 0, completionTokens: 0, cachedTokens: 0 },
});

/** Adds what was asked elsewhere, with a ledger. */
export function addAsked(sum: AskedTotals, more: AskedTotals): void {
  for (const key of Object.keys(sum) as (keyof AskedTotals)[]) sum[key] = (sum[key] ?? 0) + (more[key] ?? 0);
}

export function newAccount(stage: string): Account {
  return {
    stage,
    read: 0,
    endedAt: null,
    rungs: Object.fromEntries(RUNGS.map(rung => [rung, 0])) as Record<Rung, number>,
    failures: new Map(),
    aside: 0,
    findings: 0,
    beginnings: { bytes: 0, repeated: 0 },
    times: newTimes(),
    workloads: [],
    notes: [],
  };
}

/** Items that went out as lines. */
export const leftIn = ({ rungs }: Account): number => RUNGS.reduce((sum, rung) => sum + rungs[rung], 0);

/** Whether each item that came in has left, or was left out on purpose. */
export const addsUp = (account: Account): boolean => account.read === leftIn(account) + account.aside;

export function count(account: Account, line: JsonObject): void {
  account.rungs[rungOf(line)] += 1;
  const failure = failureOf(line);
  if (!failure) return;
  const problem = problemOf(line, failure);
  const cause = problem === undefined ? failure.code : `${failure.code} (${problem})`;
  const name = nameIn(account.failures, cause);
  const before = account.failures.get(name);
  if (before) {
    before.times += 1;
    return;
  }
  const { code, message } = failure;
  account.failures.set(name, {
    times: 1,
    first: shown(message),
    which: whichOf(line, failure),
    code: name === OTHERS ? OTHERS : cut(code, LONGEST_NAME),
    ...(problem !== undefined && { problem }),
  });
}

/** What was wrong with the last answer of the step that failed; undefined where that is what the failure says. */
export function problemOf(line: JsonObject, { agent, code }: Failure): string | undefined {
  if (agent === undefined) return undefined;
  const { steps, decision } = line;
  const listed: unknown[] = Array.isArray(steps) ? [decision, ...steps] : [decision];
  for (const step of listed as (Partial<Step> | null | undefined)[]) {
    const problem = step?.agent === agent && step.output === undefined ? step.problem?.code : undefined;
    if (typeof problem === 'string' && problem !== code) return problem;
  }
  return undefined;
}

function whichOf(line: JsonObject, { line: at }: Failure): string {
  const id = idOf(line);
  if (id !== null) return cut(shown(id), LONGEST_ID);
  return typeof at === 'number' ? `line ${number(at)}` : '';
}

const LONGEST_ID = 80;

/** The lines for stderr, without the prefix of the stage. */
export function describeAccount(account: Account, seconds: number): string[] {
  const { rungs, aside, asked, failures } = account;
  // only results of earlier runs are unknown; where there are none, nobody need wonder what that is
  const named = RUNGS.filter(rung => rung !== 'unknown' || rungs.unknown > 0);
  const parts = named.map(rung => `${number(rungs[rung])} ${rung}`);
  // of a run that ended early: what came in and never left
  const left = account.read - aside - RUNGS.reduce((sum, rung) => sum + rungs[rung], 0);
  if (left > 0) parts.push(`${number(left)} not finished`);
  const lines = [
    `in ${number(account.read)} = ${parts.join(' + ')}${aside ? `, ${number(aside)} left out` : ''}`,
  ];
  if (asked) {
    lines[0] += ` · ${counted(asked.calls, 'call')}${asked.retries ? ` + ${counted(asked.retries, 'retry', 'retries')}` : ''}`;
    if (asked.replayed) lines[0] += ` + ${number(asked.replayed)} replayed`;
    lines[0] += ` · tokens ${number(asked.promptTokens)} in`;
    if (asked.cachedTokens > 0)
      lines[0] += ` (${Math.round((100 * asked.cachedTokens) / asked.promptTokens)} % cached)`;
    lines[0] += `, ${number(asked.completionTokens)} out`;
  }
  lines[0] += ` · ${seconds.toFixed(1)} s`;
  if (asked?.replayed === null) lines[0] += ' · not resumable: no --ledger';
  const byCount = [...failures].sort((a, b) => b[1].times - a[1].times);
  for (const [cause, failed] of byCount) {
    const { times } = failed;
    lines.push(`failed: ${number(times)} ${cause}${times > 1 ? ', the first: ' : ': '}${firstOf(failed)}`);
  }
  return [...lines, ...account.notes].map(line => visible(cut(line, LONGEST_LINE)));
}

/** The first that failed for a cause: which it was, and what it said. */
export function firstOf({ which, first }: Failed): string {
  return which === '' ? first : `${which}: ${first}`;
}

/** Names that a sum tells apart: lines come from anywhere, and a million of them may have a million names. */
const MOST_NAMES = 64;
const LONGEST_NAME = 60;
const OTHERS = '(others)';
const LONGEST_LINE = 4_000;

/** The key under which `name` is counted: the name, cut; once there are 64, one for all the others. */
export function nameIn(names: ReadonlyMap<string, unknown>, name: string): string {
  const short = cut(name, LONGEST_NAME);
  return names.has(short) || names.size < MOST_NAMES ? short : OTHERS;
}

/**
 * How far the asking of a run is, counted in answers that its items need, one for each agent: an answer that is asked
 * again counts once, and so does one from the ledger. An item that fails early, or leaves without being asked, has
 * nothing left to wait for. So what is settled is never more than what is due, and the same in the end.
 */
export interface Workload {
  /** items that came to the stage that asks, and that left it */
  items: number;
  left: number;
  /** answers that those which came lack, and how many of these are there or will never come */
  due: number;
  settled: number;
  /** answers that an item lacks, as long as none has come */
  likely: number;
  /** items that lack n answers now, at index n; nothing at 0 */
  lacking: number[];
}

/** What one item still lacks. */
export interface Due {
  answered(): void;
  /** It leaves the stage, whatever it lacks. */
  end(): void;
}

export function newWorkload(): Workload {
  return { items: 0, left: 0, due: 0, settled: 0, likely: 1, lacking: [] };
}

/** An item begins, and lacks so many answers. */
export function begin(workload: Workload, answers: number): Due {
  let lacks = answers;
  workload.due += lacks;
  const move = (to: number): void => {
    if (lacks > 0) workload.lacking[lacks] = (workload.lacking[lacks] ?? 0) - 1;
    if (to > 0) workload.lacking[to] = (workload.lacking[to] ?? 0) + 1;
  };
  if (lacks > 0) workload.lacking[lacks] = (workload.lacking[lacks] ?? 0) + 1;
  return {
    answered() {
      if (lacks === 0) return;
      move(lacks - 1);
      lacks -= 1;
      workload.settled += 1;
    },
    end() {
      move(0);
      workload.settled += lacks;
      lacks = 0;
    },
  };
}

/** All that is known of the work of a run. */
export interface Ahead {
  settled: number;
  /** answers in all: of the items that came, and of the others if they are like these */
  due: number;
  /** of the due ones that are not settled, those of items that have not come yet */
  unread: number;
  /** answers that one item has before it one after the other, at most: of those that have not come, else of those that have */
  longest: number;
}

/**
 * What lies ahead of a row of asking stages, where `done` of `total` items have left the run. What an item needs that has
 * not come is what those needed that have.
 */
export function aheadOf(workloads: readonly Workload[], total: number, done: number): Ahead {
  const sum: Ahead = { settled: 0, due: 0, unread: 0, longest: 0 };
  let behind = 0; // answers that an item has before it in the later stages
  for (let at = workloads.length - 1; at >= 0; at--) {
    const { items, left, due, settled, likely, lacking } = workloads[at] as Workload;
    const mean = items > 0 ? due / items : likely;
    // those that left the row before this stage never come, and those between two stages have come or will
    const outside = total - done - (items - left) - insideAfter(workloads, at);
    const coming = Math.max(0, Math.min(total - items, outside));
    const most = lacking.findLastIndex(count => count > 0);
    sum.settled += settled;
    sum.due += due + coming * mean;
    sum.unread += coming * mean;
    sum.longest = Math.max(sum.longest, most > 0 ? most + behind : 0, coming > 0 ? mean + behind : 0);
    behind += mean;
  }
  return sum;
}

/** Items in the stages behind the one at `at`. */
function insideAfter(workloads: readonly Workload[], at: number): number {
  return workloads.slice(at + 1).reduce((inside, { items, left }) => inside + items - left, 0);
}

/** Where the time of items goes in a run that asks, in ms: sums that cost an item a few additions. */
export interface Times {
  /** over all items that have left an asking stage, from their entry until the next one took them … */
  items: number;
  /** … and those that are in one: how many, and the sum of the times at which they came */
  inside: number;
  entered: number;
  /** of it, answered already: waiting for the reader of the output … */
  unread: number;
  /** … for the items before it (--ordered) … */
  ordered: number;
  /** … for a further stage that asks to take it */
  passed: number;
  /** how long the output has waited for its reader, and since when it waits now; null while it does not */
  blocked: number;
  blockedSince: number | null;
}

export function newTimes(): Times {
  return {
    items: 0,
    inside: 0,
    entered: 0,
    unread: 0,
    ordered: 0,
    passed: 0,
    blocked: 0,
    blockedSince: null,
  };
}

/** Of all items up to `now`, those too that a run which broke off never handed on: what their calls took is counted. */
export function itemTime({ items, inside, entered }: Times, now: number): number {
  return items + inside * now - entered;
}
