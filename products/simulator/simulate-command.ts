/**
 * fw simulate: a vLLM server without a GPU, for trying pipelines and for tests. The answers are simulated.
 *
 *   fw simulate --port 8101 --seed 7 --latency 40ms --faults default
 *   fw simulate --port 8101 --preset 3b-a6000
 *
 * Prints one line of JSON with its URL, so that a script can take a free port (`--port 0`), serves until SIGTERM or SIGINT,
 * and prints a second one: what it was asked and what it answered.
 */

import { readSmallFile, readYaml } from '../../engine/core/config/yaml.ts';
import { dataError, EXIT, usageError } from '../../engine/core/item/failure.ts';
import { percent } from '../../engine/core/item/wording.ts';
import { command } from '../../engine/flow/command.ts';
import { PRESET_OPTIONS, presetGiven } from './preset-options.ts';
import { type Preset, SERVER_OPTIONS, withServerOptions } from './presets.ts';
import { SCHEDULING_POLICIES, type Simulator, startSimulator } from './simulator.ts';
import { METRIC_NAMES } from './vllm-metrics.ts';

const USUAL_CONTEXT = 8192;
/** Options of the engine that a preset describes. */
const ENGINE_FLAGS = [
  'max-num-queued-tokens',
  ...(Object.keys(SERVER_OPTIONS) as (keyof typeof SERVER_OPTIONS)[]),
] as const;

export default command({
  name: 'simulate',
  summary: 'Simulate a vLLM server, without a GPU.',
  examples: [
    'fw simulate --port 8101 --seed 7 --latency 40ms',
    'fw simulate --port 8101 --preset 3b-a6000',
    'fw simulate --port 8101 --model-config meta-llama/Llama-3.1-70B-Instruct --gpu h100-80g --tp 4',
    'fw simulate --port 0 --faults 429=0.1,null=0.02,truncated=0.01 --schedule flapping.yaml',
  ],
  options: {
    port: {
      type: 'integer',
      minimum: 0,
      maximum: 65535,
      default: 8101,
      description: 'Port to listen on; 0 takes a free one.',
    },
    host: { type: 'string', default: '127.0.0.1', description: 'Address to listen on.' },
    seed: {
      type: 'integer',
      default: 7,
      description: 'Seed of the answers: the same seed and request give the same answer.',
    },
    latency: {
      type: 'string',
      description:
        'Time per answer, or a range such as 20ms-80ms. Not with --preset, whose engine sets it. Default: 40ms.',
    },
    ...PRESET_OPTIONS,
    faults: {
      type: 'string',
      default: 'none',
      description:
        'Faults to serve: none, default, or KIND=SHARE,… with null, zero, escape, fence, chatty, truncated, 429, 500, drop, hang, swap, all.',
    },
    bias: {
      type: 'array',
      items: { type: 'string' },
      description:
        'Approve prompts with a value more or less often: COLUMN=VALUE:SHIFT, e.g. name=Ebony Washington:-0.1. Requests without a known outcome are refused. May be repeated.',
    },
    outcome: {
      type: 'string',
      description:
        'Key of the answer that --bias changes; agents without it are unaffected. Default: the key that can be --approve.',
    },
    approve: {
      type: 'string',
      description:
        'Value of the outcome that counts as approval; without it, --bias moves a number by that share of its range. Default: approve.',
    },
    model: { type: 'string', default: 'simulated-3b', description: 'Model name to serve.' },
    'max-model-len': {
      type: 'integer',
      minimum: 16,
      maximum: 10_485_760,
      description: 'Context length in tokens. Default: 8192, or that of the model where it has less.',
    },
    'max-num-queued-reqs': {
      type: 'integer',
      minimum: 0,
      description: 'Answer 503 while this many requests run or wait. Default: no limit.',
    },
    'max-num-queued-tokens': {
      type: 'integer',
      minimum: 0,
      description:
        'Answer 503 while this many prompt tokens wait to be computed. Needs --preset. Default: no limit.',
    },
    ...SERVER_OPTIONS,
    'scheduling-policy': {
      type: 'string',
      enum: SCHEDULING_POLICIES,
      default: 'fcfs',
      description:
        'Order of waiting requests (vLLM --scheduling-policy): as they come, or by their field `priority`, lower first. With fcfs a priority other than 0 is refused.',
    },
    'startup-delay': {
      type: 'string',
      default: '0ms',
      description: 'Answer 503 on every route for this long after the start, e.g. 90s.',
    },
    'metric-names': {
      type: 'string',
      enum: METRIC_NAMES,
      default: 'new',
      description:
        'Names for the metrics that vLLM renamed: those of 0.10 and later, the older ones, or both.',
    },
    admin: {
      type: 'boolean',
      description: 'Allow POST /admin/config to change settings while the server runs.',
    },
    schedule: {
      type: 'string',
      file: 'read',
      description:
        'YAML or NDJSON file of timed changes, e.g. {at: 5s, every: 10s, health: down, for: 5s}. See docs/simulator.md.',
    },
  },

  async run(options, positionals) {
    if (positionals.length > 0) throw usageError(`expected options only, found "${positionals[0]}"`);
    const { port, host, seed, faults, model } = options;
    const told = presetGiven(options);
    if (told && options.latency !== undefined) {
      throw usageError('expected --latency or --preset, found both: with a preset the engine decides');
    }
    const engineFlag = ENGINE_FLAGS.find(flag => options[flag] !== undefined);
    if (told === undefined && engineFlag !== undefined)
      throw usageError(`expected --preset with --${engineFlag}, found none: only an engine has it`);
    const { bias, outcome, approve } = options;
    if (bias === undefined && (outcome !== undefined || approve !== undefined))
      throw usageError(
        'expected --bias with --outcome and --approve, found none: they say where it is planted',
      );
    const stopped = new Promise<void>(stop => {
      process.once('SIGTERM', stop);
      process.once('SIGINT', stop);
    });
    const latency = told === undefined ? (options.latency ?? '40ms') : undefined;
    const preset = told && withServerOptions(told.preset, options);
    let simulator: Simulator;
    try {
      simulator = await startSimulator({
        port,
        host,
        seed,
        latency,
        preset,
        faults,
        biases: bias,
        outcome: { key: outcome, approve },
        model,
        maxModelLength: contextOf(options['max-model-len'], preset),
        maxQueuedRequests: options['max-num-queued-reqs'],
        maxQueuedTokens: options['max-num-queued-tokens'],
        startupDelay: options['startup-delay'],
        schedulingPolicy: options['scheduling-policy'],
        metricNames: options['metric-names'],
        admin: options.admin === true,
        schedule: options.schedule === undefined ? undefined : readSchedule(options.schedule),
      });
    } catch (error) {
      throw usageErrorFrom(error, host, port);
    }
    const { url } = simulator;
    process.stderr.write(
      `fw simulate: ${url} answers as ${model}. The answers are simulated; no model is behind them.\n`,
    );
    if (preset) {
      const { midLoad, nearSaturation } = preset.error;
      process.stderr.write(
        `fw simulate: its times are those of a formula for ${preset.file.model} on ${preset.file.gpu}: ±${percent(midLoad)} at mid load, ±${percent(nearSaturation)} near saturation.\n`,
      );
    }
    const timing = preset ? { preset: preset.name } : { latency };
    process.stdout.write(`${JSON.stringify({ url, model, seed, ...timing, faults, simulated: true })}\n`);
    await stopped;
    const { requests, unwell, answers, faults: served, biases } = simulator.counts();
    await simulator.close();
    for (const [text, count] of Object.entries(biases)) {
      if (count > 0 || requests === 0) continue;
      process.stderr.write(
        `fw simulate: --bias ${text} was planted in none of ${requests} requests: no prompt had that value, or no answer the outcome.\n`,
      );
    }
    const planted = bias === undefined ? {} : { biases };
    process.stdout.write(
      `${JSON.stringify({ url, requests, unwell, answers, faults: served, ...planted })}\n`,
    );
    return EXIT.ok;
  },
});

