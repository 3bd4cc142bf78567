/** What calls cost, by whatever is asked for: `fw ledger cost --by key,model,day`, with prices in money where they are given. */
import {
  moneyText,
  PRICE_FORM,
  type Price,
  priceOf,
  timeCost,
  tokenCost,
} from '../../engine/asking/endpoints/price.ts';
import { holding } from '../../engine/asking/ledger/held.ts';
import { type CallHead, callsOf, type Tell } from '../../engine/asking/ledger/read-ledger.ts';
import { usageError } from '../../engine/core/item/failure.ts';
import { aligned, cut, number, timeWords } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';

/** `key` is the name of the key of a server for which it was asked; a run alone has none. */
export const BY = ['key', 'model', 'day', 'agent', 'endpoint', 'outcome'] as const;
export type By = (typeof BY)[number];

const NO_KEY = '(no key)';
const MOST_GROUPS = 10_000;
const LONGEST_NAME = 200;
const OTHERS = '(others)';

export interface Counts {
  /** tries, and those of them with an answer */
  tries: number;
  answers: number;
  in: number;
  cached: number;
  out: number;
  ms: number;
}

export interface GroupBy extends Counts {
  names: string[];
  /** as price.ts counts it; tokens without a price cost nothing */
  money: bigint;
}

/** Calls that are alike in all of BY. */
export type Alike = Record<By, string> & Counts;

/** A server that is paid by the hour. */
export interface HeldCost {
  endpoint: string;
  ms: number;
  text: string;
  money: bigint;
}

export interface CostBy {
  groups: GroupBy[];
  /** models whose tokens have no price */
  unpriced: string[];
  hours: HeldCost[];
}

/** Exit 64 for a name that is none of these. */
export function byOf(names: readonly string[]): By[] {
  const wrong = names.find(name => !BY.includes(name as By));
  if (wrong === undefined && names.length > 0 && new Set(names).size === names.length) return names as By[];
  const found = wrong === undefined ? (names.length === 0 ? 'none' : 'one twice') : `'${wrong.slice(0, 60)}'`;
  throw usageError(`--by: expected some of ${BY.join(', ')}, each once, found ${found}`);
}

/**
 * `NAME=PRICE`, by the name of a model or the URL of an endpoint, such as llama-3b=0.1/0.4. Exit 64 for what is none: of a
 * model nobody knows the hours.
 */
export function pricesOf(texts: readonly string[]): Map<string, Price> {
  return new Map(
    texts.map(text => {
      const at = text.lastIndexOf('=');
      const [name, price] = [text.slice(0, at), priceOf(text.slice(at + 1))];
      if (at > 0 && price !== null && (price.hour === null || /^https?:/.test(name))) return [name, price];
      throw usageError(
        `--price: expected MODEL=PRICE, such as llama-3b=0.1/0.4, or URL=PRICE of an endpoint (${PRICE_FORM}), found '${text.slice(0, 100)}'`,
      );
    }),
  );
}

/** `removed`: of calls that are on record no more. */
export function costBy(
  paths: readonly string[],
  by: readonly By[],
  prices: ReadonlyMap<string, Price>,
  tell: Tell,
  removed: readonly Alike[] = [],
): CostBy {
  const summing = new Summing(by, prices);
  for (const [file, path] of paths.entries())
    for (const { call } of callsOf(path, tell)) summing.add(call, file);
  for (const alike of removed) summing.addAlike(alike);
  return summing.sums();
}

/** Adds up what a ledger says, without holding up the process that does it for longer than some ms. */
export async function alikeIn(paths: readonly string[], pause: () => Promise<void> | null): Promise<Alike[]> {
  const summing = new Summing(BY, new Map());
  for (const path of paths)
    for (const { call } of callsOf(path, () => {})) {
      summing.add(call, 0);
      const paused = pause();
      if (paused !== null) await paused;
    }
  return alikesOf(summing.sums());
}

/** Of sums by all of BY. */
export const alikesOf = ({ groups }: Pick<CostBy, 'groups'>): Alike[] =>
  groups.map(({ names, money: _money, ...counts }) => {
    const named = Object.fromEntries(BY.map((name, at) => [name, names[at] as string])) as Record<By, string>;
    return { ...named, ...counts };
  });

class Summing {
  readonly #by: readonly By[];
  readonly #prices: ReadonlyMap<string, Price>;
  readonly #groups = new Map<string, GroupBy>();
  readonly #unpriced = new Set<string>();
  readonly #held = holding();

  constructor(by: readonly By[], prices: ReadonlyMap<string, Price>) {
    this.#by = by;
    this.#prices = prices;
  }

  add(call: CallHead, file: number): void {
    const { endpoint, model, outcome, usage, time, ms } = call;
    if (this.#prices.get(endpoint)?.hour != null) this.#held.add(file, endpoint, time, ms);
    const { prompt = 0, completion = 0, cached = 0 } = usage ?? {};
    const answers = outcome === 'answer' ? 1 : 0;
    const counts = { tries: 1, answers, in: prompt, cached, out: completion, ms };
    this.#count(
      this.#by.map(name => NAMES[name](call)),
      counts,
      this.#priceOf(endpoint, model, usage !== undefined),
    );
  }

