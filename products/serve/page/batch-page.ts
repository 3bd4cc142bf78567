/** The pages of one batch: how it goes, and its answers to look through. */
import { counted, cut, number, percent, timeWords } from '../../../engine/core/item/wording.ts';
import { type Html, html, NONE } from '../../kit/html.ts';
import { type BatchRecord, expiresAt, STATUSES } from '../batches/batch-state.ts';
import { type Result, resultOf } from './answer-view.ts';
import type { Slice } from './file-part.ts';
import { bar, rows, shownBy, table, text } from './layout.ts';
import { actions, failureList, forecastLine } from './overview.ts';
import { type BatchView, batchView, type FailureView, type Seen, timeOf } from './view-texts.ts';
import { type ShardsView, shardSection } from './workers-view.ts';

const BLANK_MOMENT = { key: '', label: '', at: '', after: '' };

export interface OneBatch extends BatchView, ShardsView {
  times: (typeof BLANK_MOMENT)[];
  usage: string;
  window: string;
  /** of its validation, by code as failures are */
  invalid: FailureView[];
  hasInvalid: string;
  look: string;
  lookErrors: string;
}

const MOST_EXAMPLES = 3;

export function oneBatch(
  record: BatchRecord,
  seen: Seen,
  has: { output: boolean; error: boolean },
): Omit<OneBatch, keyof ShardsView> {
  const view = batchView(record, seen);
  const { created_at, times, usage } = record;
  const { input, cached, output, reasoning } = usage;
  const moments = STATUSES.flatMap(status => {
    const at = times[`${status}_at`];
    return at === undefined ? [] : [[status, at] as const];
  }).sort(([, one], [, other]) => one - other);
  const more = [
    cached > 0 ? `${number(cached)} of them cached` : '',
    `${number(output)} out`,
    reasoning > 0 ? `${number(reasoning)} of them reasoning` : '',
  ].filter(words => words !== '');
  const expires = expiresAt(record);
  const invalid = invalidOf(record);
  return {
    ...view,
    times: [['created', created_at] as const, ...moments].map(([status, at]) => ({
      ...{ key: status, label: status.replace('_', ' '), at: timeOf(at) },
      after: at === created_at ? '' : timeWords((at - created_at) * 1000),
    })),
    usage: `${number(input)} tokens in, ${more.join(', ')}`,
    window: `${cut(record.completion_window, 20)}, until ${timeOf(expires)} UTC`,
    invalid,
    hasInvalid: invalid.length > 0 ? 'some' : '',
    look: has.output ? `${view.href}/results` : '',
    lookErrors: has.error ? `${view.href}/results?of=errors` : '',
  };
}

/** What validation found, by code, with the first lines of each. */
function invalidOf({ errors }: BatchRecord): FailureView[] {
  const codes = [...new Set(errors.map(({ code }) => code))];
  return codes.map(code => {
    const all = errors.filter(error => error.code === code);
    const examples = all.slice(0, MOST_EXAMPLES).map(({ line, message }, at) => ({
      ...{ key: String(at), message: cut(message, 300) },
      id: line === null ? 'file' : `line ${number(line)}`,
    }));
    return { key: code, code, count: number(all.length), href: '', examples };
  });
}

