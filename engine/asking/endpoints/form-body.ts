/**
 * Requests that servers read as a form (multipart/form-data, RFC 7578): audio to be written down. A line has them as JSON, as
 * those of `vllm run-batch` do, with the audio in `file_url`. It goes out as a form; the JSON is what is on record, and what
 * its key is made of. Only a data: URL is taken: nothing is fetched, so that the same line is the same audio.
 */
import { hash } from 'node:crypto';
import { DIALECTS } from '../../core/item/dialects.ts';
import type { JsonObject } from '../../core/json/pointer.ts';
import { show } from '../../core/json/show.ts';

/** Whether the servers of a path read a form. */
export const isForm = (path: string): boolean => DIALECTS.get(path)?.isForm === true;

const DATA_URL = /^data:([a-z]{1,20}\/[a-z0-9.+-]{1,60})(?:;[a-z0-9=.-]{1,60}){0,3};base64,/i;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
/** Of an answer that is JSON; subtitles and bare texts are none. */
const JSON_FORMATS: readonly unknown[] = [undefined, null, 'json', 'verbose_json'];
/** What a file is called: some servers go by the end of its name. */
const ENDINGS: Readonly<Record<string, string>> = {
  mpeg: 'mp3',
  'x-wav': 'wav',
  'x-flac': 'flac',
  'x-m4a': 'm4a',
};

/** Why a request cannot be sent as a form, in words; null where it can. */
export function whyNoForm(body: JsonObject): string | null {
  const { file_url: url, response_format: format, stream } = body;
  if (stream === true) return 'expected no stream: a transcript is one whole answer';
  if (typeof url !== 'string' || !DATA_URL.test(url))
    return `expected the audio as a data: URL in body.file_url (data:audio/wav;base64,…), for nothing is fetched; found ${show(url)}`;
  const data = url.slice(url.indexOf(',') + 1);
  if (data.length % 4 !== 0 || !BASE64.test(data))
    return 'expected base64 in body.file_url, found other characters';
  if (!JSON_FORMATS.includes(format))
    return `expected body.response_format json or verbose_json, whose answers are JSON, found ${show(format)}`;
  const odd = Object.entries(body).find(([, value]) => fieldsOf(value) === null);
  return odd === undefined
    ? null
    : `expected texts, numbers and lists of them, found body.${odd[0]}: ${show(odd[1])}`;
}

/** The form of a body that `whyNoForm` has nothing against, and its content type. */
export function formOf(json: Buffer): { body: Buffer; type: string } {
  const { file_url, ...rest } = JSON.parse(json.toString()) as JsonObject & { file_url: string };
  const boundary = `fw-${hash('sha256', json, 'hex').slice(0, 40)}`;
  const fields = Object.entries(rest).flatMap(([name, value]) =>
    (fieldsOf(value) ?? []).map(text => {
      const called = Array.isArray(value) ? `${name}[]` : name;
      return `--${boundary}\r\nContent-Disposition: form-data; name="${quoted(called)}"\r\n\r\n${text}\r\n`;
    }),
  );
  const [, type = ''] = DATA_URL.exec(file_url) ?? [];
  const kind = type.slice(type.indexOf('/') + 1).toLowerCase();
  const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="audio.${ENDINGS[kind] ?? kind}"\r\nContent-Type: ${type}\r\n\r\n`;
  const audio = Buffer.from(file_url.slice(file_url.indexOf(',') + 1), 'base64');
  const body = Buffer.concat([
    Buffer.from(fields.join('') + head),
    audio,
    Buffer.from(`\r\n--${boundary}--\r\n`),
  ]);
  return { body, type: `multipart/form-data; boundary=${boundary}` };
}

/** A field's values as texts; none of null, and null where a form has no way to say it. */
function fieldsOf(value: unknown): string[] | null {
  if (value === null || value === undefined) return [];
  const list: unknown[] = Array.isArray(value) ? value : [value];
  const isPlain = (one: unknown): boolean => ['string', 'number', 'boolean'].includes(typeof one);
  return list.every(isPlain) ? list.map(String) : null;
}

/** As browsers write names (HTML, multipart/form-data encoding algorithm). */
const quoted = (name: string): string =>
  name.replace(/["\r\n]/g, one => (one === '"' ? '%22' : one === '\r' ? '%0D' : '%0A'));
