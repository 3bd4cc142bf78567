/** A study as one page: HTML and SVG alone, no script, nothing from the network. What to do comes first, then why to believe it. */
import { counted } from '../../../engine/core/item/wording.ts';
import { count, decimal, html, joined, percent, short, type Text, table, tile } from '../../kit/html.ts';
import { page } from '../../kit/page.ts';
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
    title: short(title),
    header: html`<h1>${short(title)}</h1>
<p class="dim">${short(workload?.source ?? 'nothing was asked')}; ${short(result.date)}; fw ${short(result.fw)}</p>
<p><b>${pieces(words)}</b></p>
${tiles(result)}`,
    main: html`${recommended(result)}
<ul class="notes">${joined(why.map(reason => html`<li>${pieces(reason)}</li>`))}</ul>
${settings(result)}
${charts(result)}
${confirmation(result)}
${failures(result)}
${ranking(result)}
${conditions(result)}`,
  });
}

/** Longer texts than names, up to some kilobytes. */
const pieces = (text: string): string => short(text, 4_000);

const VERDICTS: { [verdict in TuneResult['verdict']]: string } = {
  better: 'Change it',
  'present fails': 'Change it',
  'no difference': 'No difference',
  'present is best': 'Leave it',
  worse: 'Leave it',
  'nothing measured': 'No answer',
};

function tiles({ verdict, confirmation: confirmed, starts, client, study }: TuneResult): Text {
  const gain = confirmed?.gain ?? null;
  return html`<div class="tiles">${joined(
    [
      tile(
        'Verdict',
        VERDICTS[verdict],
        short(study.slo.map(({ name, ms }) => `${name} at most ${ms} ms`).join(', ') || 'no bounds'),
      ),
      tile(
        `Gain, ${short(study.unit)}`,
        gain === null ? '–' : short(percentOf(gain.value)),
        gain === null
          ? 'nothing to compare'
          : `95 % interval ${short(percentOf(gain.low))} to ${short(percentOf(gain.high))}; ${confirmed?.runs ?? 0} starts each`,
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
    ],
    '\n',
  )}</div>`;
}

function recommended({ recommended: use }: TuneResult): Text {
  return use === null ? '' : html`<h2>Use</h2>\n<p><code>${pieces(use.command)}</code></p>`;
}

