/** Of a question about an item all but what the agent is shown of others: its name, its seed, its opening, what is not kept. */

import { ItemFailure } from '../../core/item/failure.ts';
import type { Item, Step } from '../../core/item/item.ts';
import { getAt } from '../../core/json/pointer.ts';
import type { Agent } from './agent-file.ts';
import type { Question } from './ask.ts';
import type { Agents } from './load-agents.ts';
import { type RowId, rowIdOf, sharedName } from './orderings.ts';
import type { Opened, Openings } from './request-body.ts';

export interface Pointer {
  text: string;
  segments: readonly string[];
}

export interface QuestionOptions {
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

/** `asks`: the agents that decide which question it is, where other items may ask the same; `now` is the item as it is asked, for a failure to keep; `sees` are the turns whose answers are shown. */
type QuestionTo = (
  agent: string,
  now: () => Item,
  sees: readonly number[],
  asks: readonly string[] | null,
) => Pick<Question, 'id' | 'shared' | 'twin' | 'row' | 'opening' | 'redact'>;

/** Told of an item with its whole ordering, and then of each agent that is asked about it. */
export function questioner(
  agents: Agents,
  options: QuestionOptions,
): (item: Item, ordering: readonly string[] | undefined) => QuestionTo {
  const { openings = () => NO_OPENING, share, twins = [] } = options;
  const redactionOf = redactions(options);

  /** A failure keeps the answers that were paid for; an opening is made of none. */
  function openingFor(agent: string, item: Item, now: () => Item, sees: readonly number[]): Opened {
    const seen = (): Step[] => {
      const { steps = [] } = now();
      return sees.map(turn => steps[turn] as Step);
    };
    try {
      return openings(agents.byKey.get(agent) as Agent, item, sees.length > 0, seen);
    } catch (error) {
      if (!(error instanceof ItemFailure)) throw error;
      throw new ItemFailure(error.code, error.message, { agent, item: now() });
    }
  }

  return (item, ordering) => {
    const redact = redactionOf(item);
    const id = rowIdOf(item, agents, ordering);
    return (agent, now, sees, asks) => {
      const { opening, files } = openingFor(agent, item, now, sees);
      const shared = (share && asks && sharedName(id, asks, agents)) || undefined;
      return {
        id: item.id as string,
        shared,
        twin: twinOf(item, id, { twins, shared }),
        row: id.label === '' ? undefined : id.row,
        opening,
        redact: files.length > 0 ? [...(redact ?? []), ...files] : redact,
      };
    };
  };
}

const NO_OPENING: Opened = { opening: undefined, files: [] };

/** What the seeds of an item are made of, where that is not its id. */
function twinOf(
  item: Item,
  { row }: RowId,
  { twins, shared }: { twins: readonly string[]; shared: string | undefined },
): string | undefined {
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

/** The texts at the pointers, all of them where a pointer leads to more than one; undefined without pointers. */
function redactions({ redact, onNothingToRedact }: QuestionOptions): (item: Item) => string[] | undefined {
  if (redact.length === 0) return () => undefined;
  const missed = new Set<string>();
  return item =>
    redact.flatMap(({ text, segments }) => {
      const value = getAt(item, segments);
      if (value === undefined && !missed.has(text)) {
        missed.add(text);
        onNothingToRedact(text, item.id as string);
      }
      return textsIn(value);
    });
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'object' && value !== null) return Object.values(value).flatMap(textsIn);
  return typeof value === 'string' || typeof value === 'number' ? [String(value)] : [];
}
