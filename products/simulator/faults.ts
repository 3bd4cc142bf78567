/**
 * What goes wrong on purpose. Each kind is drawn by itself at its own share, so shares need not add up to anything:
 * several answer faults can meet in one answer (a null, inside a fence, cut off), and where several transport faults
 * meet in one arrival the first in the order of TRANSPORT_FAULTS wins.
 *
 * Answer faults belong to the request: the same bytes always get the same fault, and a question asked again with the
 * error in the conversation is another request and draws anew. Transport faults belong to the arrival: the same bytes
 * sent a second time draw anew, so a retry can succeed.
 *
 * A real server with guided decoding cannot answer with most of these; the simulator does, to exercise clients.
 */

import { zeroConfidence } from './loans/loans.ts';
import { pick, type Random } from './random.ts';

export const ANSWER_FAULTS = ['null', 'zero', 'escape', 'fence', 'chatty', 'truncated'] as const;
const TRANSPORT_FAULTS = ['429', '500', 'drop', 'hang'] as const;
/** `swap`: two requests that are in flight together get each other's answer; where none is, nothing happens. */
export const FAULTS = [...ANSWER_FAULTS, ...TRANSPORT_FAULTS, 'swap'] as const;
export type AnswerFault = (typeof ANSWER_FAULTS)[number];
export type TransportFault = (typeof TRANSPORT_FAULTS)[number];
export type Fault = (typeof FAULTS)[number];

/** The share of requests that each kind meets, 0 to 1. */
export type Shares = Readonly<Record<Fault, number>>;

const sharesOf = (share: number): Record<Fault, number> =>
  Object.fromEntries(FAULTS.map(kind => [kind, share])) as Record<Fault, number>;

export const NO_FAULTS: Shares = sharesOf(0);

/**
 * What was seen in a batch of 345,600 calls: half a per cent of transport errors in all, three in ten thousand
 * decisions without confidence; the rest a few per cent. A hang is rare, because each costs a client its timeout.
 */
export const DEFAULT_FAULTS: Shares = {
  null: 0.01,
  zero: 0.0003,
  escape: 0.01,
  fence: 0.02,
  chatty: 0.02,
  truncated: 0.005,
  '429': 0.002,
  '500': 0.0015,
  drop: 0.001,
  hang: 0.0005,
  swap: 0,
};

/** Reads `none`, `default`, or a list such as `429=0.1,null=0.02`; `all=0.2` sets every kind. Throws RangeError. */
export function faultsFrom(text: string): Shares {
  if (text === 'none') return NO_FAULTS;
  if (text === 'default') return DEFAULT_FAULTS;
  const shares = sharesOf(0);
  for (const part of text.split(',')) {
    const [kind = '', amount = '', ...rest] = part.split('=').map(word => word.trim());
    const share = /^(?:0|1|0?\.\d{1,9}|[01]\.\d{1,9})$/.test(amount) ? Number(amount) : Number.NaN;
    if (rest.length > 0 || !(share <= 1)) {
      throw new RangeError(`expected none, default or a list of <kind>=<share 0 to 1>, found "${part}"`);
    }
    if (kind === 'all') Object.assign(shares, sharesOf(share));
    else if ((FAULTS as readonly string[]).includes(kind)) shares[kind as Fault] = share;
    else throw new RangeError(`expected a kind among ${FAULTS.join(', ')} or all, found "${kind}"`);
  }
  return shares;
}

export function drawTransportFault(shares: Shares, random: Random): TransportFault | undefined {
  return TRANSPORT_FAULTS.filter(kind => random() < shares[kind])[0];
}

export interface FaultyText {
  text: string;
  /** with `truncated` among them the end is missing: finish_reason "length" */
  faults: AnswerFault[];
}

/** What is to be said: a value as JSON, with what tells whether the schema takes another value; or plain words. */
export type Content = { value: unknown; valid: (value: unknown) => boolean } | { words: string };

/**
 * The text of an answer, with the faults that its request drew. A fault that the answer has no place for (no string
 * to break, no confidence to zero, plain words) is left out.
 */
export function spoilt(content: Content, shares: Shares, random: Random): FaultyText {
  // drawn before any is applied, so that one fault never shifts another
  const drawn = new Set(ANSWER_FAULTS.filter(kind => random() < shares[kind]));
  const faults: AnswerFault[] = [];
  const apply = (kind: AnswerFault, change: () => string | undefined) => {
    if (!drawn.has(kind)) return;
    const changed = change();
    if (changed === undefined) return;
    text = changed;
    faults.push(kind);
  };
  let text = '';
  if ('words' in content) text = content.words;
  else {
    const { value, valid } = content;
    apply('null', () => (nullOneValue(value, valid, random) ? '' : undefined));
    apply('zero', () => (zeroConfidence(value) ? '' : undefined));
    text = JSON.stringify(value);
    apply('escape', () => breakEscape(text, random));
    apply('fence', () => `\`\`\`json\n${text}\n\`\`\``);
    apply('chatty', () => `${pick(random, OPENINGS)}\n\n${text}\n\n${pick(random, CLOSINGS)}`);
  }
  apply('truncated', () => text.slice(0, Math.floor(text.length * (0.3 + 0.6 * random()))));
  return { text, faults };
}

const OPENINGS = [
  'Sure! Here is my assessment:',
  'After going through the application, this is what I would answer.',
  'Here is the JSON object you asked for:',
  'Thank you for the details. My answer follows.',
];
const CLOSINGS = [
  'Let me know if anything else is needed.',
  'I hope this helps!',
  'Note: this rests on the figures given above.',
];

type Place = [owner: { [name: string]: unknown }, name: string];

function placesIn(value: unknown, places: Place[] = []): Place[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return places;
  const owner = value as { [name: string]: unknown };
  for (const name of Object.keys(owner)) {
    if (typeof owner[name] === 'object' && owner[name] !== null) placesIn(owner[name], places);
    else if (owner[name] !== null) places.push([owner, name]);
  }
  return places;
}

/** Makes one value null that must not be. */
function nullOneValue(answer: unknown, valid: (value: unknown) => boolean, random: Random): boolean {
  const places = placesIn(answer);
  const first = Math.floor(random() * places.length);
  for (let turn = 0; turn < Math.min(places.length, 20); turn++) {
    const [owner, name] = places[(first + turn) % places.length]!;
    const before = owner[name];
    owner[name] = null;
    if (!valid(answer)) return true;
    owner[name] = before;
  }
  return false;
}

const ILLEGAL = ['\\O', '\\$', '\\ ', '\\u12', '\\%'];

/** Puts a backslash that JSON does not know into a text of several words; undefined where there is none. */
function breakEscape(json: string, random: Random): string | undefined {
  // a space between a word and a word can only be inside a string of compact JSON
  const gaps = [...json.matchAll(/[A-Za-z0-9] (?=[A-Za-z0-9])/g)];
  if (gaps.length === 0) return undefined;
  // before the space: what follows `\u12` must not make it a whole escape
  const at = pick(random, gaps).index + 1;
  return json.slice(0, at) + pick(random, ILLEGAL) + json.slice(at);
}
