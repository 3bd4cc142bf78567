/** fw plan --against FILE: what is foretold of runs that somebody has measured, and how far off it is. */
import { dataError, usageError } from '../../../engine/core/item/failure.ts';
import { aligned, counted } from '../../../engine/core/item/wording.ts';
import { quantile } from '../../kit/agreement.ts';
import { type PresetGiven, presetGiven } from '../../simulator/preset-options.ts';
import type { Preset } from '../../simulator/presets.ts';
import { FIGURES, type FigureName, type MeasuredRun, readMeasured } from './measured-runs.ts';
import { type Adjustment, adjusted, calibratedOn, type Replayed, replay } from './replay.ts';

/**
 * `first`: each server by its first stage, which is then left out. `others`: each model by the stages of all others, as the
 * middle of what each of them says: whether there is something that all have in common.
 */
export const CALIBRATIONS = ['first', 'others'] as const;
export type Calibrating = (typeof CALIBRATIONS)[number];

export interface Against {
  path: string;
  given: PresetGiven;
  calibrating: Calibrating | undefined;
}

/** A stage that nothing can be foretold of, and why. */
export interface Untold {
  place: string;
  why: string;
}

/** Exit 64 or 65 where no run says enough, or the file is none; `untold` is told those that say too little. */
export function against(
  { path, given, calibrating }: Against,
  untold: (stage: Untold) => void = () => {},
): Replayed[] {
  const runs = readMeasured(path);
  const refused: { error: unknown }[] = [];
  const stages = runs.flatMap((run, at) => {
    try {
      const isWarm = runs.slice(0, at).some(other => other.server === run.server);
      return [{ run, preset: presetOf(run, given), isWarm }];
    } catch (error) {
      refused.push({ error });
      untold({ place: run.place, why: (error as Error).message });
      return [];
    }
  });
  if (stages.length === 0) throw refused[0]?.error;
  if (calibrating === undefined) return stages.map(({ run, preset, isWarm }) => replay(run, preset, isWarm));
  const found = new Map<MeasuredRun, Adjustment>();
  const adjustment = ({ run, preset, isWarm }: (typeof stages)[number]): Adjustment => {
    const known = found.get(run) ?? calibratedOn(run, preset, isWarm);
    found.set(run, known);
    return known;
  };
  if (calibrating === 'first') {
    const later = stages.filter(({ isWarm }) => isWarm);
    if (later.length === 0)
      throw dataError(
        `${path}: expected a server with two stages, to calibrate on one and foretell the other, found none`,
      );
    return later.map(stage => {
      const first = stages.find(({ run }) => run.server === stage.run.server) as (typeof stages)[number];
      return replay(stage.run, adjusted(stage.preset, adjustment(first)), true);
    });
  }
  return stages.map(stage => {
    const others = stages.filter(({ run }) => run.model !== stage.run.model).map(adjustment);
    if (others.length === 0)
      throw dataError(`${path}: expected runs of two models at least, to leave one out, found one`);
    const middle = (of: (one: Adjustment) => number): number => medianOf(others.map(of));
    const common = { factor: middle(one => one.factor), requestMs: middle(one => one.requestMs) };
    return replay(stage.run, adjusted(stage.preset, common), stage.isWarm);
  });
}

/** Names that files have for a card of which there are several. */
const CARDS: Readonly<Record<string, string>> = {
  H100: 'h100-80g',
  A100: 'a100-80g',
  'A100-80GB': 'a100-80g',
  L40S: 'l40s',
  H200: 'h200',
};

