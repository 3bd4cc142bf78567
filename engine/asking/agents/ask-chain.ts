/**
 * One item's way through its agents: each is asked with what the earlier ones answered, then the synthesis with all
 * of it. Steps that are there are kept; a failed one is asked again in a new round. Thousands of items do this at once.
 */

import { begin, type Due, newWorkload, type Workload } from '../../core/item/account.ts';
import type { Pool } from '../../core/item/call.ts';
import { ItemFailure } from '../../core/item/failure.ts';
import { type Item, type Rung, type Step, worse } from '../../core/item/item.ts';
import { getAt } from '../../core/json/pointer.ts';
import type { Agent } from './agent-file.ts';
import { arrangementOf, askedBy, contextShown, isUsual, seenLast, turnsOf } from './arrangement.ts';
import { type Ask, type AskOptions, type AskResult, asker } from './ask.ts';
import { contextAfter, turnText } from './context.ts';
import type { Agents } from './load-agents.ts';
import type { Opened, Openings } from './openings.ts';
import { reopened } from './reopen.ts';
import { escaped } from './request-body.ts';
import { type RowId, rowIdOf, sharedName } from './share.ts';

/**
 * Asks the agents of `ordering` that the item has no answer of; then, where it `decides`, the synthesis, unless the item
 * has its decision.
 */
export type Chain = (item: Item, ordering: readonly string[] | null, decides: boolean) => Promise<Item>;

export interface Pointer {
  text: string;
  segments: readonly string[];
}

export interface ChainOptions extends AskOptions {
  /** told what each item lacks, and what it has got */
  workload?: Workload | undefined;
  /** absent: every agent has a persona that is no template, or none, and items have prompts */
  openings?: Openings;
  /** questions that the items of a row have in common are asked once; needs a record of answers */
  share?: boolean | undefined;
  /** columns in which twins are alike: these get the same seeds */
  twins?: readonly string[] | undefined;
  /** JSON Pointers into an item, to what a ledger must not keep */
  redact: readonly Pointer[];
  /** told once of each pointer where an item has nothing: a misspelt one would keep what was to be left out */
  onNothingToRedact: (pointer: string, id: string) => void;
}

