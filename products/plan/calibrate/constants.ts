/** The constants of a preset that measurements tell, and how they are fitted to them. */
import { Engine } from '../../simulator/engine.ts';
import type { Preset, PresetFile } from '../../simulator/presets.ts';
import { leastSquares } from './least-squares.ts';

/** A load as it was: what the server said of its requests, and how long they took, in ms. */
export interface Measured {
  name: string;
  requests: readonly { prompt: number; output: number }[];
  /** from sending to the end of the answer, as a mean over the requests */
  took: number;
}

/** How a constant pulls toward that of the preset it began from: next to nothing, unless no load tells it. */
const PULL = 0.01;
/** HTTP, tokenizing and scheduling of a request in ms, to begin with. */
const OVERHEAD_MS = 4;
/** In ms a token and its context: less than this is nothing. */
const LEAST_ATTENTION = 1e-8;
/** What a time is not known better than, in ms: the sockets, this process, its neighbours. */
const NOISE_MS = 10;
const DIGITS = 4;

export interface Fitted {
  step: Preset['step'];
  /** what passes before and after the engine */
  overheadMs: number;
  /** each load with what the fitted engine says to it, in ms */
  rows: { load: Measured; fitted: number }[];
}

export function fitted(base: Preset, measured: readonly Measured[]): Fitted {
  const { t0, weights, perToken, perKvToken, perAttention, perSequence } = base.step;
  const begin = [
    weights,
    perToken,
    perKvToken,
    Math.max(LEAST_ATTENTION, perAttention),
    perSequence,
    OVERHEAD_MS,
  ];
  const logs = begin.map(Math.log);
  const presetOf = (values: readonly number[]): Preset => {
    const [weights = 0, perToken = 0, perKvToken = 0, perAttention = 0, perSequence = 0] = values.map(
      Math.exp,
    );
    return { ...base, step: { ...base.step, t0, weights, perToken, perKvToken, perAttention, perSequence } };
  };
  const timeOf = (values: readonly number[], preset: Preset, load: Measured): number =>
    engineMs(preset, load) + Math.exp(values.at(-1) as number);
  const found = leastSquares(values => {
    const preset = presetOf(values);
    const off = measured.map(load => {
      const { took } = load;
      return (Math.log(timeOf(values, preset, load) / took) * took) / (took + NOISE_MS);
    });
    return [...off, ...values.map((value, at) => PULL * (value - (logs[at] as number)))];
  }, logs);
  const preset = presetOf(found);
  return {
    step: preset.step,
    overheadMs: Math.exp(found.at(-1) as number),
    rows: measured.map(load => ({ load, fitted: timeOf(found, preset, load) })),
  };
}

/** How far the fit is from what was measured at worst, as a share. */
export function worstOff({ rows }: Pick<Fitted, 'rows'>): number {
  return Math.max(...rows.map(({ load, fitted }) => Math.abs(fitted / load.took - 1)));
}

/** What a fit does not see (caches that fill, preemption, other lengths) is left to these margins at least. */
const LEAST_ERROR = { midLoad: 0.05, nearSaturation: 0.1 };

/** The preset as a file: `base` with what was found, its figures cut to what was measured. */
export function fileOf(
  base: Preset,
  result: Fitted,
  about: Pick<PresetFile, 'model' | 'calibrated'>,
): PresetFile {
  const { step, overheadMs, rows } = result;
  const worst = worstOff(result);
  const cut = (value: number): number => Number(value.toPrecision(DIGITS));
  const share = (value: number): number => Math.ceil(value * 100) / 100;
  return {
    ...base.file,
    ...about,
    name: `${base.name.replace(/-calibrated$/, '').slice(0, 48)}-calibrated`,
    weights_ms: cut(step.weights),
    ms_per_token: cut(step.perToken),
    kv_us_per_1k_tokens: cut(step.perKvToken * 1e6),
    attention_ns_per_product: cut(step.perAttention * 1e6),
    step_ms: step.t0,
    sequence_ms: cut(step.perSequence),
    basis: `[calibrated] W, c, κ, α and the CPU of a sequence were fitted to ${rows.length} loads on the server itself, the worst ${Math.round(100 * worst)} % off; ${overheadMs.toFixed(1)} ms a request passed before and after the engine. The rest is as in ${base.name}, or as the server says of itself.`,
    source: 'fw plan --calibrate',
    error: {
      mid_load: Math.max(LEAST_ERROR.midLoad, share(worst)),
      near_saturation: Math.max(LEAST_ERROR.nearSaturation, share(2 * worst)),
    },
  };
}

/** The mean time of a request of the load, in ms: without what passes before and after the engine. */
function engineMs(preset: Preset, { requests }: Pick<Measured, 'requests'>): number {
  const engine = new Engine(preset);
  const nothingShared = new Int32Array(0);
  let sum = 0;
  for (const { prompt, output } of requests) {
    const done = (at: number): void => {
      sum += at;
    };
    engine.add({ prompt: { tokens: prompt, blocks: nothingShared }, output, done }, 0);
  }
  for (let due = engine.due(); due !== null; due = engine.advance(due));
  return sum / requests.length;
}
