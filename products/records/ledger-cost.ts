/** What the calls of a ledger cost: tokens, tries and time, with what was paid for nothing apart. */

import { createKeys, nameOfCall } from '../../engine/asking/ledger/key-index.ts';
import { type CallHead, callsOf, type Tell } from '../../engine/asking/ledger/read-ledger.ts';
import { cut } from '../../engine/core/item/wording.ts';
import type { Answers } from './answer-outcomes.ts';
import { type Held, holding } from './held.ts';

export interface Sum {
  tries: number;
  /** tokens; a server says of an answer alone what it took */
  in: number;
  out: number;
  /** of those that came in, from the server's prefix cache */
  cached: number;
  /** answers without usage: their tokens are unknown, and in no sum */
  uncounted: number;
  /** from sending to the end of the answer, added up over calls that ran side by side */
  ms: number;
}

export interface Group extends Sum {
  agent: string;
  endpoint: string;
  /** what became of a try; an answer by what was made of it: see `ANSWERED` */
  outcome: string;
}

/** What may be made of an answer. */
export const ANSWERED = ['accepted', 'rejected', 'not judged', 'answered again'] as const;

export interface Cost {
  groups: Group[];
  /** distinct calls, and how many of them have an answer */
  questions: number;
  answered: number;
  /** tries after the first of the same call */
  retries: number;
  /** how long endpoints were held, in ms */
  held: Held;
}

/** Names come from files that may hold anything. */
const MOST_GROUPS = 10_000;
const LONGEST_NAME = 200;
const OTHERS = '(others)';

export function costOf(paths: readonly string[], answers: Answers, tell: Tell): Cost {
  const groups = new Map<string, Group>();
  const unanswered = createKeys();
  const endpoints = holding();
  let tries = 0;
  for (const [file, path] of paths.entries()) {
    for (const { call, at, header } of callsOf(path, tell)) {
      tries += 1;
      endpoints.add(file, cut(call.endpoint, LONGEST_NAME), call.time, call.ms);
      const name = nameOfCall(call, header);
      const outcome = outcomeOf(call.outcome, name, answers, { file, at });
      add(groupOf(groups, [call.agent, call.endpoint, outcome]), call);
      if (!answers.has(name)) unanswered.add(name, { file, offset: at, length: 1 });
    }
  }
  const questions = answers.size + unanswered.size;
  return {
    groups: [...groups.values()].sort(byNames),
    questions,
    answered: answers.size,
    retries: tries - questions,
    held: endpoints.sum(),
  };
}

function outcomeOf(
  outcome: string,
  name: string,
  answers: Answers,
  { file, at }: { file: number; at: number },
): string {
  if (outcome !== 'answer') return outcome;
  // it came after the answers were read: a run is at work
  if (!answers.has(name)) return 'not judged';
  if (!answers.isFirst(name, file, at)) return 'answered again';
  const verdict = answers.verdictOf(name);
  if (verdict === null) return 'not judged';
  return verdict.rung === 'failed' ? 'rejected' : 'accepted';
}

function groupOf(groups: Map<string, Group>, names: readonly [string, string, string]): Group {
  const [agent, endpoint, outcome] = names.map(name => cut(name, LONGEST_NAME)) as [string, string, string];
  const name = JSON.stringify([agent, endpoint, outcome]);
  const known = groups.get(name);
  if (known) return known;
  if (groups.size >= MOST_GROUPS && agent !== OTHERS) return groupOf(groups, [OTHERS, OTHERS, OTHERS]);
  const group = { agent, endpoint, outcome, ...nothing() };
  groups.set(name, group);
  return group;
}

export const nothing = (): Sum => ({ tries: 0, in: 0, out: 0, cached: 0, uncounted: 0, ms: 0 });

function add(sum: Sum, { usage, outcome, ms }: CallHead): void {
  sum.tries += 1;
  sum.in += usage?.prompt ?? 0;
  sum.out += usage?.completion ?? 0;
  sum.cached += usage?.cached ?? 0;
  // a prompt has a token at least
  if (outcome === 'answer' && !usage?.prompt) sum.uncounted += 1;
  sum.ms += ms;
}

/** The sum over groups. */
export function total(sums: readonly Sum[]): Sum {
  const all = nothing();
  for (const { tries, in: prompt, out, cached, uncounted, ms } of sums) {
    all.tries += tries;
    all.in += prompt;
    all.out += out;
    all.cached += cached;
    all.uncounted += uncounted;
    all.ms += ms;
  }
  return all;
}

function byNames(a: Group, b: Group): number {
  return compared(a.agent, b.agent) || compared(a.endpoint, b.endpoint) || compared(a.outcome, b.outcome);
}

const compared = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