/** Exit 65 where an agent's schema does not compile. */
export function chainOf(agents: Agents, pool: Pool, options: ChainOptions): Chain {
  const askers = new Map<string, Ask>();
  const redactionOf = redactions(options);
  const { workload = newWorkload(), openings = () => NO_OPENING } = options;
  for (const agent of agents.byKey.values()) askers.set(agent.key, asker(agent, pool, options));
  const askOf = (key: string): Ask => {
    const ask = askers.get(key);
    if (ask) return ask;
    throw new ItemFailure('unknown-agent', `expected an agent of the agents folder, found '${key}'`, {
      agent: key,
    });
  };

  const displayOf = (key: string): string => (agents.byKey.get(key) as Agent).display;

  /** What the seeds of an item are made of, where that is not its id. */
  function twinOf(item: Item, { row }: RowId, shared: string | undefined): string | undefined {
    const { twins = [] } = options;
    if (twins.length === 0) return undefined;
    const values = twins.map(column => item.input?.[column]);
    const missing = twins.find((_, at) => typeof values[at] !== 'string');
    if (missing !== undefined)
      throw new ItemFailure(
        'unexpected-input',
        `expected the columns of --twins, by which twins get one seed, found no column ${missing}`,
      );
    // the ordering and the sample, behind what is the row's own
    return JSON.stringify(values) + (shared ?? (item.id as string)).slice(row.length);
  }

  /** A failure keeps the answers that were paid for. */
  function openingFor(agent: string, item: Item, steps: readonly Step[]): Opened {
    try {
      return openings(agents.byKey.get(agent) as Agent, item, steps.length > 0);
    } catch (error) {
      if (!(error instanceof ItemFailure)) throw error;
      throw new ItemFailure(error.code, error.message, { agent, item });
    }
  }

  async function stepsOf(item: Item, ordering: readonly string[], due: Due): Promise<Item> {
    const { failure: _failure, ...kept } = item;
    const interrupted = item.failure?.code === 'interrupted';
    const arrangement = arrangementOf(item);
    const turns = turnsOf(ordering, arrangement);
    // each is the step of its turn; nothing comes behind a failed one that all later turns are shown
    const isSequential = arrangement.topology === 'sequential';
    const steps = (item.steps ?? []).filter(step => !isSequential || step.output !== undefined);
    const failedAt = (at: number): Step | undefined =>
      isSequential ? item.steps?.find(step => step.output === undefined) : steps[at];
    let failed: Failed | null = null;
    const by = isUsual(arrangement) ? null : { agents, arrangement, ordering };
    const surplus = steps.find((step, index) => step.agent !== turns[index]?.agent);
    if (surplus) {
      const message = `expected steps in the order ${turns.map(({ agent }) => agent).join(', ')}, found ${steps.map(step => step.agent).join(', ')}`;
      throw new ItemFailure('steps-out-of-order', message, { agent: surplus.agent });
    }
    // who asks one agent of a longer ordering leaves the rest of it to be asked
    const goesOn = ordering.every((agent, index) => item.ordering?.[index] === agent);
    const whole = [...((goesOn && item.ordering) || ordering)];
    let context = contextOf(item, by ? [] : steps, agents);
    const redact = redactionOf(item);
    const id = rowIdOf({ ...item, ordering: whole }, agents);
    const row = id.label === '' ? undefined : id.row;
    for (const [at, { agent, sees }] of turns.entries()) {
      if (steps[at]?.output !== undefined) continue;
      // who is to be shown a failed answer is not asked, and neither is anybody behind
      if (failed && sees.some(shown => steps[shown]?.output === undefined)) break;
      const seen = by ? sees.map(shown => steps[shown] as Step) : steps;
      const round = roundAfter(failedAt(at), agent, interrupted);
      const ask = askOf(agent);
      const { opening, files } = openingFor(agent, { ...kept, steps }, seen);
      const asks = options.share ? askedBy(ordering, arrangement, at) : null;
      const shared = (asks && sharedName(id, asks, agents)) ?? undefined;
      const asked = await ask({
        id: item.id as string,
        shared,
        twin: twinOf(item, id, shared),
        row,
        begins: at === 0,
        context: by ? context + escaped(contextShown('', steps, sees, by)) : context,
        opening,
        saw: sawIn(seen),
        round,
        redact: files.length > 0 ? [...(redact ?? []), ...files] : redact,
      });
      steps[at] = asked.step;
      if (asked.failure === undefined) {
        due.answered();
        if (!by) context += escaped(turnText(displayOf(agent), asked.compact));
        continue;
      }
      const isStopped = asked.failure.code === 'interrupted'; // it is taken up without being told to
      if (isStopped || failed === null) failed = { agent, failure: asked.failure };
      if (isStopped) break;
    }
    // with its ordering, so that everyone after can see which answers it lacks
    const asked = { ...kept, ordering: whole, steps };
    if (failed !== null) fail(asked, failed.agent, failed.failure);
    return asked;
  }

  async function decisionOf(item: Item): Promise<Item> {
    const { synthesis } = agents;
    if (synthesis === undefined || item.decision?.output !== undefined) return item;
    const { failure: _failure, decision, ...kept } = item;
    const steps = item.steps ?? [];
    const lacking = lackingIn(item);
    if (lacking !== null) {
      throw new ItemFailure('no-valid-answer', `expected steps to decide on, found ${lacking}`, {
        agent: synthesis.key,
      });
    }
    const { opening, files } = openingFor(synthesis.key, item, steps);
    const shown = shownLast(item, agents);
    const redact = redactionOf(item);
    const rowId = rowIdOf(item, agents);
    const { row, label } = rowId;
    const asked = await askOf(synthesis.key)({
      id: item.id as string,
      twin: twinOf(item, rowId, undefined),
      row: label === '' ? undefined : row,
      context: shown ? contextOf(item, [], agents) + escaped(shown.text) : contextOf(item, steps, agents),
      opening,
      saw: sawIn(shown?.seen ?? steps),
      round: roundAfter(decision, synthesis.key, item.failure?.code === 'interrupted'),
      redact: files.length > 0 ? [...(redact ?? []), ...files] : redact,
    });
    const answered = { ...kept, decision: asked.step };
    if (asked.failure) fail(answered, synthesis.key, asked.failure);
    return answered;
  }

  /** answers that the item lacks */
  function lackedBy(item: Item, ordering: readonly string[] | null, decides: boolean): number {
    const { steps, decision } = item;
    const due = ordering ? turnsOf(ordering, arrangementOf(item)).length : 0;
    const answered = steps?.filter(step => step.output !== undefined).length ?? 0;
    const isUndecided = decides && agents.synthesis !== undefined && decision?.output === undefined;
    return Math.max(0, due - (ordering ? answered : 0)) + (isUndecided ? 1 : 0);
  }

  return async (line, ordering, decides) => {
    const item = reopened(line);
    const due = begin(workload, lackedBy(item, ordering, decides));
    try {
      const answered = ordering ? await stepsOf(item, ordering, due) : item;
      return decides ? await decisionOf(answered) : answered;
    } finally {
      due.end(); // the decision among them: it is the last
    }
  };
}

