/**
 * The order of the lines, and where they go: seconds in virtual time on simulated servers (8b-a100-80g), the pool as it is.
 * Nothing is set by hand but where LIMIT says how many calls a server has at a time.
 *
 *   make bench-prefix                 all of it, some minutes
 *   CASES=shuffled SERVERS=1,4 make bench-prefix
 */
import { readPreset } from '../products/simulator/presets.ts';
import { lcg } from '../products/simulator/random.ts';
import { type Figure, table, writeFigures } from './page.ts';
import { ask } from './prefix/run.ts';

const WORDS =
  'the of applicant income loan risk report year quarter total assets cash flow debt ratio bank city house credit'.split(
    ' ',
  );
const random = lcg(7);

function text(characters: number): string {
  let all = '';
  while (all.length < characters) all += `${WORDS[Math.floor(random() * WORDS.length)]} `;
  return all.slice(0, characters);
}

function shuffled<A>(list: readonly A[]): A[] {
  const all = [...list];
  for (let at = all.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [all[at], all[other]] = [all[other] as A, all[at] as A];
  }
  return all;
}

const times = <A>(count: number, make: (at: number) => A): A[] =>
  Array.from({ length: count }, (_, at) => make(at));
const question = (at: number): string => `\nQuestion ${at}: ${text(80)}?`;

const documents = times(300, at => `Document ${at}. ${text(10_000)}`);
const questions = times(8, question);
const groups = times(200, at => `Group ${at}. ${text(8_192)}`);
const sizes = times(120, at => Math.max(1, Math.round(480 / (at + 1))));
const systems = times(3, at => `System ${at}. ${text(4_000)}`);
const giant = text(12_000);
const byDocument = documents.flatMap(document => questions.map(one => document + one));
/** In each the best order by hand: what shares a beginning is side by side. */
const CASES: Record<string, readonly string[]> = {
  'by document': byDocument,
  'by document, KV cache for a tenth of them': byDocument,
  'by document, KV cache for all of them': byDocument,
  '200 groups of 24, 2,048 tokens shared': groups.flatMap(group => times(24, at => group + question(at))),
  'sizes by Zipf': sizes.flatMap((size, of) => {
    const group = `Group ${of}. ${text(8_192)}`;
    return times(size, at => group + question(at));
  }),
  'system, document, question': systems.flatMap(system =>
    documents.slice(0, 60).flatMap(document => questions.map(one => system + document + one)),
  ),
  'one giant group': times(2_400, at => giant + question(at)),
  'nothing shared': times(2_400, at => `${at} ${text(2_000)}`),
};
/** tokens that fit into the KV cache, where it is not that of the preset (400,000); the documents have 750,000 */
const KV: Record<string, number> = {
  'by document, KV cache for a tenth of them': 75_000,
  'by document, KV cache for all of them': 1_000_000,
};
const usual = readPreset('8b-a100-80g');
const ORDERS: Record<string, (texts: readonly string[]) => readonly string[]> = {
  'by hand': texts => texts,
  shuffled,
};

const only = (name: string, list: string | undefined): boolean =>
  list === undefined || list.split(';').includes(name);
const limit = process.env.LIMIT ? { limit: Number(process.env.LIMIT) } : {};
/** of each number of servers, makespans by that of the best order, divided */
const ratios = new Map<number, number[]>();
const rows = [['lines', 'order', 'servers', 'as they come', 'cached', 'now', 'cached', 'of the best / n']];
for (const [name, texts] of Object.entries(CASES)) {
  if (!only(name, process.env.CASES)) continue;
  const { kvTokens } = usual.limits;
  const preset = { ...usual, limits: { ...usual.limits, kvTokens: KV[name] ?? kvTokens } };
  const best = (await ask({ texts, servers: 1, lookAhead: 1, preset, ...limit })).makespan;
  for (const [order, by] of Object.entries(ORDERS)) {
    const input = by(texts);
    for (const servers of (process.env.SERVERS ?? '1,2,4,8').split(',').map(Number)) {
      const before = await ask({ texts: input, servers, lookAhead: 1, preset, ...limit });
      const now = await ask({ texts: input, servers, preset, ...limit });
      if (before.failed + now.failed > 0) throw new Error(`${name}: ${now.failed} failed`);
      ratios.set(servers, [...(ratios.get(servers) ?? []), (now.makespan * servers) / best]);
      const share = (came: { cached: number }): string => `${(100 * came.cached).toFixed(0)} %`;
      rows.push([
        ...[name, order, `${servers}`, `${before.makespan.toFixed(1)} s`, share(before)],
        ...[`${now.makespan.toFixed(1)} s`, share(now), ((now.makespan * servers) / best).toFixed(2)],
      ]);
      console.error(rows.at(-1)?.join(' | '));
    }
  }
}

const figures = [...ratios].map(
  ([servers, all]): Figure => [
    `prefix, ${servers} ${servers === 1 ? 'server' : 'servers'}: makespan ÷ the best order on one ÷ servers`,
    `${(all.reduce((sum, one) => sum + one, 0) / all.length).toFixed(2)} on average, ${Math.max(...all).toFixed(2)} at most`,
    servers === 1 ? '≤ 1.05' : '≤ 1.10',
  ],
);
writeFigures('prefix', figures, [
  '## The same words are computed once, in virtual time',
  '',
  `Requests of chat with answers of 64 tokens on servers of the preset 8b-a100-80g; ${limit.limit ? `${limit.limit} calls at a time at each` : 'nothing set by hand'}. \`make bench-prefix\`.`,
  'The best is one server that is given the order by hand, line by line.',
  '',
  ...table(rows),
]);
