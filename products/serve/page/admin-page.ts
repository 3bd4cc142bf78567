/** The pages of admins: keys, endpoints, and the questions that are asked before something ends. */
import { number, timeWords } from '../../../engine/core/item/wording.ts';
import { type Html, html, NONE } from '../../kit/html.ts';
import type { endpointShown } from '../admin/admin-endpoints.ts';
import { COUNTS } from '../admin/admin-keys.ts';
import { type KeyRecord, SCOPES } from '../api-keys.ts';
import { bytesWords } from '../keep/keep-settings.ts';
import { LAST_EXPIRY } from '../key-changes.ts';
import { table } from './layout.ts';
import { stateWords, timeOf } from './view-texts.ts';

export const ADMIN = '/ui/admin';

export interface AdminPage {
  keys: readonly KeyRecord[];
  usedToday(id: string): number;
  endpoints: readonly ReturnType<typeof endpointShown>[];
  /** sent with the form, so that one that is sent twice makes one key */
  once: string;
  /** ms since 1970 */
  now: number;
}

const LABELS: Readonly<Record<(typeof COUNTS)[number], string>> = {
  rpm: 'Requests a minute',
  tpm: 'Tokens a minute',
  tokens_per_day: 'Tokens a day (UTC)',
  parallel: 'Live requests at a time',
  batches: 'Batches that have not ended',
};

export function adminPage({ keys, usedToday, endpoints, once, now }: AdminPage): Html {
  const inUse = keys.filter(({ revoked }) => revoked === undefined);
  const out = keys.length - inUse.length;
  return html`<h1>Keys and endpoints</h1>
<h2>Keys</h2>
${inUse.length === 0 ? html`<p class="empty">There is no key: everybody on this machine is let in.</p>` : NONE}
${table(
  'admin-keys',
  'Keys in use',
  [
    { label: 'Owner' },
    { label: 'Key' },
    { label: 'May' },
    { label: 'Limits' },
    { label: 'Tokens today', isNumber: true },
    { label: 'Actions' },
  ],
  html`${inUse.map(
    key => html`<tr><th scope="row" data-label="Owner">${key.name}</th>
<td data-label="Key"><code>${key.id}</code></td>
<td data-label="May">${key.scopes.join(', ')}</td>
<td data-label="Limits">${limitWords(key, now)}</td>
<td data-label="Tokens today" class="n">${number(usedToday(key.id))}</td>
<td data-label="Actions" class="actions"><a href="${ADMIN}/keys/${key.id}">Limits <span class="unseen">of ${key.id}</span></a>
<a href="${ADMIN}/keys/${key.id}/revoke">Revoke <span class="unseen">${key.id}</span></a></td></tr>`,
  )}`,
)}
${out > 0 ? html`<p class="dim">${number(out)} revoked.</p>` : NONE}
<form method="post" action="${ADMIN}/keys" class="fields">
<h2>Make a key</h2>
<input type="hidden" name="once" value="${once}">
<label for="name">Owner <span class="dim">(letters, digits and . _ @ -)</span></label>
<input id="name" name="name" required maxlength="64" autocomplete="off">
<label for="scopes">May <span class="dim">(of ${SCOPES.join(', ')})</span></label>
<input id="scopes" name="scopes" value="batch, chat" required maxlength="60">
<details><summary>Limits</summary>${limitFields(null)}</details>
<button>Make it</button>
</form>
${endpointTable(endpoints)}`;
}

function endpointTable(endpoints: AdminPage['endpoints']): Html {
  const act = ({ url, drained, state }: AdminPage['endpoints'][number]): Html => {
    if (state === 'leaving') return NONE;
    if (drained === null)
      return html`<a href="${ADMIN}/drain?url=${encodeURIComponent(url)}">Drain <span class="unseen">${url}</span></a>`;
    return html`<form method="post" action="${ADMIN}/resume"><input type="hidden" name="url" value="${url}">
<button class="quiet">Resume <span class="unseen">${url}</span></button></form>`;
  };
  return html`<h2>Endpoints</h2>
${endpoints.length === 0 ? html`<p class="empty">There is none.</p>` : NONE}
${table(
  'admin-endpoints',
  'Endpoints',
  [
    { label: 'Endpoint' },
    { label: 'State' },
    { label: 'Models' },
    { label: 'In flight', isNumber: true },
    { label: 'Actions' },
  ],
  html`${endpoints.map(
    one => html`<tr><th scope="row" data-label="Endpoint">${one.url}</th>
<td data-label="State"><span class="state" data-is="${one.state}">${stateWords(one.state, one.cause)}</span></td>
<td data-label="Models">${one.models.slice(0, 4).join(', ')}</td>
<td data-label="In flight" class="n">${number(one.in_flight)} of ${number(one.limit)}</td>
<td data-label="Actions" class="actions">${act(one)}</td></tr>`,
  )}`,
)}`;
}

