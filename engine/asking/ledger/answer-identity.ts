/**
 * By what an answer is found again. A key is made of the request's body, and that names the model; but a raw request may
 * name none, and then several models may have answered one key. Such an answer is known by its key and by the model that
 * was asked, so that no model's answer is taken for another's.
 */
import { hash } from 'node:crypto';
import { type CallLine, type Header, keyIn } from './ledger-format.ts';

const BEFORE_MODEL = Buffer.from('","model":"');
const UNNAMED = Buffer.from(',"unnamed":true');
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** What the answer of `model` to a request that names none is found by: 32 hex characters, as a key. */
export function nameFor(key: string, model: string): string {
  return hash('sha256', `${key}\n${model}`, 'hex').slice(0, key.length);
}

/**
 * The model that was asked in a call line whose request names none; null where it names one. Older ledgers
 * have an empty model there: it is that of their run, in the header.
 */
export function unnamedIn(line: Buffer, header: Pick<Header, 'model'> | null): string | null {
  const found = line.indexOf(BEFORE_MODEL); // quotes are escaped in texts, so that none of them holds this
  if (found === -1) return null;
  const from = found + BEFORE_MODEL.length;
  let end = from;
  while (end < line.length && line[end] !== QUOTE) end += line[end] === BACKSLASH ? 2 : 1;
  if (end === from) return header?.model ?? '';
  const isUnnamed = UNNAMED.compare(line, end + 1, end + 1 + UNNAMED.length) === 0;
  return isUnnamed ? JSON.parse(line.toString('utf8', from - 1, end + 1)) : null;
}

/** What the answer of a call line is found by. */
export function nameIn(line: Buffer, header: Pick<Header, 'model'> | null): string {
  const key = keyIn(line);
  const model = unnamedIn(line, header);
  return model === null ? key : nameFor(key, model);
}

/** The same of a call line that was read. */
export function nameOfCall(
  { key, model, unnamed }: Pick<CallLine, 'key' | 'model' | 'unnamed'>,
  header: Pick<Header, 'model'> | null,
): string {
  if (model === '') return nameFor(key, header?.model ?? '');
  return unnamed ? nameFor(key, model) : key;
}

/** What the answer is found by that a verdict is of, if its request names no model: without one it is that of the run. */
export function nameOfVerdict(
  { key, model }: { key?: unknown; model?: unknown },
  header: Pick<Header, 'model'> | null,
): string {
  return nameFor(String(key), typeof model === 'string' ? model : (header?.model ?? ''));
}
