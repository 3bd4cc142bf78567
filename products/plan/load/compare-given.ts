/** What fw plan --compare is told: cards, splits, prices and a rate. */
import { usageError } from '../../../engine/core/item/failure.ts';
import type { Goal } from '../../kit/goal.ts';
import { splitOf } from '../../simulator/preset-options.ts';

/** Exit 64 where a part is no card, none of it is there, or it is named twice. */
export function cardsOf(text: string): { card: string; count: number | null }[] {
  const cards = text.split(',').map(part => {
    const [, count, card] = /^\s*(?:(\d{1,5})\s*[x×]\s*)?([a-z0-9-]{1,40})\s*$/i.exec(part) ?? [];
    if (card === undefined)
      throw usageError(
        `--compare: expected cards, such as h100-80g,16xa100-80g, found "${part.slice(0, 80)}"`,
      );
    return { card: card.toLowerCase(), count: count === undefined ? null : Number(count) };
  });
  const twice = cards.find(({ card }, at) => cards.findIndex(one => one.card === card) < at);
  if (twice !== undefined) throw usageError(`--compare: expected each card once, found ${twice.card} twice`);
  const none = cards.find(({ count }) => count === 0);
  if (none !== undefined) throw usageError(`--compare: expected 1 card or more, found 0 of ${none.card}`);
  return cards;
}

export function splitsOf(text = '1'): number[] {
  try {
    return [...new Set(text.split(',').map(part => splitOf(part.trim())))];
  } catch (error) {
    throw error instanceof RangeError ? usageError(error.message) : error;
  }
}

export function pricesOf(
  texts: readonly string[] | undefined,
  cards: readonly string[],
): Map<string, number> {
  const prices = (texts ?? [])
    .flatMap(text => text.split(','))
    .map((part): [string, number] => {
      const [, card, price] = /^\s*([a-z0-9-]{1,40})=(\d{1,6}(?:\.\d{1,4})?)\s*$/i.exec(part) ?? [];
      if (card === undefined)
        throw usageError(
          `--price: expected CARD=PRICE of a card and an hour, such as h100-80g=2.5, found "${part.slice(0, 80)}"`,
        );
      return [card.toLowerCase(), Number(price)];
    });
  const of = new Map<string, number>();
  for (const [card, price] of prices) {
    if (!cards.includes(card))
      throw usageError(`--price: expected a card of --compare, one of ${cards.join(', ')}, found "${card}"`);
    if (of.has(card)) throw usageError(`--price: expected a price of ${card} once, found two`);
    of.set(card, price);
  }
  return of;
}

export function rateOf(text: string | undefined, goal: Goal | null): number {
  if (text === undefined)
    throw usageError(
      'expected --items, how many prompts, or --rate, requests a second, with --compare, found neither',
    );
  if (goal === null)
    throw usageError(
      'expected --goodput with --compare and --rate, found none: the bounds that decide how many cards are enough',
    );
  const rate = Number(text);
  if (/^\d{1,6}(?:\.\d{1,6})?$/.test(text) && rate > 0) return rate;
  throw usageError(`--rate: expected one number above 0 with --compare, found "${text}"`);
}
