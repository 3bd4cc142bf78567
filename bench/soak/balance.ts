/** The books of a run against each other: what went in, what fw says, what came out, what is on record, what servers counted. */
import type { Collected } from './collect.ts';
import type { Counted } from './servers.ts';

/** requests by calls that were answered */
const MOST_REQUESTS = 1.2;
/** outcomes of tries that are answers of a model */
const ANSWERS = new Set(['accepted', 'rejected', 'not judged', 'answered again']);
/** … and of those whose connection broke or was given up, so that a server may not have seen them, or may have answered */
const BROKEN = new Set(['transport', 'timeout']);

export interface Books {
  /** items that went in */
  fed: number;
  /** what fw wrote to stderr */
  said: string;
  collected: Collected;
  /** `fw ledger cost --json` */
  cost: { answered: number; groups: { endpoint: string; outcome: string; tries: number }[] };
  servers: readonly Counted[];
}

export interface Bound {
  what: string;
  found: string;
  bound: string;
  holds: boolean;
}

export interface Balance {
  items: number;
  failed: number;
  calls: number;
  bounds: Bound[];
}

const commas = (value: number): string => value.toLocaleString('en-US');

export function balanceOf({ fed, said, collected, cost, servers }: Books): Balance {
  const account = /^chain: in ([\d,]+) = (.+?) · ([\d,]+) calls/m.exec(said);
  const numberIn = (text = ''): number => Number(text.replaceAll(',', '') || Number.NaN);
  const read = numberIn(account?.[1]);
  const rungs = [...(account?.[2] ?? '').matchAll(/([\d,]+) \w+/g)].map(([, count]) => numberIn(count));
  const sum = rungs.reduce((all, one) => all + one, 0);
  const calls = numberIn(account?.[3]);
  const answered = [...said.matchAll(/^chain: http\S+: ([\d,]+) answers/gm)]
    .map(([, answers]) => numberIn(answers))
    .reduce((all, one) => all + one, 0);
  const lost = Array.from({ length: fed }, (_, row) => row).filter(row => !collected.rows.has(row)).length;

  const tries = (url: string, is: (outcome: string) => boolean): number =>
    cost.groups
      .filter(one => one.endpoint === url && is(one.outcome))
      .reduce((all, one) => all + one.tries, 0);
  const books = servers.map(({ url, requests, unwell, answers }) => ({
    came: requests + unwell,
    sent: tries(url, () => true),
    broken: tries(url, outcome => BROKEN.has(outcome)),
    given: answers,
    got: tries(url, outcome => ANSWERS.has(outcome)),
  }));
  const requests = books.reduce((all, { came }) => all + came, 0);
  const each = (of: (book: (typeof books)[number]) => string): string => books.map(of).join('; ');

  return {
    items: collected.items,
    failed: collected.failed,
    calls,
    bounds: [
      {
        what: 'items: in, by rungs, out',
        found: `${commas(read)} = ${commas(sum)} = ${commas(collected.items)}`,
        bound: `${commas(fed)}, as went in`,
        holds: read === fed && sum === fed && collected.items === fed,
      },
      {
        what: 'items lost, items duplicated',
        found: `${commas(lost)}, ${commas(collected.twice)}`,
        bound: '0, 0',
        holds: lost === 0 && collected.twice === 0,
      },
      {
        what: 'answered calls: by fw, named in the items, on record',
        found: `${commas(answered)}, ${commas(collected.calls)}, ${commas(cost.answered)}`,
        bound: `the same, and ${commas(calls)} where no item failed`,
        holds:
          answered === cost.answered &&
          collected.calls === cost.answered &&
          (collected.failed > 0 ? answered <= calls : answered === calls),
      },
      {
        what: 'requests that servers counted, of tries on record',
        found: each(
          ({ came, sent, broken }) => `${commas(came)} of ${commas(sent)} (${commas(broken)} broken off)`,
        ),
        bound: 'fewer by no more than broke off',
        holds: books.every(({ came, sent, broken }) => came <= sent && came >= sent - broken),
      },
      {
        what: 'answers that servers gave, and fw got',
        found: each(({ given, got }) => `${commas(given)}, ${commas(got)}`),
        bound: 'more by no more than broke off',
        holds: books.every(({ given, got, broken }) => given >= got && given <= got + broken),
      },
      {
        what: 'requests ÷ answered calls',
        found: (requests / cost.answered).toFixed(3),
        bound: `≤ ${MOST_REQUESTS}`,
        holds: requests <= MOST_REQUESTS * cost.answered,
      },
    ],
  };
}