  addAlike(alike: Alike): void {
    const { endpoint, model } = alike;
    this.#count(
      this.#by.map(name => alike[name]),
      alike,
      this.#priceOf(endpoint, model, alike.in + alike.out > 0),
    );
  }

  sums(): CostBy {
    const compared = (a: GroupBy, b: GroupBy): number => {
      const at = a.names.findIndex((name, index) => name !== b.names[index]);
      return at < 0 ? 0 : (a.names[at] as string) < (b.names[at] as string) ? -1 : 1;
    };
    const hours = [...this.#prices].flatMap(([endpoint, price]) => {
      const ms = price.hour === null ? 0 : this.#held.of(endpoint);
      return ms === 0 ? [] : [{ endpoint, ms, text: price.text, money: timeCost(price, ms) }];
    });
    return { groups: [...this.#groups.values()].sort(compared), unpriced: [...this.#unpriced].sort(), hours };
  }

  #priceOf(endpoint: string, model: string, isUsed: boolean): Price | undefined {
    const price = this.#prices.get(endpoint) ?? this.#prices.get(model);
    if (price === undefined && isUsed && this.#unpriced.size < MOST_GROUPS) this.#unpriced.add(model);
    return price;
  }

  #count(names: readonly string[], counts: Counts, price: Price | undefined): void {
    const group = groupOf(
      this.#groups,
      names.map(name => cut(name, LONGEST_NAME)),
    );
    for (const name of COUNTS) group[name] += counts[name];
    if (price === undefined) return;
    const { in: prompt, cached, out: completion } = counts;
    group.money += tokenCost(price, { prompt, completion, cached });
  }
}

const NAMES: Readonly<Record<By, (call: CallHead) => string>> = {
  key: ({ caller }) => (typeof caller === 'string' ? caller : NO_KEY),
  model: ({ model }) => model,
  day: ({ time }) => time.slice(0, 10),
  agent: ({ agent }) => agent,
  endpoint: ({ endpoint }) => endpoint,
  outcome: ({ outcome }) => outcome,
};

const none = (names: string[]): GroupBy => ({
  ...{ names, tries: 0, answers: 0, in: 0, cached: 0, out: 0, ms: 0, money: 0n },
});

function groupOf(groups: Map<string, GroupBy>, names: string[]): GroupBy {
  const name = JSON.stringify(names);
  const known = groups.get(name);
  if (known !== undefined) return known;
  if (groups.size >= MOST_GROUPS && names.some(one => one !== OTHERS))
    return groupOf(
      groups,
      names.map(() => OTHERS),
    );
  const group = none(names);
  groups.set(name, group);
  return group;
}

export const COUNTS = ['tries', 'answers', 'in', 'cached', 'out', 'ms'] as const;

export function totalBy({ groups, hours }: Pick<CostBy, 'groups' | 'hours'>): GroupBy {
  const all = none([]);
  for (const group of groups) {
    for (const name of COUNTS) all[name] += group[name];
    all.money += group.money;
  }
  for (const { money } of hours) all.money += money;
  return all;
}

/** As JSON has it: a number, of the exact sum. */
const numberOf = (money: bigint): number => Number(moneyText(money, 15));

/** `{"groups":[{"key":…,"tries":…}],"total":{…}}`: cost is there where prices are, `hours` where one is of an hour. */
export function jsonBy(by: readonly By[], cost: CostBy, hasPrices: boolean): string {
  const shown = ({ names, money, ...sums }: GroupBy) => ({
    ...Object.fromEntries(names.map((name, at) => [by[at], name])),
    ...sums,
    ...(hasPrices && { cost: numberOf(money) }),
  });
  const hours = cost.hours.map(({ endpoint, ms, money }) => ({ endpoint, ms, cost: numberOf(money) }));
  return `${JSON.stringify({
    groups: cost.groups.map(shown),
    ...(hours.length > 0 && { hours }),
    total: shown(totalBy(cost)),
  })}\n`;
}

export function tableBy(by: readonly By[], cost: CostBy, hasPrices: boolean): string {
  const { groups, unpriced, hours } = cost;
  const row = (names: readonly string[], { tries, answers, in: prompt, cached, out, money }: GroupBy) => [
    ...names.map(name => visible(cut(name, 60))),
    ...[tries, answers, prompt, cached, out].map(number),
    ...(hasPrices ? [moneyText(money, 4)] : []),
  ];
  const sums = ['tries', 'answers', 'tokens in', 'cached', 'out', ...(hasPrices ? ['cost'] : [])];
  const rows = [[...by, ...sums], ...groups.map(group => row(group.names, group))];
  rows.push([], row(['total', ...by.slice(1).map(() => '')], totalBy(cost)));
  const lines = aligned(
    rows,
    sums.map((_, at) => by.length + at),
  );
  if (hours.length > 0) lines.push('', 'in the total, and in no row:');
  for (const { endpoint, ms, text, money } of hours)
    lines.push(`  ${visible(endpoint)}: ${timeWords(ms)} at ${text} an hour: ${moneyText(money, 4)}`);
  if (hasPrices && unpriced.length > 0)
    lines.push('', `without a price, and in no cost: ${unpriced.slice(0, 10).map(visible).join(', ')}`);
  return `${lines.join('\n')}\n`;
}
