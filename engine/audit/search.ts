/**
 * Lines by their id, over files of any size: one pass, and only what matches is kept. An id may be cut short where its
 * beginning names one item alone.
 */
import { type ByteInput, inputsOf } from '../core/files/input-files.ts';
import { readItems } from '../core/files/ndjson-in.ts';
import { forget, originOf, textOf } from '../core/files/origin.ts';
import { type Item, idOf, isItem, isLegacy, sampleMark } from '../core/item/item.ts';
import type { JsonObject } from '../core/json/pointer.ts';

export interface Hit {
  line: Item;
  /** the id that it goes by */
  id: string;
  /** `file:line`, or the result of a document */
  where: string;
  /** the line's text, for questions that the parsed line cannot answer */
  text: string;
}

export interface Search {
  hits: Hit[];
  /** ids that begin with what was asked for, where they are several */
  several: string[];
  /** ids that begin like it or hold it; where there are none, `others` are some that do not */
  near: string[];
  others: string[];
  read: number;
  unreadable: number;
}

/** Ids that a message names. */
const MAX_NAMED_IDS = 5;

/**
 * The lines of `paths` that go by `id`, in order: those with exactly this id, else those whose id begins with it, if
 * that is one id. What tells of the same item under another name (a legacy result of an item) comes with them.
 */
export async function searchById(paths: readonly string[], id: string, maxLine: number): Promise<Search> {
  const exact: Hit[] = [];
  let begins: Hit[] = [];
  const several = new Set<string>();
  const near = nearest(id);
  const kinds = new Set<string>();
  const counts = { read: 0, unreadable: 0 };
  const inputs = inputsOf(paths);
  const piped = inputs.some(input => !input.regular);

  await each(inputs, maxLine, (line, where) => {
    counts.read += 1;
    const own = idOf(line);
    if (own === null) {
      if (line.failure !== undefined) counts.unreadable += 1;
      return;
    }
    kinds.add(isItem(line) ? 'item' : isLegacy(line) ? 'legacy' : 'other');
    if (namesOf(line).includes(id)) exact.push(hitOf(line, own, where));
    else if (exact.length > 0) return;
    else if (own.startsWith(id)) {
      if (several.size <= MAX_NAMED_IDS) several.add(own);
      if (several.size === 1) begins.push(hitOf(line, own, where));
      else begins = [];
    } else near.look(own);
  });

  const found = exact.length > 0 ? exact : begins;
  const ids = new Set(found.flatMap(hit => namesOf(hit.line)));
  let hits = found;
  if (found.length > 0 && kinds.size > 1 && !piped) {
    hits = [];
    await each(inputsOf(paths), maxLine, (line, where) => {
      const own = idOf(line);
      if (own !== null && namesOf(line).some(name => ids.has(name))) hits.push(hitOf(line, own, where));
    });
  }
  return { ...counts, hits, several: hits.length > 0 ? [] : [...several], ...near.ids() };
}

/**
 * The names that a line goes by: its id (of a batch both, `custom_id` and its own), and `prompt_id/ordering` of the
 * legacy result that it is or was made into.
 */
export function namesOf(line: JsonObject): string[] {
  const names = [idOf(line) ?? ''];
  if (typeof line.id === 'string' && line.id !== names[0]) names.push(line.id);
  const { row, prompt_id, ordering } = line;
  const number = row ?? prompt_id;
  if (typeof number !== 'number' && typeof number !== 'string') return names;
  const mark = sampleMark(line);
  if (typeof ordering === 'string') names.push(`${number}/${ordering}${mark}`);
  else if (Array.isArray(ordering) && ordering.every(agent => typeof agent === 'string'))
    names.push(`${number}/${ordering.join()}${mark}`);
  return names;
}

function hitOf(line: Item, id: string, where: string): Hit {
  const origin = originOf(line);
  return { line, id, where, text: origin === undefined ? '' : textOf(origin) };
}

/** Calls `take` with each line and where it is. */
async function each(
  inputs: readonly ByteInput[],
  maxLine: number,
  take: (line: Item, where: string) => void,
): Promise<void> {
  for (const input of inputs) {
    const items = readItems([input], { stage: 'explain', maxLine, documents: true, stopped: () => false });
    await new Promise<void>((resolve, reject) => {
      items
        .map(line => {
          take(line, `${input.name}:${originOf(line)?.number ?? '?'}`);
          forget(line); // a kept line must not pin the block that it was read from
          return line;
        })
        .stopOnError(reject)
        .done(resolve);
    });
  }
}

/** Keeps the few ids that share most with `id`: those that hold it, then those that begin like it. */
function nearest(id: string): { look(other: string): void; ids(): Pick<Search, 'near' | 'others'> } {
  const wanted = id.toLowerCase();
  const kept: { id: string; score: number }[] = [];
  return {
    look(other) {
      const score = likeness(wanted, other.toLowerCase());
      if (kept.length === MAX_NAMED_IDS && score <= (kept.at(-1)?.score ?? 0)) return;
      if (kept.some(one => one.id === other)) return;
      kept.push({ id: other, score });
      kept.sort((a, b) => b.score - a.score);
      kept.length = Math.min(kept.length, MAX_NAMED_IDS);
    },
    ids: () => ({
      near: kept.filter(one => one.score > 0).map(one => one.id),
      others: kept.filter(one => one.score === 0).map(one => one.id),
    }),
  };
}

function likeness(wanted: string, other: string): number {
  let shared = 0;
  while (shared < wanted.length && wanted[shared] === other[shared]) shared += 1;
  return other.includes(wanted) ? wanted.length + 1 : shared;
}
