/**
 * How the agents of an item are arranged: who is shown whose answers, how much of them, and under which names. The chain
 * asks turn by turn in any arrangement; what differs is the text that an agent is shown. An item keeps its arrangement, so
 * that whoever asks it again, or judges it, knows what its answers were given after.
 */

import { wordsOf } from '../../answers/answers-of-line.ts';
import { ItemFailure, usageError } from '../../core/item/failure.ts';
import { type Item, type Rung, type Step, worse } from '../../core/item/item.ts';
import { isObject } from '../../core/json/pointer.ts';
import { show } from '../../core/json/show.ts';
import type { Agent } from './agent-file.ts';
import type { Agents } from './load-agents.ts';
import { escaped } from './request-body.ts';

const CHOICES = {
  topology: ['sequential', 'independent', 'peer'],
  passed: ['full', 'evidence', 'verdict'],
  labels: ['named', 'anonymous'],
} as const;

export interface Arrangement {
  /**
   * `sequential`: each agent is shown all before it. `independent`: nobody is shown anybody. `peer`: everybody answers alone,
   * and then once more, shown the first answers of all.
   */
  topology: (typeof CHOICES.topology)[number];
  /** of an answer: all of it, all but the keys of the verdict, or these alone */
  passed: (typeof CHOICES.passed)[number];
  /** by their names, or as `Agent 1`, by their place in the ordering */
  labels: (typeof CHOICES.labels)[number];
}

/** Items that do not say otherwise are arranged so. */
const USUAL: Arrangement = { topology: 'sequential', passed: 'full', labels: 'named' };

export const ARRANGEMENT_OPTIONS = {
  topology: {
    type: 'string',
    enum: CHOICES.topology,
    description:
      'Answers that an agent sees. sequential: those before its own; independent: none; peer: none at first, then all first answers when asked again. Default: sequential.',
  },
  passed: {
    type: 'string',
    enum: CHOICES.passed,
    description:
      "Part of an answer that others see. full: all of it; evidence: all but the verdict's keys (passing in folder.yaml); verdict: only those keys. Default: full.",
  },
  labels: {
    type: 'string',
    enum: CHOICES.labels,
    description:
      'Names under which answers are shown: those of the agents (named), or Agent 1, Agent 2, … (anonymous). Default: named.',
  },
} as const;

export const isUsual = ({ topology, passed, labels }: Arrangement): boolean =>
  topology === USUAL.topology && passed === USUAL.passed && labels === USUAL.labels;

/** Of an item; `not-an-item` where what it says is none. */
export function arrangementOf(item: Item): Arrangement {
  const wrong = wrongArrangement(item);
  if (wrong)
    throw new ItemFailure('not-an-item', `expected ${wrong.expected} at ${wrong.at}, found ${wrong.got}`);
  return (item.arrangement as Arrangement | undefined) ?? USUAL;
}

/** What is wrong with the arrangement that an item says; null where nothing is. */
export function wrongArrangement({
  arrangement,
}: Item): { at: string; expected: string; got: string } | null {
  if (arrangement === undefined) return null;
  const given: { [key: string]: unknown } = isObject(arrangement) ? arrangement : {};
  for (const [key, values] of Object.entries(CHOICES))
    if (!(values as readonly unknown[]).includes(given[key]))
      return { at: `/arrangement/${key}`, expected: `one of ${values.join(', ')}`, got: show(given[key]) };
  return null;
}

/** The item as it is to be asked. What was answered in another arrangement stays, and the item fails. */
export function arranged(item: Item, wanted: { [key in keyof Arrangement]?: string | undefined }): Item {
  const own = arrangementOf(item);
  const given = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined));
  const next = { ...own, ...given } as Arrangement;
  const isOther = Object.keys(CHOICES).some(
    key => next[key as keyof Arrangement] !== own[key as keyof Arrangement],
  );
  if (!isOther) return item;
  if (item.steps?.some(({ output }) => output !== undefined))
    throw new ItemFailure(
      'steps-out-of-order',
      `expected answers that were given in the arrangement ${wordsFor(next)}, found some of ${wordsFor(own)}`,
    );
  const { arrangement: _, ...rest } = item;
  return isUsual(next) ? rest : { ...rest, arrangement: next };
}

const wordsFor = ({ topology, passed, labels }: Arrangement): string => `${topology}, ${passed}, ${labels}`;