/** The texts at the pointers, all of them where a pointer leads to more than one; undefined without pointers. */
function redactions({ redact, onNothingToRedact }: ChainOptions): (item: Item) => string[] | undefined {
  if (redact.length === 0) return () => undefined;
  const told = new Set<string>();
  return item =>
    redact.flatMap(({ text, segments }) => {
      const value = getAt(item, segments);
      if (value === undefined && !told.has(text)) {
        told.add(text);
        onNothingToRedact(text, item.id as string);
      }
      return textsIn(value);
    });
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'object' && value !== null) return Object.values(value).flatMap(textsIn);
  return typeof value === 'string' || typeof value === 'number' ? [String(value)] : [];
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

/** What the synthesis is shown of answers in another than the usual arrangement; null in that. */
function shownLast(item: Item, agents: Agents): { text: string; seen: Step[] } | null {
  const arrangement = arrangementOf(item);
  if (isUsual(arrangement)) return null;
  const { ordering = [], steps = [] } = item;
  const sees = seenLast(ordering, arrangement);
  const text = contextShown('', steps, sees, { agents, arrangement, ordering });
  return { text, seen: sees.map(at => steps[at] as Step) };
}

interface Failed {
  agent: string;
  failure: NonNullable<AskResult['failure']>;
}

function fail(item: Item, agent: string, { code, message }: NonNullable<AskResult['failure']>): never {
  throw new ItemFailure(code, message, { agent, item });
}

/** A step that failed for good is asked in the next round; one that was only interrupted goes on in its own. */
function roundAfter(failed: Step | undefined, agent: string, interrupted: boolean): number {
  if (failed?.agent !== agent) return 0;
  return (failed.round ?? 0) + (interrupted ? 0 : 1);
}

/** The worst rung among answers, and among those that they were given after. */
export function sawIn(steps: readonly Step[]): Rung {
  return steps.reduce<Rung>((rung, step) => worse(rung, worse(step.rung, step.saw)), 'clean');
}

const NO_OPENING: Opened = { opening: undefined, files: [] };

function contextOf(item: Item, steps: readonly Step[], agents: Agents): string {
  if (item.messages !== undefined && item.prompt === undefined)
    return escaped(contextAfter('', steps, agents));
  if (typeof item.prompt !== 'string' || item.prompt.trim() === '') {
    throw new ItemFailure('empty-prompt', 'expected a prompt (text), found none');
  }
  return escaped(contextAfter(item.prompt, steps, agents));
}
