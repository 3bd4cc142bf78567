/**
 * A measured run in virtual time, as inference-perf's shared-prefix generator asks: each user of a group has a question
 * behind the group's system prompt, and asks it again when all have asked. (With its multi-turn chat the sessions that hold
 * the history were never found when a request was built, its issue 616 and inference-sim's pull request 517: so the prompts
 * of these runs are as long in the last round as in the first, and in the prefix cache from the second round on.)
 */
import { dueTimes } from '../../kit/arrivals.ts';
import type { Preset } from '../../simulator/presets.ts';
import { scaledTimes } from '../../simulator/steptime.ts';
import { promptLike } from '../load/prompts.ts';
import { type LoadFigures, runLoad } from '../load/virtual-load.ts';
import { FIGURES, type FigureName, type MeasuredRun } from './measured-runs.ts';

export interface Replayed {
  run: MeasuredRun;
  preset: Preset;
  predicted: Record<FigureName, number>;
  /** predicted / measured − 1; null where nobody measured it */
  off: Record<FigureName, number | null>;
}

const SEED = 1;

/** `isWarm`: an earlier stage has asked the same server the same prompts. */
export function replay(run: MeasuredRun, preset: Preset, isWarm: boolean): Replayed {
  const { prompt, output, load, requests } = run;
  const { shared, own, groups, users } = prompt;
  const promptOf = (user: number) =>
    promptLike({ tokens: shared + own, shared, group: user % groups, own: user });
  const prompts = Array.from({ length: users ?? 0 }, (_, user) => promptOf(user));
  const figures = runLoad({
    preset,
    servers: 1,
    asking: number => ({
      prompt: users === null ? promptOf(number) : (prompts[number % users] as ReturnType<typeof promptLike>),
      output,
    }),
    when:
      'rate' in load
        ? { due: dueTimes({ ...load, count: requests, seed: SEED }) }
        : { ...load, requests, spread: 0 },
    warm: isWarm ? prompts : [],
  });
  const predicted = predictedBy(figures, run);
  const off = Object.fromEntries(
    FIGURES.map(name => {
      const measured = run.measured[name];
      return [name, measured === null ? null : predicted[name] / measured - 1];
    }),
  ) as Replayed['off'];
  return { run, preset, predicted, off };
}

/** Gaps are those between what the client counted as tokens. */
function predictedBy(
  { ttft, itl, e2el }: LoadFigures,
  { output, counted }: MeasuredRun,
): Replayed['predicted'] {
  return {
    e2e_mean: e2el.mean,
    itl_mean: (itl.mean * (output - 1)) / (counted - 1),
    ttft_mean: ttft.mean,
    e2e_p90: e2el.p90,
    e2e_p99: e2el.p99,
    ttft_p90: ttft.p90,
    ttft_p99: ttft.p99,
  };
}

/** Halving the distance to what was measured so often is within a thousandth. */
const ROUNDS = 6;

/** The preset with steps that last `factor` times as long, and so much more before the engine. */
export function adjusted(preset: Preset, { factor, requestMs }: Adjustment): Preset {
  return {
    ...preset,
    step: scaledTimes(preset.step, factor),
    requestMs: Math.max(0, preset.requestMs + requestMs),
  };
}

export interface Adjustment {
  /** of all steps, so that E2E is what was measured */
  factor: number;
  /** ms, so that TTFT is */
  requestMs: number;
}

/** What one stage says of a server: two numbers, so that its mean E2E and TTFT come out. */
export function calibratedOn(run: MeasuredRun, preset: Preset, isWarm: boolean): Adjustment {
  const { e2e_mean: e2e, ttft_mean: ttft } = run.measured;
  const found: Adjustment = { factor: 1, requestMs: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    const { predicted } = replay(run, adjusted(preset, found), isWarm);
    if (ttft !== null) found.requestMs += ttft - predicted.ttft_mean;
    if (e2e !== null && ttft !== null)
      found.factor *= (e2e - ttft) / (predicted.e2e_mean - predicted.ttft_mean);
    else if (e2e !== null) found.factor *= e2e / predicted.e2e_mean;
    found.requestMs = Math.max(-preset.requestMs, found.requestMs);
  }
  return found;
}