/** Who is asked, and the numbers of the turns whose answers that agent is shown. */
export interface Turn {
  agent: string;
  sees: number[];
}

export function turnsOf(ordering: readonly string[], { topology }: Arrangement): Turn[] {
  const first = ordering.map((agent, at) => ({
    agent,
    sees: topology === 'sequential' ? upTo(at) : [],
  }));
  if (topology !== 'peer') return first;
  return [...first, ...ordering.map(agent => ({ agent, sees: upTo(ordering.length) }))];
}

/** How many turns that are. */
export function turnCount(ordering: readonly string[], { topology }: Arrangement): number {
  return topology === 'peer' ? 2 * ordering.length : ordering.length;
}

/** Who is due to answer, in order; what stands in the place of an ordering where that is no list. */
export function dueIn(item: Item): unknown {
  const { ordering } = item;
  return Array.isArray(ordering)
    ? turnsOf(ordering, arrangementOf(item)).map(({ agent }) => agent)
    : ordering;
}

/** What the synthesis is shown: all answers; of peers the later ones. */
export function seenLast(ordering: readonly string[], { topology }: Arrangement): number[] {
  const all = upTo(ordering.length);
  return topology === 'peer' ? all.map(at => at + ordering.length) : all;
}

/** By hand: Array.from takes ten times as long, and each item asks for one for each of its turns. */
function upTo(count: number): number[] {
  const numbers = new Array<number>(count);
  for (let at = 0; at < count; at++) numbers[at] = at;
  return numbers;
}

/**
 * The agents that decide which question the turn `at` is, the one who is asked last; null where it hangs on the whole
 * ordering. Items that agree in them ask the same.
 */
export function askedBy(ordering: readonly string[], { topology }: Arrangement, at: number): string[] | null {
  if (at >= ordering.length) return null;
  return topology === 'sequential' ? ordering.slice(0, at + 1) : [ordering[at] as string];
}

/** Exit 64 where the agents cannot be shown to each other so. */
export function expectArrangeable(agents: Agents, passed: string | undefined): void {
  if (passed === undefined || passed === 'full') return;
  const folder = `${agents.folder}/folder.yaml`;
  if (agents.passing === undefined)
    throw usageError(
      `--passed ${passed}: expected passing.verdict in ${folder}, the keys of a verdict, found none`,
    );
  for (const { key, schema } of agents.agents)
    if (schema?.type !== 'object')
      throw usageError(
        `--passed ${passed}: expected agents that answer with objects, found ${key}, which does not`,
      );
}

interface ShownBy {
  agents: Agents;
  arrangement: Arrangement;
  ordering: readonly string[];
}

/** The prompt and the answers of the turns `sees`, as an agent is shown them. */
export function contextShown(
  prompt: string,
  steps: readonly Step[],
  sees: readonly number[],
  by: ShownBy,
): string {
  return prompt + sees.map(at => turnShown(steps[at] as Step, by)).join('');
}

function turnShown({ agent, output }: Step, by: ShownBy): string {
  const isNamed = by.arrangement.labels === 'named';
  const label = isNamed
    ? (by.agents.byKey.get(agent)?.display ?? agent)
    : `Agent ${by.ordering.indexOf(agent) + 1}`;
  return turnText(label, wordsOf(passedOn(output, by)));
}

/**
 * What the agents of one item are shown, escaped for a JSON string: each answer is written once, whoever is shown it. In
 * the usual arrangement nobody is asked where an answer cannot be shown (see `contextAfter`).
 */
export class Shown {
  /** the prompt and, where each turn sees all before it, the first turns: one text that grows is held once */
  #context: string;
  #inContext = 0;
  readonly #steps: readonly Step[];
  readonly #by: ShownBy;
  readonly #isSequential: boolean;
  /** of turns that are not in the context */
  readonly #turns: string[];

  constructor(item: Item, steps: readonly Step[], by: ShownBy) {
    this.#context = escaped(promptOf(item));
    this.#steps = steps;
    this.#by = by;
    this.#isSequential = by.arrangement.topology === 'sequential';
    this.#turns = isUsual(by.arrangement)
      ? steps.map(step => escaped(contextAfter('', [step], by.agents)))
      : [];
  }

