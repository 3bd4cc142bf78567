/** The first page: batches, endpoints, who asks how much. */
import { number } from '../../../engine/core/item/wording.ts';
import { type Html, html, NONE } from '../../kit/html.ts';
import { bar, cell, rows, shownBy, table, text } from './layout.ts';
import {
  type BatchView,
  BLANK_BATCH,
  BLANK_ENDPOINT,
  BLANK_EXAMPLE,
  BLANK_FAILURE,
  BLANK_KEY,
  type EndpointView,
  type FailureView,
} from './view-texts.ts';
import { type WorkersView, workerSection } from './workers-view.ts';

/** Its values, as they are sent to page.js too. */
export interface Overview extends WorkersView {
  pool: string;
  /** that the disk is nearly full; empty while it is not */
  disk: string;
  batches: BatchView[];
  /** where there is no batch */
  none: string;
  keys: (typeof BLANK_KEY)[];
  noKeys: string;
  /** of an admin alone */
  endpoints: EndpointView[];
  hooks: string;
}

export interface OverviewMore {
  isAdmin: boolean;
  hasWorkers: boolean;
  hasEndpoints: boolean;
  /** the cursor of the next page, and whether this is the first */
  next: string | null;
  isFirst: boolean;
}

export function overviewPage(
  values: Overview,
  { isAdmin, hasWorkers, hasEndpoints, next, isFirst }: OverviewMore,
): Html {
  return html`<h1>Batches</h1>
<p class="pool"><span data-text="pool">${values.pool}</span> <span class="dim" data-live role="status"></span></p>
<p class="problem" role="status"${shownBy('disk', values.disk)} data-text="disk">${values.disk}</p>
<p class="empty"${shownBy('none', values.none)}><span data-text="none">${values.none}</span>
<a href="/ui/new">Start one</a></p>
${table(
  'batches',
  'Batches, newest first',
  [
    { label: 'Batch' },
    isAdmin ? { label: 'Owner' } : null,
    { label: 'Progress' },
    { label: 'Rate', isNumber: true },
    { label: 'Time left', isNumber: true },
    { label: 'Age', isNumber: true },
    { label: 'Actions' },
  ],
  rows(values.batches, BLANK_BATCH, batch => batchRow(batch, isAdmin)),
)}
<p class="pages">${isFirst ? NONE : html`<a href="/ui/">Newest</a>`}
${next === null ? NONE : html`<a href="/ui/?after=${next}">Older batches</a>`}</p>
${isAdmin && hasWorkers ? workerSection(values) : NONE}
${isAdmin && hasEndpoints ? endpointSection(values.endpoints) : NONE}
${keySection(values)}
${isAdmin ? html`<h2>Webhooks</h2><p data-text="hooks">${values.hooks}</p>` : NONE}`;
}

function batchRow(batch: BatchView, isAdmin: boolean): Html {
  const { key, href, name, status, state, owner } = batch;
  return html`<tr data-key="${key}"><th scope="row" data-label="Batch">
<a data-href="href" data-text="name" href="${href}">${name}</a>
<span class="state" data-is="${status}" data-state="status" data-text="state">${state}</span>
<span class="why"${shownBy('why', batch.why)} data-text="why">${batch.why}</span></th>
${isAdmin ? cell('Owner', 'owner', owner) : NONE}
<td data-label="Progress">${progress(batch)}
${forecastLine(batch)}</td>
${cell('Rate', 'rate', batch.rate, 'n')}
${cell('Time left', 'left', batch.left, 'n')}
${cell('Age', 'age', batch.age, 'n')}
<td data-label="Actions" class="actions">${actions(batch)}</td></tr>`;
}

/** When it ends, and whether that is within its window. */
export function forecastLine({ forecast, isLate }: BatchView): Html {
  return html`<p class="forecast"${shownBy('forecast', forecast)}><span class="state" data-is="${isLate}" data-state="isLate" data-text="isLate"${shownBy('isLate', isLate)}>${isLate}</span>
${text('forecast', forecast)}</p>`;
}