function limitWords(key: KeyRecord, now: number): string {
  const { storage, models, expires } = key;
  const counts = COUNTS.flatMap(name => {
    const count = key[name];
    return count === undefined ? [] : [`${LABELS[name]}: ${number(count)}`];
  });
  const left = expires === undefined ? 0 : expires * 1000 - now;
  return [
    ...counts,
    ...(storage === undefined ? [] : [`storage: ${bytesWords(storage)}`]),
    ...(models === undefined
      ? []
      : [`models: ${models.slice(0, 5).join(', ')}${models.length > 5 ? ' …' : ''}`]),
    ...(expires === undefined ? [] : [left > 0 ? `ends in ${timeWords(left)}` : 'has ended']),
  ].join('; ');
}

/** With what the key has now; empty fields are no limits. */
function limitFields(key: KeyRecord | null): Html {
  const field = (name: string, label: string, hint: string, value: string, kind = 'text'): Html =>
    html`<label for="${name}">${label} <span class="dim">${hint}</span></label>
<input id="${name}" name="${name}" value="${value}" autocomplete="off" maxlength="4000"${kind === 'numeric' ? html` inputmode="numeric"` : NONE}>`;
  return html`<div class="fields"><p class="dim">A field that is empty is no limit.</p>
${COUNTS.map(name => field(name, LABELS[name], '', String(key?.[name] ?? ''), 'numeric'))}
${field('storage', 'Storage', '(10GB)', String(key?.storage ?? ''))}
${field('models', 'Models', '(with commas between)', key?.models?.join(', ') ?? '')}
${field('expires', 'Ends', '(30d, 12h or 2027-01-31)', key?.expires === undefined ? '' : dayOf(key.expires))}</div>`;
}

/** As the form shows and takes the end of a key: of one that ends within a day too. */
export const dayOf = (seconds: number): string =>
  // a file of keys may say a later one
  new Date(Math.min(seconds, LAST_EXPIRY) * 1000).toISOString().slice(0, 10);

export function limitsPage(key: KeyRecord): Html {
  return html`<p class="up"><a href="${ADMIN}">Keys and endpoints</a></p>
<h1>Limits of a key of ${key.name}</h1>
<p><code>${key.id}</code>, made ${timeOf(key.created)} UTC, for ${key.scopes.join(', ')}</p>
<form method="post" action="${ADMIN}/keys/${key.id}" class="fields">
${limitFields(key)}
<button>Change them</button></form>`;
}

/** The key is shown this once. */
export function madePage(key: string, { id, name, scopes }: KeyRecord): Html {
  return html`<p class="up"><a href="${ADMIN}">Keys and endpoints</a></p>
<h1>A key of ${name}</h1>
<p>It is shown this once: copy it now. The server keeps its hash alone.</p>
<pre><code>${key}</code></pre>
<p><code>${id}</code>, for ${scopes.join(', ')}</p>`;
}

export interface Question {
  title: string;
  words: string;
  /** where the answer goes, with these fields */
  action: string;
  fields?: Readonly<Record<string, string>>;
  button: string;
}

/** Asked on a page of its own: it needs no script. */
export function questionPage({ title, words, action, fields = {}, button }: Question): Html {
  const hidden = Object.entries(fields).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  );
  return html`<p class="up"><a href="${ADMIN}">Keys and endpoints</a></p>
<h1>${title}</h1>
<p>${words}</p>
<form method="post" action="${action}" class="actions">${hidden}<button>${button}</button> <a href="${ADMIN}">Leave it as it is</a></form>`;
}