  /** The answer of a turn that was just given, as JSON without spaces; to be told where somebody is shown it. */
  add(at: number, compact: string): void {
    const { agents, arrangement } = this.#by;
    const { agent } = this.#steps[at] as Step;
    if (isUsual(arrangement))
      this.#turns[at] = escaped(turnText((agents.byKey.get(agent) as Agent).display, compact));
  }

  /** What an agent is shown that sees these turns. */
  to(sees: readonly number[]): string {
    if (this.#isSequential) {
      for (; this.#inContext < sees.length; this.#inContext++) {
        this.#context += this.#turn(this.#inContext);
        this.#turns[this.#inContext] = '';
      }
      return this.#context;
    }
    let context = this.#context;
    for (const at of sees) context += this.#turn(at);
    return context;
  }

  #turn(at: number): string {
    this.#turns[at] ??= escaped(turnShown(this.#steps[at] as Step, this.#by));
    return this.#turns[at];
  }
}

/** '' where the item has messages of its own. */
function promptOf({ prompt, messages }: Item): string {
  if (messages !== undefined && prompt === undefined) return '';
  if (typeof prompt === 'string' && prompt.trim() !== '') return prompt;
  throw new ItemFailure('empty-prompt', 'expected a prompt (text), found none');
}

function passedOn(
  output: unknown,
  { agents, arrangement }: { agents: Agents; arrangement: Arrangement },
): unknown {
  const { passed, labels } = arrangement;
  if (passed !== 'full' && (agents.passing === undefined || !isObject(output)))
    throw new ItemFailure(
      'not-an-item',
      `expected an answer of which the ${passed} can be shown: an object, and passing.verdict in the folder.yaml of the agents`,
    );
  if (!isObject(output)) return output;
  const { verdict = [], names = [] } = agents.passing ?? {};
  const isPassed = (key: string): boolean => {
    if (names.includes(key)) return labels === 'named';
    return passed === 'full' || verdict.includes(key) === (passed === 'verdict');
  };
  return Object.fromEntries(Object.entries(output).filter(([key]) => isPassed(key)));
}

/**
 * What one answer adds to the context of the agents after it; `words` as `wordsOf` has them. The chain asks with this
 * text, and the `input` of a turn in the legacy document is this text again, so both are built here.
 */
export function turnText(display: string, words: string): string {
  return `\n\n${display}:\n${words}`;
}

/**
 * The context after `steps`. A step without an output is never left out: the next agent would answer as if nobody had
 * been asked, and the answer would pass for one of the whole chain. Such an item fails with `no-valid-answer`; a step
 * of an agent that the folder does not have, with `unknown-agent`.
 */
export function contextAfter(prompt: string, steps: readonly Step[], agents: Agents): string {
  let context = prompt;
  for (const { agent, output } of steps) {
    const display = agents.byKey.get(agent)?.display;
    if (display === undefined) {
      throw new ItemFailure(
        'unknown-agent',
        `expected an agent of the agents folder, found a step of '${agent}'`,
        { agent },
      );
    }
    if (output === undefined) {
      throw new ItemFailure(
        'no-valid-answer',
        `expected an answer of ${agent} to build on, found a failed step`,
        { agent },
      );
    }
    context += turnText(display, wordsOf(output));
  }
  return context;
}

/**
 * Whether a text that an agent was shown holds the prompt. Older scripts may have put words of their own around it, so
 * nothing more can be asked of their turns.
 */
export function showsPrompt(input: string, prompt: string): boolean {
  // a fifth of the time of startsWith, and of a verify it was a tenth
  return input.slice(0, prompt.length) === prompt || input.includes(prompt.trim());
}

/** Why nobody may decide on these steps; null where all of the ordering have answered. */
export function lackingIn(item: Item): string | null {
  const { ordering, steps = [] } = item;
  const unanswered = steps.find(step => step.output === undefined);
  if (unanswered) return `a failed step of ${unanswered.agent}`;
  if (steps.length === 0) return 'none';
  const missing = ordering && turnsOf(ordering, arrangementOf(item))[steps.length]?.agent;
  return missing === undefined ? null : `none of ${missing}`;
}

/** The worst rung among answers, and among those that they were given after. */
export function sawIn(steps: readonly Step[]): Rung {
  return steps.reduce<Rung>((rung, step) => worse(rung, worse(step.rung, step.saw)), 'clean');
}
