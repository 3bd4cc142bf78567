/**
 * What was asked, line by line, to hold answers to: of each line only hashes of 8 bytes are kept, of its prompt, its
 * columns, its row and its ordering. A line that is an id alone says none of them.
 */
import { hashOf } from '../core/files/idset.ts';
import { type Item, isItem, isLegacy, isRawRequest, type Step } from '../core/item/item.ts';
import { isTexts } from '../core/item/line-shape.ts';
import { isObject, type JsonObject } from '../core/json/pointer.ts';
import type { Violation } from './legacy/leftovers.ts';

export interface AskedLines {
  /** Adds what the next line says; returns its number, from 0. */
  add(line: JsonObject | null): number;
  /** What `line` has in another form than the line of that number; null for nearly all. */
  otherThan(number: number, line: Item): Violation | null;
}

/** In the order in which they are compared. */
const PARTS = [
  ['prompt', 'the prompt'],
  ['input', 'the columns'],
  ['row', 'the row'],
  ['ordering', 'the ordering'],
] as const;

/** `list` is the name of the file, for messages. */
export function askedLines(list: string): AskedLines {
  let parts = new Float64Array(PARTS.length * 1024);
  let size = 0;
  return {
    add(line) {
      if (size * PARTS.length === parts.length) {
        const more = new Float64Array(parts.length * 2);
        more.set(parts);
        parts = more;
      }
      parts.set(line === null ? NOTHING : partsOf(line), size * PARTS.length);
      return size++;
    },
    otherThan(number, line) {
      const found = partsOf(line);
      for (const [nth, [key, words]] of PARTS.entries()) {
        const asked = parts[number * PARTS.length + nth] as number;
        const got = found[nth] as number;
        if (Number.isNaN(asked) || asked === got) continue;
        if (Number.isNaN(got) && !mustHave(key, line)) continue;
        return {
          code: 'not-strict',
          rule: 'other than asked',
          at: `/${key === 'prompt' ? placeOfPrompt(line) : key}`,
          expected: `${words} of its line in ${list} (--ids)`,
          got: Number.isNaN(got) ? 'nothing' : 'another',
        };
      }
      return null;
    },
  };
}

const NOTHING = PARTS.map(() => Number.NaN);

/** Results that were read back without their table have no columns, and know their row by another name. */
function mustHave(key: (typeof PARTS)[number][0], line: Item): boolean {
  if (key === 'prompt') return true;
  if (key === 'ordering' || !isItem(line)) return false;
  const { steps, decision } = line;
  const answers = [
    ...(Array.isArray(steps) ? steps : []),
    ...(decision ? [decision] : []),
  ] as (Step | null)[];
  return answers.some(step => Array.isArray(step?.calls) && step.calls.length > 0);
}

const placeOfPrompt = (line: JsonObject): string =>
  ['prompt', 'initial_prompt', 'messages', 'request'].find(key => key in line) ?? 'prompt';

/** NaN for what a line does not say. */
function partsOf(line: JsonObject): number[] {
  const { input, row, prompt_id, ordering } = line;
  const asked = line[placeOfPrompt(line)];
  const own = isLegacy(line) ? prompt_id : row;
  return [
    typeof asked === 'string'
      ? hashOf(asked)
      : Array.isArray(asked) || isRawRequest(asked)
        ? hashOf(JSON.stringify(asked))
        : Number.NaN,
    isObject(input) ? hashOf(JSON.stringify(Object.entries(input).sort(byKey))) : Number.NaN,
    Number.isSafeInteger(own) ? (own as number) : Number.NaN,
    isTexts(ordering) ? hashOf(ordering.join()) : Number.NaN,
  ];
}

const byKey = ([a]: [string, unknown], [b]: [string, unknown]): number => (a < b ? -1 : a > b ? 1 : 0);
