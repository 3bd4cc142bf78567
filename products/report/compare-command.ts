/**
 * compare: what changed between runs over the same items: another model, engine, temperature, prompt.
 *
 *   fw compare old.ndjson new.ndjson --outcome approval_decision --approve approve --margin 0.02
 */
import { JUDGE_OPTIONS } from '../../engine/audit/verdict.ts';
import { expandPaths, expectResults } from '../../engine/core/files/input-files.ts';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { aligned, counted, cut, number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { COMMON } from '../../engine/flow/join.ts';
import { namesIn } from '../../engine/flow/options.ts';
import { LEAST } from '../kit/agreement.ts';
import { decimal, percent, points, pText, withInterval } from '../kit/html.ts';
import { readAnswers } from '../records/answer-outcomes.ts';
import { costOf, total } from '../records/ledger-cost.ts';
import { openReading } from '../records/reading-options.ts';
import { type Comparison, compareAll, type RunRow, runRow } from './compare-runs.ts';
import { gather, OUTCOME_OPTIONS, outcomeNamed } from './gather.ts';

export default command({
  name: 'compare',
  summary: 'Compare runs over the same items: decisions, numbers, rungs, speed.',
  positional: 'A B…',
  examples: [
    'fw compare old.ndjson new.ndjson --outcome approval_decision --approve approve --margin 0.02',
    "fw compare 'hf/*_legacy.jsonl' 'vllm/*_legacy.jsonl' --outcome approval_decision --approve approve --ledger hf/ledger --ledger vllm/ledger --gpu-hour 1.20",
  ],
  options: {
    ...OUTCOME_OPTIONS,
    twins: {
      type: 'array',
      items: { type: 'string' },
      description:
        'Columns that must match for two rows to be twins, comma-separated; all twins together then count as one case. Default: each application is a case.',
    },
    margin: {
      type: 'number',
      minimum: 0.0001,
      maximum: 1,
      description:
        'Largest difference in approval rate that does not matter, e.g. 0.02. Exit 1 unless every run is shown to be within it of A.',
    },
    ledger: {
      type: 'array',
      items: { type: 'string' },
      file: 'read-many',
      description:
        'Ledger folder of each run, in the order of the runs, to add the calls, times and tokens of all tries.',
    },
    'gpu-hour': {
      type: 'number',
      minimum: 0,
      description:
        'Price of a GPU hour, in any currency, to add the cost of each run at one GPU per endpoint. Needs --ledger.',
    },
    ...JUDGE_OPTIONS,
    json: { type: 'boolean', description: 'Write the figures as JSON.' },
    'max-line': {
      ...COMMON['max-line'],
      description: 'Maximum line length in bytes; longer lines count as unreadable.',
    },
  },

  async run(options, patterns) {
    const { margin, ledger: ledgers = [], 'gpu-hour': price, twins = [], json, ...rest } = options;
    const named = outcomeNamed(options, 'fw compare A B…');
    if (patterns.length < 2)
      throw usageError(`expected two runs or more, found ${patterns.length}: fw compare A B…`);
    if (ledgers.length > 0 && ledgers.length !== patterns.length)
      throw usageError(`--ledger: expected one of each run, ${patterns.length}, found ${ledgers.length}`);
    if (price !== undefined && ledgers.length === 0)
      throw usageError('--gpu-hour: expected --ledger of each run, which has the times, found none');
    const asked = { ...rest, ...named, group: [], twins: namesIn(twins) };
    const runs: { name: string; collected: Awaited<ReturnType<typeof gather>>['collected'] }[] = [];
    const rows: RunRow[] = [];
    let exit: number = EXIT.ok;
    for (const [at, pattern] of patterns.entries()) {
      const paths = expectResults(await expandPaths([pattern]));
      const { collected, notes } = await gather(paths, asked, { stage: 'compare', warn: say });
      for (const note of notes) say(`${pattern}: ${note}`);
      const ledger = ledgers[at] === undefined ? null : timesOf(ledgers[at], price);
      const row = runRow(pattern, collected, ledger);
      if (row.tokens.uncounted > 0 && row.tokens.prompt !== null)
        say(
          `${pattern}: ${counted(row.tokens.uncounted, 'answer')} without usage: their tokens are unknown, and in no sum`,
        );
      rows.push(row);
      runs.push({ name: pattern, collected });
    }
    const [first, ...others] = runs as [(typeof runs)[number], ...typeof runs];
    const comparisons = compareAll(first, others, margin);
    const page = json
      ? `${JSON.stringify({ compare: 1, runs: rows, comparisons }, null, 1)}\n`
      : comparisonPage(rows, comparisons);
    if (margin !== undefined && comparisons.some(({ equivalence }) => equivalence?.equivalent !== true))
      exit = EXIT.failed;
    await writePage(page);
    return exit;
  },
});

const say = (message: string): void => void process.stderr.write(`fw compare: ${message}\n`);

function timesOf(ledger: string, price: number | undefined): RunRow['ledger'] {
  const { paths, tell } = openReading(ledger, say);
  const { groups, questions, held } = costOf(
    paths,
    readAnswers(paths, () => {}),
    tell,
  );
  const { tries, in: prompt, out, ms, uncounted } = total(groups);
  if (uncounted > 0)
    say(`${ledger}: ${counted(uncounted, 'answer')} without usage: their tokens are unknown, and in no sum`);
  const endpointHours = held.endpoints / 3_600_000;
  return {
    ...{ calls: questions, tries, seconds: ms / 1000 },
    ...{ in: prompt > 0 ? prompt : null, out: prompt > 0 ? out : null },
    ...{ hours: held.wall / 3_600_000, endpointHours },
    cost: price === undefined ? null : endpointHours * price,
  };
}

const name = (text: string): string => visible(cut(text, 60));

function comparisonPage(runs: readonly RunRow[], comparisons: readonly Comparison[]): string {
  const lines = [...runLines(runs), ...comparisons.flatMap(each => ['', ...comparisonLines(each)])];
  return `${lines.join('\n')}\n`;
}

/** What nobody counted is no 0. */
const counts = (tokens: number | null): string => (tokens === null ? '–' : number(tokens));

const TIMED = ['calls', 's a try', 'tokens/s a call', 'tokens/s', 'hours', 'GPU hours'];

function runLines(runs: readonly RunRow[]): string[] {
  const isTimed = runs.some(({ ledger }) => ledger !== null);
  const isPriced = runs.some(({ ledger }) => ledger !== null && ledger.cost !== null);
  const head = ['run', 'items', 'trusted', 'clean', 'mended', 'asked again', 'approved', 'tokens in', 'out'];
  const rows = runs.map(({ name: of, seen, trusted, rungs, askedAgain, rate, tokens, ledger }) => {
    const share = (part: number): string => percent(seen === 0 ? null : part / seen);
    const mended = (rungs.repaired ?? 0) + (rungs.coerced ?? 0) + (rungs.defaulted ?? 0);
    const row = [
      ...[name(of), number(seen), share(trusted), share(rungs.clean ?? 0), share(mended), share(askedAgain)],
      ...[
        percent(rate?.value),
        counts(ledger ? ledger.in : tokens.prompt),
        counts(ledger ? ledger.out : tokens.completion),
      ],
    ];
    if (!isTimed) return row;
    if (ledger === null) return [...row, ...TIMED.map(() => '–'), ...(isPriced ? ['–', '–'] : [])];
    const { calls, tries, seconds, out, hours, endpointHours, cost } = ledger;
    return [
      ...row,
      ...[
        number(calls),
        decimal(seconds / (tries || 1)),
        decimal(out === null ? null : out / (seconds || 1), 0),
      ],
      ...[
        decimal(out === null ? null : out / (hours * 3600 || 1), 0),
        decimal(hours),
        decimal(endpointHours),
      ],
      ...(isPriced
        ? [decimal(cost), decimal(seen === 0 || cost === null ? null : (1000 * cost) / seen)]
        : []),
    ];
  });
  const all = isTimed ? [...head, ...TIMED, ...(isPriced ? ['cost', 'a 1,000 items'] : [])] : head;
  return aligned([all, ...rows], all.map((_, at) => at).slice(1));
}

function comparisonLines(comparison: Comparison): string[] {
  const {
    runs,
    matched,
    clusters,
    unit,
    onlyFirst,
    onlySecond,
    identical,
    table,
    equivalence,
    numbers,
    different,
  } = comparison;
  const [first, second] = runs.map(name);
  const [[, won], [lost]] = table;
  const lines = [
    `${second} against ${first}`,
    `  matched by id: ${number(matched)}${clusters < matched ? `, of ${number(clusters)} ${unit}` : ''}; in the first alone ${number(onlyFirst)}, in the second alone ${number(onlySecond)}`,
  ];
  if (matched === 0) return [...lines, '  nothing to compare: no id was decided in both'];
  lines.push(
    `  identical in decision and numbers: ${number(identical)} (${percent(identical / matched)})`,
    `  same decision: ${withInterval(comparison.agreement)}; kappa ${withInterval(comparison.kappa, value => decimal(value))}`,
    `  approval: ${withInterval(comparison.difference, points)} points; ${number(won)} approved in the second alone, ${number(lost)} in the first alone; p ${pText(comparison.p)} raw, ${pText(comparison.holm)} corrected`,
  );
  if (equivalence) {
    const { margin, p, equivalent } = equivalence;
    lines.push(
      `  within ±${decimal(margin * 100, 1)} points: ${equivalent ? 'shown' : 'not shown'} (${p === null ? `fewer than ${LEAST} ${unit} show nothing` : `two one-sided tests, p ${pText(p)}`})`,
    );
  }
  for (const { name: of, n, means, meanDifference, ks } of numbers)
    lines.push(
      `  ${name(of)}: mean ${decimal(means[0])} and ${decimal(means[1])} (${meanDifference > 0 ? '+' : ''}${decimal(meanDifference)}), n ${number(n)}; KS distance ${decimal(ks.d, 3)}, p ${pText(ks.p)} raw, ${pText(ks.holm)} corrected`,
    );
  const { view } = comparison;
  if (view !== null) lines.push(`  look at both, those that differ first: ${visible(view)}`);
  if (different.length > 0) {
    lines.push(`  most different${view === null ? '' : ', each with --where id=ID'}:`);
    const rows = different.map(({ id, decisions, numbers: of }) => [
      `    ${name(id)}`,
      decisions[0] === decisions[1] ? decisions[0] : decisions.join(' → '),
      ...Object.entries(of).map(([key, [a, b]]) => `${name(key)} ${a} → ${b}`),
    ]);
    lines.push(...aligned(rows, []));
  }
  return lines;
}
