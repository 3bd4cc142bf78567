/**
 * One item's way through its agents: each is asked with what the earlier ones answered, then the synthesis with all
 * of it. Steps that are there are kept; a failed one is asked again in a new round. Thousands of items do this at once.
 *
 *   turnsOf, Shown (arrangement.ts)   who is asked, and what an agent is shown of the answers of others
 *   questioner (question.ts)          all else of a question: its name, its seed, what it opens with, what is not kept
 *   asker (ask.ts)                    a question → a step
 */

import { begin, type Due, newWorkload, type Workload } from '../../core/item/account.ts';
import type { Pool } from '../../core/item/call.ts';
import { ItemFailure } from '../../core/item/failure.ts';
import type { Item, Step } from '../../core/item/item.ts';
import {
  arrangementOf,
  askedBy,
  isUsual,
  lackingIn,
  Shown,
  sawIn,
  seenLast,
  type Turn,
  turnCount,
  turnsOf,
} from './arrangement.ts';
import { type Ask, type AskOptions, type AskResult, asker } from './ask.ts';
import type { Agents } from './load-agents.ts';
import { type QuestionOptions, questioner } from './question.ts';
import { reopened } from './reopen.ts';

/**
 * Asks the agents of `ordering` that the item has no answer of; then, where it `decides`, the synthesis, unless the item
 * has its decision.
 */
export type Chain = (item: Item, ordering: readonly string[] | null, decides: boolean) => Promise<Item>;

export interface ChainOptions extends AskOptions, QuestionOptions {
  /** told what each item lacks, and what it has got */
  workload?: Workload | undefined;
}

/** Exit 65 where an agent's schema does not compile. */
export function chainOf(agents: Agents, pool: Pool, options: ChainOptions): Chain {
  const chaining = new Chaining(agents, pool, options);
  return (item, ordering, decides) => chaining.ask(item, ordering, decides);
}

class Chaining {
  readonly #agents: Agents;
  readonly #askers: Map<string, Ask>;
  readonly #questionsOf: ReturnType<typeof questioner>;
  readonly #workload: Workload;
  readonly #shares: boolean;

  constructor(agents: Agents, pool: Pool, options: ChainOptions) {
    this.#agents = agents;
    this.#askers = new Map([...agents.byKey].map(([key, agent]) => [key, asker(agent, pool, options)]));
    this.#questionsOf = questioner(agents, options);
    this.#workload = options.workload ?? newWorkload();
    this.#shares = options.share === true;
  }

  async ask(line: Item, ordering: readonly string[] | null, decides: boolean): Promise<Item> {
    const item = reopened(line);
    const due = begin(this.#workload, this.#lackedBy(item, ordering, decides));
    try {
      const answered = ordering ? await this.#stepsOf(item, ordering, due) : item;
      return decides ? await this.#decisionOf(answered) : answered;
    } finally {
      due.end(); // the decision among them: it is the last
    }
  }

  /** answers that the item lacks */
  #lackedBy(item: Item, ordering: readonly string[] | null, decides: boolean): number {
    const { steps, decision } = item;
    const due = ordering ? turnCount(ordering, arrangementOf(item)) : 0;
    const answered = steps?.filter(step => step.output !== undefined).length ?? 0;
    const isUndecided = decides && this.#agents.synthesis !== undefined && decision?.output === undefined;
    return Math.max(0, due - (ordering ? answered : 0)) + (isUndecided ? 1 : 0);
  }

