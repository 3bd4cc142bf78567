/**
 * What the items of an input begin with in common, as a tree of which the branches are cut off: groups, each of which
 * begins alike for a good part and with nobody else. A plan that repeats its input, or takes a part of it, does so group
 * by group, for what a server finds in its prefix cache hangs on that.
 */
import type { Item } from '../../engine/core/item/item.ts';
import { isObject } from '../../engine/core/json/pointer.ts';

/** Items by their places in the input, and how many characters they have in common with others, at most. */
export interface Group {
  items: number[];
  shared: number;
}

/** Beginnings that are longer by less than this are the same for a server, which shares blocks of 16 tokens. */
const ALIKE = 64;

/** What an item shows a model, in the order in which it is shown; texts alone. */
export function textsOf({ prompt, messages, request }: Item): string[] {
  if (typeof prompt === 'string') return [prompt];
  if (Array.isArray(messages)) return messages.flatMap(contentsOf);
  const { messages: asked, prompt: given, input } = isObject(request?.body) ? request.body : {};
  if (Array.isArray(asked)) return asked.flatMap(contentsOf);
  return [given ?? input].flat().filter(text => typeof text === 'string');
}

function contentsOf(message: unknown): string[] {
  const { content } = isObject(message) ? message : {};
  if (typeof content === 'string') return [content];
  return (Array.isArray(content) ? content : []).flatMap(part =>
    isObject(part) && typeof part.text === 'string' ? [part.text] : [],
  );
}

/** The tree of an input, sorted once. */
export class Alike {
  /** characters that two items may have in common, at most */
  readonly shared: number;
  readonly #texts: string[] = [];
  /** of each text the items that have it */
  readonly #items: number[][] = [];
  /** of each text how much of it is that of the one before */
  readonly #common: number[] = [];

  constructor(input: readonly Item[]) {
    const byText = new Map<string, number[]>();
    for (const [index, item] of input.entries()) {
      const text = textsOf(item).join('\n');
      const same = byText.get(text);
      if (same) same.push(index);
      else byText.set(text, [index]);
    }
    let most = 0;
    for (const [text, items] of [...byText].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const shared = this.#texts.length === 0 ? 0 : common(text, this.#texts.at(-1) as string);
      most = Math.max(most, shared);
      this.#common.push(shared);
      this.#texts.push(text);
      this.#items.push(items);
    }
    // items of one text, such as the orderings of a row, may have more in common: their answers begin alike
    this.shared = this.#texts.length < input.length ? Number.POSITIVE_INFINITY : most + 1;
  }

  /** Groups of at most `most` items, in the order of their first items. Those of one text stay together in any case. */
  groups(most: number): Group[] {
    const groups: Group[] = [];
    const open: [from: number, to: number][] = [[0, this.#texts.length]];
    for (let range = open.pop(); range !== undefined; range = open.pop()) {
      const [from, to] = range;
      const outside = Math.max(this.#common[from] ?? 0, this.#common[to] ?? 0);
      let inside = Number.POSITIVE_INFINITY;
      let count = this.#items[from]?.length ?? 0;
      for (let at = from + 1; at < to; at++) {
        inside = Math.min(inside, this.#common[at] as number);
        count += (this.#items[at] as number[]).length;
      }
      if (to - from <= 1 || (count <= most && inside >= outside + ALIKE)) {
        const items = this.#items.slice(from, to).flat();
        if (items.length > 0) groups.push({ items: items.sort((a, b) => a - b), shared: outside });
        continue;
      }
      let begin = from;
      for (let at = from + 1; at <= to; at++) {
        if (at < to && (this.#common[at] as number) >= inside + ALIKE) continue;
        open.push([begin, at]);
        begin = at;
      }
    }
    return groups.sort((a, b) => (a.items[0] as number) - (b.items[0] as number));
  }
}

function common(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  return at;
}
