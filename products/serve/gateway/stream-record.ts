/**
 * What a stream told, for the record: its events put together to one completion, as the model would have said it at once.
 * The client has the events themselves.
 */
import { createHash } from 'node:crypto';
import { repetitionIn } from '../../../engine/answers/text-faults.ts';
import { readUsage } from '../../../engine/asking/endpoints/completion.ts';
import type { Answer } from '../../../engine/core/item/call.ts';
import type { Usage, WholeAnswer } from '../../../engine/core/item/item.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';

/** Choices of one answer that are kept apart, and calls of tools in all of them. */
const MOST_CHOICES = 128;
const MOST_TOOLS = 1_024;
/** UTF-16 units of an id, a role, the name of a tool and a reason to end: one of them may be as long as an event. */
const LONGEST_WORD = 256;
/** UTF-16 units of an answer that are kept; the rest is hashed and counted. */
const MOST_KEPT = 1024 * 1024;
/** As many characters of an end are looked at for repetition, each time that so many have come. */
const END = 8_000;
const LOOK_EVERY = 500;

interface Choice {
  role?: string | undefined;
  content: string;
  reasoning: string;
  tools: Map<number, { id?: string | undefined; name?: string | undefined; arguments: string }>;
  finish: string | null;
}

export interface Runaway {
  /** the same words again and again at the end */
  repeats: boolean;
  /** so much white space in a row */
  blanks: number;
}

export interface Told {
  /** Takes the data of one event. */
  event(data: string): void;
  /** whether any content has come */
  readonly hasBegun: boolean;
  /** an error that the server sent in place of an event, in its words */
  readonly error: string | null;
  /** the server said that the answer is complete, or why it ends here */
  readonly isFinished: boolean;
  /** it said `[DONE]` */
  readonly isDone: boolean;
  /** why the stream is to be cut off; null where it is not */
  readonly runaway: string | null;
  /** `cut`: the answer ended so, and not as the model said */
  answer(cut?: string): Answer;
}

export function createTold(limits: Runaway | null): Told {
  const choices = new Map<number, Choice>();
  let first: JsonObject = {};
  let usage: Usage | null = null;
  let events = 0;
  let kept = 0;
  let tools = 0;
  let units = 0;
  let bytes = 0;
  let error: string | null = null;
  let isDone = false;
  let runaway: string | null = null;
  let end = '';
  let looked = 0;
  const whole = createHash('sha256');

  function add(choice: Choice, which: 'content' | 'reasoning', piece: unknown): void {
    if (typeof piece !== 'string' || piece === '') return;
    units += piece.length;
    bytes += Buffer.byteLength(piece);
    whole.update(piece);
    if (kept + piece.length <= MOST_KEPT) {
      choice[which] += piece;
      kept += piece.length;
    }
    if (limits === null || runaway !== null || choices.size > 1) return;
    end = (end + piece).slice(-END);
    if (units - looked < LOOK_EVERY) return;
    looked = units;
    runaway = runawayIn(end, limits);
  }

  function addTools(choice: Choice, calls: unknown): void {
    for (const call of Array.isArray(calls) ? calls.filter(isObject) : []) {
      const index = typeof call.index === 'number' ? call.index : 0;
      const known = choice.tools.get(index) ?? { arguments: '' };
      if (!choice.tools.has(index) && tools < MOST_TOOLS) {
        choice.tools.set(index, known);
        tools += 1;
      }
      known.id ??= word(call.id);
      const made = isObject(call.function) ? call.function : {};
      known.name ??= word(made.name);
      const piece = typeof made.arguments === 'string' ? made.arguments : '';
      units += piece.length;
      if (kept + piece.length > MOST_KEPT) continue;
      known.arguments += piece;
      kept += piece.length;
    }
  }

  return {
    event(data) {
      if (data === '[DONE]') {
        isDone = true;
        return;
      }
      const event = objectIn(data);
      if (event === null) return;
      if (event.error) error ??= JSON.stringify(event.error).slice(0, 500);
      if (first.id === undefined) first = { id: word(event.id), model: word(event.model) };
      if (isObject(event.usage)) usage = readUsage(event.usage);
      let said = false;
      for (const part of Array.isArray(event.choices) ? event.choices.filter(isObject) : []) {
        const index = typeof part.index === 'number' ? part.index : 0;
        const choice: Choice = choices.get(index) ?? {
          content: '',
          reasoning: '',
          tools: new Map(),
          finish: null,
        };
        if (choices.size < MOST_CHOICES) choices.set(index, choice);
        const delta = isObject(part.delta) ? part.delta : {};
        choice.role = word(delta.role) ?? choice.role;
        const before = units;
        add(choice, 'content', delta.content ?? part.text);
        add(choice, 'reasoning', delta.reasoning_content ?? delta.reasoning);
        addTools(choice, delta.tool_calls);
        said ||= units > before;
        choice.finish = word(part.finish_reason) ?? choice.finish;
      }
      if (said) events++;
    },
    get hasBegun() {
      return events > 0;
    },
    get error() {
      return error;
    },
    get isFinished() {
      return choices.size > 0 && [...choices.values()].every(({ finish }) => finish !== null);
    },
    get isDone() {
      return isDone;
    },
    get runaway() {
      return runaway;
    },
    answer(cut) {
      const said = [...choices].map(([index, { role, content, reasoning, tools, finish }]) => ({
        index,
        message: {
          ...(role !== undefined && { role }),
          content,
          ...(reasoning !== '' && { reasoning }),
          ...(tools.size > 0 && {
            tool_calls: [...tools].map(([at, { id, name, arguments: text }]) => ({
              index: at,
              id,
              function: { name, arguments: text },
            })),
          }),
        },
        finish_reason: cut === undefined ? finish : 'length',
      }));
      const text = JSON.stringify({
        ...first,
        object: 'stream',
        choices: said,
        usage,
        events,
        ...(cut !== undefined && { cut }),
      });
      const rest: WholeAnswer | undefined =
        units > kept ? { characters: units, bytes, sha256: whole.digest('hex').slice(0, 16) } : undefined;
      return {
        text,
        ...(rest && { whole: rest }),
        finish: cut === undefined ? (said[0]?.finish_reason ?? 'none') : 'length',
        // where the server does not say, each event is taken for a token: `usage` in the text is null then
        usage: usage ?? { prompt: 0, completion: events },
        replayed: false,
      };
    },
  };
}

const word = (value: unknown): string | undefined =>
  typeof value === 'string' ? value.slice(0, LONGEST_WORD) : undefined;

/** Why an end like this is no answer any more; null where it is. */
function runawayIn(end: string, { repeats, blanks }: Runaway): string | null {
  const trimmed = end.trimEnd();
  if (blanks > 0 && end.length - trimmed.length >= blanks)
    return `white space without an end, ${end.length - trimmed.length} characters of it`;
  const loop = repeats ? repetitionIn(end) : null;
  return loop && `the same ${loop.unit.length} characters ${loop.times} times`;
}

function objectIn(data: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(data);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
