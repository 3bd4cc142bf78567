/**
 * batch: an OpenAI batch file through a pool of servers, as `vllm run-batch` does on one engine. It is the row
 * ingest | request | export of this process, with its ledger, so that the same command again asks only what is missing.
 *
 *   fw batch -i input.jsonl -o output.jsonl --endpoint http://gpu1:8005/v1
 */
import { expandPaths, identityOf } from '../../engine/core/files/input-files.ts';
import { toStdout } from '../../engine/core/files/ndjson-out.ts';
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { command } from '../../engine/flow/command.ts';
import { ASKING, COMMON } from '../../engine/flow/join.ts';
import type { Values } from '../../engine/flow/options.ts';
import { POOL_OPTIONS } from '../../engine/running/open-pool.ts';
import { placed } from '../../engine/running/stage-options.ts';
import { refuseOutputs, runToFiles, runToStream } from '../../engine/running/to-files.ts';
import { execute, sayAs } from '../../products/kit/execute.ts';
import exporting from '../../stages/export.ts';
import ingest from '../../stages/ingest.ts';
import request from '../../stages/request.ts';

const NAME = 'batch';
const FORMAT = 'openai-batch';
/** As of pipeline files: a run is resumable unless nobody can write here. */
const LEDGER = 'ledger/';

export default command({
  name: NAME,
  summary: 'Run an OpenAI batch file like vllm run-batch, but over several servers and resumably.',
  positional: '[INPUT…]',
  examples: [
    'fw batch -i input.jsonl -o output.jsonl --endpoint http://gpu1:8005/v1 --endpoint http://gpu2:8005/v1',
    "fw batch -i 'parts/*.jsonl' -o output.jsonl --errors errors.jsonl --endpoint http://gpu1:8005/v1",
    'zcat input.jsonl.gz | fw batch --unordered --endpoint http://gpu1:8005/v1 | gzip > output.jsonl.gz',
  ],
  options: {
    'input-file': {
      type: 'array',
      items: { type: 'string' },
      short: 'i',
      description:
        'Batch file, with lines {custom_id, method, url, body}: a path or a glob. May be repeated. Default: -, standard input.',
    },
    'output-file': {
      type: 'string',
      short: 'o',
      default: '-',
      description: 'Output path; - is standard output. Missing folders are created.',
    },
    errors: {
      type: 'string',
      file: 'write',
      description: 'Write failed requests to this file instead of the output, as OpenAI does.',
    },
    unordered: {
      type: 'boolean',
      description: 'Write lines as answers arrive instead of in input order.',
    },
    once: request.options.once,
    'skip-invalid': {
      type: 'boolean',
      description: 'Turn a line that is not a request into an error line instead of ending the run.',
    },
    'in-flight': ASKING['in-flight'],
    'look-ahead': ASKING['look-ahead'],
    grace: ASKING.grace,
    'max-failed': ASKING['max-failed'],
    'max-cost': ASKING['max-cost'],
    'max-total-tokens': ASKING['max-total-tokens'],
    ...POOL_OPTIONS,
    model: {
      ...POOL_OPTIONS.model,
      description:
        'Model that some endpoint must serve, and that requests without a model mean. Requests are sent unchanged.',
    },
    ledger: {
      ...POOL_OPTIONS.ledger,
      description:
        'Folder in which every answer is kept. The same command again asks only what is missing. Default: FW_LEDGER, else ledger/.',
    },
    'max-line': COMMON['max-line'],
  },

  async run(options, more) {
    const { 'input-file': named = [], 'output-file': output, 'max-line': maxLine } = options;
    const inputs = [...named, ...more];
    if (inputs.length === 0 && process.stdin.isTTY)
      throw usageError('expected an input, found none: fw batch -i input.jsonl -o output.jsonl');
    const files = await expandPaths(inputs);
    const { errors, unordered, once, 'skip-invalid': skips } = options;
    const asking = Object.keys({ ...ASKING, ...POOL_OPTIONS }).filter(name => name !== 'ordered');
    const flags: Values = options;
    const given = Object.fromEntries(asking.map(name => [name, flags[name]]));
    const row = [
      placed(ingest, { format: FORMAT, 'skip-invalid': skips, 'max-line': maxLine }),
      // no line has the request and its answer together
      placed(request, { ...given, once, 'max-line': maxLine + options['max-body'] + ROOM }),
      placed(exporting, { format: FORMAT, errors, ordered: unordered !== true }),
    ];
    const path = output === '-' || output === '/dev/stdout' ? undefined : output;
    refuseInputs({ 'output-file': path, errors }, files);
    const run = { label: NAME, row, files, base: process.cwd(), ledger: process.env.FW_LEDGER || LEDGER };
    await refuseOutputs(run, path, []);
    const how = { start: execute, say: sayAs(NAME) };
    const code =
      path === undefined
        ? await runToStream({ ...run, output: toStdout }, how)
        : await runToFiles(run, { ...how, target: path });
    if (code !== EXIT.failed) return code;
    how.say(
      `a request that failed is a line with an error${errors === undefined ? '' : ` in ${errors}`}; the same command again asks it again`,
    );
    return EXIT.ok;
  },
});

/** The same command again can only resume while its input is there. */
function refuseInputs(written: Record<string, string | undefined>, files: readonly string[]): void {
  const inputs = new Set(files.filter(path => path !== '-').map(identityOf));
  for (const [option, path] of Object.entries(written)) {
    const identity = path === undefined ? null : identityOf(path);
    if (identity !== null && inputs.has(identity))
      throw usageError(`--${option} ${path}: expected a file other than the input, which it would overwrite`);
  }
}

/** Bytes of an item beside its request and its answer, and more. */
const ROOM = 64 * 1024;
