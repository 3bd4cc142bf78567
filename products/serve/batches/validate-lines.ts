/**
 * A batch file before anything is asked: every line is looked at, by the same reading that fw batch has. One that is no
 * request of this batch fails the whole batch, as at OpenAI, and is named with its line. Until that is done, its beginning
 * says about how much there is to do.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { createIdSet } from '../../../engine/core/files/idset.ts';
import { inputsOf } from '../../../engine/core/files/input-files.ts';
import type { Code } from '../../../engine/core/item/codes.ts';
import { DIALECTS, refusedField } from '../../../engine/core/item/dialects.ts';
import { Fatal } from '../../../engine/core/item/failure.ts';
import type { RawRequest } from '../../../engine/core/item/item.ts';
import { lossless } from '../../../engine/core/json/lossless.ts';
import { show } from '../../../engine/core/json/show.ts';
import { type TableRow, tableBatches } from '../../../engine/tables/read-table.ts';
import { type KeyRules, mayUse } from '../access.ts';
import type { Models } from '../gateway/served-models.ts';
import { excessOf, isSharedPriority } from '../http-body.ts';
import type { BatchError } from './batch-state.ts';

/** Errors that are told of one batch. */
const MOST_ERRORS = 100;
/** models of one batch that are told apart */
const MOST_MODELS = 64;

interface Rules {
  /** the one URL that all lines have */
  endpoint: string;
  /** lines, and bytes of each */
  lines: number;
  line: number;
  signal: AbortSignal;
  /** whether the key of the batch may name this model */
  mayUse(model: string): boolean;
  /** the models that a name may become; itself where it is no alias */
  modelsOf(name: string): readonly string[];
}

/** OpenAI's words for what our reading finds. */
const CODES: Partial<Record<Code, string>> = {
  'not-json': 'invalid_json_line',
  'not-an-object': 'invalid_json_line',
  'not-utf8': 'invalid_json_line',
  'too-deep': 'invalid_json_line',
  'value-not-kept': 'invalid_json_line',
  'line-too-long': 'line_too_long',
  'not-a-request': 'invalid_request',
};

/** Batches that are validated at once: each has blocks of its file in memory. */
const MOST_AT_ONCE = 4;

/** Validates a few batches at a time, by what their keys may name. */
export class Validator {
  #running = 0;

