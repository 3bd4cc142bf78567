/** The comparison as text, for a person at a terminal. */
import { aligned, counted, cut, number } from '../../../engine/core/item/wording.ts';
import { visible } from '../../../engine/core/json/visible.ts';
import type { Compared, Difference } from './compare-benches.ts';

const WORDS: Readonly<Record<string, string>> = {
  request_throughput: 'requests/s',
  output_throughput: 'tokens/s out',
  mean_ttft_ms: 'mean TTFT ms',
  p99_ttft_ms: 'p99 TTFT ms',
  mean_tpot_ms: 'mean TPOT ms',
  mean_itl_ms: 'mean ITL ms',
  mean_e2el_ms: 'mean E2EL ms',
  p99_e2el_ms: 'p99 E2EL ms',
};

const OF = {
  runs: 'means of runs',
  windows: 'windows of a run',
  intervals: 'intervals of the percentile',
} as const;

/** `a` and `b` are the names of the two. */
export function comparePage({ comparisons, onlyA, onlyB }: Compared, a: string, b: string): string {
  const [nameA, nameB] = [a, b].map(name => visible(cut(name, 100)));
  const lines = [`A ${nameA}`, `B ${nameB}`];
  for (const { load, servers, differences, notes } of comparisons) {
    lines.push('', `${load} on ${counted(servers, 'server')}`);
    const head = ['', 'A', 'B', 'B against A', '95 %', '', 'by'];
    const rows = differences.map(each => [
      `  ${WORDS[each.key] ?? each.key}`,
      figure(each.a),
      figure(each.b),
      each.change === null ? '–' : percent(each.change),
      each.interval === null ? '–' : `${percent(each.interval[0])} to ${percent(each.interval[1])}`,
      verdictOf(each),
      each.of === null ? '' : OF[each.of],
    ]);
    lines.push(...aligned([head, ...rows], [1, 2, 3, 4]));
    for (const note of notes) lines.push(`  note: ${visible(cut(note, 300))}`);
  }
  for (const [name, only] of [
    ['A', onlyA],
    ['B', onlyB],
  ] as const)
    if (only.length > 0) lines.push('', `in ${name} alone: ${only.join('; ')}`);
  return `${lines.join('\n')}\n`;
}

function verdictOf({ verdict, of, why }: Difference): string {
  if (why !== null) return `${verdict}: ${why}`;
  return verdict === 'no difference' && of === 'intervals' ? 'no difference shown' : verdict;
}

function figure(value: number | null): string {
  if (value === null) return '–';
  return value >= 1000 ? number(Math.round(value)) : value.toFixed(2);
}

function percent(share: number): string {
  const text = (100 * share).toFixed(1);
  return `${Number(text) > 0 ? '+' : ''}${Number(text) === 0 ? '0.0' : text.replace('-', '\u2212')} %`;
}
