/**
 * The items of a plan: those of the input, and where more are wanted than it has, the input again and again under new
 * ids. A prompt that comes again is changed in as many places as it takes that it differs from its first self where the
 * input's prompts differ from each other: the prefix cache must not find more than it would in a real input.
 */
import type { Item } from '../../engine/core/item/item.ts';

export interface Sample {
  readonly size: number;
  /** characters that the prompts of two items may have in common, at most */
  readonly shared: number;
  /** `index` from 0 to `size` − 1 */
  at(index: number): Item;
}

/** As many as wanted, of which the input has the first ones. */
export function sampleOf(input: readonly Item[], size: number): Sample {
  const places = differences(input);
  const width = String(Math.ceil(size / input.length)).length;
  // items of one prompt, such as its orderings, may have more in common: their answers begin alike
  const isTwice = places.size < input.length;
  let shared = isTwice ? Number.POSITIVE_INFINITY : 0;
  for (const place of places.values()) shared = Math.max(shared, place + 1);
  return {
    size,
    // the marks of two copies begin alike
    shared: shared + width,
    at(index) {
      const item = input[index % input.length] as Item;
      const time = Math.floor(index / input.length);
      if (time === 0) return item;
      const { prompt } = item;
      const id = `${item.id}~${time + 1}`;
      if (typeof prompt !== 'string') return { ...item, id };
      // behind the character that tells it from its nearest neighbour, whose copy has the same mark
      const place = (places.get(prompt) ?? 0) + 1;
      const mark = `~${String(time + 1).padStart(width, '0')}`;
      const marked = `${prompt.slice(0, place)}${mark}${prompt.slice(place + mark.length)}`;
      return { ...item, id, prompt: marked };
    },
  };
}

const STRETCHES = 16;

/**
 * About `most` of them, a whole number, at least one and never more, in stretches that are spread over all: neighbours
 * stay together, for they share what they begin with.
 */
export function spread(sample: Sample, most: number): Sample {
  const count = Math.max(1, Math.ceil(most));
  if (count >= sample.size) return sample;
  const length = Math.ceil(count / STRETCHES);
  const gap = (sample.size - count) / STRETCHES;
  return {
    ...sample,
    size: count,
    at: index => sample.at(index + Math.floor(Math.floor(index / length) * gap)),
  };
}

/** Of each prompt how far it is the same as another one of the input; two that are the same all along count as one. */
function differences(input: readonly Item[]): Map<string, number> {
  const prompts = new Set<string>();
  for (const { prompt } of input) if (typeof prompt === 'string') prompts.add(prompt);
  const sorted = [...prompts].sort((a, b) => (a < b ? -1 : 1));
  const places = new Map<string, number>();
  for (const [index, prompt] of sorted.entries()) {
    const before = shared(prompt, sorted[index - 1] ?? '');
    places.set(prompt, Math.max(before, shared(prompt, sorted[index + 1] ?? '')));
  }
  return places;
}

function shared(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  return at;
}
