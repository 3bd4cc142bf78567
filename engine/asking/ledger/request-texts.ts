/** Requests put together again: from a call's own line and the texts of its file that it names. */
import { isObject } from '../../core/json/pointer.ts';
import type { Place } from './key-index.ts';
import { CRC, ID_LENGTH, isText, RAW_BODY, REQUEST, textIdIn } from './ledger-format.ts';
import { type Line, openLines, parsed } from './read-ledger.ts';

const QUOTE = 0x22;
const BEFORE_HEAD = '","head":"';
const BEFORE_TAIL = '","tail":"';

const BEFORE_PATH = `${REQUEST}"path":"`;

/** Whether a call line has a whole body, as raw calls have, and names no texts. */
export function hasBody(line: Buffer): boolean {
  return rawBodyAt(line) > 0;
}

/** Where the body begins in a raw call's line; -1 in any other. */
function rawBodyAt(line: Buffer): number {
  const path = line.indexOf(BEFORE_PATH) + BEFORE_PATH.length;
  if (path < BEFORE_PATH.length) return -1;
  const at = line.indexOf(QUOTE, path) + 1; // a path has no quotes
  return line.toString('latin1', at, at + RAW_BODY.length) === RAW_BODY ? at + RAW_BODY.length : -1;
}

/** The ids of the texts that a call line names, without parsing it; null where it names none. */
export function textIdsIn(line: Buffer): [head: string, tail: string] | null {
  // a quote inside of a JSON string has a backslash before it, so these occur only where they are meant
  const request = line.indexOf(REQUEST);
  const head = request < 0 ? -1 : line.indexOf(BEFORE_HEAD, request);
  if (head < 0) return null;
  const names = line.toString('latin1', head, head + BEFORE_HEAD.length + 2 * ID_LENGTH + BEFORE_TAIL.length);
  const match = /^","head":"([0-9a-f]{16})","tail":"([0-9a-f]{16})$/.exec(names);
  return match && [match[1] as string, match[2] as string];
}

const OPEN_MESSAGES = '"messages":[';

/**
 * The request of a call line as it went over the wire, or as it was redacted; null where a text is lost that it names.
 * What is its own is in the line byte for byte, from the list of messages on.
 */
export function bodyOf(line: Buffer, textOf: (id: string) => string | null): string | null {
  const raw = rawBodyAt(line);
  if (raw > 0) return line.toString('utf8', raw, line.lastIndexOf(`}${CRC}`));
  const ids = textIdsIn(line);
  const head = ids && textOf(ids[0]);
  const tail = ids && textOf(ids[1]);
  if (head === null || tail === null) return null;
  const text = line.toString();
  const from = text.indexOf(OPEN_MESSAGES, text.indexOf(REQUEST)) + OPEN_MESSAGES.length;
  return `${head}${text.slice(from, text.lastIndexOf(`}${CRC}`))}${tail}`;
}

export type Texts = ReturnType<typeof textsOf>;

/** Characters of texts that are kept in memory: a run has two texts for each agent. */
const KEPT = 1 << 24;

/** The texts of a file: a run names its own alone. */
export function textsOf(path: string) {
  const places = new Map<string, Place>();
  const lines = openLines([path]);
  const kept = new Map<string, string | null>();
  let length = 0;

  /** null where it is lost */
  function contentOf(id: string): string | null {
    let content = kept.get(id);
    if (content === undefined) {
      const place = places.get(id);
      const line = place && parsed(lines.read(place).toString());
      content = typeof line?.content === 'string' ? line.content : null;
      length += id.length + (content?.length ?? 0);
      if (length > KEPT) {
        kept.clear();
        length = 0;
      }
      kept.set(id, content);
    }
    return content;
  }

  return {
    /** To be told of every line, as it comes: it keeps the places of the texts. */
    note({ at, bytes }: Line): void {
      if (!isText(bytes)) return;
      places.set(textIdIn(bytes), { file: 0, offset: at, length: bytes.length });
      kept.delete(textIdIn(bytes));
    },
    has: (id: string): boolean => places.has(id),
    contentOf,
    /** The request of a call as it went over the wire, or as it was redacted; null where a text of it is lost. */
    bodyOf: ({ bytes }: Line): string | null => bodyOf(bytes, contentOf),
    close: (): void => lines.close(),
  };
}

export interface Request {
  /** null where the text that holds it is lost */
  system: string | null;
  input: Message[];
  /** all else that was in the body: temperature, seed, the schema to answer by … */
  parameters: Record<string, unknown>;
}

export interface Message {
  role: string;
  /** text, or a list of parts */
  content: string | unknown[];
}

/** What a message says, for a person and for counts: its text, or its parts as JSON. */
export function contentText({ content }: Message): string {
  return typeof content === 'string' ? content : JSON.stringify(content);
}

/** What was asked. Where a text is lost, only what the line of the call itself has. */
export function readRequest(line: Line, texts: Texts): Request {
  const { model: _model, messages, ...parameters } = parsed(texts.bodyOf(line) ?? '') ?? {};
  if (hasBody(line.bytes) && !(Array.isArray(messages) && messages.every(isMessage)))
    return {
      system: '',
      input: [],
      parameters: { ...(messages !== undefined && { messages }), ...parameters },
    };
  if (Array.isArray(messages)) {
    const sent = messages.filter(isMessage);
    const system = sent[0]?.role === 'system' ? contentText(sent[0]) : '';
    return { system, input: sent.filter(({ role }) => role !== 'system'), parameters };
  }
  const { request } = parsed(line.bytes.toString()) ?? {};
  const { path: _path, head: _head, tail: _tail, messages: own, ...rest } = isObject(request) ? request : {};
  return { system: null, input: Array.isArray(own) ? own.filter(isMessage) : [], parameters: rest };
}

function isMessage(value: unknown): value is Message {
  return (
    isObject(value) &&
    typeof value.role === 'string' &&
    (typeof value.content === 'string' || Array.isArray(value.content))
  );
}
