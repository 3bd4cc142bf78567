/**
 * run: a pipeline file, in one process.
 *
 *   fw run pipelines/fairwatch/batch.yaml prompts.csv --endpoint http://gpu1:8005/v1
 */
import { basename } from 'node:path';
import { expandPaths, expectResults } from '../../engine/core/files/input-files.ts';
import { toStdout } from '../../engine/core/files/ndjson-out.ts';
import { usageError } from '../../engine/core/item/failure.ts';
import { command } from '../../engine/flow/command.ts';
import { ASKING, BOUNDING } from '../../engine/flow/join.ts';
import { isSource } from '../../engine/flow/stage.ts';
import { POOL_OPTIONS } from '../../engine/running/open-pool.ts';
import { outputOf, type Pipeline, readPipeline } from '../../engine/running/pipeline.ts';
import { refuseOutputs, runToFiles, runToStream, type Start } from '../../engine/running/to-files.ts';
import { execute, sayAs } from '../../products/kit/execute.ts';
import {
  QUEUE_OPTIONS,
  type QueueFlags,
  type QueueSettings,
  queueOf,
} from '../../products/workers/queue-options.ts';
import { stages } from '../../stages/index.ts';
import { dryRun } from './dry-run.ts';
import { shardOfRun, withPart, writingOf } from './shard.ts';

export default command({
  name: 'run',
  summary: 'Run a pipeline file in one process; an output file appears only when it is complete.',
  positional: 'FILE [INPUT…]',
  examples: [
    'fw run pipelines/fairwatch/batch.yaml prompts.csv --endpoint http://gpu1:8005/v1',
    'fw run pipelines/fairwatch/batch.yaml prompts.csv --dry-run',
    "fw run pipelines/fairwatch/revalidate.yaml 'out/*.jsonl' --output checked.jsonl",
    'fw run pipelines/fairwatch/batch.yaml prompts.csv --set ingest.orderings=batch4 --set chain.in-flight=512',
    'fw run pipelines/fairwatch/batch.yaml prompts.csv --shard 1/8 --endpoint http://gpu1:8005/v1',
    'fw run pipelines/fairwatch/batch.yaml prompts.csv --redis redis://127.0.0.1:6379 --listen 0.0.0.0:8080',
  ],
  options: {
    ...POOL_OPTIONS,
    ledger: {
      ...POOL_OPTIONS.ledger,
      description:
        'Folder in which every answer is kept. The same command again asks only what is missing. Default: the one in the pipeline file, else FW_LEDGER, else ledger/.',
    },
    set: {
      type: 'array',
      items: { type: 'string' },
      description: 'Override an option of the pipeline file: STAGE.OPTION=VALUE. May be repeated.',
    },
    output: {
      type: 'string',
      file: 'write',
      description:
        'Output path; - is standard output. Missing folders are created. Default: the output in the pipeline file.',
    },
    'max-failed': ASKING['max-failed'],
    'max-cost': ASKING['max-cost'],
    'max-total-tokens': ASKING['max-total-tokens'],
    limit: { type: 'integer', minimum: 1, description: 'Take only the first N rows or items of the input.' },
    shard: {
      type: 'string',
      description:
        'Take every n-th row or line, starting with the i-th: i/n, e.g. 1/8. Everything the run writes then has 1-of-8 in its name.',
    },
    'dry-run': {
      type: 'boolean',
      description:
        'Ask nothing; show the first prompt and the calls, tokens and disk space that the run would need.',
    },
    ...QUEUE_OPTIONS,
    listen: {
      type: 'string',
      group: 'Workers',
      description:
        'HOST:PORT where workers (fw work --server) fetch their lines; port 0 takes a free one. Needs FW_WORKER_KEY if other machines can reach it. Default: 127.0.0.1:8080.',
    },
  },

  async run(options, [file, ...inputs]) {
    if (file === undefined) throw usageError('expected a pipeline file, found none: fw run FILE [INPUT…]');
    const label = basename(file);
    const { set: sets = [] } = options;
    const pipeline = await readPipeline(file, stages, sets);
    const shard = shardOfRun(pipeline.row, options.shard);
    const flagged = withFlags(pipeline, { ...options, shard });
    const output = options.output ?? outputOf({ ...pipeline, row: flagged }) ?? '-';
    const whole = { row: flagged, ledger: pipeline.ledger, target: output };
    const { row, ledger, target } = shard === undefined ? whole : writingOf(shard, whole);
    const files = expectResults(await expandPaths(inputs.length > 0 ? inputs : pipeline.input));
    const { base, pool, reads } = pipeline;
    const path = target === '-' || target === '/dev/stdout' ? undefined : target;
    const run = { label, row, files, base, sets, pool, ledger };
    const queue = queueOfRun(options);
    if (queue !== null) (await import('../../products/workers/handing.ts')).movingIn(row);
    await refuseOutputs(run, path, reads);
    if (options['dry-run']) return dryRun({ row, files, base, sets, target, ledger, pool });
    const say = sayAs(label);
    const act = (start: Start): Promise<number> =>
      path === undefined
        ? runToStream({ ...run, output: toStdout }, { start, say })
        : runToFiles(run, { start, say, target: path });
    if (queue === null) return act(execute);
    const { overWorkers } = await import('../../products/serve/run-over-workers.ts');
    return overWorkers({ run, queue, listen: options.listen, say }, act);
  },
});

/** Null where this process asks itself: FW_REDIS alone, which is there for workers too, sends nothing away. */
function queueOfRun(flags: QueueFlags & { listen?: string; shard?: string }): QueueSettings | null {
  const { redis, listen, shard } = flags;
  if (redis === undefined && listen === undefined) return null;
  const queue = queueOf(flags, process.env);
  if (queue === null)
    throw usageError('--listen: expected the Redis where workers wait too, found none: --redis URL');
  if (shard === undefined) return queue;
  throw usageError(
    '--shard: expected no --redis, which already divides the lines among workers; leave one of them out',
  );
}

/** The flags of the command line, in the stages that they are for. */
function withFlags({ row }: Pipeline, flags: Record<string, unknown>): Pipeline['row'] {
  const makesItems = row[0] !== undefined && isSource(row[0].stage, row[0].options);
  const { limit, shard } = flags as { limit?: number; shard?: string };
  const part = { ...(limit !== undefined && { limit }), ...(shard !== undefined && { shard }) };
  const own = row.map(({ stage, options }, index) => {
    const own = { ...options };
    if (stage.asks) {
      // --wait has a default, so it is there even where nobody said it
      for (const flag of [...Object.keys(POOL_OPTIONS), ...BOUNDING]) own[flag] = flags[flag] ?? own[flag];
    }
    if (index === 0 && makesItems) Object.assign(own, part);
    // the output is named, so a stage that only looks lets its lines through to it
    if (stage.looks) own.pass = true;
    return { stage, options: own };
  });
  return makesItems || Object.keys(part).length === 0 ? own : withPart(own, part);
}
