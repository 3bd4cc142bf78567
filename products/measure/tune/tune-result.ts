/**
 * What a study found, as tune.json has it: every figure with its unit, what it was measured with, how often, how sure it
 * is, whether the client was its limit, and by which server.
 */
import { createHash } from 'node:crypto';
import type { Interval } from '../../kit/statistics.ts';
import type { Confirmation } from './confirm.ts';
import { type Entry, figureOf, type LoadView, meanOf, meanView, type Point, UNITS } from './point.ts';
import type { Outcome } from './tune.ts';
import { commandOf, isSame, type Setting, type Study, settingWords } from './tune-file.ts';
import type { PointLine, Record, StartLine } from './tune-record.ts';

export type TuneResult = ReturnType<typeof resultOf>;
type Verdict = Confirmation['verdict'] | 'present is best' | 'nothing measured';

export interface Telling {
  study: Study;
  key: string;
  record: Record;
  outcome: Outcome;
  fw: string;
  preset: string | null;
}

export function resultOf({ study, key, record, outcome, fw, preset }: Telling) {
  const { best, present, confirmation, entries, ranked, scale, memory } = outcome;
  const { serve, endpoint, space, load, slo, goal, price, gpus, seed } = study;
  const started = record.lines.filter((line): line is StartLine => line.kind === 'start');
  const points = record.lines.filter((line): line is PointLine => line.kind === 'point');
  const asked = started.at(-1)?.asked;
  const [sample] = (best ?? present).blocks;
  const verdict = verdictOf(outcome);
  const isBetter = best !== null && (verdict === 'better' || verdict === 'present fails');
  return {
    tune: 1 as const,
    fw,
    date: new Date().toISOString(),
    study: {
      serve,
      endpoint,
      space,
      present: study.present,
      load,
      slo,
      goal,
      price,
      gpus,
      seed,
      block_s: study.blockMs / 1000,
      unit: UNITS[goal],
      key,
    },
    workload:
      asked === undefined
        ? null
        : {
            ...asked,
            body_sha256: createHash('sha256').update(asked.body).digest('hex'),
            input_tokens: sample?.input_tokens ?? { mean: null, std: null },
            output_tokens: sample?.output_tokens ?? { mean: null, std: null },
            cached_share: sample?.cached_share ?? null,
          },
    server: {
      versions: [...new Set(started.map(({ version }) => version))],
      settings: started.at(-1)?.settings ?? {},
      proofs: [...new Set(started.map(({ proof }) => proof.replace(/ and process_start.*$/, '')))],
    },
    starts: {
      memory: record.starts('memory'),
      race: record.starts('race'),
      confirm: record.starts('confirm'),
    },
    ranking: { preset, scale, settings: ranked },
    memory,
    settings: entries.map(entry => ({
      ...entry,
      command: commandOf(study, entry.setting),
      requests: entry.blocks
        .concat(entry.rates.flatMap(each => each.points))
        .reduce((sum, { completed }) => sum + completed, 0),
      server: viewOver(entry.blocks),
    })),
    confirmation: confirmation && { ...confirmation, runs: confirmation.best.length },
    verdict,
    recommended: isBetter ? { setting: best.setting, command: commandOf(study, best.setting) } : null,
    words: wordsOf(study, outcome, verdict),
    why: best === null ? [] : whyOf(best, present),
    client: {
      points: points.length,
      limited: points.filter(({ point }) => point.client.verdict !== 'ok').length,
      limits: kindsOf(points.flatMap(({ point }) => point.client.limits)),
    },
    formulas: FORMULAS,
  };
}

/** One of each kind: they differ in their figures. */
function kindsOf(limits: readonly string[]): string[] {
  const kinds = new Map(limits.map(limit => [limit.replaceAll(/[\d.]+/g, ''), limit]));
  return [...kinds.values()];
}

const FORMULAS: { readonly [word: string]: string } = {
  block:
    'a part of a closed loop that keeps more requests under way than the server runs at once; an answer counts in it by the share of its tokens that came in it; the beginning of the load is left out',
  full: 'mean over blocks, with its 95 % interval (t)',
  rate: 'requests at a rate, Poisson arrivals, the same times for all settings; latencies are from when a request was due',
  kept: 'of all requests, those that failed among them, at least the share of the percentile is within the bound; where the bound lies within the 95 % interval of the percentile, a second run is added',
  gain: '(best - present) / present, mean over runs that were started in turn, with the 95 % interval (t) of the paired differences; of two rates it is at least as wide as the 2 % between two that are tried',
};

function verdictOf({ best, present, confirmation }: Outcome): Verdict {
  if (best === null) return 'nothing measured';
  if (best === present) return 'present is best';
  return confirmation?.verdict ?? 'no difference';
}

export const percentOf = (share: number): string =>
  `${share > 0 ? '+' : ''}${(100 * share).toFixed(1)} %`.replace('-', '−');

export const gainWords = ({ value, low, high }: Interval): string =>
  `${percentOf(value)} (95 % interval ${percentOf(low)} to ${percentOf(high)})`;