  async #stepsOf(item: Item, ordering: readonly string[], due: Due): Promise<Item> {
    const { failure, ...kept } = item;
    const arrangement = arrangementOf(item);
    const turns = turnsOf(ordering, arrangement);
    // each is the step of its turn; nothing comes behind a failed one that all later turns are shown
    const isSequential = arrangement.topology === 'sequential';
    const steps = (item.steps ?? []).filter(step => !isSequential || step.output !== undefined);
    const failedAt = (at: number): Step | undefined =>
      isSequential ? item.steps?.find(step => step.output === undefined) : steps[at];
    expectInOrder(steps, turns);
    // who asks one agent of a longer ordering leaves the rest of it to be asked
    const goesOn = ordering.every((agent, index) => item.ordering?.[index] === agent);
    const whole = [...((goesOn && item.ordering) || ordering)];
    const shown = new Shown(item, steps, { agents: this.#agents, arrangement, ordering });
    const questionTo = this.#questionsOf(item, whole);
    const now = (): Item => ({ ...kept, steps });
    let failed: Failed | null = null;
    for (let at = 0; at < turns.length; at++) {
      const { agent, sees } = turns[at] as Turn;
      if (steps[at]?.output !== undefined) continue;
      // who is to be shown a failed answer is not asked, and neither is anybody behind
      if (failed && sees.some(turn => steps[turn]?.output === undefined)) break;
      const round = roundAfter(failedAt(at), agent, failure?.code === 'interrupted');
      const ask = this.#askerOf(agent);
      const asks = this.#shares ? askedBy(ordering, arrangement, at) : null;
      const { id, shared, twin, row, opening, redact } = questionTo(agent, now, sees, asks);
      const context = shown.to(sees);
      const saw = sawIn(isSequential ? steps : sees.map(turn => steps[turn] as Step));
      const begins = at === 0;
      // no spread: it costs a tenth of a question
      const asked = await ask({ id, shared, twin, row, begins, context, opening, saw, round, redact });
      steps[at] = asked.step;
      if (asked.failure === undefined) {
        due.answered();
        if (at + 1 < turns.length) shown.add(at, asked.compact);
        continue;
      }
      const isStopped = asked.failure.code === 'interrupted'; // it is taken up without being told to
      if (isStopped || failed === null) failed = { agent, failure: asked.failure };
      if (isStopped) break;
    }
    // with its ordering, so that everyone after can see which answers it lacks
    const asked = { ...kept, ordering: whole, steps };
    if (failed !== null) throw failing(asked, failed);
    return asked;
  }

  async #decisionOf(item: Item): Promise<Item> {
    const { synthesis } = this.#agents;
    if (synthesis === undefined || item.decision?.output !== undefined) return item;
    const { failure, decision, ...kept } = item;
    const { steps = [] } = item;
    const agent = synthesis.key;
    const lacking = lackingIn(item);
    if (lacking !== null)
      throw new ItemFailure('no-valid-answer', `expected steps to decide on, found ${lacking}`, { agent });
    const questionTo = this.#questionsOf(item, item.ordering);
    const arrangement = arrangementOf(item);
    const all = steps.map(step => step.agent);
    const ordering = isUsual(arrangement) ? all : (item.ordering ?? []);
    const shown = new Shown(item, steps, { agents: this.#agents, arrangement, ordering });
    const sees = seenLast(ordering, arrangement);
    const { id, shared, twin, row, opening, redact } = questionTo(agent, () => item, sees, null);
    const context = shown.to(sees);
    const saw = sawIn(sees.map(turn => steps[turn] as Step));
    const round = roundAfter(decision, agent, failure?.code === 'interrupted');
    const ask = this.#askerOf(agent);
    const asked = await ask({ id, shared, twin, row, context, opening, saw, round, redact });
    const answered = { ...kept, decision: asked.step };
    if (asked.failure) throw failing(answered, { agent, failure: asked.failure });
    return answered;
  }

  #askerOf(agent: string): Ask {
    const ask = this.#askers.get(agent);
    if (ask) return ask;
    const message = `expected an agent of the agents folder, found '${agent}'`;
    throw new ItemFailure('unknown-agent', message, { agent });
  }
}

interface Failed {
  agent: string;
  failure: NonNullable<AskResult['failure']>;
}

function failing(item: Item, { agent, failure: { code, message } }: Failed): ItemFailure {
  return new ItemFailure(code, message, { agent, item });
}

function expectInOrder(steps: readonly Step[], turns: readonly Turn[]): void {
  const surplus = steps.find((step, index) => step.agent !== turns[index]?.agent);
  if (surplus === undefined) return;
  const namesOf = (list: readonly { agent: string }[]): string => list.map(({ agent }) => agent).join(', ');
  const message = `expected steps in the order ${namesOf(turns)}, found ${namesOf(steps)}`;
  throw new ItemFailure('steps-out-of-order', message, { agent: surplus.agent });
}

/** A step that failed for good is asked in the next round; one that was only interrupted goes on in its own. */
function roundAfter(failed: Step | undefined, agent: string, interrupted: boolean): number {
  if (failed?.agent !== agent) return 0;
  return (failed.round ?? 0) + (interrupted ? 0 : 1);
}
