/** ledger cost: what the calls of a ledger cost, by agent, endpoint and outcome. */

import { type Price, priceOf } from '../../engine/asking/endpoints/price.ts';
import { readPoolFile } from '../../engine/asking/endpoints/settings.ts';
import { type Held, holding } from '../../engine/asking/ledger/held.ts';
import { createKeys, nameOfCall } from '../../engine/asking/ledger/key-index.ts';
import { type CallHead, callsOf, type Tell } from '../../engine/asking/ledger/read-ledger.ts';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { usageError } from '../../engine/core/item/failure.ts';
import { aligned, counted, cut, number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { namesIn } from '../../engine/flow/options.ts';
import { type Answers, readAnswers } from './answer-outcomes.ts';
import { type Alike, BY, byOf, costBy, jsonBy, pricesOf, tableBy } from './cost-by.ts';
import { LEDGER, openReading, tokensOf, toStderr } from './reading-options.ts';
import { removedIn, stillThere } from './spent.ts';

export default command({
  name: 'ledger cost',
  summary: 'Sum up tries, tokens and seconds by agent, endpoint and outcome, and show what was wasted.',
  examples: [
    'fw ledger cost',
    'fw ledger cost --ledger serve --by key,model,day --price llama-3b=0.1/0.4',
    'fw ledger cost --by endpoint --pool pool.yaml',
    'fw ledger cost --json | jq \'[.groups[] | select(.outcome == "rejected").out] | add\'',
  ],
  options: {
    ...LEDGER,
    by: {
      type: 'array',
      items: { type: 'string' },
      description: `One table by these, comma-separated: ${BY.join(', ')}. key is the name of a key of fw serve.`,
    },
    price: {
      type: 'array',
      items: { type: 'string' },
      description:
        'MODEL=IN/OUT: what a million tokens of prompts and of answers cost, for a column with the cost; IN/CACHED/OUT too. Or URL=PRICE of an endpoint: these, or one number, an hour of it. Repeatable.',
    },
    pool: {
      type: 'string',
      file: 'read',
      description: 'Pool file with the prices of endpoints, as a run has them; --price overrides it.',
    },
    json: {
      type: 'boolean',
      description:
        'Write one JSON object with the groups (agent, endpoint, outcome, or those of --by) and the totals.',
    },
  },

  async run({ ledger, json, by, price, pool }) {
    const unused = price === undefined ? (pool === undefined ? undefined : '--pool') : '--price';
    if (by === undefined && unused !== undefined)
      throw usageError(`${unused}: expected --by beside it, such as --by model, found none`);
    const groupsOf = by === undefined ? null : byOf(namesIn(by));
    const prices = new Map([...pricesIn(pool), ...pricesOf(price ?? [])]);
    const reading = openReading(ledger, toStderr('cost'));
    const removed = removedIn(reading.at);
    const paths = stillThere(reading.at, reading.paths, removed);
    const sums = removed.flatMap(one => one.sums);
    if (groupsOf !== null) {
      const cost = costBy(paths, groupsOf, prices, reading.tell, sums);
      const hasPrices = prices.size > 0;
      await writePage(json ? jsonBy(groupsOf, cost, hasPrices) : tableBy(groupsOf, cost, hasPrices));
      return reading.end();
    }
    const cost = costOf(
      paths,
      readAnswers(paths, () => {}),
      reading.tell,
    );
    const gone = sums.length > 0 ? goneOf(sums) : null;
    await writePage(
      json
        ? `${JSON.stringify({ ...cost, ...apart(cost), ...(gone && { removed: gone }) })}\n`
        : `${renderCost(cost)}${gone === null ? '' : `removed since, and in no sum above: ${counted(gone.tries, 'try', 'tries')}, tokens ${tokensOf(gone)}; --by has them\n`}`,
    );
    return reading.end();
  },
});

/** The endpoints of a pool file that have a price. */
function pricesIn(pool: string | undefined): [string, Price][] {
  const endpoints = pool === undefined ? [] : readPoolFile(pool).endpoints;
  return endpoints.flatMap(({ url, price }) =>
    price === undefined ? [] : [[url, priceOf(String(price)) as Price] as [string, Price]],
  );
}

/** Sums of what is on record no more (spent.ts). */
function goneOf(sums: readonly Alike[]) {
  const of = (name: 'tries' | 'in' | 'cached' | 'out'): number =>
    sums.reduce((all, one) => all + one[name], 0);
  return { tries: of('tries'), in: of('in'), cached: of('cached'), out: of('out') };
}

/** Accepted answers, and what was paid for nothing. */
function apart({ groups }: Cost) {
  const of = (is: (outcome: string) => boolean): Sum => total(groups.filter(group => is(group.outcome)));
  const isAnswered = (outcome: string): boolean => (ANSWERED as readonly string[]).includes(outcome);
  return {
    accepted: of(outcome => outcome === 'accepted'),
    notJudged: of(outcome => outcome === 'not judged'),
    rejected: of(outcome => outcome === 'rejected'),
    again: of(outcome => outcome === 'answered again'),
    transport: of(outcome => !isAnswered(outcome)),
    total: total(groups),
  };
}

function renderCost(cost: Cost): string {
  const { groups, questions, answered, retries } = cost;
  const { accepted, notJudged, rejected, again, transport } = apart(cost);
  const rows: string[][] = [];
  for (const by of ['agent', 'endpoint', 'outcome'] as const) {
    if (rows.length > 0) rows.push([]);
    rows.push([by, 'tries', 'tokens in', 'cached', 'out', 'seconds']);
    for (const [name, sum] of summedBy(groups, by)) rows.push(costRow(name, sum));
  }
  rows.push([], costRow('total', total(groups)));
  const lines = [...aligned(rows, [1, 2, 3, 4, 5]), ''];
  lines.push(
    `${counted(questions, 'call', 'calls')}, ${number(answered)} answered; ${counted(retries, 'try', 'tries')} after the first of a call`,
  );
  const say = (name: string, sum: Sum, words: string): void => {
    if (sum.tries > 0)
      lines.push(`${name}: ${counted(sum.tries, 'answer', 'answers')}, tokens ${tokensOf(sum)}${words}`);
  };
  say('accepted', accepted, '');
  say('not judged', notJudged, ': the run ended before, or still runs');
  say('rejected', rejected, ': paid for, and not used');
  say('answered again', again, ': paid for twice');
  const { uncounted } = total(groups);
  if (uncounted > 0)
    lines.push(`${counted(uncounted, 'answer')} without usage: their tokens are unknown, and in no sum`);
  if (transport.tries > 0) {
    const { tries, ms } = transport;
    // a bad answer may say what it used
    const cost =
      transport.in > 0
        ? `of some tokens are known: ${tokensOf(transport)}`
        : 'what they cost the servers is unknown';
    lines.push(`without an answer: ${counted(tries, 'try', 'tries')}, ${secondsText(ms)} s; ${cost}`);
  }
  return `${lines.join('\n')}\n`;
}

function summedBy(groups: readonly Group[], by: 'agent' | 'endpoint' | 'outcome'): [string, Sum][] {
  const names = [...new Set(groups.map(group => group[by]))].sort();
  return names.map(name => [name, total(groups.filter(group => group[by] === name))]);
}

function costRow(name: string, { tries, in: prompt, cached, out, uncounted, ms }: Sum): string[] {
  // answers that nobody counted are no 0
  const tokens = (count: number): string => (prompt === 0 && uncounted > 0 ? '–' : number(count));
  return [
    visible(cut(name, 60)),
    number(tries),
    tokens(prompt),
    tokens(cached),
    tokens(out),
    secondsText(ms),
  ];
}

function secondsText(ms: number): string {
  const [whole = '0', tenth] = (ms / 1000).toFixed(1).split('.');
  return `${whole.replace(/\B(?=(?:\d{3})+$)/g, ',')}.${tenth}`;
}

// What the calls of a ledger cost: tokens, tries and time, with what was paid for nothing apart.

export interface Sum {
  tries: number;
  /** tokens; a server says of an answer alone what it took */
  in: number;
  out: number;
  /** of those that came in, from the server's prefix cache */
  cached: number;
  /** answers without usage: their tokens are unknown, and in no sum */
  uncounted: number;
  /** from sending to the end of the answer, added up over calls that ran side by side */
  ms: number;
}

export interface Group extends Sum {
  agent: string;
  endpoint: string;
  /** what became of a try; an answer by what was made of it: see `ANSWERED` */
  outcome: string;
}

/** What may be made of an answer. */
export const ANSWERED = ['accepted', 'rejected', 'not judged', 'answered again'] as const;

export interface Cost {
  groups: Group[];
  /** distinct calls, and how many of them have an answer */
  questions: number;
  answered: number;
  /** tries after the first of the same call */
  retries: number;
  /** how long endpoints were held, in ms */
  held: Held;
}

/** Names come from files that may hold anything. */
const MOST_GROUPS = 10_000;
const LONGEST_NAME = 200;
const OTHERS = '(others)';

export function costOf(paths: readonly string[], answers: Answers, tell: Tell): Cost {
  const groups = new Map<string, Group>();
  const unanswered = createKeys();
  const endpoints = holding();
  let tries = 0;
  for (const [file, path] of paths.entries()) {
    for (const { call, at, header } of callsOf(path, tell)) {
      tries += 1;
      endpoints.add(file, cut(call.endpoint, LONGEST_NAME), call.time, call.ms);
      const name = nameOfCall(call, header);
      const outcome = outcomeOf(call.outcome, name, answers, { file, at });
      add(groupOf(groups, [call.agent, call.endpoint, outcome]), call);
      if (!answers.has(name)) unanswered.add(name, { file, offset: at, length: 1 });
    }
  }
  const questions = answers.size + unanswered.size;
  return {
    groups: [...groups.values()].sort(byNames),
    questions,
    answered: answers.size,
    retries: tries - questions,
    held: endpoints.sum(),
  };
}

function outcomeOf(
  outcome: string,
  name: string,
  answers: Answers,
  { file, at }: { file: number; at: number },
): string {
  if (outcome !== 'answer') return outcome;
  // it came after the answers were read: a run is at work
  if (!answers.has(name)) return 'not judged';
  if (!answers.isFirst(name, file, at)) return 'answered again';
  const verdict = answers.verdictOf(name);
  if (verdict === null) return 'not judged';
  return verdict.rung === 'failed' ? 'rejected' : 'accepted';
}

function groupOf(groups: Map<string, Group>, names: readonly [string, string, string]): Group {
  const [agent, endpoint, outcome] = names.map(name => cut(name, LONGEST_NAME)) as [string, string, string];
  const name = JSON.stringify([agent, endpoint, outcome]);
  const known = groups.get(name);
  if (known) return known;
  if (groups.size >= MOST_GROUPS && agent !== OTHERS) return groupOf(groups, [OTHERS, OTHERS, OTHERS]);
  const group = { agent, endpoint, outcome, ...nothing() };
  groups.set(name, group);
  return group;
}

export const nothing = (): Sum => ({ tries: 0, in: 0, out: 0, cached: 0, uncounted: 0, ms: 0 });

function add(sum: Sum, { usage, outcome, ms }: CallHead): void {
  sum.tries += 1;
  sum.in += usage?.prompt ?? 0;
  sum.out += usage?.completion ?? 0;
  sum.cached += usage?.cached ?? 0;
  // a prompt has a token at least
  if (outcome === 'answer' && !usage?.prompt) sum.uncounted += 1;
  sum.ms += ms;
}

/** The sum over groups. */
export function total(sums: readonly Sum[]): Sum {
  const all = nothing();
  for (const { tries, in: prompt, out, cached, uncounted, ms } of sums) {
    all.tries += tries;
    all.in += prompt;
    all.out += out;
    all.cached += cached;
    all.uncounted += uncounted;
    all.ms += ms;
  }
  return all;
}

function byNames(a: Group, b: Group): number {
  return compared(a.agent, b.agent) || compared(a.endpoint, b.endpoint) || compared(a.outcome, b.outcome);
}

const compared = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
