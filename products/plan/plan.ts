/** A plan: the items of a pipeline, as many servers as are asked for and fewer, and what holds the run back. */

import { agentsOf, inputGuard } from '../../engine/asking/agents/asking-options.ts';
import { expandPaths, expectResults } from '../../engine/core/files/input-files.ts';
import { dataError, ItemFailure, usageError } from '../../engine/core/item/failure.ts';
import { failureOf, type Item } from '../../engine/core/item/item.ts';
import { counted, number } from '../../engine/core/item/wording.ts';
import { visibleLines } from '../../engine/core/json/visible.ts';
import { readPipeline } from '../../engine/running/pipeline.ts';
import { silent } from '../../engine/running/stage-options.ts';
import { itemsBefore } from '../../engine/running/without-asking.ts';
import { stages } from '../../stages/index.ts';
import type { Preset } from '../simulator/presets.ts';
import { bottleneckOf } from './bottleneck.ts';
import { GUESSED, lengthsOfLedger } from './lengths.ts';
import { lengthsOfPilot } from './pilot.ts';
import { type Figures, stretched } from './plan-figures.ts';
import type { Plan } from './plan-page.ts';
import { type Sample, sampleOf, spread } from './sample.ts';
import { type PlanInput, simulate } from './virtual-run.ts';

export interface Planning {
  /** of the pipeline file */
  path: string;
  /** instead of the inputs that the file names */
  inputs: readonly string[];
  preset: Preset;
  endpoints: number;
  items: number | undefined;
  ledger: string | undefined;
  outputTokens: number | undefined;
  tokenizer: string | undefined;
  set: readonly string[] | undefined;
  seed: number;
}

/** Exit 64 or 65 where there is nothing to plan. */
export async function makePlan(planning: Planning): Promise<Plan> {
  const { path, preset, seed, ledger, tokenizer, outputTokens } = planning;
  if (ledger !== undefined && (outputTokens ?? tokenizer) !== undefined) {
    throw usageError(
      'expected --ledger, or --output-tokens and --tokenizer, found both; a ledger already has counted tokens',
    );
  }
  const { set: sets = [] } = planning;
  const { row, base, pool, input } = await readPipeline(path, stages, sets);
  if (row.some(({ stage }) => stage.name === 'request')) {
    throw usageError(
      `${path}: expected a pipeline that asks agents, found one that sends ready-made requests, whose answers cannot be predicted; to count them: fw run --dry-run`,
    );
  }
  const files = expectResults(await expandPaths(planning.inputs.length > 0 ? planning.inputs : input));
  const items = await itemsOf({ row, files, base, sets, most: planning.items });
  const sample = sampleOf(items, planning.items ?? items.length);
  const asks = row.map(({ stage }) => stage.asks !== undefined);
  const asking = row.slice(asks.indexOf(true), asks.lastIndexOf(true) + 1).map(silent);
  const guessed: PlanInput = {
    row: asking,
    base,
    pool,
    model: pool?.model ?? MODEL,
    preset,
    seed,
    lengths: GUESSED,
  };
  const lengths =
    ledger === undefined
      ? await lengthsOfPilot(guessed, sample, { tokenizer, outputTokens })
      : lengthsOfLedger(ledger, ({ kind, path, message }) => {
          if (kind !== 'torn') say(`${path}: ${message}`);
        });
  const table = await tableOf({ ...guessed, lengths }, planning.endpoints, sample);
  return {
    label: path,
    preset,
    seed,
    items: { planned: sample.size, input: items.length },
    lengths: lengths.words,
    table,
    bottleneck: bottleneckOf(table.at(-1) as Figures, preset),
  };
}

/** What `fw simulate` serves, so that both give the same answers to the same requests. */
const MODEL = 'simulated-3b';

function say(message: string): void {
  process.stderr.write(`fw plan: ${message}\n`);
}

/** Items of one run that are simulated one by one: beyond it the middle of the run is taken to continue at the same rate. */
const MOST_ITEMS = 100_000;
/** … and for the other numbers of endpoints so many times what is in flight. */
const ROUNDS = 10;
/** Up to here a table is made. */
const MOST_COMPARED = 4;

/** The figures for 1 to N endpoints, or for N alone where N is more than four. */
async function tableOf(world: PlanInput, endpoints: number, sample: Sample): Promise<Figures[]> {
  const run = async (count: number, most: number): Promise<Figures> => {
    const part = spread(sample, Math.min(sample.size, most));
    const of =
      part.size < sample.size ? ` (${number(part.size)} of ${counted(sample.size, 'item')}, stretched)` : '';
    say(`simulating ${count} endpoint${count > 1 ? 's' : ''}${of}`);
    return stretched(await simulate(world, count, part), sample.size);
  };
  const wanted = await run(endpoints, MOST_ITEMS);
  if (wanted.calls === 0)
    throw dataError(
      `expected items to ask about, found none among ${number(wanted.items)}: fw run --dry-run shows why`,
    );
  const others: Figures[] = [];
  for (let count = 1; count < endpoints && endpoints <= MOST_COMPARED; count++) {
    others.push(await run(count, (ROUNDS * wanted.inFlight * count) / endpoints));
  }
  return [...others, wanted];
}

interface Input {
  row: PlanInput['row'];
  files: readonly string[];
  base: string;
  sets: readonly string[];
  most: number | undefined;
}

/** The items that would be asked about, with what asking needs of them; at most as many as are simulated. */
async function itemsOf({ row, files, base, sets, most = Number.POSITIVE_INFINITY }: Input): Promise<Item[]> {
  const items: Item[] = [];
  const asker = row.find(({ stage }) => stage.asks);
  const agents = agentsOf({ agents: asker?.options.agents as string | undefined }, { base, sets });
  const guard = inputGuard(agents, say);
  const keepsInput = asker?.options.twins !== undefined;
  const take = (item: Item): boolean => {
    try {
      if (failureOf(item) === undefined) guard(item);
    } catch (error) {
      // it would fail alone, and cost no call
      if (error instanceof ItemFailure) return true;
      throw error;
    }
    return items.push(lean(item, keepsInput)) < most;
  };
  const warn = (message: string): void => void process.stderr.write(`${visibleLines(message).join('\n')}\n`);
  await itemsBefore({ row, files, base, label: 'plan', take, warn });
  if (items.length === 0) throw dataError('expected items to plan for, found none');
  return items;
}

const KEPT = [
  'id',
  'row',
  'prompt',
  'sample',
  'ordering',
  'arrangement',
  'steps',
  'decision',
  'failure',
] as const;

/** A hundred thousand items stay in memory: without the columns that they were made of. */
function lean(item: Item, keepsInput: boolean): Item {
  const names = KEPT.filter(name => item[name] !== undefined);
  const kept = Object.fromEntries(names.map(name => [name, item[name]])) as Item;
  return keepsInput && item.input ? { ...kept, input: item.input } : kept;
}
