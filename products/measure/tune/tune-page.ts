/** A study as one page: HTML and SVG alone, no script, nothing from the network. What to do comes first, then why to believe it. */
import { counted } from '../../../engine/core/item/wording.ts';
import { type Cell, count, decimal, esc, page, percent, table, tile } from '../../kit/html.ts';
import { figureOf } from './point.ts';
import { findsRate } from './rank.ts';
import { charts } from './tune-charts.ts';
import { namesOf, settingWords, valuesOf } from './tune-file.ts';
import { gainWords, percentOf, type TuneResult } from './tune-result.ts';
import { STATES } from './tune-words.ts';

/** With a line break at its end. */
export function tunePage(result: TuneResult): string {
  const { study, words, why, workload } = result;
  const title = `Settings of ${workload?.model ?? study.endpoint}`;
  return page({
    title: esc(title),
    header: `<h1>${esc(title)}</h1>
<p class="dim">${esc(workload?.source ?? 'nothing was asked')}; ${esc(result.date)}; fw ${esc(result.fw)}</p>
<p><b>${pieces(words)}</b></p>
${tiles(result)}`,
    main: `${recommended(result)}
<ul class="notes">${why.map(reason => `<li>${pieces(reason)}</li>`).join('')}</ul>
${settings(result)}
${charts(result)}
${confirmation(result)}
${failures(result)}
${ranking(result)}
${conditions(result)}`,
  });
}

/** Longer texts than `esc` shows, up to some kilobytes. */
export function pieces(text: string): string {
  const whole = text.slice(0, 4_000);
  const parts: string[] = [];
  for (let at = 0; at < whole.length; at += 100) parts.push(esc(whole.slice(at, at + 100)));
  return parts.join('') + (text.length > whole.length ? '…' : '');
}

const VERDICTS: { [verdict in TuneResult['verdict']]: string } = {
  better: 'Change it',
  'present fails': 'Change it',
  'no difference': 'No difference',
  'present is best': 'Leave it',
  worse: 'Leave it',
  'nothing measured': 'No answer',
};

function tiles({ verdict, confirmation: confirmed, starts, client, study }: TuneResult): string {
  const gain = confirmed?.gain ?? null;
  return `<div class="tiles">${[
    tile(
      'Verdict',
      VERDICTS[verdict],
      esc(study.slo.map(({ name, ms }) => `${name} at most ${ms} ms`).join(', ') || 'no bounds'),
    ),
    tile(
      `Gain, ${esc(study.unit)}`,
      gain === null ? '–' : esc(percentOf(gain.value)),
      gain === null
        ? 'nothing to compare'
        : `95 % interval ${esc(percentOf(gain.low))} to ${esc(percentOf(gain.high))}; ${confirmed?.runs ?? 0} starts each`,
    ),
    tile(
      'Starts',
      count(starts.race + starts.memory + starts.confirm),
      `${starts.race} in the race, ${starts.memory} for memory, ${starts.confirm} to confirm`,
    ),
    tile(
      'Client',
      client.limited === 0 ? 'not the limit' : `limit in ${count(client.limited)}`,
      `of ${counted(client.points, 'measurement')}`,
    ),
  ].join('\n')}</div>`;
}

function recommended({ recommended: use }: TuneResult): string {
  return use === null ? '' : `<h2>Use</h2>\n<p><code>${pieces(use.command)}</code></p>`;
}

function settings(result: TuneResult): string {
  const { study, settings: all } = result;
  const isRate = findsRate(study);
  const head = [
    esc(namesOf(study.present)),
    'outcome',
    `${isRate ? 'requests/s' : esc(study.unit)} at full load (95 % interval)`,
    'blocks',
    ...(isRate ? ['requests/s within the bounds'] : []),
    'TTFT p99 ms',
    'TPOT p99 ms',
    'E2EL p99 ms',
    'requests',
    'ran',
    'waited',
    'KV at most',
    'preempted',
  ];
  const rows = all.map(({ setting, state, failure, full, blocks, rate, rates, requests, server }): Cell[] => {
    const [point] = isRate ? (rates.find(each => each.rate === rate)?.points ?? []) : blocks;
    return [
      esc(valuesOf(setting)),
      esc(failure?.kind ?? STATES[state]),
      full === null ? '–' : `${figureOf(full.value)} (${figureOf(full.low)}–${figureOf(full.high)})`,
      count(blocks.length),
      ...(isRate ? [figureOf(rate)] : []),
      decimal(point?.ttft_ms.p99, 0),
      decimal(point?.tpot_ms.p99, 1),
      decimal(point?.e2el_ms.p99, 0),
      count(requests),
      decimal(server?.running, 0),
      decimal(server?.waiting, 0),
      percent(server?.kv_max, 0),
      server === null ? '–' : count(server.preemptions),
    ];
  });
  return `<h2>What was started</h2>
${table(head, rows)}
<p class="dim">Latencies ${isRate ? 'are at the highest rate that keeps the bounds, from when a request was due' : 'are of the load as it is'}; batch, queue and KV cache are what the server said at full load.</p>`;
}

