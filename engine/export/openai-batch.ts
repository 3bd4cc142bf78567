/**
 * The output of a batch file as OpenAI and vLLM write it, a line an item:
 *
 *   {"id": …, "custom_id": …, "response": {"status_code", "request_id", "body"} | null, "error": {"code", "message"} | null}
 *
 * The body is the server's own. A failed item has an error, and beside it what a server answered, if one did. Ids are made
 * of the key of the call, so that the ledger knows them and two runs write the same bytes.
 */
import { hash } from 'node:crypto';
import { letGo } from '../files/origin.ts';
import type { Drain, Frame, OnBroken, Output } from '../files/output.ts';
import { type SideFile, sideFile } from '../files/side-file.ts';
import { textOfBody } from '../item/body-text.ts';
import { type Fatal, ItemFailure } from '../item/failure.ts';
import { failureOf, type Item } from '../item/item.ts';
import type { Format, FormatOptions } from './format.ts';
import { inOrder } from './in-order.ts';
import { textsInto } from './texts.ts';

export const openaiBatch: Format = {
  check(item) {
    if (responseOf(item) !== undefined) return;
    throw new ItemFailure(
      'no-response',
      'expected an item that fw request has asked, found one without a response',
    );
  },
  frame: frameOf,
};

/** Of a text that waits for its turn: it goes to the file of errors. */
const ERROR = '!';
const LINE = ' ';
/** Characters of lines that waited and leave before the event loop has its turn. */
const AT_ONCE = 4 * 1024 * 1024;

function frameOf({ errors: path, ordered }: FormatOptions): Frame {
  let errors: SideFile | undefined; // one, for any number of outputs
  return { isDocument: false, open };

  function open(drain: Drain, folder: string, onBroken: OnBroken): Output {
    if (path !== undefined) errors ??= sideFile(path);
    const texts = textsInto(drain, onBroken);
    const order = ordered ? inOrder(folder) : null;
    let isBehind = false; // lines whose turn it is have not left yet

    const emit = (text: string): void => {
      if (text.startsWith(ERROR)) errors?.writeText(text.slice(1));
      else texts.put(`${text.slice(1)}\n`);
    };
    const pump = (): void => {
      isBehind = false;
      for (let left = AT_ONCE; texts.isOpen; ) {
        const text = order?.next() ?? null;
        if (text === null) return;
        emit(text);
        left -= text.length;
        if (left <= 0) break;
      }
      isBehind = true;
    };
    const caughtUp = (act: () => void): void => {
      try {
        pump();
      } catch (error) {
        return onBroken(error as Fatal);
      }
      if (!texts.isOpen) texts.ready(() => caughtUp(act));
      else if (isBehind) setImmediate(caughtUp, act);
      else act();
    };
    return {
      write(item) {
        const mark = errors !== undefined && item.failure !== undefined ? ERROR : LINE;
        const text = mark + lineOf(item);
        const { row } = item;
        letGo(item);
        if (order === null || !isRow(row)) emit(text);
        else {
          order.add(row, text);
          if (!isBehind) pump();
        }
        return texts.isOpen && !isBehind;
      },
      ready: caughtUp,
      async end() {
        order?.finish();
        if (order) await new Promise<void>(resolve => caughtUp(resolve));
        order?.close();
        await texts.end();
      },
    };
  }
}

const isRow = (row: unknown): row is number => Number.isSafeInteger(row) && (row as number) > 0;

function lineOf(item: Item): string {
  const failure = failureOf(item);
  const response = responseOf(item);
  const key = keyOf(item);
  const id = JSON.stringify(`batch_req_${key}`);
  const name = typeof item.id === 'string' ? JSON.stringify(item.id) : null;
  const error = failure ? JSON.stringify({ code: failure.code, message: failure.message }) : null;
  // the body is put in as the text that it was hashed as: to make it again costs as much as the rest of the line
  return `{"id":${id},"custom_id":${name},"response":${answeredAs(key, response)},"error":${error}}`;
}

function answeredAs(key: string, response: ReturnType<typeof responseOf>): string {
  if (!response) return 'null';
  const { status_code, body } = response;
  const status = status_code === undefined ? '' : `"status_code":${JSON.stringify(status_code)},`;
  const text = textOfBody(body);
  return `{${status}"request_id":${JSON.stringify(key)}${text === '' ? '' : `,"body":${text}`}}`;
}

function responseOf({ steps }: Item) {
  return Array.isArray(steps) ? steps.find(step => step?.response !== undefined)?.response : undefined;
}

/** The key of its call; of an item that was never asked, a hash that stands for it. */
function keyOf({ id, row, steps, failure }: Item): string {
  const [key] = (Array.isArray(steps) && steps[0]?.calls) || [];
  if (typeof key === 'string') return key;
  return hash('sha256', JSON.stringify([id, row, failure])).slice(0, 32);
}
