/** The page on which a batch is started, and what its forms say as the body of a request to make one. */
import { number, timeWords } from '../../../engine/core/item/wording.ts';
import { type Html, html, NONE } from '../../kit/html.ts';
import { ENDPOINTS } from '../batches/batch-routes.ts';
import type { FileRecord } from '../file-store.ts';

export interface StartPage {
  /** of who is logged in, newest first */
  files: readonly FileRecord[];
  /** one of them, to be chosen already */
  chosen: string;
  /** sent with the form, so that one that is sent twice makes one batch */
  once: string;
  /** ms since 1970 */
  now: number;
}

/** Files that can be chosen. */
const MOST = 100;

export function startPage({ files, chosen, once, now }: StartPage): Html {
  const shown = files.slice(0, MOST);
  const options = shown.map(
    file =>
      html`<option value="${file.id}"${file.id === chosen ? html` selected` : NONE}>${fileWords(file, now)}</option>`,
  );
  return html`<h1>Start a batch</h1>
<div class="two">
<form method="post" action="/ui/upload" enctype="multipart/form-data" class="fields">
<h2>From a file of yours</h2>
<input type="hidden" name="purpose" value="batch">
<label for="file">File of requests, one a line</label><input id="file" name="file" type="file" required>
${common('u')}
<button>Upload and start</button> <span class="dim" data-sending role="status"></span>
</form>
<form method="post" action="/ui/start" class="fields">
<h2>From a file that was uploaded before</h2>
<input type="hidden" name="once" value="${once}">
${
  shown.length === 0
    ? html`<p class="dim">There is none.</p>`
    : html`<label for="input">File</label><select id="input" name="input_file_id">${options}</select>
${common('s')}<button>Start</button>`
}
</form></div>`;
}

function common(prefix: string): Html {
  const options = ENDPOINTS.map(path => html`<option>${path}</option>`);
  return html`<label for="${prefix}-name">Name <span class="dim">(if you like)</span></label>
<input id="${prefix}-name" name="name" maxlength="100">
<label for="${prefix}-endpoint">What the lines ask</label>
<select id="${prefix}-endpoint" name="endpoint">${options}</select>
<label for="${prefix}-window">Time it may take <span class="dim">(24h, 90m, 7d)</span></label>
<input id="${prefix}-window" name="window" value="24h" required maxlength="10">`;
}

function fileWords({ filename, bytes, created_at }: FileRecord, now: number): string {
  return `${filename} · ${number(bytes)} bytes · ${timeWords(Math.max(0, now - created_at * 1000))} ago`;
}

/** As the API takes it. */
export function bodyOf(
  fields: { get(name: string): string | null | undefined },
  input_file_id: string,
): Buffer {
  const name = (fields.get('name') ?? '').trim();
  return Buffer.from(
    JSON.stringify({
      input_file_id,
      endpoint: fields.get('endpoint') ?? '',
      completion_window: (fields.get('window') ?? '').trim(),
      ...(name !== '' && { metadata: { name } }),
    }),
  );
}
