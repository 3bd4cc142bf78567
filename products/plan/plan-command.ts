/**
 * plan: how long a pipeline would take on N servers, before anything is booked: its items, the pool and the chain as they
 * are, on simulated engines in virtual time.
 *
 *   fw plan pipelines/fairwatch/batch.yaml prompts.csv --preset 3b-a6000 --endpoints 3
 */
import { setFlagsFromString } from 'node:v8';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { writeDocument } from '../../engine/core/files/saving.ts';
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { command } from '../../engine/flow/command.ts';
import { PRESET_OPTIONS, type PresetGiven, presetGiven } from '../simulator/preset-options.ts';
import { PRESET_NAMES, SERVER_OPTIONS, withServerOptions } from '../simulator/presets.ts';
import {
  against,
  CALIBRATIONS,
  type Calibrating,
  renderAgainst,
  summaryOf,
  type Untold,
} from './against/against.ts';
import { runCalibration } from './calibrate/calibrate-command.ts';
import { explained } from './explain.ts';
import { compareCards } from './load/compare-cards.ts';
import { comparePage } from './load/compare-page.ts';
import { comparedJson, renderCompared } from './load/compare-words.ts';
import { LOAD_OPTIONS, type LoadGiven, loadsJson, planLoads, renderLoads } from './load/load-plan.ts';
import { makePlan } from './plan.ts';
import { jsonOf, renderPlan } from './plan-page.ts';

