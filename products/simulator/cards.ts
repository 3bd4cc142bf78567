/** Cards, with what their data sheets say of them: facts/cards.json, each with its source. */
import cards from './facts/cards.json' with { type: 'json' };

export interface Card {
  name: string;
  gpu: string;
  /** as the driver says it */
  memory_mib: number;
  bandwidth_gb_s: number;
  /** dense; null where its tensor cores do not compute in it */
  peak_tflops: { bits16: number; fp8: number | null; int8: number | null };
  /** to other cards of the machine, in one direction */
  link: { kind: string; gb_s: number };
  source: string;
}

/** A machine has no more of a card (HGX and DGX); what several machines exchange is not known. */
export const MACHINE_CARDS = 8;

export const CARDS: readonly Card[] = cards;

export const CARD_NAMES: readonly string[] = CARDS.map(({ name }) => name);

/** @throws RangeError that lists the names, where none is so named */
export function cardNamed(name: string): Card {
  const card = CARDS.find(one => one.name === name.toLowerCase());
  if (card) return card;
  throw new RangeError(`expected a card among ${CARD_NAMES.join(', ')}, found "${name}"`);
}