function wordsOf(study: Study, { best, present, confirmation }: Outcome, verdict: Verdict): string {
  const unit = UNITS[study.goal];
  const of = (values: readonly number[]): string => figureOf(meanOf(values));
  if (best === null) return 'No setting could be measured, or none keeps the bounds: nothing is recommended.';
  if (best === present || confirmation === null)
    return `No setting is better than the present one (${settingWords(present.setting)}): nothing is recommended.`;
  const { gain, rate, present_rate: other, present_kept: kept } = confirmation;
  // of requests within bounds the value is the rate itself
  const isRate = rate !== null && (study.goal === 'requests' || study.goal === 'goodput');
  const at = (value: number | null): string => (value === null || isRate ? '' : ` at ${value} requests/s`);
  const ours = `${of(confirmation.best)} ${unit}${isRate ? ' within the bounds' : at(rate)}`;
  const theirs =
    confirmation.present.length === 0 ? '' : `, the present setting ${of(confirmation.present)}${at(other)}`;
  const sides = `${ours}${theirs}`;
  switch (verdict) {
    case 'better':
      return `${settingWords(best.setting)}: ${sides}${gain === null ? '' : `; gain ${gainWords(gain)}`}${kept || rate !== null ? '' : '; the present setting does not keep the bounds'}.`;
    case 'present fails':
      return `${settingWords(best.setting)}: ${sides}; the present setting ${present.failure === null ? 'keeps the bounds nowhere' : `fails (${present.failure.kind})`}.`;
    default:
      return `${confirmation.best_kept ? 'No difference' : 'Not confirmed, for the bounds were not kept'}: ${settingWords(best.setting)} made ${sides}${gain === null ? '' : `; gain ${gainWords(gain)}`}. Nothing is recommended.`;
  }
}

/** Means of what the server said over blocks at full load; peaks are the highest. */
function viewOver(points: readonly Point[]): LoadView | null {
  const views = points.flatMap(({ server }) => server ?? []);
  return views.length === 0
    ? null
    : meanView(
        views,
        views.reduce((sum, { preemptions }) => sum + preemptions, 0),
      );
}

/** What the server said at full load, of both settings: batch, queue, KV cache, preemptions. */
function whyOf(best: Entry, present: Entry): string[] {
  const viewWords = (entry: Entry): string[] => {
    const view = viewOver(entry.blocks);
    const name = entry === present ? 'present' : settingWords(entry.setting);
    if (view === null) return [`${name}: the server does not tell its load`];
    const { running, waiting, kv_max: kv, preemptions } = view;
    return [
      `${name}: ${running.toFixed(0)} ran and ${waiting.toFixed(0)} waited at full load; the KV cache was ${Math.round(100 * kv)} % full at most; ${preemptions} preemptions`,
    ];
  };
  const reasons = isSame(best.setting, present.setting)
    ? viewWords(present)
    : [...viewWords(present), ...viewWords(best)];
  const [then, now] = [viewOver(present.blocks), viewOver(best.blocks)];
  if (then === null || now === null || best === present) return reasons;
  if (now.running > 1.1 * then.running && then.kv_max < 0.9)
    reasons.push(
      'the present batch is smaller than memory allows: requests wait while the KV cache has room',
    );
  if (then.preemptions > 0 && now.preemptions < then.preemptions)
    reasons.push(
      'the present setting preempts: the KV cache is too small for its batch, and prompts are computed twice',
    );
  if (now.running < 0.9 * then.running)
    reasons.push('a smaller batch answers each request sooner: tokens of all others delay it less');
  return reasons;
}

/** The lines of vLLM's auto_tune.sh, so that what reads its result.txt reads this one. */
export function autoTuneLines(result: TuneResult): string {
  const { study, settings, recommended, server, confirmation } = result;
  const flag = (setting: Setting, name: string): string => String(setting[name] ?? 'unset');
  const ms = (value: number | null | undefined): string => (value == null ? '0' : value.toFixed(2));
  const lines = [`hash:${server.versions.join(',') || 'unknown'}`];
  for (const { setting, rate, rates, blocks, failure } of settings) {
    const at = rates.find(each => each.rate === rate)?.points ?? blocks;
    const [point] = at;
    const names = `max_num_seqs: ${flag(setting, 'max_num_seqs')}, max_num_batched_tokens: ${flag(setting, 'max_num_batched_tokens')}`;
    if (point === undefined || failure !== null) {
      lines.push(`${names} does not meet latency requirement ${bound(study)}`);
      continue;
    }
    const throughput = meanOf(at.map(({ requests_per_s }) => requests_per_s));
    const good = meanOf(at.map(({ good_per_s, requests_per_s }) => good_per_s ?? requests_per_s));
    lines.push(
      `${names}, request_rate: ${rate ?? 'inf'}, e2el: ${ms(point.e2el_ms.p99)}, throughput: ${throughput.toFixed(2)}, goodput: ${good.toFixed(2)}`,
    );
  }
  const use = recommended?.setting ?? study.present;
  const points = recommended === null ? confirmation?.points.present : confirmation?.points.best;
  const of = points ?? settings.find(({ setting }) => isSame(setting, use))?.blocks ?? [];
  const most = of.length === 0 ? 0 : meanOf(of.map(({ requests_per_s }) => requests_per_s));
  lines.push(
    `best_max_num_seqs: ${flag(use, 'max_num_seqs')}, best_num_batched_tokens: ${flag(use, 'max_num_batched_tokens')}, best_throughput: ${most.toFixed(2)}`,
  );
  return `${lines.join('\n')}\n`;
}

const bound = ({ slo }: Pick<Study, 'slo'>): string =>
  String(slo.find(({ metric }) => metric === 'e2el')?.ms ?? 0);
