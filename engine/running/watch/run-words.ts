/** The facts of a run in words, shared by the bars and the lines: parts, the most telling first. */

import type { EndpointStats } from '../../asking/pool/pool-stats.ts';
import { counted, cut, number, percent, timeWords } from '../../core/item/wording.ts';
import { visible } from '../../core/json/visible.ts';
import type { Facts } from './run-facts.ts';
import { sumOf } from './servers.ts';

/** Share of the time from which on one thread finds answers later than they came. */
export const BUSY = 0.9;

/** Causes of failures that a bar has room for, and a line. */
const FEW_CAUSES = 3;
const MOST_CAUSES = 12;

/** The most important figure first; a bar may come before it. */
export function factsWords(facts: Facts, causes = FEW_CAUSES): string[] {
  const { done, total, share, inFlight, eta, late, failed, rates, retries, replayed } = facts;
  const parts: string[] = [];
  if (share !== null) parts.push(`${Math.floor(100 * share)} % of calls`);
  if (eta) parts.push(`ETA ${timeWords(Math.max(1_000, eta.left))} ± ${timeWords(eta.spread)}`);
  if (late !== null) parts.push(lateWords(late, facts.endpoints));
  if (total === null) parts.push(`${counted(done, 'item')} done`);
  const all = failed.reduce((sum, [, times]) => sum + times, 0);
  const codes = failed.map(([code, times]) => `${number(times)} ${visible(code)}`);
  if (all > 0) parts.push(`${number(all)} failed (${someOf(codes, causes)})`);
  if (total !== null) parts.push(`${number(done)} of ${counted(total, 'item')} done`);
  parts.push(`${number(inFlight)} in flight`);
  const busy = rates.busy / 1000;
  if (busy >= BUSY) parts.push(`this process is ${percent(busy, 1)} busy and holds it up`);
  parts.push(`${rateWords(rates.calls)} calls/s`);
  const cached = rates.cached > 0 ? ` (${percent(rates.cached, rates.prompt)} cached)` : '';
  parts.push(`tokens/s ${rateWords(rates.prompt)} in${cached}, ${rateWords(rates.completion)} out`);
  if (retries > 0) parts.push(counted(retries, 'retry', 'retries'));
  if (replayed) parts.push(`${number(replayed)} replayed`);
  return parts;
}

/** A last call may hang long behind all others, and nothing tells when it will be answered. */
function lateWords(calls: number, endpoints: readonly EndpointStats[]): string {
  const oldest = Math.max(0, ...endpoints.map(one => one.oldest ?? 0));
  const since = oldest > 0 ? `, the oldest asked ${timeWords(oldest)} ago` : '';
  return `waits for ${counted(calls, 'call')}${since}`;
}

/** `12/256 up`, and what its server says of its queue and its cache. */
export function endpointWords(endpoint: EndpointStats): string[] {
  const { state, cause, pausedFor, load, gpu } = endpoint;
  const rest = state === 'paused' ? ` ${timeWords(Math.max(1_000, pausedFor))}` : '';
  const parts = [`${placesWords([endpoint])} ${state}${rest}`];
  if (load && load.waiting > 0) parts.push(`${number(load.waiting)} waiting there`);
  if (load && load.kv > 0) parts.push(`KV ${percent(load.kv, 1)}`);
  if (gpu) parts.push(`GPU ${percent(gpu.use, 1)}`);
  if (state !== 'up' && cause !== '') parts.push(visible(cut(cause, LONGEST_CAUSE)));
  return parts;
}

const LONGEST_CAUSE = 80;

/** The same of many in one. */
export function summaryWords(endpoints: readonly EndpointStats[]): string[] {
  const loads = endpoints.flatMap(({ load }) => load ?? []);
  const waiting = loads.reduce((sum, load) => sum + load.waiting, 0);
  const parts = [placesWords(endpoints)];
  if (waiting > 0) parts.push(`${number(waiting)} waiting there`);
  const range = (name: string, shares: readonly number[]): void => {
    if (shares.length === 0) return;
    parts.push(`${name} ${percent(Math.min(...shares), 1)} to ${percent(Math.max(...shares), 1)}`);
  };
  range(
    'KV',
    loads.map(({ kv }) => kv).filter(kv => kv > 0),
  );
  range(
    'GPU',
    endpoints.flatMap(({ gpu }) => gpu?.use ?? []),
  );
  for (const state of ['up', 'paused', 'down', 'unusable'] as const) {
    const there = endpoints.filter(one => one.state === state);
    const [first] = there;
    if (first === undefined) continue;
    const why = state === 'up' ? '' : ` (${first.url}${there.length > 1 ? ', …' : ''})`;
    parts.push(`${there.length} ${state}${why}`);
  }
  return parts;
}

/** Endpoints beyond so many are summarised. */
export const MOST_ENDPOINTS = 8;

/** A plain line of all there is to say. */
export function factsLine(facts: Facts): string {
  const { endpoints } = facts;
  const there =
    endpoints.length > MOST_ENDPOINTS
      ? [`${counted(endpoints.length, 'endpoint')} ${summaryWords(endpoints).join(', ')}`]
      : endpoints.map(one => `${one.url} ${endpointWords(one).join(', ')}`);
  return [...factsWords(facts, MOST_CAUSES), ...there].join(' · ');
}

/** Calls in flight and places. */
function placesWords(endpoints: readonly EndpointStats[]): string {
  return `${number(sumOf(endpoints, one => one.inFlight))}/${number(sumOf(endpoints, one => one.limit))}`;
}

function rateWords(rate: number): string {
  return rate < 10 ? String(Number(rate.toFixed(1))) : number(Math.round(rate));
}

function someOf(parts: readonly string[], most: number): string {
  return [...parts.slice(0, most), ...(parts.length > most ? ['…'] : [])].join(', ');
}
