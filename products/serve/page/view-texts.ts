/** What the page says, as texts: the same for the HTML and for the updates that follow it. */

import { type EndpointStats, isThere, type PoolStats } from '../../../engine/asking/pool/pool-stats.ts';
import { counted, cut, number, percent, timeWords } from '../../../engine/core/item/wording.ts';
import { OTHER } from '../batches/batch-output.ts';
import { type BatchRecord, type FailureGroup, isFinal, type Status } from '../batches/batch-state.ts';
import type { Forecast } from '../batches/forecasts.ts';

/** A row of a list that is updated in place has a key of its own. */
export const BLANK_EXAMPLE = { key: '', id: '', message: '' };
export const BLANK_FAILURE = {
  ...{ key: '', code: '', count: '' },
  /** where its lines are; empty where they are in no file */
  href: '',
  examples: [] as (typeof BLANK_EXAMPLE)[],
};
export type FailureView = typeof BLANK_FAILURE;

export const BLANK_BATCH = {
  ...{ key: '', href: '', name: '', owner: '', status: 'validating' as Status, state: '' },
  /** why it is not asked now */
  why: '',
  percent: '',
  /** widths of 100, and where the second begins */
  ...{ good: 0, bad: 0 },
  ...{ completed: '', failed: '', total: '', rate: '', left: '', age: '' },
  /** whether its window can be kept, and `late` where it cannot */
  ...{ forecast: '', isLate: '' },
  /** where to send what cancels it, and where its files are; empty where there is none */
  ...{ cancel: '', output: '', errors: '' },
  /** `some`, or empty */
  hasFailures: '',
  failures: [] as FailureView[],
};
export type BatchView = typeof BLANK_BATCH;

export interface Seen {
  /** lines a second; null where it is not known */
  rate: number | null;
  why: string | null;
  /** null once it is ending */
  forecast: Forecast | null;
  /** ids of its files that are still there */
  output: string | null;
  error: string | null;
  /** ms since 1970 */
  now: number;
}

const CANCELLABLE: readonly Status[] = ['validating', 'in_progress'];
/** characters of a name */
const LONGEST = 100;

export function batchView(record: BatchRecord, seen: Seen): BatchView {
  const { rate, why, forecast, output, error, now } = seen;
  const { id, owner, status, created_at, counts } = record;
  const { total, completed, failed } = counts;
  const done = completed + failed;
  const isOver = isFinal(status);
  const href = `/ui/batches/${id}`;
  return {
    ...{
      key: id,
      href,
      owner,
      status,
      name: nameOf(record),
      state: isOver ? endWords(record) : status.replace('_', ' '),
    },
    why: cut(why ?? invalidWords(record), 300),
    percent: total === 0 ? '' : percent(Math.floor((1000 * done) / total) / 1000),
    good: total === 0 ? 0 : (100 * completed) / total,
    bad: total === 0 ? 0 : (100 * failed) / total,
    ...{ completed: number(completed), failed: number(failed), total: total === 0 ? '' : number(total) },
    rate: rate === null || isOver ? '' : `${rateWords(rate)} /s`,
    left: isOver ? '' : leftWords(total - done, seen),
    forecast: forecast?.words ?? '',
    isLate: forecast?.verdict === 'late' ? 'late' : '',
    age: timeWords(Math.max(0, now - created_at * 1000)),
    cancel: CANCELLABLE.includes(status) && record.outputs === null ? `${href}/cancel` : '',
    output: output === null ? '' : `${href}/output`,
    errors: error === null ? '' : `${href}/errors`,
    hasFailures: record.failures.length > 0 ? 'some' : '',
    failures: [...record.failures]
      .sort((one, other) => other.count - one.count)
      .map(group => failureView(group, href)),
  };
}

/** By the forecast, which knows what else there is to do; else by its own rate. */
function leftWords(lines: number, { rate, forecast, now }: Seen): string {
  if (forecast?.end != null) return timeWords(Math.max(0, forecast.end * 1000 - now));
  return rate === null || rate === 0 ? '' : timeWords((1000 * lines) / rate);
}

/** `completed in 12 min` */
function endWords({ status, created_at, times }: BatchRecord): string {
  const took = timeWords((Math.max(created_at, ...Object.values(times)) - created_at) * 1000);
  return `${status} ${status === 'completed' ? 'in' : 'after'} ${took}`;
}

