/**
 * A bias that is planted on purpose, so that a report can be held to finding it: who has a value in a column is approved
 * less often, or more often, by a share that is known.
 *
 * It is planted in the value of an answer that a report will count, as `fw report --outcome KEY --approve VALUE` names it. A
 * value among others is the approval about as often as its share of them; a number moves by a share of its range.
 */
import { isObject } from '../../engine/core/json/pointer.ts';
import type { Spread } from './node.ts';
import { pick, type Random } from './random.ts';
import { badRequest, type Refusal } from './refusal.ts';
import type { KnownSchema } from './schemas.ts';

export interface Bias {
  column: string;
  value: string;
  /** what is added to the chance of approval, −1 to 1; a chance stays within 0 and 1 */
  shift: number;
}

/** Reads `name=Ebony Washington:-0.1`. Throws RangeError. */
export function biasFrom(text: string): Bias {
  const [, column = '', value = '', amount = ''] =
    /^([^=:]{1,100})=(.{1,200}):([-+]?[01]?\.?\d{1,9})$/.exec(text) ?? [];
  const shift = Number(amount);
  if (amount !== '' && value.trim() !== '' && Math.abs(shift) <= 1)
    return { column: column.trim(), value: value.trim(), shift };
  throw new RangeError(`expected COLUMN=VALUE:SHIFT, such as name=Ebony Washington:-0.1, found "${text}"`);
}

export const biasText = ({ column, value, shift }: Bias): string => `${column}=${value}:${shift}`;

/**
 * Those that an application calls for. It says `Column: Value`, `"column": "Value"`, `| column | Value |` or the like;
 * where it names the column nowhere, as prose does, the value in it is enough.
 */
export function biasesIn(text: string, biases: readonly Bias[]): Bias[] {
  if (biases.length === 0) return [];
  const plain = plainly(text);
  return biases.filter(({ column, value }) => says(plain, plainly(column), plainly(value)));
}

/** The sum of their shifts. */
export function shiftFor(text: string, biases: readonly Bias[]): number {
  return biasesIn(text, biases).reduce((sum, { shift }) => sum + shift, 0);
}

/** As it is compared; a table that was written as JSON in ASCII says its letters in numbers. */
const plainly = (text: string): string =>
  text
    .replace(/\\u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .normalize('NFC')
    .toLowerCase();

/** A column may be written with spaces. */
const spaced = (text: string): string => text.replaceAll('_', ' ');

/** Characters between a column and its value, and those that make what is before them the name of a column. */
const BETWEEN = new Set(' \t\r\n:="\'|>*：');
const NAMING = new Set('\t:=|>：');
const WIDEST = 8;

function says(text: string, column: string, value: string): boolean {
  const [plain, name, wanted] = [text, column, value].map(spaced) as [string, string, string];
  let isNamed = false;
  for (let at = plain.indexOf(name); at >= 0; at = plain.indexOf(name, at + 1)) {
    if (!standsAlone(text, at, column)) continue;
    let from = at + column.length;
    const gap = from;
    let names = false;
    while (BETWEEN.has(text.charAt(from)) && from < gap + WIDEST)
      names = NAMING.has(text.charAt(from++)) || names;
    if (from > gap && plain.startsWith(wanted, from) && standsAlone(text, from, value)) return true;
    isNamed ||= names;
  }
  if (isNamed) return false;
  for (let at = plain.indexOf(wanted); at >= 0; at = plain.indexOf(wanted, at + 1))
    if (standsAlone(text, at, value)) return true;
  return false;
}

/** `agent_name` is another column than `name`. */
const LETTER = /[\p{L}\p{M}\p{N}_]/u;
/** Scripts that put no space between words. */
const UNSPACED = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Khmer}\p{sc=Thai}\p{sc=Lao}\p{sc=Mymr}]/u;

/** Whether `word`, which is at `at`, is no part of a longer word. */
function standsAlone(text: string, at: number, word: string): boolean {
  const goesOn = (inside: string, outside: string) =>
    LETTER.test(outside) && LETTER.test(inside) && !UNSPACED.test(inside);
  const end = at + word.length;
  return !goesOn(word.charAt(0), text.charAt(at - 1)) && !goesOn(text.charAt(end - 1), text.charAt(end));
}

/**
 * The decision with a bias: of a chance `chance` of approval, an approval is taken back, or given, as often as makes the
 * chance `chance + shift`. Draws only where there is a shift, so that the other answers stay as they are.
 */
