/** A plan as a person reads it, and as JSON. */

import { aligned, counted, number, percent } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { type Shared, sharedWords } from '../../engine/flow/sharing.ts';
import type { Diagnosis } from '../../engine/running/watch/diagnosis.ts';
import type { Preset } from '../simulator/presets.ts';
import type { Figures } from './plan-figures.ts';
import type { Series } from './series.ts';
import { limitsWords } from './server-words.ts';

export interface Plan {
  label: string;
  preset: Preset;
  seed: number;
  /** `seen`: those of the input that stand for all of it */
  items: { planned: number; input: number; seen: number };
  /** requests that nobody can foresee, by why */
  leftOut: readonly { why: string; count: number }[];
  /** that raw requests name */
  models: readonly string[];
  /** what the prompts have in common, and whether equal requests are asked once */
  shared: Shared;
  once: boolean;
  lengths: { prompts: string; answers: string };
  /** by the number of endpoints; the last is the one that was asked for */
  table: readonly Figures[];
  bottleneck: Diagnosis;
}

export function renderPlan(plan: Plan): string {
  const { label, preset, items, leftOut, models, shared, once, lengths, table, bottleneck } = plan;
  const wanted = table.at(-1) as Figures;
  const { name, file } = preset;
  const { tokens, calls } = wanted;
  const facts = [
    ['preset', `${name}: ${file.model} on ${file.gpu}; ${basisOf(preset)}`],
    ['server', limitsWords(preset)],
    ['items', itemWords(items)],
    ['calls', `${number(calls)}, tokens ${number(tokens.prompt)} in, ${number(tokens.completion)} out`],
    ['answers', lengths.answers],
    ['prompts', lengths.prompts],
  ];
  for (const [at, line] of sharedWords(shared, once).entries()) facts.push([at === 0 ? 'shared' : '', line]);
  for (const { why, count } of leftOut) facts.push(['left out', `${counted(count, 'request')} to ${why}`]);
  if (models.length > 1)
    facts.push([
      'models',
      `${models.length}; each server is taken to serve all of them, in the times of the preset`,
    ]);
  if (wanted.failed > 0) facts.push(['failed', counted(wanted.failed, 'item')]);
  return `${[
    ...aligned(facts, []).map(visible),
    '',
    ...aligned(
      [HEADER, ...table.map((figures, at) => figuresRow(figures, table[0] as Figures, errorOf(plan, at)))],
      [0, 1, 2, 3, 4, 5, 6, 7, 8],
    ),
    '',
    ...chartOf(wanted),
    '',
    `bottleneck  ${bottleneck.text}`,
    '',
    ...table.flatMap(doubtIn),
    `${visible(label)}: every figure above is simulated, and ${errorOf(plan, table.length - 1)} here: ${errorWords(preset)}`,
  ].join('\n')}\n`;
}

function itemWords({ planned, input, seen }: Plan['items']): string {
  if (seen < Math.min(planned, input))
    return `${number(planned)}, of which the first ${number(seen)} stand for all: more are not held in memory, and what the others begin with in common is not seen`;
  if (planned <= input) return number(planned);
  return `${number(planned)}; the input has ${number(input)}, repeated ${Math.ceil(planned / input)} times under new ids`;
}

/** Two runs that are further apart than this do not say how long another one takes. */
const IN_DOUBT = 0.1;

function doubtIn({ endpoints, spread, simulated, items }: Figures): string[] {
  if (spread <= IN_DOUBT) return [];
  const name = `${counted(endpoints, 'endpoint')}: nobody can say it closer than ±${percent(spread)}`;
  if (simulated === items)
    return [
      `${name}. With answers that come a little later the pool and the caches go another way, for what prompts have in common just fits into the KV cache, or just not`,
      '',
    ];
  return [
    `${name} from ${number(simulated)} of ${number(items)} items. How much of the prompts a cache has hangs on what stands between those that begin alike: with these next to each other in the input, a part tells of the whole`,
    '',
  ];
}

const HEADER = [
  'endpoints',
  'makespan',
  'calls/s',
  'tok/s in',
  'cached',
  'tok/s out',
  'GPU hours',
  'faster',
  'error',
];

function figuresRow(figures: Figures, one: Figures, error: string): string[] {
  const { endpoints, makespan, calls, tokens, gpuHours } = figures;
  return [
    String(endpoints),
    lasting(makespan),
    (calls / makespan).toFixed(1),
    number(Math.round(tokens.prompt / makespan)),
    percent(tokens.cached / tokens.prompt),
    number(Math.round(tokens.completion / makespan)),
    gpuHours.toFixed(2),
    `${(one.makespan / makespan).toFixed(2)}x`,
    error,
  ];
}