export default command({
  name: 'plan',
  summary: 'Predict how long a pipeline takes on N servers, by simulation in virtual time.',
  positional: 'PIPELINE [INPUT…]',
  examples: [
    'fw plan pipelines/fairwatch/batch.yaml prompts.csv --preset 3b-a6000 --endpoints 4',
    'fw plan pipelines/fairwatch/batch.yaml prompts.csv --preset 3b-a6000 --endpoints 3 --items 69120 --ledger pilot/',
    'fw plan pipelines/fairwatch/batch.yaml prompts.csv --preset 3b-a6000 --max-num-seqs 512',
    'fw plan --rate 2,5,10 --input-tokens 600 --output-tokens 250 --model-config Qwen/Qwen2.5-7B-Instruct --gpu h100-80g',
    'fw plan --explain --model-config meta-llama/Llama-3.1-70B-Instruct --gpu h100-80g --tp 4',
    'fw plan --compare 8xh100-80g,16xa100-80g --tp 2,4 --items 200000 --input-tokens 1500 --output-tokens 300 --model-config meta-llama/Llama-3.1-70B-Instruct',
    'fw plan --against measured.csv --calibrate first',
    'fw plan --calibrate http://gpu1:8005/v1 --preset 3b-a6000 --out mine.json',
    'fw plan pipelines/fairwatch/batch.yaml prompts.csv --preset mine.json --endpoints 2 --output-tokens 250 --json',
  ],
  options: {
    ...PRESET_OPTIONS,
    ...SERVER_OPTIONS,
    endpoints: {
      type: 'integer',
      minimum: 1,
      maximum: 64,
      description: 'Number of servers, 1 to 64. For up to 4, the table also shows fewer. Default: 1.',
    },
    items: {
      type: 'integer',
      minimum: 1,
      description:
        'Number of items to plan for; a shorter input is repeated under new ids. Default: all of the input.',
    },
    ledger: {
      type: 'string',
      file: 'read-folder',
      description: 'Take answer lengths and failures from the ledger of an earlier run; 20 items are enough.',
    },
    'output-tokens': {
      type: 'integer',
      minimum: 1,
      description: 'Mean answer length in tokens, without --ledger.',
    },
    tokenizer: {
      type: 'string',
      description: 'Base URL of a server that counts the tokens of a sample (/tokenize).',
    },
    ...LOAD_OPTIONS,
    set: {
      type: 'array',
      items: { type: 'string' },
      description: 'Override an option of the pipeline file: STAGE.OPTION=VALUE. May be repeated.',
    },
    calibrate: {
      type: 'string',
      description:
        'Fit the constants of --preset to the idle server at this base URL, in two minutes, and plan nothing. With --against: first or others, the stages to calibrate on.',
    },
    compare: {
      type: 'string',
      description:
        'Compare cards for --items prompts, or for --rate within --goodput: a list such as h100-80g,16xa100-80g. --tp may be a list.',
    },
    price: {
      type: 'array',
      items: { type: 'string' },
      description: 'With --compare: what a card costs an hour, e.g. h100-80g=2.5,l40s=0.9.',
    },
    html: {
      type: 'string',
      file: 'write',
      description: 'With --compare: write a page with the curve of what nothing beats in time and cost.',
    },
    within: {
      type: 'string',
      description: 'With --compare and --items: when all has to be done, e.g. 60h. Decides how many cards.',
    },
    against: {
      type: 'string',
      file: 'read',
      description:
        'Foretell runs that were measured, CSV or fw bench --json, and show the error of each figure.',
    },
    model: {
      type: 'string',
      description: 'Model to ask for with --calibrate, if the server has several.',
    },
    out: {
      type: 'string',
      file: 'write',
      description: 'Preset file for --calibrate to write. Default: standard output.',
    },
    explain: {
      type: 'boolean',
      description: 'Show each term of the time of a step, with its formula and source, and plan nothing.',
    },
    seed: { type: 'integer', default: 7, description: "Seed of the simulator's answers." },
    json: { type: 'boolean', description: 'Write the plan as JSON, with the samples over time.' },
  },

  async run({ calibrate, explain, compare, against: file, model, out, json, ...options }, [path, ...inputs]) {
    if (file !== undefined) {
      if (path !== undefined) throw usageError(`expected --against or a pipeline, found both ("${path}")`);
      const flag = serverFlagIn(options);
      if (flag !== undefined)
        throw usageError(
          `expected --against alone, found --${flag} with it; each run has the flags of its own server in ${file}`,
        );
      await writePage(againstPage(file, options, calibrate, json === true));
      return EXIT.ok;
    }
    refuseIdle(options, compare !== undefined, path);
    if (compare !== undefined) return compareAll(compare, options, json === true);
    const told = presetGiven(options);
    if (told === undefined)
      throw usageError(
        `expected --preset, a model on a GPU, found none: name a file, or one of ${PRESET_NAMES}; or a model by --model-config and a card by --gpu`,
      );
    const base = told.preset;
    if (explain) {
      await writePage(explained({ ...told, preset: withServerOptions(base, options) }));
      return EXIT.ok;
    }
    if (calibrate !== undefined) {
      if (path !== undefined)
        throw usageError(
          `expected --calibrate or a pipeline, found both ("${path}"); calibrate first, then plan with the preset that it writes`,
        );
      const flag = serverFlagIn(options);
      if (flag !== undefined)
        throw usageError(
          `expected --calibrate alone, found --${flag} with it; the server has its own flags, and the new preset takes these from --preset`,
        );
      return runCalibration({ url: calibrate, base, model, out });
    }
    // as in products/kit/execute.ts: what is in flight outlives the young generation
    setFlagsFromString('--heap-growing-percent=200');
    const server = withServerOptions(base, options);
    if (options.rate !== undefined || options.concurrency !== undefined) {
      const loads = planLoads(server, options);
      await writePage(json ? `${JSON.stringify(loadsJson(loads), null, 2)}\n` : renderLoads(loads));
      return EXIT.ok;
    }
    if (path === undefined)
      throw usageError(
        'expected a pipeline file, or --rate or --concurrency, found none: fw plan FILE [INPUT…]',
      );
    const plan = await makePlan({
      ...options,
      endpoints: options.endpoints ?? 1,
      outputTokens: options['output-tokens'],
      path,
      inputs,
      preset: server,
    });
    await writePage(json ? `${JSON.stringify(jsonOf(plan), null, 2)}\n` : renderPlan(plan));
    return EXIT.ok;
  },
});

