/** fw plan --compare as a table, and as JSON. */
import { aligned, number, percent, timeWords } from '../../../engine/core/item/wording.ts';
import { durationOf } from '../../../engine/flow/options.ts';
import { draftsWords, serverJson } from '../server-words.ts';
import type { Choice, Compared, Comparing } from './compare-cards.ts';
import { lengthsOf } from './load-plan.ts';

/** s; a short one with its tenths, as a job of a few prompts is no longer */
export const lasting = (seconds: number): string =>
  seconds < 10 ? `${Math.max(0.1, seconds).toFixed(1)} s` : timeWords(1000 * seconds);

export function renderCompared({ choices, not }: Compared, { items, given, within }: Comparing): string {
  const { input, output } = lengthsOf(given);
  const task =
    items === undefined
      ? `${given.rate} requests/s within ${given.goodput?.join(',')}`
      : `${number(items)} prompts`;
  const rows = choices.map(
    ({ card, tp, servers, rate, concurrency, figures, time, gpuHours, cost, isBest, preset }) => {
      const off = items === undefined ? preset.error.midLoad : preset.error.nearSaturation;
      return [
        isBest ? '*' : '',
        card,
        String(tp),
        String(servers * tp),
        String(servers),
        rate.toFixed(2),
        number(Math.round(rate * output)),
        concurrency === null ? '–' : String(concurrency),
        figures.ttft.p50.toFixed(0),
        figures.tpot.p50.toFixed(1),
        time === null ? '–' : lasting(time),
        time === null ? '–' : `${lasting(time / (1 + off))} to ${lasting(time / (1 - off))}`,
        gpuHours.toFixed(1),
        cost === null ? '–' : cost.toFixed(2),
      ];
    },
  );
  const head = [
    '',
    'card',
    'tp',
    'cards',
    'servers',
    'req/s each',
    'tok/s out',
    'in flight',
    'TTFT P50',
    'TPOT P50',
    'time',
    'with its error',
    'GPU hours',
    items === undefined ? 'cost/h' : 'cost',
  ];
  const why = not.map(one => `${one.card} with --tp ${one.tp}: ${one.why}`);
  const late = within === undefined ? [] : choices.flatMap(choice => lateWords(choice, within));
  const asked = `${task} of ${number(input)} tokens in and ${number(output)} out, ${given['model-config']}; nothing was measured`;
  const drafts = draftsWords(choices[0]?.preset);
  if (choices.length === 0) return `${[asked, '', 'none of these cards can do it:', ...why].join('\n')}\n`;
  return `${[
    asked,
    ...(drafts ? [drafts] : []),
    '',
    ...aligned([head, ...rows], [2, 3, 4, 5, 6, 7, 8, 9, 12, 13]),
    '',
    `* nothing else ${items === undefined ? 'has fewer cards and is cheaper' : 'is both quicker and cheaper'}`,
    ...late,
    ...why,
  ].join('\n')}\n`;
}

/** Nothing where it is done in time even if all takes longer by the error of the preset. */
function lateWords({ card, tp, time, preset }: Choice, within: string): string[] {
  const [took, bound, off] = [time ?? 0, durationOf(within, '--within') / 1000, preset.error.nearSaturation];
  if (took > bound) return [`${card} with --tp ${tp} is later than ${within}`];
  if (took / (1 - off) <= bound) return [];
  return [`${card} with --tp ${tp} may be later than ${within} within its error of ±${percent(off)}`];
}

export function comparedJson({ choices, not }: Compared) {
  return {
    choices: choices.map(
      ({ card, tp, servers, rate, concurrency, time, gpuHours, cost, isBest, preset, figures }) => ({
        ...{ card, tp, cards: servers * tp, servers, requests_per_second: rate, concurrency },
        ...{
          time_s: time,
          gpu_hours: gpuHours,
          cost,
          best: isBest,
          error: preset.error,
          server: serverJson(preset),
        },
        ...{ ttft_ms: figures.ttft, tpot_ms: figures.tpot, e2el_ms: figures.e2el },
      }),
    ),
    not,
  };
}