/** What the command line says goes before what the file says. */
function presetOf(run: MeasuredRun, given: PresetGiven): Preset {
  const own = given.preset !== undefined || given['model-config'] !== undefined;
  const model = given['model-config'] ?? run.model ?? undefined;
  const gpu = given.gpu ?? (run.gpu === null ? undefined : (CARDS[run.gpu] ?? run.gpu));
  if (!own && (model === undefined || gpu === undefined))
    throw usageError(
      `${run.place}: expected a model and a card, found ${model ?? 'no model'} and ${gpu ?? 'no card'}: --model-config and --gpu, or --preset, say them`,
    );
  const { preset } = presetGiven(
    given.preset === undefined
      ? { ...given, 'model-config': model, gpu, tp: given.tp ?? String(run.tp ?? 1) }
      : given,
  ) as { preset: Preset };
  const { limits } = preset;
  return {
    ...preset,
    limits: {
      maxNumSeqs: run.maxNumSeqs ?? limits.maxNumSeqs,
      maxNumBatchedTokens: run.maxNumBatchedTokens ?? limits.maxNumBatchedTokens,
      kvTokens: run.kvTokens ?? limits.kvTokens,
    },
  };
}

const medianOf = (values: readonly number[]): number => quantile(Float64Array.from(values).sort(), 0.5);

const HEADS: Record<FigureName, string> = {
  e2e_mean: 'E2E mean',
  itl_mean: 'ITL mean',
  ttft_mean: 'TTFT mean',
  e2e_p90: 'E2E P90',
  e2e_p99: 'E2E P99',
  ttft_p90: 'TTFT P90',
  ttft_p99: 'TTFT P99',
};

const percent = (off: number | null): string =>
  off === null ? '–' : `${off < 0 ? '−' : '+'}${(100 * Math.abs(off)).toFixed(1)} %`;
const ms = (value: number | null): string => (value === null ? '–' : value.toFixed(1));

export interface Summary {
  figure: FigureName;
  n: number;
  median: number;
  worst: number;
}

/** Of the sizes of the errors. Figures that nobody measured are left out. */
export function summaryOf(replayed: readonly Replayed[]): Summary[] {
  return FIGURES.flatMap(figure => {
    const sizes = replayed.flatMap(({ off }) => (off[figure] === null ? [] : [Math.abs(off[figure])]));
    if (sizes.length === 0) return [];
    return [{ figure, n: sizes.length, median: medianOf(sizes), worst: Math.max(...sizes) }];
  });
}

const CALIBRATED: Record<Calibrating, string> = {
  first: 'calibrated on the first stage of each server, which is left out',
  others: 'calibrated on the stages of the other models (leave-one-out)',
};

export function renderAgainst(
  replayed: readonly Replayed[],
  path: string,
  calibrating: Calibrating | undefined,
  untold: readonly Untold[] = [],
): string {
  const loadOf = ({ load }: MeasuredRun): string =>
    'rate' in load ? `${load.rate}/s` : `c ${load.concurrency}`;
  const rows = replayed.map(({ run, preset, predicted, off }) => [
    run.model ?? preset.file.model,
    preset.file.gpu.replace(/,.*/, ''),
    loadOf(run),
    ...(['e2e_mean', 'itl_mean', 'ttft_mean'] as const).flatMap(name => [
      ms(run.measured[name]),
      ms(predicted[name]),
      percent(off[name]),
    ]),
  ]);
  const head = [
    'model',
    'card',
    'load',
    ...['E2E', 'ITL', 'TTFT'].flatMap(name => [`${name} ms`, 'foretold', 'off']),
  ];
  const summary = summaryOf(replayed).map(({ figure, n, median, worst }) => [
    HEADS[figure],
    String(n),
    `${(100 * median).toFixed(1)} %`,
    `${(100 * worst).toFixed(1)} %`,
  ]);
  const others = replayed.filter(({ run }) => run.counted !== run.output);
  return `${[
    `${path}: ${counted(replayed.length, 'stage')}, ${calibrating === undefined ? 'nothing calibrated' : CALIBRATED[calibrating]}`,
    '',
    ...aligned([head, ...rows], [3, 4, 5, 6, 7, 8, 9, 10, 11]),
    '',
    ...aligned([['error', 'n', 'median', 'worst'], ...summary], [1, 2, 3]),
    ...others.map(
      ({ run }) =>
        `${run.place}: answers of ${run.output} tokens, of which the client counted ${Math.round(run.counted)}; its ITL is compared over those`,
    ),
    ...untold.map(({ place, why }) => `${place}: not foretold: ${why}`),
  ].join('\n')}\n`;
}