function settings(result: TuneResult): Text {
  const { study, settings: all } = result;
  const isRate = findsRate(study);
  const head = [
    short(namesOf(study.present)),
    'outcome',
    `${isRate ? 'requests/s' : short(study.unit)} at full load (95 % interval)`,
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
  const rows = all.map(({ setting, state, failure, full, blocks, rate, rates, requests, server }): Text[] => {
    const [point] = isRate ? (rates.find(each => each.rate === rate)?.points ?? []) : blocks;
    return [
      short(valuesOf(setting)),
      short(failure?.kind ?? STATES[state]),
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
  return html`<h2>What was started</h2>
${table(head, rows)}
<p class="dim">Latencies ${isRate ? 'are at the highest rate that keeps the bounds, from when a request was due' : 'are of the load as it is'}; batch, queue and KV cache are what the server said at full load.</p>`;
}

function confirmation({ confirmation: confirmed, study }: TuneResult): Text {
  if (confirmed === null) return '';
  const { best, present, gain, rate, present_rate: other, best_kept: kept, present_kept: theirs } = confirmed;
  const rows = best.map((value, run) => [String(run + 1), figureOf(value), figureOf(present[run])]);
  return html`<h2>Confirmed in turn</h2>
${table(['start', `best, ${short(study.unit)}${rate === null ? '' : ` at ${rate} requests/s`}`, `present${other === null ? '' : ` at ${other} requests/s`}`], rows)}
<p>${gain === null ? 'There is nothing to compare.' : `Gain ${short(gainWords(gain))}.`} ${
    study.slo.length === 0
      ? ''
      : `The best setting ${kept ? 'keeps' : 'does not keep'} the bounds${rate === null ? '' : ' at its rate'}, the present one ${theirs ? 'does' : 'does not'}${rate === null ? '' : ' there'}.`
  }</p>`;
}

function failures({ settings: all, memory }: TuneResult): Text {
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
      html`<details><summary>${short(name)}: ${short(failure.kind)}</summary><p>${pieces(failure.message)}</p><p>${joined(failure.lines.map(pieces), '<br>')}</p></details>`,
  );
  const found =
    memory === null
      ? ''
      : html`<p>gpu_memory_utilization: ${memory.found ?? 'none of the space'} is the largest that starts and survives a full batch; tried ${tried
          .map(({ name, failure }) =>
            short(`${name.split(' ')[1]} ${failure === null ? 'runs' : failure.kind}`),
          )
          .join(', ')}.</p>`;
  return found === '' && parts.length === 0
    ? ''
    : html`<h2>What failed</h2>\n${found}\n${joined(parts, '\n')}`;
}

function ranking({ ranking: { preset, scale, settings: all }, study }: TuneResult): Text {
  if (all.length === 0) return '';
  const isRate = findsRate(study);
  const rows = all.map(({ setting, capacity, rate, kv_max: kv, preemptions, refused }) => [
    short(valuesOf(setting)),
    refused === null ? figureOf(capacity) : 'does not start',
    ...(isRate ? [figureOf(rate)] : []),
    percent(kv, 0),
    count(preemptions),
  ]);
  return html`<h2>In virtual time</h2>
<p>The simulated engine of ${short(preset ?? '')}${scale === null ? '' : `, whose times were multiplied by ${decimal(scale)} so that it says of the present setting what was measured`}. It only decided what was started.</p>
<details><summary>${counted(all.length, 'setting')}</summary>${table([short(namesOf(study.present)), 'requests/s at full load', ...(isRate ? ['within the bounds'] : []), 'KV', 'preempted'], rows)}</details>`;
}

/** What a reader needs to do it again, or to doubt it. */
function conditions(result: TuneResult): Text {
  const { study, workload, server, client, formulas, settings: all } = result;
  const row = (name: string, value: string): Text[] => [name, value];
  const rows = [
    row('unit of the goal', short(study.unit)),
    row(
      'load',
      short(
        typeof study.load.concurrency === 'number'
          ? `${study.load.concurrency} at a time`
          : 'more at a time than the server runs; rates: Poisson',
      ),
    ),
    row('bounds', short(study.slo.map(({ name, ms }) => `${name} ${ms} ms`).join(', ') || 'none')),
    row('block', `${study.block_s} s`),
    row('seed', count(study.seed)),
    row('server', short(server.versions.map(version => version ?? 'does not say').join(', ') || '–')),
    ...Object.entries(server.settings).map(([name, value]) =>
      row(`${short(name)}, of the last one`, short(value)),
    ),
    ...server.proofs.slice(0, 1).map(proof => row('a new server each time', short(proof))),
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
  const commands = joined(all.map(({ command }) => html`<li><code>${pieces(command)}</code></li>`));
  const body =
    workload === null
      ? ''
      : html`<details><summary>The body of the first request</summary><p>${pieces(workload.body)}</p></details>`;
  return html`<h2>How it was measured</h2>
${table(['what', 'value'], rows)}
${client.limits.length === 0 ? '' : html`<p>The client was the limit in ${client.limited} of ${counted(client.points, 'measurement')}:</p><ul class="notes">${joined(client.limits.map(text => html`<li>${pieces(text)}</li>`))}</ul>`}
<details><summary>The command lines</summary><ul class="notes">${commands}</ul></details>
${body}
<ul class="notes">${joined(
    Object.entries(formulas).map(([word, text]) => html`<li><b>${short(word)}</b>: ${pieces(text)}</li>`),
  )}</ul>`;
}
