/** A plan: the items of a pipeline, as many servers as are asked for and fewer, and what holds the run back. */

import { questionOf } from '../../engine/asking/agents/asked-once.ts';
import { agentsOf, inputGuard } from '../../engine/asking/agents/asking-options.ts';
import { beginsOfItem } from '../../engine/asking/agents/begins.ts';
import { beginsOf } from '../../engine/asking/agents/raw-request.ts';
import { openingsOf } from '../../engine/asking/agents/request-body.ts';
import { expandPaths, expectResults } from '../../engine/core/files/input-files.ts';
import { writesNothing } from '../../engine/core/item/dialects.ts';
import { dataError, ItemFailure, usageError } from '../../engine/core/item/failure.ts';
import { failureOf, type Item, isRawRequest } from '../../engine/core/item/item.ts';
import { counted } from '../../engine/core/item/wording.ts';
import { isObject } from '../../engine/core/json/pointer.ts';
import { visibleLines } from '../../engine/core/json/visible.ts';
import { beginningOf } from '../../engine/flow/beginnings.ts';
import { type Shared, Sharing } from '../../engine/flow/sharing.ts';
import { readPipeline } from '../../engine/running/pipeline.ts';
import { silent } from '../../engine/running/stage-options.ts';
import { itemsBefore } from '../../engine/running/without-asking.ts';
import { stages } from '../../stages/index.ts';
import type { Preset } from '../simulator/presets.ts';
import { textsOf } from './alike.ts';
import { bottleneckOf } from './bottleneck.ts';
import { GUESSED, type Lengths, lengthsOfLedger } from './lengths.ts';
import { lengthsOfPilot } from './pilot.ts';
import type { Figures } from './plan-figures.ts';
import type { Plan } from './plan-page.ts';
import { whyUnforeseen } from './raw-questions.ts';
import { sampleOf } from './sample.ts';
import { tableOf } from './table.ts';
import type { PlanInput } from './virtual-run.ts';

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
  const files = expectResults(await expandPaths(planning.inputs.length > 0 ? planning.inputs : input));
  const earlier =
    ledger === undefined
      ? undefined
      : lengthsOfLedger(ledger, ({ kind, path, message }) => {
          if (kind !== 'torn') say(`${path}: ${message}`);
        });
  const hasLengths = (url: string): boolean =>
    outputTokens !== undefined || earlier?.answers.has(url) === true;
  const { items, all, models, leftOut, shared } = await itemsOf({
    row,
    files,
    base,
    sets,
    hasLengths,
    most: planning.items,
  });
  const sample = sampleOf(items, planning.items ?? all);
  const asks = row.map(({ stage }) => stage.asks !== undefined);
  const asking = row.slice(asks.indexOf(true), asks.lastIndexOf(true) + 1).map(silent);
  const guessed: PlanInput = {
    row: asking,
    base,
    pool,
    model: pool?.model ?? MODEL,
    models,
    preset,
    seed,
    lengths: GUESSED,
  };
  const lengths: Lengths = earlier ?? (await lengthsOfPilot(guessed, sample, { tokenizer, outputTokens }));
  const isUnwritten = items.every(({ request }) => request !== undefined && writesNothing(request.url));
  const answers = isUnwritten ? 'none: nothing is written' : lengths.words.answers;
  const table = await tableOf({ ...guessed, lengths }, planning.endpoints, sample, say);
  return {
    label: path,
    preset,
    seed,
    items: { planned: sample.size, input: all, seen: items.length },
    leftOut,
    models,
    shared,
    once: asking[0]?.options.once === true,
    lengths: { ...lengths.words, answers },
    table,
    bottleneck: bottleneckOf(table.at(-1) as Figures, preset),
  };
}

/** What `fw simulate` serves, so that both give the same answers to the same requests. */
const MODEL = 'simulated-3b';

function say(message: string): void {
  process.stderr.write(`fw plan: ${message}\n`);
}

interface Input {
  row: PlanInput['row'];
  files: readonly string[];
  base: string;
  sets: readonly string[];
  /** whether an option says how long answers to raw requests are, by their URL */
  hasLengths(url: string): boolean;
  most: number | undefined;
}

interface Found {
  items: Item[];
  /** items of the input, of which `items` may be the first ones */
  all: number;
  /** that raw requests name */
  models: string[];
  leftOut: Plan['leftOut'];
  shared: Shared;
}

/** Characters of items that are kept; in memory they are bytes, most of them. */
const MOST_CHARACTERS = 400_000_000;

/** The items that would be asked about, with what asking needs of them; at most as many as are planned, and as memory bears. */
async function itemsOf({
  row,
  files,
  base,
  sets,
  hasLengths,
  most = Number.POSITIVE_INFINITY,
}: Input): Promise<Found> {
  const items: Item[] = [];
  const models = new Set<string>();
  const leftOut = new Map<string, number>();
  let all = 0;
  let characters = 0;
  const asker = row.find(({ stage }) => stage.asks);
  const isRaw = asker?.stage.name === 'request';
  const agents = isRaw
    ? null
    : agentsOf({ agents: asker?.options.agents as string | undefined }, { base, sets });
  const guard = agents && inputGuard(agents, say);
  const begins = agents === null ? beginsOf : beginsOfItem(agents, await openingsOf(agents, undefined));
  const sharing = new Sharing();
  const hasTemplate = agents !== null && [...agents.byKey.values()].some(({ template }) => template);
  const keepsInput = asker?.options.twins !== undefined || hasTemplate;
  const takeRaw = ({ request }: Item): boolean => {
    if (!isRawRequest(request) || !isObject(request.body)) return true; // it fails alone
    const why = whyUnforeseen(request, hasLengths);
    if (why !== undefined) leftOut.set(why, (leftOut.get(why) ?? 0) + 1);
    else if (typeof request.body.model === 'string') models.add(request.body.model);
    return why === undefined;
  };
  const take = (item: Item): boolean => {
    try {
      if (failureOf(item) === undefined) guard?.(item);
    } catch (error) {
      // it would fail alone, and cost no call
      if (error instanceof ItemFailure) return true;
      throw error;
    }
    if (isRaw && !takeRaw(item)) return true;
    const said = beginningOf(item, begins);
    if (said) sharing.add(item, said, questionOf(item));
    all += 1;
    if (characters < MOST_CHARACTERS) {
      for (const text of textsOf(item)) characters += text.length;
      items.push(lean(item, keepsInput));
    }
    return all < most;
  };
  const warn = (message: string): void => void process.stderr.write(`${visibleLines(message).join('\n')}\n`);
  await itemsBefore({ row, files, base, label: 'plan', take, warn });
  const reasons = [...leftOut].map(([why, count]) => ({ why, count }));
  if (items.length === 0) {
    const found =
      reasons.map(({ why, count }) => `${counted(count, 'request')} to ${why}`).join('; ') || 'none';
    throw dataError(`expected items to plan for, found ${found}`);
  }
  return { items, all, models: [...models], leftOut: reasons, shared: sharing.shared() };
}

const KEPT = [
  'id',
  'row',
  'prompt',
  'messages',
  'request',
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