/** Exit 64 where the model has less than is asked for: vLLM would not start either. */
function contextOf(asked: number | undefined, preset: Preset | undefined): number {
  const most = preset?.file.max_model_len ?? Number.POSITIVE_INFINITY;
  if (asked === undefined) return Math.min(USUAL_CONTEXT, most);
  if (asked <= most) return asked;
  throw usageError(
    `--max-model-len: expected at most ${most} tokens, the context of ${preset?.file.model}, found ${asked}: vLLM would not start either`,
  );
}

/** The entries of a schedule file; a line each where its name says so. Exit 65 where it is none. */
function readSchedule(path: string): unknown {
  if (!/\.(?:nd)?jsonl?$/.test(path)) return readYaml(path, 'schedule').value;
  const lines = readSmallFile(path, 'a schedule').split('\n');
  return lines.flatMap((line, index) => {
    if (line.trim() === '') return [];
    try {
      return [JSON.parse(line)];
    } catch (error) {
      throw dataError(`${path}:${index + 1}: expected JSON, found: ${(error as Error).message}`);
    }
  });
}

function usageErrorFrom(error: unknown, host: string, port: number): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof RangeError && code === undefined) return usageError(message);
  if (code === 'EADDRINUSE')
    return usageError(
      `expected port ${port} of ${host} to be free, found it in use; choose another, or 0 for any`,
    );
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return usageError(
      `expected an address to listen on, found ${host}:${port} (${code}); choose another --host or --port`,
    );
  }
  return error;
}