type Given = PresetGiven &
  LoadGiven &
  Parameters<typeof withServerOptions>[1] & {
    price?: readonly string[] | undefined;
    within?: string | undefined;
    html?: string | undefined;
    items?: number | undefined;
    ledger?: string | undefined;
    tokenizer?: string | undefined;
    set?: readonly string[] | undefined;
  };

/** What --compare decides itself, or has no place for. */
const NOT_COMPARED = [
  ...(['preset', 'gpu', 'endpoints', 'concurrency', 'requests', 'duration', 'burstiness'] as const),
  ...(['ledger', 'tokenizer', 'set'] as const),
];

const INSTEAD: Partial<Record<(typeof NOT_COMPARED)[number], string>> = {
  preset: 'the cards are those of --compare, and the model that of --model-config',
  gpu: 'the cards are those of --compare',
  endpoints: 'a number in front of a card says how many there are, such as 8xh100-80g',
  concurrency: 'it takes as many in flight as give most, and shows how many',
  requests: '--items is the number of prompts',
};

/** The first flag of a server that was given. */
const serverFlagIn = (options: Given): string | undefined =>
  (Object.keys(SERVER_OPTIONS) as (keyof typeof SERVER_OPTIONS)[]).find(name => options[name] !== undefined);

/** Exit 64 where an option would do nothing. */
function refuseIdle(options: Given, compares: boolean, path: string | undefined): void {
  const comparing = (['price', 'within', 'html'] as const).find(name => options[name] !== undefined);
  if (!compares && comparing !== undefined)
    throw usageError(`expected --compare with --${comparing}, found none`);
  const dropped = compares && NOT_COMPARED.find(name => options[name] !== undefined);
  if (dropped)
    throw usageError(
      `expected --compare without --${dropped}, found both: ${INSTEAD[dropped] ?? 'it does nothing there'}`,
    );
  const isLoad = compares || options.rate !== undefined || options.concurrency !== undefined;
  const loading = (Object.keys(LOAD_OPTIONS) as (keyof typeof LOAD_OPTIONS)[]).find(
    name => options[name] !== undefined,
  );
  if (!isLoad && loading !== undefined)
    throw usageError(`expected --rate, --concurrency or --compare with --${loading}, found none`);
  if (isLoad && path !== undefined)
    throw usageError(`expected --rate, --concurrency or --compare, or a pipeline, found both ("${path}")`);
}

async function compareAll(cards: string, options: Given, json: boolean): Promise<number> {
  const comparing = {
    ...{ cards, tp: options.tp, prices: options.price, within: options.within },
    ...{ items: options.items, given: { ...options, tp: undefined } },
  };
  const found = compareCards(comparing);
  if (options.html !== undefined)
    for (const note of writeDocument(options.html, comparePage(found, comparing)))
      process.stderr.write(`fw plan: ${note}\n`);
  await writePage(
    json ? `${JSON.stringify(comparedJson(found), null, 2)}\n` : renderCompared(found, comparing),
  );
  return found.choices.length > 0 ? EXIT.ok : EXIT.failed;
}

function againstPage(path: string, given: PresetGiven, calibrate: string | undefined, json: boolean): string {
  const calibrating = CALIBRATIONS.find(name => name === calibrate);
  if (calibrate !== undefined && calibrating === undefined)
    throw usageError(
      `--calibrate: expected ${CALIBRATIONS.join(' or ')} with --against, found "${calibrate}"`,
    );
  const untold: Untold[] = [];
  const replayed = against({ path, given, calibrating: calibrating as Calibrating | undefined }, stage => {
    untold.push(stage);
  });
  if (!json) return renderAgainst(replayed, path, calibrating, untold);
  const stages = replayed.map(({ run, preset, predicted, off }) => ({
    ...{ place: run.place, model: run.model, preset: preset.name },
    ...{ measured: run.measured, predicted, off },
  }));
  return `${JSON.stringify({ against: path, calibrated: calibrating ?? null, stages, untold, errors: summaryOf(replayed) }, null, 2)}\n`;
}
