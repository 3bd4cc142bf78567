/**
 * The items of a plan: those of the input, and where more are wanted than it has, the input again and again under new
 * ids. A group of prompts that begin alike comes again as another group that begins alike: the copies are changed where
 * the group differs from others, so that the prefix cache finds in them what it would in a real input.
 */
import type { Item } from '../../engine/core/item/item.ts';
import { isObject, type JsonObject } from '../../engine/core/json/pointer.ts';
import { lcg } from '../simulator/random.ts';
import { Alike, type Group, textsOf } from './alike.ts';

export interface Sample {
  readonly size: number;
  /** characters that the prompts of two items may have in common, at most */
  readonly shared: number;
  /** `index` from 0 to `size` − 1 */
  at(index: number): Item;
}

/** One that can be taken a part of: about so many of its items, at least one, in their order. */
export interface Whole extends Sample {
  /** Whole groups of what begins alike, drawn from all over it. */
  part(most: number): Sample;
  /** Single ones at even distances: what they are like, and nothing of how they stand together. */
  single(most: number): Sample;
  /** A few stretches, in which everything stands that stands between two items. */
  stretches(most: number): Sample;
}

/** In a copy no group is larger than this share of the input: what nearly all begin with is a preamble, not a group. */
const PREAMBLE = 0.5;
/** … and in a part none is larger than this share of the part, if of those that are split so many items are left. */
const GRAIN = 1 / 64;
const LEFT = 50;
/** Where one ends and the next begins the cache has what it would not have, so that they are few. */
const STRETCHES = 4;

/** As many as wanted, of which the input has the first ones. */
export function sampleOf(input: readonly Item[], size: number): Whole {
  const alike = new Alike(input);
  const copies = Math.ceil(size / input.length);
  const width = String(copies).length;
  const places = copies > 1 ? placesOf(alike.groups(PREAMBLE * input.length), input.length) : undefined;
  const at = (index: number): Item => {
    const place = index % input.length;
    const item = input[place] as Item;
    const time = Math.floor(index / input.length);
    if (time === 0 || places === undefined) return item;
    // copies have the same mark behind the character that tells their group from its nearest neighbour
    const mark = `~${String(time + 1).padStart(width, '0')}`;
    return { ...marked(item, (places[place] as number) + 1, mark), id: `${item.id}~${time + 1}` };
  };
  // the marks of two copies begin alike
  const shared = alike.shared + width;
  const whole = (most: number): number => Math.max(1, Math.min(size, Math.ceil(most)));
  const part = (most: number): Sample => {
    const wanted = whole(most);
    const grain = Math.max((LEFT * size) / wanted, GRAIN * wanted);
    const groups = alike.groups(Math.min(PREAMBLE * input.length, grain));
    const chosen = chosenOf(groups, { length: input.length, size, wanted });
    return { size: chosen.length, shared, at: index => at(chosen[index] as number) };
  };
  const stretches = (most: number): Sample => {
    const wanted = whole(most);
    const length = Math.ceil(wanted / STRETCHES);
    const gap = (size - wanted) / STRETCHES;
    return { size: wanted, shared, at: index => at(index + Math.floor(Math.floor(index / length) * gap)) };
  };
  const single = (most: number): Sample => {
    const wanted = whole(most);
    return { size: wanted, shared, at: index => at(Math.floor((index * size) / wanted)) };
  };
  return { size, shared, at, part, single, stretches };
}

function placesOf(groups: readonly Group[], length: number): Int32Array {
  const places = new Int32Array(length);
  for (const { items, shared } of groups) for (const index of items) places[index] = shared;
  return places;
}

interface Choosing {
  length: number;
  size: number;
  wanted: number;
}

/** One group of so many as stand for one, drawn from among them. */
function chosenOf(groups: readonly Group[], { length, size, wanted }: Choosing): Int32Array {
  const all: number[] = [];
  const random = lcg(1);
  const share = wanted / size;
  let count = 0;
  let few: number[][] = [];
  const settle = (): void => {
    for (const index of few[Math.floor(random() * few.length)] ?? []) all.push(index);
    few = [];
  };
  for (let copy = 0; copy * length < size; copy++) {
    for (const { items } of groups) {
      const here = items.map(index => copy * length + index).filter(index => index < size);
      if (here.length === 0) continue;
      few.push(here);
      // a share of a tenth is not quite one
      const before = Math.floor(count * share + 1e-9);
      count += 1;
      if (Math.floor(count * share + 1e-9) > before) settle();
    }
  }
  if (all.length === 0) settle();
  return Int32Array.from(all).sort();
}

/** The item with `mark` in the place of what its text has there. */
function marked(item: Item, place: number, mark: string): Item {
  const { prompt, messages, request } = item;
  let before = 0;
  let isMarked = false;
  const change = (text: string): string => {
    const from = place - before;
    before += text.length + 1;
    if (isMarked || from > text.length + 1) return text;
    isMarked = true;
    return text.slice(0, from) + mark + text.slice(from + mark.length);
  };
  if (typeof prompt === 'string') return { ...item, prompt: change(prompt) };
  if (Array.isArray(messages))
    return { ...item, messages: messages.map(message => inMessage(message, change)) };
  if (!isObject(request?.body) || textsOf(item).length === 0) return item;
  const body: JsonObject = { ...request.body };
  if (Array.isArray(body.messages)) body.messages = body.messages.map(message => inMessage(message, change));
  else {
    const name = body.prompt === undefined || body.prompt === null ? 'input' : 'prompt';
    const given = body[name];
    body[name] = Array.isArray(given)
      ? given.map(text => (typeof text === 'string' ? change(text) : text))
      : change(given as string);
  }
  return { ...item, request: { ...request, body } };
}

function inMessage(message: unknown, change: (text: string) => string): unknown {
  if (!isObject(message)) return message;
  const { content } = message;
  if (typeof content === 'string') return { ...message, content: change(content) };
  if (!Array.isArray(content)) return message;
  return {
    ...message,
    content: content.map(part =>
      isObject(part) && typeof part.text === 'string' ? { ...part, text: change(part.text) } : part,
    ),
  };
}