export function batchPage(batch: OneBatch, record: BatchRecord, isAdmin: boolean): Html {
  const { id, endpoint, model, models, metadata, input_file_id } = record;
  const facts: [string, Html | string][] = [
    ['Id', id],
    ['Owner', record.owner],
    ['Endpoint', endpoint],
    ['Model', model ?? (models.length > 0 ? models.join(', ') : 'not known yet')],
    ['Input file', input_file_id],
    ['Window', batch.window],
    ...Object.entries(metadata ?? {}).map(([name, value]): [string, string] => [`Metadata: ${name}`, value]),
  ];
  return html`<p class="up"><a href="/ui/">Batches</a></p>
<h1>${batch.name}</h1>
<p><span class="state" data-is="${batch.status}" data-state="status" data-text="state">${batch.state}</span>
<span class="why"${shownBy('why', batch.why)} data-text="why">${batch.why}</span>
<span class="dim" data-live role="status"></span></p>
<div class="big"${shownBy('total', batch.total)}>${bar(batch.good, batch.bad, 'completed and failed')}</div>
${forecastLine(batch)}
<dl class="tiles">${[
    tile(
      'Completed',
      html`${text('completed', batch.completed)} <small${shownBy('total', batch.total)}>of ${text('total', batch.total)}</small>`,
    ),
    tile('Failed', text('failed', batch.failed)),
    tile('Rate', text('rate', batch.rate)),
    tile('Time left', text('left', batch.left)),
    tile('Age', text('age', batch.age)),
  ]}</dl>
<p class="actions"><a${shownBy('look', batch.look)} data-href="look" href="${batch.look}">Look through the answers</a>
<a${shownBy('lookErrors', batch.lookErrors)} data-href="lookErrors" href="${batch.lookErrors}">Look through the errors</a>
${actions(batch)}</p>
<section${shownBy('hasInvalid', batch.hasInvalid)}><h2>Why it was not taken</h2>
${failureList(batch.invalid, 'invalid')}</section>
<section${shownBy('hasFailures', batch.hasFailures)}><h2>Failures by code</h2>
${failureList(batch.failures)}</section>
${shardSection(batch, isAdmin)}
<h2>Times</h2>
${table(
  'times',
  'When it was in which state, in UTC',
  [{ label: 'State' }, { label: 'Since (UTC)' }, { label: 'After its making' }],
  rows(
    batch.times,
    BLANK_MOMENT,
    one => html`<tr data-key="${one.key}"><th scope="row" data-label="State" data-text="label">${one.label}</th>
<td data-label="Since (UTC)" data-text="at">${one.at}</td><td data-label="After its making" data-text="after">${one.after}</td></tr>`,
  ),
)}
<h2>About it</h2>
<dl class="facts">${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
<dt>Usage</dt><dd data-text="usage">${batch.usage}</dd></dl>`;
}

const tile = (name: string, value: Html): Html => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;

export interface ResultsAt {
  record: BatchRecord;
  name: string;
  kind: 'answers' | 'errors';
  /** the one code whose lines are wanted; null: all lines */
  code: string | null;
  /** where the slice was asked to begin */
  from: number;
  slice: Slice;
}

export function resultsPage({ record, name, kind, code, from, slice }: ResultsAt): Html {
  const { lines, size, before, next } = slice;
  const base = `/ui/batches/${record.id}`;
  const only = code === null ? '' : `code=${encodeURIComponent(code)}&`;
  const at = (place: number): string =>
    `${base}/results?${kind === 'errors' ? 'of=errors&' : ''}${only}at=${place}`;
  const where =
    lines.length === 0
      ? next === null
        ? 'No line is there yet.'
        : 'None in this part of the file.'
      : `${counted(lines.length, 'line')}, from ${percent(from, size)} of the file on. The file has ${number(size)} bytes.`;
  const pages = html`<nav class="pages" aria-label="Pages of the file">
${from === 0 ? NONE : html`<a href="${at(0)}">First</a>`}
${before === null ? NONE : html`<a href="${at(before)}" rel="prev">Before</a>`}
${next === null ? NONE : html`<a href="${at(next)}" rel="next">Next</a>`}</nav>`;
  return html`<p class="up"><a href="/ui/">Batches</a> › <a href="${base}">${name}</a></p>
<h1>${kind === 'errors' ? 'Errors' : 'Answers'} of ${name}${code === null ? '' : `: ${code}`}</h1>
<p class="dim">${where}</p>
${pages}
<ol class="results">${lines.map(line => resultItem(resultOf(line), kind))}</ol>
${lines.length > 3 ? pages : NONE}`;
}

function resultItem(result: Result, kind: ResultsAt['kind']): Html {
  const { custom_id, status, isGood, facts, answers, changes } = result;
  const isAsSaid = kind === 'answers' && isGood && changes.length === 0;
  const words = isAsSaid ? [...facts, 'as the model said it'] : facts;
  const changed = html`<details open><summary>${counted(changes.length, 'line')} of changes by fw</summary>
<pre class="changes">${changes.join('\n')}</pre></details>`;
  return html`<li><h2>${custom_id || 'a line without an id'}</h2>
<p class="dim"><span class="state" data-is="${isGood ? 'completed' : 'failed'}">${status}</span> ${words.join(' · ')}</p>
${answers.map(answer => html`<pre class="answer" tabindex="0">${answer}</pre>`)}
${changes.length > 0 ? changed : NONE}</li>`;
}