/** The bar, the counts, and behind a fold the failures by code. */
function progress(batch: BatchView): Html {
  const { good, bad, completed, failed, total, failures } = batch;
  return html`<div${shownBy('total', total)}>${bar(good, bad, 'completed and failed')}
<p class="counts">${text('completed', completed)} of ${text('total', total)} completed, ${text('failed', failed)} failed
<span class="dim" data-text="percent">${batch.percent}</span></p>
<details class="failures"${shownBy('hasFailures', batch.hasFailures)}><summary>Failures by code</summary>${failureList(failures)}</details></div>`;
}

export function failureList(failures: readonly FailureView[], name = 'failures'): Html {
  return html`<ul class="codes" data-list="${name}">${rows(
    failures,
    BLANK_FAILURE,
    ({ key, code, count, href, examples }) =>
      html`<li data-key="${key}"><strong data-text="code">${code}</strong> × ${text('count', count)}
<a${shownBy('href', href)} data-href="href" href="${href}">Its lines</a>
<ul data-list="examples">${rows(
        examples,
        BLANK_EXAMPLE,
        one =>
          html`<li data-key="${one.key}"><code data-text="id">${one.id}</code> ${text('message', one.message)}</li>`,
      )}</ul></li>`,
  )}</ul>`;
}

export function actions({ cancel, output, errors, name }: BatchView): Html {
  return html`<a${shownBy('output', output)} data-href="output" href="${output}" download>Output</a>
<a${shownBy('errors', errors)} data-href="errors" href="${errors}" download>Errors</a>
<form method="post"${shownBy('cancel', cancel)} data-action="cancel" action="${cancel}" data-confirm="Cancel this batch? What is done is kept.">
<button class="quiet">Cancel <span class="unseen" data-text="name">${name}</span></button></form>`;
}

function endpointSection(endpoints: readonly EndpointView[]): Html {
  const numbers = ['In flight', 'Waiting there', 'KV cache', 'GPU', 'Answers', 'Failed tries'];
  return html`<h2>Endpoints</h2>
${table(
  'endpoints',
  'Endpoints',
  [
    { label: 'Endpoint' },
    { label: 'State' },
    { label: 'Models' },
    ...numbers.map(label => ({ label, isNumber: true })),
  ],
  rows(
    endpoints,
    BLANK_ENDPOINT,
    one => html`<tr data-key="${one.key}"><th scope="row" data-label="Endpoint" data-text="url">${one.url}</th>
<td data-label="State"><span class="state" data-is="${one.status}" data-state="status" data-text="state">${one.state}</span></td>
${cell('Models', 'models', one.models)}
${cell('In flight', 'flight', one.flight, 'n')}
${cell('Waiting there', 'waiting', one.waiting, 'n')}
${cell('KV cache', 'kv', one.kv, 'n')}
${cell('GPU', 'gpu', one.gpu, 'n')}
${cell('Answers', 'answers', one.answers, 'n')}
${cell('Failed tries', 'failed', one.failed, 'n')}</tr>`,
  ),
)}`;
}

function keySection({ keys, noKeys }: Overview): Html {
  const numbers = ['Requests', 'Refused', 'Tokens today', 'Last'];
  return html`<h2>Requests to the gateway since the start</h2>
<p class="empty"${shownBy('noKeys', noKeys)} data-text="noKeys">${noKeys}</p>
${table(
  'keys',
  'Requests by key',
  [{ label: 'Owner' }, { label: 'Key' }, ...numbers.map(label => ({ label, isNumber: true }))],
  rows(
    keys,
    BLANK_KEY,
    one => html`<tr data-key="${one.key}"><th scope="row" data-label="Owner" data-text="owner">${one.owner}</th>
${cell('Key', 'id', one.id)}
${cell('Requests', 'requests', one.requests, 'n')}
${cell('Refused', 'refused', one.refused, 'n')}
${cell('Tokens today', 'tokens', one.tokens, 'n')}
${cell('Last', 'last', one.last, 'n')}</tr>`,
  ),
)}`;
}

export function hookWords({
  waiting,
  delivered,
  givenUp,
}: Record<'waiting' | 'delivered' | 'givenUp', number>): string {
  return `${number(delivered)} delivered since the start, ${number(waiting)} waiting, ${number(givenUp)} given up.`;
}