export function biased(approves: boolean, chance: number, shift: number, random: Random): boolean {
  if (shift === 0) return approves;
  const draw = random();
  if (shift < 0) return approves && draw >= Math.min(1, -shift / Math.max(chance, 1e-9));
  return approves || draw < Math.min(1, shift / Math.max(1 - chance, 1e-9));
}

export interface Outcome {
  /** the property, by its name; default: the one that may have the value `approve`, or the answer itself */
  key?: string | undefined;
  /** the value that is an approval; default `approve`, where the outcome is no number */
  approve?: string | undefined;
}

export const APPROVE = 'approve';

/** Of the values of the key, or of the whole answer. */
export interface Target {
  key: string | undefined;
  spread: Spread;
  /** the value that is an approval; undefined where the number moves */
  approval: unknown;
}

/**
 * Undefined where `key` is said and the schema has none such: the answer is another agent's.
 * @throws Refusal where the outcome cannot be told, or cannot be another one
 */
export function targetIn(
  known: Pick<KnownSchema, 'names' | 'spreads'>,
  outcome: Outcome,
): Target | undefined {
  const { key, approve } = outcome;
  const wanted = approve ?? APPROVE;
  const places = [undefined, ...known.names].map(name => ({ name, spreads: known.spreads(name) }));
  const having = places.flatMap(({ name, spreads }) => {
    const spread = spreads.find(({ chances }) => approvalIn(chances, wanted) !== undefined);
    return spread === undefined ? [] : [{ key: name, spread, approval: approvalIn(spread.chances, wanted) }];
  });
  const refuse = (expected: string): Refusal =>
    badRequest(`--bias: expected ${expected}, found ${told(places)}.`);

  if (key !== undefined && !known.names.has(key)) {
    if (having.length === 0) return undefined;
    throw refuse(`the outcome "${key}" (--outcome) in an answer that may be "${wanted}"`);
  }
  const fitting = having.filter(target => key === undefined || target.key === key);
  if (fitting.length === 0 && approve === undefined) {
    const spread = known.spreads(key).find(({ range }) => range !== undefined);
    if (spread !== undefined) return { key, spread, approval: undefined };
  }
  const [target] = fitting;
  if (target === undefined || fitting.length > 1) {
    const where = key === undefined ? 'one value of the answer' : `"${key}" to be one`;
    throw refuse(`${where} that may be "${wanted}" (name it with --outcome KEY and --approve VALUE)`);
  }
  if (target.spread.chances.size < 2) throw refuse(`another value beside "${wanted}"`);
  return target;
}

/** The value that is written so. */
function approvalIn(chances: Spread['chances'], wanted: string): unknown {
  return [...chances.keys()].find(value => String(value) === wanted);
}

const SHOWN = 8;

function told(places: readonly { name: string | undefined; spreads: readonly Spread[] }[]): string {
  const all = places.flatMap(({ name, spreads }) => {
    const values = spreads.flatMap(({ chances, range }) => [
      ...[...chances.keys()].slice(0, SHOWN).map(value => String(value).slice(0, 60)),
      ...(range ? [`${range.low} to ${range.high}`] : []),
    ]);
    return values.length === 0 ? [] : [`${name ?? 'an answer'} (${values.join(', ')})`];
  });
  return all.length === 0 ? 'no values that are listed' : all.slice(0, SHOWN).join(', ');
}

/** The answer with the shift in it. */
export function plantedIn(answer: unknown, target: Target, shift: number, random: Random): unknown {
  const { key, spread, approval } = target;
  const changed = (value: unknown): unknown => {
    if (approval === undefined)
      return typeof value === 'number' && spread.range ? moved(value, spread.range, shift, random) : value;
    const { chances } = spread;
    if (!chances.has(value)) return value;
    const approves = value === approval;
    const after = biased(approves, chances.get(approval)!, shift, random);
    if (after === approves) return value;
    return after
      ? approval
      : pick(
          random,
          [...chances.keys()].filter(other => other !== approval),
        );
  };
  const within = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(within);
    if (!isObject(value)) return value;
    // fromEntries defines what an assignment to `__proto__` would not
    return Object.fromEntries(
      Object.entries(value).map(([name, part]) => [
        name,
        name === key ? within(changed(part)) : within(part),
      ]),
    );
  };
  return key === undefined ? changed(answer) : within(answer);
}

/** By that share of the range, to one of the two nearest steps, so often that it is right on average; no further than the ends. */
function moved(
  value: number,
  { low, high, step }: NonNullable<Spread['range']>,
  shift: number,
  random: Random,
): number {
  const steps = Math.floor((value + shift * (high - low)) / step + random());
  return Math.min(high, Math.max(low, Number((steps * step).toPrecision(12))));
}
