/**
 * bench: what servers can do: time to first token, time per token, latency and throughput, by load.
 *
 *   fw bench --endpoint http://gpu1:8005/v1 --input-tokens 400 --output-tokens 128 --concurrency 1,10,40 --requests 200
 *   fw ingest prompts.csv | fw bench --endpoint http://gpu1:8005/v1 --rate 2,5 --json bench.json
 */
import { randomInt } from 'node:crypto';
import { resolve } from 'node:path';
import { agentsOf } from '../../../engine/asking/agents/asking-options.ts';
import type { Agents } from '../../../engine/asking/agents/load-agents.ts';
import { systemClock } from '../../../engine/asking/endpoints/pool-clock.ts';
import { type PoolSettings, poolSettings, readPoolFile } from '../../../engine/asking/endpoints/settings.ts';
import { version } from '../../../engine/core/config/package.ts';
import { expandPaths } from '../../../engine/core/files/input-files.ts';
import { writePage } from '../../../engine/core/files/ndjson-out.ts';
import { writeDocument } from '../../../engine/core/files/saving.ts';
import { EXIT, usageError } from '../../../engine/core/item/failure.ts';
import { counted, percent } from '../../../engine/core/item/wording.ts';
import { command } from '../../../engine/flow/command.ts';
import { durationOf } from '../../../engine/flow/options.ts';
import { goalOf } from '../../kit/goal.ts';
import { bench, type Plan, type Run } from './bench.ts';
import { extentOf, type Given, loadsOf, OPTIONS } from './bench-options.ts';
import { benchPage } from './bench-page.ts';
import { csvOf, withUnknown } from './bench-result.ts';
import { factsOf, openTarget } from './bench-servers.ts';
import { fallingLoads, serverTable, summaryTable, vllmTable } from './bench-tables.ts';
import type { Synthetic } from './bench-workload.ts';
import compare from './compare-benches.ts';
import { type About, jsonOf } from './json.ts';
import { hostOf } from './live-table.ts';
import { type OwnLines, readOwnLines } from './own-requests.ts';
import {
  adaptersOf,
  expectToFit,
  lengthsOf,
  modelsOf,
  say,
  syntheticOf,
  WARM_UP_LENGTHS,
  workloadOf,
} from './request-sources.ts';

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
    if (files.some(file => /\.ya?ml$/i.test(file)))
      return (await import('../models/models-verb.ts')).benchModels(files, given);
    const loads = loadsOf(options);
    const goal = goalOf(options.goodput);
    const patience = durationOf(options.timeout, '--timeout');
    const asked = await askedBy(options, files);
    const stopping = new AbortController();
    const { signal } = stopping;
    const models = [...modelsOf(asked.own, asked.agents), ...(asked.lengths.adapters ?? [])];
    const target = await openTarget({ settings: settingsOf(options), models, warn: say, signal });
    let stoppedBy = 0;
    const stop = (_: string, code: number): void => {
      stoppedBy = 128 + code;
      say('stopping: the results so far follow (again: stop at once)');
      stopping.abort();
    };
    process.once('SIGINT', stop).once('SIGTERM', stop);
    try {
      if (asked.own === null) expectToFit(target.maxModelLength, asked.lengths);
      const guided = options.guided as 'on';
      const workload = await workloadOf({ target, ...asked, guided, of: 'the input', warn: say });
      const isDetailed = options.detailed === true;
      const { seed } = options;
      const plan: Plan = {
        endpoints: target.endpoints,
        ...{ workload, loads, goal, patience, isDetailed, seed },
        extent: extentOf(options, loads, workload.size ?? asked.lengths.lengths?.pairs.length ?? null),
        repeat: options.repeat,
        warmUp: options.warmup ?? null,
        isUpTo: options['endpoints-up-to'] === true,
        burstiness: loads.find(load => load.kind === 'open')?.burstiness ?? 1,
      };
      const servers = await factsOf(target.endpoints, target.model, systemClock);
      const isReplayed = asked.own !== null || asked.lengths.lengths !== undefined;
      const runs = await bench(plan, hostOf(signal, isReplayed ? null : asked.lengths.outputTokens));
      const { source } = workload;
      const body = workload.requestAt(0).body.toString();
      const label = options.label ?? null;
      await tell(
        runs,
        { version: version(), model: target.model, label, source, servers, body, seed, isDetailed },
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

interface Asked {
  own: OwnLines | null;
  agents: Agents | undefined;
  lengths: Synthetic;
}

/** What the flags and the files say is to be asked. */
async function askedBy(options: Given, files: readonly string[]): Promise<Asked> {
  const replayed = lengthsOf(options, files);
  const synthetic = replayed ? WARM_UP_LENGTHS : syntheticOf(options, files);
  const { 'prefix-tokens': prefixTokens, spread, seed } = options;
  const lengths: Synthetic = {
    ...(synthetic ?? WARM_UP_LENGTHS),
    ...{ prefixTokens, spread, seed, adapters: adaptersOf(options.lora) },
    ...(replayed && { lengths: replayed }),
  };
  if (synthetic !== null) return { own: null, agents: undefined, lengths };
  const own = await readOwnLines(files, options['max-line']);
  if (own.hasMore) say(`the input has more than ${counted(own.lines.length, 'line')}: using the first`);
  return { own, agents: own.needsAgents ? agentsOf(options, { base: process.cwd() }) : undefined, lengths };
}

function settingsOf({ endpoint, pool, model, 'api-key-env': apiKeyEnv }: Given): PoolSettings {
  const file = pool === undefined ? undefined : readPoolFile(pool);
  return poolSettings({ endpoint, pool: file, model, apiKeyEnv }, process.env);
}

/** vLLM's tables on stdout; what is ours goes there too where a person reads it, and beside it where a program does. */
async function tell(
  runs: readonly Run[],
  about: About,
  { json, csv, html }: Pick<Given, 'json' | 'csv' | 'html'>,
): Promise<void> {
  if (runs.length === 0) return;
  const written = runs.map(run => jsonOf(run, about));
  const all = written.map(withUnknown);
  const notes = fallingLoads(all).map(note => `note: ${note}\n`);
  const asked = `asked: ${about.source}; seed ${about.seed}${cachedWords(runs)}\n`;
  const below = `${summaryTable(runs)}${serverTable(runs)}${asked}${notes.join('')}`;
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
