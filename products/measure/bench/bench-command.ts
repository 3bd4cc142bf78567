/**
 * bench: what servers can do: time to first token, time per token, latency and throughput, by load.
 *
 *   fw bench --endpoint http://gpu1:8005/v1 --input-tokens 400 --output-tokens 128 --concurrency 1,10,40 --requests 200
 *   fw ingest prompts.csv | fw bench --endpoint http://gpu1:8005/v1 --rate 2,5 --json bench.json
 */
import { randomInt } from 'node:crypto';
import { resolve } from 'node:path';
import { agentsOf } from '../../../engine/asking/agents/asking-options.ts';
import { systemClock } from '../../../engine/asking/endpoints/pool-clock.ts';
import { poolSettings, readPoolFile } from '../../../engine/asking/endpoints/settings.ts';
import { version } from '../../../engine/core/config/package.ts';
import { expandPaths } from '../../../engine/core/files/input-files.ts';
import { writePage } from '../../../engine/core/files/ndjson-out.ts';
import { writeDocument } from '../../../engine/core/files/saving.ts';
import { EXIT, usageError } from '../../../engine/core/item/failure.ts';
import { counted, percent } from '../../../engine/core/item/wording.ts';
import { command } from '../../../engine/flow/command.ts';
import { durationOf } from '../../../engine/flow/options.ts';
import { benchModels, isChoice } from '../models/models-verb.ts';
import { bench, type Run } from './bench.ts';
import { extentOf, goalOf, loadsOf } from './bench-options.ts';
import { benchPage } from './bench-page.ts';
import { withUnknown } from './bench-result.ts';
import { csvOf } from './bench-rows.ts';
import { openTarget } from './bench-servers.ts';
import compare from './compare-verb.ts';
import { vllmTable } from './console.ts';
import { fallingLoads } from './falling.ts';
import { jsonOf, type Told } from './json.ts';
import { hostOf } from './live-progress.ts';
import { readOwnLines } from './own-requests.ts';
import {
  adaptersOf,
  type Given,
  lengthsOf,
  say,
  syntheticOf,
  WARM_UP_LENGTHS,
  workloadOf,
} from './request-sources.ts';
import { factsOf } from './server-facts.ts';
import { serverTable, summaryTable } from './summary.ts';
import { OPTIONS } from './taken-flags.ts';

