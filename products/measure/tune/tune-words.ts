/** A study on a terminal: what was foretold, what was measured, what to do. */
import { aligned, counted, number } from '../../../engine/core/item/wording.ts';
import { figureOf } from './point.ts';
import { findsRate, type Ranked } from './rank.ts';
import type { Study } from './tune-file.ts';
import type { TuneResult } from './tune-result.ts';

const share = (value: number): string => `${Math.round(100 * value)} %`;

/** The space in virtual time, best first. */
export function rankingTable(study: Study, ranked: readonly Ranked[]): string {
  const names = Object.keys(ranked[0]?.setting ?? {});
  const isRate = findsRate(study);
  const head = [
    ...names,
    'requests/s at full load',
    ...(isRate ? ['within the bounds'] : []),
    'KV',
    'preempted',
    '',
  ];
  const rows = ranked.map(({ setting, capacity, rate, kv_max: kv, preemptions, refused }) => [
    ...names.map(name => String(setting[name])),
    figureOf(capacity),
    ...(isRate ? [rate === null ? 'at no rate' : figureOf(rate)] : []),
    share(kv),
    number(preemptions),
    refused === null ? '' : `does not start: ${refused}`,
  ]);
  return `${aligned([head, ...rows], head.map((_, at) => at).slice(0, -1)).join('\n')}\n`;
}

/** What was started, in the order of the race. */
export function settingTable({ study, settings }: TuneResult): string {
  const names = Object.keys(settings[0]?.setting ?? {});
  const isRate = findsRate(study);
  const head = [
    ...names,
    isRate ? 'requests/s at full load' : `${study.unit} at full load`,
    ...(isRate ? ['requests/s within the bounds'] : []),
    'E2EL p99 ms',
    'ran',
    'waited',
    'KV',
    'preempted',
    'requests',
    '',
  ];
  const rows = settings.map(entry => {
    const { full, rate, rates, blocks, server, state, failure } = entry;
    const at = isRate ? (rates.find(each => each.rate === rate)?.points ?? []) : blocks;
    const p99 = at[0]?.e2el_ms.p99 ?? null;
    return [
      ...names.map(name => String(entry.setting[name])),
      full === null ? '–' : `${figureOf(full.value)} (${figureOf(full.low)}–${figureOf(full.high)})`,
      ...(isRate ? [rate === null ? '–' : figureOf(rate)] : []),
      figureOf(p99),
      server === null ? '–' : server.running.toFixed(0),
      server === null ? '–' : server.waiting.toFixed(0),
      server === null ? '–' : share(server.kv_max),
      server === null ? '–' : number(server.preemptions),
      number(entry.requests),
      failure === null ? (state === 'measured' ? '' : STATES[state]) : `${failure.kind}: ${failure.message}`,
    ];
  });
  return `${aligned([head, ...rows], head.map((_, at) => at).slice(0, -1)).join('\n')}\n`;
}

export const STATES = {
  measured: 'measured',
  behind: 'not better than the best, stopped early',
  broken: 'does not keep the bounds',
  failed: 'failed',
} as const;

export function summary(result: TuneResult): string {
  const { words, why, recommended, starts, client, workload } = result;
  const lines = [
    words,
    ...why.map(reason => `  ${reason}`),
    `starts: ${starts.race} in the race, ${starts.memory} for memory, ${starts.confirm} to confirm`,
  ];
  if (workload !== null)
    lines.push(`asked: ${workload.source}; model ${workload.model}; seed ${result.study.seed}`);
  if (client.limited > 0)
    lines.push(
      `client-limited in ${client.limited} of ${counted(client.points, 'measurement')}, such as: ${client.limits[0] ?? ''}`,
    );
  if (recommended !== null) lines.push('', 'use:', recommended.command);
  return `${lines.join('\n')}\n`;
}
