/**
 * compare: what changed between runs over the same items: another model, engine, temperature, prompt.
 *
 *   fw compare old.ndjson new.ndjson --outcome approval_decision --approve approve --margin 0.02
 */
import { JUDGE_OPTIONS } from '../../engine/audit/verdict.ts';
import { expandPaths } from '../../engine/core/files/input-files.ts';
import { expectResults } from '../../engine/core/files/provenance-files.ts';
import { writePage } from '../../engine/core/files/stdout.ts';
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { counted } from '../../engine/core/item/wording.ts';
import { command } from '../../engine/flow/command.ts';
import { COMMON } from '../../engine/flow/join.ts';
import { namesIn } from '../../engine/flow/options.ts';
import { readAnswers } from '../records/answer-outcomes.ts';
import { costOf, total } from '../records/ledger-cost.ts';
import { openReading } from '../records/reading-options.ts';
import { compareAll, type RunRow, runRow } from './compare-runs.ts';
import { comparisonPage } from './compare-runs-text.ts';
import { gather, OUTCOME_OPTIONS, outcomeNamed } from './gather.ts';

export default command({
  name: 'compare',
  summary: 'What changed between runs over the same items: decisions, numbers, rungs, speed.',
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
        'Columns in which twins are alike, also comma-separated: a cell of twins is then one case. Default: each application is.',
    },
    margin: {
      type: 'number',
      minimum: 0.0001,
      maximum: 1,
      description:
        'Difference of approval rates that would not matter, such as 0.02. Exit code 1 where it is not shown that a run is within it of A.',
    },
    ledger: {
      type: 'array',
      items: { type: 'string' },
      file: 'read-many',
      description:
        'Folder of the ledger of each run, in the order of the runs: adds calls, times and tokens of all tries.',
    },
    'gpu-hour': {
      type: 'number',
      minimum: 0,
      description:
        'Price of a GPU hour, in any currency: adds what each run cost, with one GPU an endpoint. Needs --ledger.',
    },
    ...JUDGE_OPTIONS,
    json: { type: 'boolean', description: 'Write the figures as JSON.' },
    'max-line': { ...COMMON['max-line'], description: 'Longer lines, in bytes, are counted as unreadable.' },
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