  /** `aliases` of what is found: those that the lines name, and what they stand for. Null while others have their turn. */
  async of(
    path: string,
    { keyRules, aliases: all, ...rules }: Omit<Rules, 'mayUse'> & { keyRules: KeyRules; aliases: Models },
  ) {
    if (this.#running === MOST_AT_ONCE) return null;
    this.#running += 1;
    const aliases: Record<string, Models[string]> = {};
    const may = (model: string): boolean => {
      const to = Object.hasOwn(all, model) ? all[model] : undefined;
      if (to !== undefined) Object.defineProperty(aliases, model, { value: to, enumerable: true });
      return mayUse(keyRules, model);
    };
    try {
      return { ...(await validate(path, { ...rules, mayUse: may })), aliases };
    } finally {
      this.#running -= 1;
    }
  }
}

async function validate(path: string, { endpoint, lines, line: maxLine, signal, mayUse, modelsOf }: Rules) {
  const ids = createIdSet();
  const models = new Set<string>();
  const errors: BatchError[] = [];
  const refusedFields = DIALECTS.get(endpoint)?.refused;
  let total = 0;

  const wrong = (line: number | null, code: string, message: string, param: string | null = null): void => {
    if (errors.length < MOST_ERRORS) errors.push({ code, message, line, param });
  };
  const look = ({ line, item, text = '', trouble }: TableRow): void => {
    total += 1;
    if (trouble) {
      const { code, message, key = null, more } = trouble;
      // whoever sent it has no flags
      const said =
        code === 'line-too-long'
          ? `expected a line of at most ${maxLine} bytes, found ${more?.bytes as number}`
          : message;
      return wrong(line, CODES[code] ?? 'invalid_request', sentence(said), key);
    }
    const loss = lossless(text);
    if (loss) return wrong(line, 'invalid_json_line', sentence(loss.message));
    const { id, request } = item as { id: string; request: RawRequest };
    if (!ids.add(id))
      wrong(
        line,
        'duplicate_custom_id',
        `The custom_id ${show(id)} is that of an earlier line.`,
        'custom_id',
      );
    judge(line, request);
  };
  function judge(line: number, { method, url, body }: RawRequest): void {
    if (method !== 'POST')
      wrong(line, 'invalid_method', `Expected the method "POST", found ${show(method)}.`, 'method');
    if (url !== endpoint)
      wrong(line, 'url_mismatch', `Expected the URL of the batch, ${endpoint}, found ${show(url)}.`, 'url');
    const { model, stream, priority } = body;
    if (typeof model !== 'string' || model === '')
      wrong(
        line,
        'missing_required_parameter',
        `Expected body.model, a text, found ${model === undefined ? 'none' : show(model)}.`,
        'body.model',
      );
    else if (!mayUse(model))
      wrong(
        line,
        'model_not_found',
        `The model ${show(model)} does not exist or you do not have access to it.`,
        'body.model',
      );
    else if (models.size < MOST_MODELS) for (const one of modelsOf(model)) models.add(one);
    if (stream !== undefined && stream !== null && stream !== false)
      wrong(line, 'invalid_request', 'Expected no stream: a line has one whole answer.', 'body.stream');
    const refused = refusedFields && refusedField(refusedFields, body);
    if (refused)
      wrong(
        line,
        'invalid_request',
        `Expected no body.${refused.field}: ${refused.why}.`,
        `body.${refused.field}`,
      );
    if (!isSharedPriority(priority))
      wrong(
        line,
        'invalid_request',
        `Expected body.priority, a whole number from 0, found ${show(priority)}.`,
        'body.priority',
      );
  }

  const reading = {
    ...({ format: 'openai-batch', maxLine, takesItems: false, expect() {}, warn() {} } as const),
    ...{ lastRow: lines + 1, signal },
    // levels are judged by lossless, for their own code
    excess: (row: Buffer) => excessOf(row, Number.POSITIVE_INFINITY),
    itemsOf(row: TableRow): [{ id: null }] {
      if (row.row <= lines) look(row);
      return [{ id: null }];
    },
  };
  let rows = 0;
  try {
    for await (const batch of tableBatches(inputsOf([path]), reading)) {
      rows += (batch as readonly unknown[]).length;
      await new Promise(setImmediate); // other requests have their turn
      if (signal.aborted) break;
    }
  } catch (error) {
    if (!(error instanceof Fatal)) throw error;
    wrong(null, 'invalid_file', sentence(error.message.replaceAll(path, 'the file')));
  }
  if (rows > lines) wrong(null, 'too_many_tasks', `Expected at most ${lines} requests, found more.`);
  else if (rows === 0 && errors.length === 0)
    wrong(null, 'empty_file', 'Expected a request a line, found an empty file.');
  return { total, models: [...models], errors };
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** bytes that are read */
const BEGINNING = 64 * 1024;
const LINE_FEED = 10;

/** How many lines it has, about, and the model of the first one; null where its beginning does not say. */
export function firstLines(path: string): { lines: number | null; model: string | null } {
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    const block = Buffer.alloc(Math.min(BEGINNING, size));
    const bytes = block.subarray(0, readSync(file, block, 0, block.length, 0));
    const last = bytes.lastIndexOf(LINE_FEED);
    const whole = size > BEGINNING ? bytes.subarray(0, last + 1) : bytes;
    if (whole.length === 0) return { lines: size === 0 ? 0 : null, model: null };
    let count = 0;
    for (let at = 0; at >= 0 && at < whole.length; count++) {
      const end = whole.indexOf(LINE_FEED, at);
      at = end < 0 ? end : end + 1;
    }
    const first = whole.indexOf(LINE_FEED);
    const model = modelOf(whole.subarray(0, first < 0 ? undefined : first).toString());
    return { lines: Math.round((count * size) / whole.length), model };
  } finally {
    closeSync(file);
  }
}

function modelOf(line: string): string | null {
  try {
    const { model } = JSON.parse(line).body;
    return typeof model === 'string' && model !== '' ? model : null;
  } catch {
    return null; // validation says what is wrong with it
  }
}
