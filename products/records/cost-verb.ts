/** ledger cost: what the calls of a ledger cost, by agent, endpoint and outcome. */

import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { aligned, counted, cut, number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { readAnswers } from './answer-outcomes.ts';
import { ANSWERED, type Cost, costOf, type Group, type Sum, total } from './ledger-cost.ts';
import { LEDGER, openReading, tokensOf, toStderr } from './reading-options.ts';

export default command({
  name: 'ledger cost',
  summary: 'Sum up tries, tokens and seconds by agent, endpoint and outcome, and what was paid for nothing.',
  examples: [
    'fw ledger cost',
    'fw ledger cost --json | jq \'[.groups[] | select(.outcome == "rejected").out] | add\'',
  ],
  options: {
    ...LEDGER,
    json: {
      type: 'boolean',
      description: 'One JSON object: groups by agent, endpoint and outcome, and the sums.',
    },
  },

  async run({ ledger, json }) {
    const reading = openReading(ledger, toStderr('cost'));
    const cost = costOf(
      reading.paths,
      readAnswers(reading.paths, () => {}),
      reading.tell,
    );
    await writePage(json ? `${JSON.stringify({ ...cost, ...apart(cost) })}\n` : renderCost(cost));
    return reading.end();
  },
});

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
    lines.push(
      `without an answer: ${counted(tries, 'try', 'tries')}, ${secondsText(ms)} s; what they cost the servers is unknown`,
    );
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
