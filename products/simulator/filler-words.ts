/**
 * Strings where nothing better is known: sentences of a small grammar, within the bounds that a schema sets, and
 * values of the common formats.
 */
import { pick, type Random } from './random.ts';

const SUBJECTS =
  'The first reading, A second source, The record at hand, Most of the evidence, The stated figure, An earlier note, The overall picture, One open question'.split(
    ', ',
  );
const VERBS = 'supports, weakens, is consistent with, leaves open, points to, rests on, qualifies'.split(
  ', ',
);
const ADJECTIVES = 'a careful, the usual, a modest, an unusual, the stronger, a plain, the narrow'.split(
  ', ',
);
const NOUNS = 'reading, estimate, margin, course, explanation, conclusion, reserve, comparison'.split(', ');
const TAILS = [
  '',
  '',
  ' for now',
  ' in this case',
  ', with some doubt',
  ', as far as it goes',
  ' on balance',
];
const WORDS =
  'amber basin cedar delta ember field grove harbor inlet jetty kiln ledge meadow north orchard'.split(' ');

/** A name that is not among `taken`, and is then. */
export function nameBeside(taken: Set<string>, random: Random): string {
  let name = pick(random, WORDS);
  // numbers below the count of names are taken, most of them
  for (let number = taken.size + 1; taken.has(name); number++) name = `${pick(random, WORDS)}_${number}`;
  taken.add(name);
  return name;
}

function sentence(random: Random): string {
  return `${pick(random, SUBJECTS)} ${pick(random, VERBS)} ${pick(random, ADJECTIVES)} ${pick(random, NOUNS)}${pick(random, TAILS)}.`;
}

/** Longest text that is made where a schema sets no upper bound but a high lower one. */
export const LONGEST_TEXT = 100_000;

/** Text of `min` to `max` characters; one to three words about as often as one to three sentences. */
export function text(random: Random, min: number, max: number): string {
  const short = random() < 0.4 || max < 30;
  const parts = 1 + Math.floor(random() * 3);
  const next = () => (short ? pick(random, WORDS) : sentence(random));
  let made = next();
  for (let part = 1; part < parts; part++) made += ` ${next()}`;
  return fitLength(made, min, max, next);
}

/** The text itself where it is within bounds, else cut, or filled up with what `more` gives. */
export function fitLength(value: string, min: number, max: number, more: () => string): string {
  let made = value;
  while (made.length < min) made += ` ${more()}`;
  if (made.length <= max) return made;
  const cut = made.slice(0, max);
  // an answer that ends in a space looks like a fault, and is none
  return cut.endsWith(' ') ? `${cut.slice(0, -1)}s` : cut;
}

const two = (value: number) => String(value).padStart(2, '0');
const upTo = (random: Random, below: number) => Math.floor(random() * below);
const hex = (random: Random, digits: number) =>
  Array.from({ length: digits }, () => upTo(random, 16).toString(16)).join('');
const date = (random: Random) =>
  `20${two(10 + upTo(random, 20))}-${two(1 + upTo(random, 12))}-${two(1 + upTo(random, 28))}`;
const time = (random: Random) =>
  `${two(upTo(random, 24))}:${two(upTo(random, 60))}:${two(upTo(random, 60))}Z`;

export const FORMATS: ReadonlyMap<string, (random: Random) => string> = new Map([
  ['date', date],
  ['time', time],
  ['date-time', random => `${date(random)}T${time(random)}`],
  [
    'uuid',
    random => `${hex(random, 8)}-${hex(random, 4)}-4${hex(random, 3)}-a${hex(random, 3)}-${hex(random, 12)}`,
  ],
  ['email', random => `${pick(random, WORDS)}.${hex(random, 4)}@example.org`],
  ['hostname', random => `${pick(random, WORDS)}-${hex(random, 4)}.example.org`],
  ['uri', random => `https://example.org/${pick(random, WORDS)}/${hex(random, 6)}`],
  ['ipv4', random => `192.0.2.${upTo(random, 256)}`],
]);