/** Why it was not taken, in the words of the first error. */
function invalidWords({ errors }: BatchRecord): string {
  const [first] = errors;
  if (first === undefined) return '';
  const more = errors.length > 1 ? ` (and ${number(errors.length - 1)} more)` : '';
  return `${first.line === null ? '' : `line ${number(first.line)}: `}${first.message}${more}`;
}

/** Most users put a name into the metadata. */
export function nameOf({ id, metadata }: BatchRecord): string {
  return cut(metadata?.name || metadata?.title || metadata?.description || id, LONGEST);
}

function failureView({ code, count, examples }: FailureGroup, batch: string): FailureView {
  // what came after the first thirty codes was counted together
  const only = code === OTHER ? '' : `&code=${encodeURIComponent(code)}`;
  return {
    ...{ key: code, code, count: number(count), href: `${batch}/results?of=errors${only}` },
    examples: examples.map(({ custom_id, message }, at) => ({ key: String(at), id: custom_id, message })),
  };
}

export const rateWords = (rate: number): string => (rate < 10 ? rate.toFixed(1) : number(Math.round(rate)));

export const BLANK_ENDPOINT = {
  ...{ key: '', url: '', status: '', state: '', models: '', flight: '', waiting: '', kv: '', gpu: '' },
  ...{ answers: '', failed: '' },
};
export type EndpointView = typeof BLANK_ENDPOINT;

export function endpointView(endpoint: EndpointStats): EndpointView {
  const { url, state, cause, models, inFlight, limit, share, load, gpu, answered, failed } = endpoint;
  return {
    ...{ key: url, url: shownUrl(url), status: state },
    state: stateWords(state, cause),
    models: models.slice(0, 4).join(', ') + (models.length > 4 ? ` and ${models.length - 4} more` : ''),
    flight: `${number(inFlight)} of ${number(limit)}${shareWords(share)}`,
    waiting: load === null ? '' : number(load.waiting),
    kv: load === null ? '' : percent(load.kv),
    gpu: gpu === null ? '' : percent(gpu.use),
    answers: number(answered),
    failed: number(Object.values(failed).reduce((sum, count) => sum + count, 0)),
  };
}

/** Why batches do not have all places. */
function shareWords(share: EndpointStats['share']): string {
  if (share === undefined || share.places === null) return '';
  const why = share.aim === null ? '' : ` in ${number(Math.round(share.aim))} ms`;
  return `; batches have ${number(share.places)}: live calls want their first token${why}`;
}

/** Why it is so, unless the cause says the state itself. */
export function stateWords(state: string, cause: string): string {
  if (state === 'up' || cause === '') return state;
  return cause.startsWith(state) ? cut(cause, 200) : `${state}: ${cut(cause, 200)}`;
}

/** A user and a password in it are nobody's to see. */
function shownUrl(url: string): string {
  const { username, password } = new URL(url);
  return username || password ? url.replace(/\/\/[^@/]*@/, '//') : url;
}

/** One line on how it goes, for who may not see each endpoint. */
export function poolWords({ endpoints, inFlight, waiting }: PoolStats): string {
  const up = endpoints.filter(isThere).length;
  const limit = endpoints.reduce((sum, one) => sum + (isThere(one) ? one.limit : 0), 0);
  return (
    `${up} of ${counted(endpoints.length, 'endpoint')} up, ${number(inFlight)} of ${number(limit)} places in use, ` +
    `${counted(waiting, 'call waits', 'calls wait')}`
  );
}

/** What a key has asked the gateway since the start. */
export interface KeyTraffic {
  owner: string;
  /** id of the key; null without keys */
  key: string | null;
  requests: number;
  /** answered with a status of 400 or more */
  refused: number;
  /** ms since 1970 */
  last: number;
}

export const BLANK_KEY = { key: '', owner: '', id: '', requests: '', refused: '', tokens: '', last: '' };

/** `tokens` were used today. */
export function keyView(
  { owner, key, requests, refused, last }: KeyTraffic,
  tokens: number,
  now: number,
): typeof BLANK_KEY {
  return {
    ...{
      key: key ?? 'local',
      owner,
      id: key ?? 'no key',
      requests: number(requests),
      refused: number(refused),
    },
    ...{ tokens: number(tokens), last: `${timeWords(Math.max(0, now - last))} ago` },
  };
}

/** Unix seconds as `2026-11-23 03:12:34`, in UTC. */
export const timeOf = (seconds: number): string =>
  new Date(seconds * 1000).toISOString().slice(0, 19).replace('T', ' ');