export default command({
  name: 'bench',
  summary: 'Measure servers: TTFT, TPOT, ITL, E2EL and throughput, by load.',
  positional: '[FILE…]',
  examples: [
    'fw bench --endpoint http://gpu1:8005/v1 --input-tokens 400 --output-tokens 128 --concurrency 1,10,40 --requests 200',
    'fw ingest prompts.csv | fw bench --endpoint http://gpu1:8005/v1 --concurrency 40 --json bench.json',
    'fw bench requests.jsonl --endpoint http://gpu1:8005/v1 --rate 2,5,10 --goodput ttft:500,e2el:5000',
    'fw bench --endpoint http://gpu1:8005/v1 --endpoint http://gpu2:8005/v1 --endpoints-up-to --input-tokens 400 --concurrency 64',
    'fw bench models.yaml --html models.html',
    'fw bench --endpoint http://gpu1:8005/v1 --sweep --input-tokens 400 --requests 500 --repeat 3',
  ],
  options: OPTIONS,
  verbs: { compare },

  async run(given, patterns) {
    const options = { ...given, seed: given.seed ?? randomInt(2 ** 32) };
    const files = await expandPaths(patterns);
    refuseTwice(options);
    if (isChoice(files)) return benchModels(files, given);
    const loads = loadsOf(options);
    const goal = goalOf(options.goodput);
    const patience = durationOf(options.timeout, '--timeout');
    const lengths = lengthsOf(options, files);
    const synthetic = lengths ? WARM_UP_LENGTHS : syntheticOf(options, files);
    const adapters = adaptersOf(options.lora);
    const stopping = new AbortController();
    const own = synthetic === null ? await readOwnLines(files, options['max-line']) : null;
    if (own?.hasMore)
      say(`the input has more than ${counted(own.lines.length, 'line')}: the first are taken`);
    const agents = own?.needsAgents ? agentsOf(options, { base: process.cwd() }) : undefined;
    const settings = poolSettings(
      {
        endpoint: options.endpoint,
        pool: options.pool === undefined ? undefined : readPoolFile(options.pool),
        model: options.model,
        apiKeyEnv: options['api-key-env'],
      },
      process.env,
    );
    const named = [
      ...(agents ? [...agents.byKey.values()].map(({ model }) => model) : synthetic ? [undefined] : []),
      ...adapters,
    ];
    const target = await openTarget({ settings, models: named, warn: say, signal: stopping.signal });
    let stoppedBy = 0;
    const stop = (_: string, code: number): void => {
      stoppedBy = 128 + code;
      say('stopping: what was measured follows (again: stop at once)');
      stopping.abort();
    };
    process.once('SIGINT', stop).once('SIGTERM', stop);
    try {
      const workload = await workloadOf(options, { target, synthetic, lengths, adapters, own, agents });
      const extent = extentOf(
        options.requests,
        options.duration,
        loads,
        workload.size ?? lengths?.pairs.length ?? null,
        options.ramp,
      );
      const servers = await factsOf(target.endpoints, target.model, systemClock);
      const runs = await bench(
        {
          endpoints: target.endpoints,
          workload,
          loads,
          extent,
          repeat: options.repeat,
          warmUp: options.warmup ?? null,
          isUpTo: options['endpoints-up-to'] === true,
          goal,
          isDetailed: options.detailed === true,
          patience,
          burstiness: loads.find(load => load.kind === 'open')?.burstiness ?? 1,
          seed: options.seed,
        },
        hostOf(stopping.signal, lengths ? null : (synthetic?.outputTokens ?? null)),
      );
      await tell(
        runs,
        {
          version: version(),
          model: target.model,
          label: options.label ?? null,
          source: workload.source,
          servers,
          body: workload.requestAt(0).body.toString(),
          seed: options.seed,
          isDetailed: options.detailed === true,
        },
        options,
      );
      if (stoppedBy > 0) return stoppedBy;
      return runs.some(({ figures }) => figures.failed > 0) ? EXIT.failed : EXIT.ok;
    } finally {
      process.off('SIGINT', stop).off('SIGTERM', stop);
      await target.close();
    }
  },
});

/** vLLM's tables on stdout; what is ours goes there too where a person reads it, and beside it where a program does. */
async function tell(
  runs: readonly Run[],
  told: Told,
  { json, csv, html }: Pick<Given, 'json' | 'csv' | 'html'>,
): Promise<void> {
  if (runs.length === 0) return;
  const written = runs.map(run => jsonOf(run, told));
  const all = written.map(withUnknown);
  const below = `${summaryTable(runs)}${serverTable(runs)}asked: ${told.source}; seed ${told.seed}${cachedWords(runs)}\n${fallingLoads(
    all,
  )
    .map(note => `note: ${note}\n`)
    .join('')}`;
  const tables = runs.map(run => vllmTable(run.figures, run.load)).join('\n');
  // first what a person sees: a disk that is full must not cost the figures
  const { isTTY } = process.stdout;
  if (!isTTY) process.stderr.write(below);
  await writePage(isTTY ? `${tables}\n${below}` : tables);
  const write = (name: string | undefined, text: () => string): void => {
    if (name !== undefined) for (const note of writeDocument(name, text())) say(note);
  };
  write(json, () => `${JSON.stringify(written.length === 1 ? written[0] : written, null, 1)}\n`);
  write(csv, () => csvOf(all));
  write(html, () => benchPage(all));
}

/** The largest share of prompt tokens that a run had from the prefix cache, where servers say it. */
function cachedWords(runs: readonly Run[]): string {
  const shares = runs.flatMap(({ figures: { cachedShare } }) => cachedShare ?? []);
  return shares.length === 0
    ? ''
    : `; prompt tokens from a prefix cache: ${shares.map(share => percent(share)).join(', ')}`;
}

/** Exit 64 where two outputs would be one file. */
function refuseTwice({ json, csv, html }: Pick<Given, 'json' | 'csv' | 'html'>): void {
  const named = Object.entries({ json, csv, html }).flatMap(([flag, name]) =>
    name === undefined || name.startsWith('/dev/') ? [] : [{ flag, path: resolve(name) }],
  );
  for (const [at, { flag, path }] of named.entries()) {
    const other = named.slice(0, at).find(each => each.path === path);
    if (other !== undefined)
      throw usageError(`expected different files, found ${path} for --${other.flag} and --${flag}`);
  }
}
