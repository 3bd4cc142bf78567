/**
 * report: what a study found, and whether it can be trusted: one page of HTML, or JSON.
 *
 *   fw report 'out/*_legacy.jsonl' --source prompts.csv --outcome approval_decision --approve approve --group ethnicity_signal > report.html
 *   fw report decisions.csv --outcome approve --approve 1 --group race --json
 */
import { JUDGE_OPTIONS } from '../../engine/audit/verdict.ts';
import { version } from '../../engine/core/config/package.ts';
import { expandPaths, expectResults } from '../../engine/core/files/input-files.ts';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { cut } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { COMMON } from '../../engine/flow/join.ts';
import { namesIn } from '../../engine/flow/options.ts';
import type { Collected } from './collect.ts';
import { gather, OUTCOME_OPTIONS, outcomeNamed } from './gather.ts';
import { judgedTable } from './judged.ts';
import { reportOf } from './report.ts';
import { pageOf } from './report-page.ts';

export default command({
  name: 'report',
  summary: 'Report the results of a study by group and by order, and how far to trust them, as HTML or JSON.',
  positional: 'FILE…',
  examples: [
    'fw report items.ndjson --outcome approval_decision --approve approve --group ethnicity_signal > report.html',
    "fw report 'out/*_legacy.jsonl' --source prompts.csv --outcome approval_decision --approve approve --group name --twins credit_score,visa_status,income,age,loan_amount > report.html",
    'fw report decisions.csv --outcome approve --approve 1 --group race --reference white --json',
  ],
  options: {
    ...OUTCOME_OPTIONS,
    group: {
      type: 'array',
      items: { type: 'string' },
      description: 'Column whose values are the groups to compare. May be repeated.',
    },
    reference: {
      type: 'array',
      items: { type: 'string' },
      description:
        'Group to compare with: VALUE or COLUMN=VALUE. May be repeated. Default: the one with the most records.',
    },
    twins: {
      type: 'array',
      items: { type: 'string' },
      description:
        'Columns that must match for two rows to be twins, comma-separated; twins differ in the --group.',
    },
    risk: { type: 'string', description: 'Column of numbers: also show approval by its quintiles.' },
    source: {
      type: 'string',
      file: 'read',
      description:
        'Original table, for results that lack its columns; joined by id or row number, and checked.',
    },
    labels: {
      type: 'array',
      items: { type: 'string' },
      file: 'read-many',
      description:
        'File of labels, what people said of these lines in fw view: adds how often they agree with the model, and with each other. May be repeated.',
    },
    ...JUDGE_OPTIONS,
    json: { type: 'boolean', description: 'Write the figures as JSON, with the ids behind each.' },
    'max-line': {
      ...COMMON['max-line'],
      description: 'Maximum line length in bytes; longer lines count as unreadable.',
    },
  },

  async run(options, patterns) {
    const { group = [], reference = [], twins = [], json, ...rest } = options;
    const named = outcomeNamed(options, 'fw report FILE…');
    const paths = expectResults(await expandPaths(patterns));
    const warn = (message: string): void => void process.stderr.write(`fw report: ${message}\n`);
    const given = { ...rest, ...named, group: [...new Set(group)], twins: namesIn(twins) };
    const { collected, files, notes, source, judged } = await gather(
      paths.length === 0 ? ['-'] : paths,
      given,
      {
        stage: 'report',
        warn,
      },
    );
    expectReferences(reference, collected);
    const report = reportOf(collected, {
      version: version(),
      files,
      references: reference,
      accept: namesIn(rest.accept),
      notes,
      source,
      judged: judged && judgedTable(collected, judged),
    });
    for (const note of report.judged?.notes ?? []) warn(note);
    await writePage(json ? `${JSON.stringify(report, null, 1)}\n` : pageOf(report));
    return EXIT.ok;
  },
});

/** Exit 64 for a reference that no column has: it would be passed over. */
function expectReferences(references: readonly string[], { groups }: Collected): void {
  for (const text of references) {
    const isThere = groups.some(({ column, values }) => {
      const own = text.startsWith(`${column}=`) ? text.slice(column.length + 1) : text;
      return values.list.includes(own);
    });
    if (isThere) continue;
    const there = groups.flatMap(({ values }) => values.list).slice(0, 20);
    const found = there.length === 0 ? 'no --group' : there.map(value => visible(cut(value, 60))).join(', ');
    throw usageError(
      `--reference: expected a value of a --group column, found '${text}'; there are: ${found}`,
    );
  }
}