function confirmation({ confirmation: confirmed, study }: TuneResult): string {
  if (confirmed === null) return '';
  const { best, present, gain, rate, present_rate: other, best_kept: kept, present_kept: theirs } = confirmed;
  const rows = best.map((value, run) => [String(run + 1), figureOf(value), figureOf(present[run])]);
  return `<h2>Confirmed in turn</h2>
${table(['start', `best, ${esc(study.unit)}${rate === null ? '' : ` at ${rate} requests/s`}`, `present${other === null ? '' : ` at ${other} requests/s`}`], rows)}
<p>${gain === null ? 'There is nothing to compare.' : `Gain ${esc(gainWords(gain))}.`} ${
    study.slo.length === 0
      ? ''
      : `The best setting ${kept ? 'keeps' : 'does not keep'} the bounds${rate === null ? '' : ' at its rate'}, the present one ${theirs ? 'does' : 'does not'}${rate === null ? '' : ' there'}.`
  }</p>`;
}

function failures({ settings: all, memory }: TuneResult): string {
  const failed = all.flatMap(({ setting, failure }) =>
    failure === null ? [] : [{ name: settingWords(setting), failure }],
  );
  const tried = (memory?.tried ?? []).map(({ value, failure }) => ({
    name: `gpu_memory_utilization ${value}`,
    failure,
  }));
  const parts = [
    ...tried.flatMap(({ name, failure }) => (failure === null ? [] : [{ name, failure }])),
    ...failed,
  ].map(
    ({ name, failure }) =>
      `<details><summary>${esc(name)}: ${esc(failure.kind)}</summary><p>${pieces(failure.message)}</p><p>${failure.lines
        .map(line => pieces(line))
        .join('<br>')}</p></details>`,
  );
  const found =
    memory === null
      ? ''
      : `<p>gpu_memory_utilization: ${memory.found ?? 'none of the space'} is the largest that starts and survives a full batch; tried ${tried
          .map(({ name, failure }) =>
            esc(`${name.split(' ')[1]} ${failure === null ? 'runs' : failure.kind}`),
          )
          .join(', ')}.</p>`;
  return found === '' && parts.length === 0 ? '' : `<h2>What failed</h2>\n${found}\n${parts.join('\n')}`;
}

function ranking({ ranking: { preset, scale, settings: all }, study }: TuneResult): string {
  if (all.length === 0) return '';
  const isRate = findsRate(study);
  const rows = all.map(({ setting, capacity, rate, kv_max: kv, preemptions, refused }) => [
    esc(valuesOf(setting)),
    refused === null ? figureOf(capacity) : 'does not start',
    ...(isRate ? [figureOf(rate)] : []),
    percent(kv, 0),
    count(preemptions),
  ]);
  return `<h2>In virtual time</h2>
<p>The simulated engine of ${esc(preset ?? '')}${scale === null ? '' : `, whose times were multiplied by ${decimal(scale)} so that it says of the present setting what was measured`}. It only decided what was started.</p>
<details><summary>${counted(all.length, 'setting')}</summary>${table([esc(namesOf(study.present)), 'requests/s at full load', ...(isRate ? ['within the bounds'] : []), 'KV', 'preempted'], rows)}</details>`;
}

/** What a reader needs to do it again, or to doubt it. */
function conditions(result: TuneResult): string {
  const { study, workload, server, client, formulas, settings: all } = result;
  const row = (name: string, value: string): Cell[] => [name, value];
  const rows = [
    row('unit of the goal', esc(study.unit)),
    row(
      'load',
      esc(
        typeof study.load.concurrency === 'number'
          ? `${study.load.concurrency} at a time`
          : 'more at a time than the server runs; rates: Poisson',
      ),
    ),
    row('bounds', esc(study.slo.map(({ name, ms }) => `${name} ${ms} ms`).join(', ') || 'none')),
    row('block', `${study.block_s} s`),
    row('seed', count(study.seed)),
    row('server', esc(server.versions.map(version => version ?? 'does not say').join(', ') || '–')),
    ...Object.entries(server.settings).map(([name, value]) =>
      row(`${esc(name)}, of the last one`, esc(value)),
    ),
    ...server.proofs.slice(0, 1).map(proof => row('a new server each time', esc(proof))),
    ...(workload === null
      ? []
      : [
          row(
            'tokens in',
            `${decimal(workload.input_tokens.mean, 1)}, deviation ${decimal(workload.input_tokens.std, 1)}`,
          ),
          row(
            'tokens out',
            `${decimal(workload.output_tokens.mean, 1)}, deviation ${decimal(workload.output_tokens.std, 1)}`,
          ),
          row(
            'from a prefix cache',
            workload.cached_share === null ? 'the server does not say' : percent(workload.cached_share),
          ),
        ]),
  ];
  const commands = all.map(({ command }) => `<li><code>${pieces(command)}</code></li>`).join('');
  const body =
    workload === null
      ? ''
      : `<details><summary>The body of the first request</summary><p>${pieces(workload.body)}</p></details>`;
  return `<h2>How it was measured</h2>
${table(['what', 'value'], rows)}
${client.limits.length === 0 ? '' : `<p>The client was the limit in ${client.limited} of ${counted(client.points, 'measurement')}:</p><ul class="notes">${client.limits.map(text => `<li>${pieces(text)}</li>`).join('')}</ul>`}
<details><summary>The command lines</summary><ul class="notes">${commands}</ul></details>
${body}
<ul class="notes">${Object.entries(formulas)
    .map(([word, text]) => `<li><b>${esc(word)}</b>: ${pieces(text)}</li>`)
    .join('')}</ul>`;
}
