/**
 * What prompts have in common, for who would rather change a template than buy a GPU: how much of their text begins as another
 * one does, and how much would if what repeats stood before what differs.
 */
import { hash } from 'node:crypto';
import type { Begins } from '../core/item/call.ts';
import type { Item } from '../core/item/item.ts';
import { counted, cut, percent } from '../core/item/wording.ts';
import { visible } from '../core/json/visible.ts';
import { Beginnings, textsIn } from './beginnings.ts';

/** Characters of a paragraph that is worth being computed once. */
const LONG = 200;
/** Paragraphs, and requests, that are known again; of more than so many the shares are too low. */
const MOST = 2_000_000;
/** Better by so much, as a share of the text, is worth a word. */
const WORTH = 0.1;

export class Sharing {
  readonly #beginnings = new Beginnings();
  readonly #paragraphs = new Set<bigint>();
  #bytes = 0;
  #again = 0;
  /** what repeats first: its column, where it has one, else how it begins */
  #name: string | null = null;
  /** requests that are answered alike each time */
  readonly #requests = new Set<bigint>();
  #equal = 0;
  #firstEqual = '';

  /** `question`: what equal requests have in common, where they would be answered alike each time; null where they would not. */
  add(item: Item, begins: Begins, question: string | null): void {
    const texts = textsIn(begins);
    this.#beginnings.add(texts);
    for (const text of texts) {
      this.#bytes += text.length;
      for (const paragraph of text.split('\n')) if (paragraph.length >= LONG) this.#look(paragraph, item);
    }
    if (question === null) return;
    const name = nameOf(question);
    if (this.#requests.has(name)) {
      if (this.#equal === 0) this.#firstEqual = `${item.id}`;
      this.#equal += 1;
    } else if (this.#requests.size < MOST) this.#requests.add(name);
  }

  #look(paragraph: string, item: Item): void {
    const name = nameOf(paragraph);
    if (this.#paragraphs.has(name)) {
      this.#again += paragraph.length;
      this.#name ??= columnOf(paragraph, item) ?? `"${paragraph.slice(0, 40).trim()}…"`;
    } else if (this.#paragraphs.size < MOST) this.#paragraphs.add(name);
  }

  shared(): Shared {
    const { bytes, repeated } = this.#beginnings.arranged();
    const share = bytes === 0 ? 0 : repeated / bytes;
    const again = this.#bytes === 0 ? 0 : this.#again / this.#bytes;
    // beginnings are compared by blocks, so that what begins alike seems a little less than what repeats
    const isBetter = bytes > 0 && again > 1.25 * share + WORTH;
    return {
      share,
      ...(isBetter && this.#name !== null && { reordered: { share: again, first: this.#name } }),
      ...(this.#equal > 0 && { equal: { count: this.#equal, first: this.#firstEqual } }),
    };
  }
}

/** What prompts have in common. */
export interface Shared {
  /** the share of their text that begins as another prompt does */
  share: number;
  /** the share with what repeats in front, and what that is; absent where it is hardly better */
  reordered?: { share: number; first: string };
  /** requests that are equal to an earlier one and would be answered alike, and the first of them */
  equal?: { count: number; first: string };
}

/** As lines for a person; none where prompts have nothing in common. `once`: equal requests are asked once. */
export function sharedWords({ share, reordered, equal }: Shared, once: boolean): string[] {
  const lines: string[] = [];
  if (share >= 0.01 || reordered)
    lines.push(`${percent(share)} of the prompts' text begins as another prompt does, and is computed once`);
  if (reordered)
    lines.push(
      `${percent(reordered.share)} if what repeats (${reordered.first}) stood first, before what differs`,
    );
  if (equal)
    lines.push(
      `${counted(equal.count, 'request is', 'requests are')} equal to an earlier one, such as ${cut(visible(equal.first), 80)}: ${once ? 'asked once' : '--once asks them once'}`,
    );
  return lines;
}

const nameOf = (text: string): bigint => hash('sha1', text, 'buffer').readBigUInt64LE();

function columnOf(paragraph: string, { input }: Item): string | null {
  const found = Object.entries(input ?? {}).find(
    ([, value]) =>
      typeof value === 'string' && value.length >= LONG && paragraph.includes(value.slice(0, LONG)),
  );
  return found === undefined ? null : `the column ${found[0]}`;
}
