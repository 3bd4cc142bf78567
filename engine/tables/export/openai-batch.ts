/**
 * The output of a batch file as OpenAI and vLLM write it, a line an item:
 *
 *   {"id": …, "custom_id": …, "response": {"status_code", "request_id", "body"} | null, "error": {"code", "message"} | null}
 *
 * The body is the server's own. A failed item has an error, and beside it what a server answered, if one did. Ids are made
 * of the key of the call, so that the ledger knows them and two runs write the same bytes.
 */
import { hash } from 'node:crypto';
import {
  type Drain,
  type Frame,
  type OnBroken,
  type Output,
  onceATurn,
} from '../../core/files/ndjson-out.ts';
import { type SideFile, sideFile } from '../../core/files/side-file.ts';
import { ItemFailure } from '../../core/item/failure.ts';
import { failureOf, type Item, isFailed } from '../../core/item/item.ts';
import { textOfBody } from '../../core/item/response.ts';
import type { Format, FormatOptions } from './export-format.ts';
import { InOrder, inTurns } from './in-order.ts';

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

function frameOf({ errors: path, ordered }: FormatOptions): Frame {
  let errors: SideFile | undefined; // one, for any number of outputs
  return { isDocument: false, open };

  function open(drain: Drain, folder: string, onBroken: OnBroken): Output {
    if (path !== undefined) errors ??= sideFile(path);
    const texts = textsInto(drain, onBroken);
    const order = ordered ? new InOrder(folder) : null;
    const turns = inTurns({
      order,
      emit(text) {
        if (text.startsWith(ERROR)) errors?.writeText(text.slice(1));
        else texts.put(`${text.slice(1)}\n`);
      },
      isOpen: () => texts.isOpen,
      ready: texts.ready,
      onBroken,
    });
    return {
      write(item) {
        const mark = errors !== undefined && isFailed(item) ? ERROR : LINE;
        return turns.add(item, mark + lineOf(item));
      },
      ready: turns.ready,
      async end() {
        await turns.end();
        await texts.end();
      },
    };
  }
}

/** Says, in place of the item's own failure, what the line says is wrong; null where nothing is. */
type Said = (item: Item) => { code: string; message: string } | null;

/** The line of an item, without a newline. */
export function lineOf(item: Item, said: Said = failureIn): string {
  const failure = said(item);
  const response = responseOf(item);
  const key = keyOf(item);
  const id = JSON.stringify(`batch_req_${lineKeyOf(item, key)}`);
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

const failureIn: Said = item => failureOf(item) ?? null;

export function responseOf({ steps }: Item) {
  return Array.isArray(steps) ? steps.find(step => step?.response !== undefined)?.response : undefined;
}

/** The key of its call; of an item that was never asked, a hash that stands for it. */
function keyOf({ id, row, steps, failure }: Item): string {
  const [key] = (Array.isArray(steps) && steps[0]?.calls) || [];
  if (typeof key === 'string') return key;
  return hash('sha256', JSON.stringify([id, row, failure])).slice(0, 32);
}

/** What a line is known by: its call, and of equal requests, which were asked once, its own id too. */
function lineKeyOf({ id, steps }: Item, key: string): string {
  const shared = Array.isArray(steps) && steps[0]?.shared;
  return shared ? hash('sha256', JSON.stringify([key, id])).slice(0, 32) : key;
}

/** Texts on their way out: some at a time in one write, and none longer than until the event loop comes round. */
interface Texts {
  put(text: string): void;
  /** the reader takes more without waiting */
  readonly isOpen: boolean;
  ready(act: () => void): void;
  end(): Promise<void>;
}

/** Characters that leave in one write. */
const ROOM = 128 * 1024;

function textsInto(drain: Drain, onBroken: OnBroken): Texts {
  let waiting = '';
  const flushSoon = onceATurn(flush, onBroken);
  let isOpen = true;

  function flush(): void {
    if (waiting === '') return;
    const bytes = Buffer.from(waiting);
    waiting = '';
    isOpen = drain.put(bytes);
  }

  return {
    put(text) {
      waiting += text;
      if (waiting.length >= ROOM) flush();
      flushSoon();
    },
    get isOpen() {
      return isOpen;
    },
    ready: act =>
      drain.ready(() => {
        isOpen = true;
        act();
      }),
    async end() {
      flush();
      await drain.end();
    },
  };
}
