/** What calls cost, by whatever is asked for: `fw ledger cost --by key,model,day`, with prices in money where they are given. */
import { type CallHead, callsOf, type Tell } from '../../engine/asking/ledger/read-ledger.ts';
import { usageError } from '../../engine/core/item/failure.ts';
import { aligned, cut, number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';

/** `key` is the name of the key of a server for which it was asked; a run alone has none. */
export const BY = ['key', 'model', 'day', 'agent', 'endpoint', 'outcome'] as const;
export type By = (typeof BY)[number];

const NO_KEY = '(no key)';
const MOST_GROUPS = 10_000;
const LONGEST_NAME = 200;
const OTHERS = '(others)';
const MILLION = 1_000_000;

/** Of a million tokens of prompts, and of answers. */
export interface Price {
  in: number;
  out: number;
}

export interface GroupBy {
  names: string[];
  /** tries, and those of them with an answer */
  tries: number;
  answers: number;
  in: number;
  cached: number;
  out: number;
  ms: number;
  /** in the unit of the prices; tokens of models without a price cost nothing */
  money: number;
}

/** Exit 64 for a name that is none of these. */
export function byOf(names: readonly string[]): By[] {
  const wrong = names.find(name => !BY.includes(name as By));
  if (wrong === undefined && names.length > 0 && new Set(names).size === names.length) return names as By[];
  const found = wrong === undefined ? (names.length === 0 ? 'none' : 'one twice') : `'${wrong.slice(0, 60)}'`;
  throw usageError(`--by: expected some of ${BY.join(', ')}, each once, found ${found}`);
}

/** `MODEL=IN/OUT`, such as llama-3b=0.1/0.4. Exit 64 for what is none. */
export function pricesOf(texts: readonly string[]): Map<string, Price> {
  return new Map(
    texts.map(text => {
      const at = text.lastIndexOf('=');
      const [, prompt, answer] =
        /^(\d{1,9}(?:\.\d{1,9})?)\/(\d{1,9}(?:\.\d{1,9})?)$/.exec(text.slice(at + 1)) ?? [];
      if (at > 0 && prompt !== undefined)
        return [text.slice(0, at), { in: Number(prompt), out: Number(answer) }];
      throw usageError(
        `--price: expected MODEL=IN/OUT, the prices of a million tokens, such as llama-3b=0.1/0.4, found '${text.slice(0, 100)}'`,
      );
    }),
  );
}

export function costBy(
  paths: readonly string[],
  by: readonly By[],
  prices: ReadonlyMap<string, Price>,
  tell: Tell,
): { groups: GroupBy[]; unpriced: string[] } {
  const groups = new Map<string, GroupBy>();
  const unpriced = new Set<string>();
  for (const path of paths) {
    for (const { call } of callsOf(path, tell)) {
      const price = prices.get(call.model);
      if (price === undefined && call.usage !== undefined && unpriced.size < MOST_GROUPS)
        unpriced.add(call.model);
      add(
        groupOf(
          groups,
          by.map(name => cut(NAMES[name](call), LONGEST_NAME)),
        ),
        call,
        price,
      );
    }
  }
  const compared = (a: GroupBy, b: GroupBy): number => {
    const at = a.names.findIndex((name, index) => name !== b.names[index]);
    return at < 0 ? 0 : (a.names[at] as string) < (b.names[at] as string) ? -1 : 1;
  };
  return { groups: [...groups.values()].sort(compared), unpriced: [...unpriced].sort() };
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
  ...{ names, tries: 0, answers: 0, in: 0, cached: 0, out: 0, ms: 0, money: 0 },
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

function add(group: GroupBy, { usage, outcome, ms }: CallHead, price: Price | undefined): void {
  const { prompt = 0, completion = 0, cached = 0 } = usage ?? {};
  group.tries += 1;
  group.answers += outcome === 'answer' ? 1 : 0;
  group.in += prompt;
  group.out += completion;
  group.cached += cached;
  group.ms += ms;
  if (price !== undefined) group.money += (prompt * price.in + completion * price.out) / MILLION;
}

const SUMS = ['tries', 'answers', 'in', 'cached', 'out', 'ms', 'money'] as const;

export function totalBy(groups: readonly GroupBy[]): GroupBy {
  const all = none([]);
  for (const group of groups) for (const name of SUMS) all[name] += group[name];
  return all;
}

/** `{"groups":[{"key":…,"tries":…}],"total":{…}}`: cost is there where prices are. */
export function jsonBy(by: readonly By[], groups: readonly GroupBy[], hasPrices: boolean): string {
  const shown = ({ names, money, ...sums }: GroupBy) => ({
    ...Object.fromEntries(names.map((name, at) => [by[at], name])),
    ...sums,
    ...(hasPrices && { cost: money }),
  });
  return `${JSON.stringify({ groups: groups.map(shown), total: shown(totalBy(groups)) })}\n`;
}

export function tableBy(
  by: readonly By[],
  groups: readonly GroupBy[],
  hasPrices: boolean,
  unpriced: readonly string[],
): string {
  const row = (names: readonly string[], { tries, answers, in: prompt, cached, out, money }: GroupBy) => [
    ...names.map(name => visible(cut(name, 60))),
    ...[tries, answers, prompt, cached, out].map(number),
    ...(hasPrices ? [money.toFixed(4)] : []),
  ];
  const sums = ['tries', 'answers', 'tokens in', 'cached', 'out', ...(hasPrices ? ['cost'] : [])];
  const rows = [[...by, ...sums], ...groups.map(group => row(group.names, group))];
  rows.push([], row(['total', ...by.slice(1).map(() => '')], totalBy(groups)));
  const lines = aligned(
    rows,
    sums.map((_, at) => by.length + at),
  );
  if (hasPrices && unpriced.length > 0)
    lines.push('', `without a price, and in no cost: ${unpriced.slice(0, 10).map(visible).join(', ')}`);
  return `${lines.join('\n')}\n`;
}