/** Near saturation the formula is further off: where the servers always compute and something is full. */
function errorOf({ preset, table }: Plan, at: number): string {
  const { steady, endpoints, spread } = table[at] as Figures;
  const { maxNumSeqs } = preset.limits;
  const isFull = steady.kv > 0.9 || steady.running / endpoints > 0.9 * maxNumSeqs;
  return `±${percent((isFull ? preset.error.nearSaturation : preset.error.midLoad) + spread)}`;
}

function errorWords({ error: { midLoad, nearSaturation } }: Preset): string {
  return `±${percent(midLoad)} at mid load, ±${percent(nearSaturation)} near saturation`;
}

function basisOf({ file: { calibrated, basis } }: Preset): string {
  if (calibrated) return `calibrated on ${calibrated.date} with ${calibrated.server}`;
  const [, word] = /^\[(\w+)\]/.exec(basis) ?? [];
  return word === undefined
    ? 'not calibrated'
    : `its constants are ${word}, and not calibrated on your server`;
}

const BARS = '▁▂▃▄▅▆▇█';
const WIDTH = 60;

function chartOf({ series, makespan, endpoints }: Figures): string[] {
  const row = (name: string, list: readonly number[], where: string) => {
    const most = Math.max(...list, 0);
    return [name, sparkline(list, most), `most ${number(Math.round(most))}${where}`];
  };
  const lines = [
    ['KV cache', sparkline(series.kv, 1), `most ${percent(Math.max(...series.kv, 0))}`],
    row('running', series.running, ` at ${endpoints}`),
    row('waiting', series.waiting, ', on the servers'),
    row('queued', series.queued, ', in the client'),
    row('tok/s out', series.outputTokensPerSecond, ''),
  ];
  return aligned([...lines, ['', `0 to ${lasting(makespan)}`, '']], []);
}

export function sparkline(list: readonly number[], most: number): string {
  const columns = Math.min(WIDTH, list.length);
  return Array.from({ length: columns }, (_, column) => {
    const from = Math.floor((column * list.length) / columns);
    const to = Math.max(from + 1, Math.floor(((column + 1) * list.length) / columns));
    const mean = list.slice(from, to).reduce((sum, value) => sum + value, 0) / (to - from);
    return BARS[Math.min(BARS.length - 1, Math.floor((mean / (most || 1)) * BARS.length))];
  }).join('');
}

/** `2 h 05 min`, `12 min 30 s`, `45 s` */
export function lasting(seconds: number): string {
  const [whole, minutes] = [Math.round(seconds), Math.round(seconds / 60)];
  const two = (value: number) => String(value).padStart(2, '0');
  if (whole >= 3600) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  return whole >= 60 ? `${Math.floor(whole / 60)} min ${two(whole % 60)} s` : `${whole} s`;
}

/** The plan as JSON; shares and seconds are cut to what the formula can mean. */
export function jsonOf(plan: Plan): object {
  const { preset, seed, items, leftOut, shared, lengths, table, bottleneck } = plan;
  const wanted = table.at(-1) as Figures;
  return {
    simulated: true,
    preset: preset.name,
    model: preset.file.model,
    gpu: preset.file.gpu,
    server: {
      max_num_seqs: preset.limits.maxNumSeqs,
      max_num_batched_tokens: preset.limits.maxNumBatchedTokens,
      kv_tokens: preset.limits.kvTokens,
    },
    error: { mid_load: preset.error.midLoad, near_saturation: preset.error.nearSaturation },
    seed,
    items,
    left_out: leftOut,
    shared,
    lengths,
    bottleneck,
    table: table.map((figures, at) => ({ ...figuresJson(figures), error: errorOf(plan, at) })),
    series: seriesJson(wanted.series),
  };
}

function figuresJson(figures: Figures) {
  const { endpoints, makespan, begun, items, failed, calls, retries, tokens, preemptions, gpuHours } =
    figures;
  const { prompt, cached, completion } = tokens;
  return {
    endpoints,
    makespan_s: rounded(makespan),
    tail_s: rounded(makespan - begun),
    gpu_hours: rounded(gpuHours),
    items,
    failed,
    calls,
    retries,
    calls_per_s: rounded(calls / makespan),
    tokens_in: prompt,
    tokens_out: completion,
    tokens_in_per_s: rounded(prompt / makespan),
    tokens_out_per_s: rounded(completion / makespan),
    cached_share: rounded(cached / prompt),
    preemptions,
    busy: rounded(figures.busy),
    in_flight: figures.inFlight,
    steady: allRounded(figures.steady),
    step: allRounded(figures.step),
    simulated_items: figures.simulated,
    spread: rounded(figures.spread),
  };
}

function seriesJson({ every, outputTokensPerSecond, ...lists }: Series) {
  const all = { ...lists, tokens_out_per_s: outputTokensPerSecond };
  return {
    every_s: every,
    ...Object.fromEntries(Object.entries(all).map(([name, list]) => [name, list.map(rounded)])),
  };
}

const allRounded = (values: { [name: string]: number }) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, rounded(value)]));

const rounded = (value: number): number => Number(value.toPrecision(6));
