/** What is known of a setting that was started, and the same in words. */
import type { Interval } from '../../kit/statistics.ts';
import type { Point } from './point.ts';
import { findsRate } from './rank.ts';
import type { Setting, Study } from './tune-file.ts';
import type { Failure } from './tuned-server.ts';

export interface Entry {
  setting: Setting;
  /** `broken`: it does not keep the bounds of the load, at no rate that was tried */
  state: 'measured' | 'behind' | 'broken' | 'failed';
  failure: Failure | null;
  blocks: Point[];
  /** of the goal, over blocks at full load */
  full: Interval | null;
  /** the rates that were tried, in their order */
  rates: { rate: number; kept: boolean; points: Point[] }[];
  /** the highest of them that was kept */
  rate: number | null;
  /** of the goal: at full load, or at that rate */
  value: number | null;
}

export const UNITS: { [goal in Study['goal']]: string } = {
  tokens: 'output tokens/s',
  requests: 'requests/s',
  goodput: 'good requests/s',
  cost: 'output tokens for a unit of money',
};

export function entryWords(study: Study, { state, failure, value, rate, rates, full }: Entry): string {
  if (failure !== null) return `${failure.kind}: ${failure.message}`;
  const unit = findsRate(study) ? 'requests/s' : UNITS[study.goal];
  const at = full === null ? '' : `${figureOf(full.value)} ${unit} at full load`;
  if (state === 'broken')
    return `${at}; the bounds are not kept${rates.length > 0 ? ` at ${rates.map(each => each.rate).join(', ')} requests/s` : ''}`;
  if (state === 'behind') return `${at}; not better than the best`;
  return rate === null
    ? at
    : `${at}; ${rate} requests/s within the bounds, ${figureOf(value)} ${UNITS[study.goal]}`;
}

export function figureOf(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  return Math.abs(value) >= 1000 ? String(Math.round(value)) : value.toPrecision(4);
}
