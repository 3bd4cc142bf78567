/**
 * Where a bias is planted: in the value of an answer that a report will count, as `fw report --outcome KEY --approve VALUE`
 * names it. A value among others is the approval about as often as its share of them; a number moves by a share of its range.
 */
import { isObject } from '../../engine/core/json/pointer.ts';
import type { Spread } from './node.ts';
import { biased } from './planted-bias.ts';
import { pick, type Random } from './random.ts';
import { badRequest, type Refusal } from './refusal.ts';
import type { KnownSchema } from './schemas.ts';

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
