/**
 * run: a pipeline file, in one process.
 *
 *   fw run pipelines/fairwatch/batch.yaml prompts.csv --endpoint http://gpu1:8005/v1
 */
import { basename } from 'node:path';
import { expandPaths } from '../../engine/files/input.ts';
import { toStdout } from '../../engine/files/output.ts';
import { expectResults } from '../../engine/files/provenance-files.ts';
import { COMMON } from '../../engine/flow/join.ts';
import { isSource, stage } from '../../engine/flow/stage.ts';
import { usageError } from '../../engine/item/failure.ts';
import { POOL_OPTIONS } from '../../engine/run/open-pool.ts';
import { type Pipeline, readPipeline } from '../../engine/run/pipeline.ts';
import { outputOf } from '../../engine/run/target.ts';
import { refuseOutputs, runToFiles, runToStream } from '../../engine/run/to-files.ts';
import { countRows } from '../../engine/table/count.ts';
import { command } from '../command.ts';
import { execute, sayAs } from '../execute.ts';
import { dryRun } from './dry-run.ts';

export default command({
  name: 'run',
  summary: 'Run a pipeline file in one process; an output appears when it is complete.',
  positional: 'FILE [INPUT…]',
  examples: [
    'fw run pipelines/fairwatch/batch.yaml prompts.csv --endpoint http://gpu1:8005/v1',
    'fw run pipelines/fairwatch/batch.yaml prompts.csv --dry-run',
    "fw run pipelines/fairwatch/revalidate.yaml 'out/*.jsonl' --output checked.jsonl",
    'fw run pipelines/fairwatch/batch.yaml prompts.csv --set ingest.orderings=batch4 --set chain.in-flight=512',
  ],
  options: {
    ...POOL_OPTIONS,
    set: {
      type: 'array',
      items: { type: 'string' },
      description: 'STAGE.OPTION=VALUE, in place of what the file says. May be repeated.',
    },
    output: {
      type: 'string',
      file: 'write',
      description: 'Path, in place of the output that the file names; - is standard output.',
    },
    limit: { type: 'integer', minimum: 1, description: 'Only the first N rows or items of the input.' },
    'dry-run': {
      type: 'boolean',
      description: 'Ask nothing. Show the first prompt, the calls, the tokens and the disk space.',
    },
  },

  async run(options, [file, ...inputs]) {
    if (file === undefined) throw usageError('expected a pipeline file, found none: fw run FILE [INPUT…]');
    const label = basename(file);
    const { set: sets = [] } = options;
    const pipeline = await readPipeline(file, sets);
    const row = withFlags(pipeline, options);
    const files = expectResults(await expandPaths(inputs.length > 0 ? inputs : pipeline.input));
    const target = options.output ?? outputOf({ ...pipeline, row }) ?? '-';
    const { base, pool, ledger, reads } = pipeline;
    const path = target === '-' || target === '/dev/stdout' ? undefined : target;
    const run = { label, row, files, base, sets, pool, ledger };
    await refuseOutputs(run, path, reads);
    if (options['dry-run']) return dryRun({ row, files, base, sets, target, ledger });
    const how = { start: execute, say: sayAs(label) };
    return path === undefined
      ? runToStream({ ...run, output: toStdout }, how)
      : runToFiles(run, { ...how, target: path });
  },
});

/** The flags of the command line, in the stages that they are for. */
function withFlags(pipeline: Pipeline, flags: Record<string, unknown>): Pipeline['row'] {
  const begins = pipeline.row[0] !== undefined && isSource(pipeline.row[0].stage, pipeline.row[0].options);
  const row = pipeline.row.map(({ stage, options }, index) => {
    const own = { ...options };
    if (stage.asks) {
      // --wait has a default, so it is there even where nobody said it
      for (const flag of Object.keys(POOL_OPTIONS)) own[flag] = flags[flag] ?? own[flag];
    }
    if (index === 0 && begins && flags.limit !== undefined) own.limit = flags.limit;
    // the output is named, so a stage that only looks lets its lines through to it
    if (stage.looks) own.pass = true;
    return { stage, options: own };
  });
  if (flags.limit === undefined || begins) return row;
  return [
    { stage: firstItems, options: { count: flags.limit, 'max-line': row[0]?.options['max-line'] } },
    ...row,
  ];
}

const firstItems = stage({
  name: 'limit',
  summary: 'Let the first items through.',
  options: { count: { type: 'integer', default: 0, description: 'How many.' } },
  async counts({ count }, { files, signal, rows }) {
    const maxLine = COMMON['max-line'].default;
    const lines = rows ?? (await countRows(files, { format: 'lines', maxLine, signal }));
    return lines && Math.min(lines, count);
  },
  // what is behind them is left unread
  through:
    ({ count }) =>
    items =>
      items.take(count),
});
