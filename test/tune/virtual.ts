/** A record that has every measurement already: each is made in virtual time when it is asked for, so no server is started. */

import { seeded } from '../../products/kit/permute.ts';
import { type Point, requestsFor } from '../../products/measure/tune/point.ts';
import {
  closedRun,
  concurrencyOf,
  numberAt,
  openRun,
  throughputOf,
} from '../../products/measure/tune/rank.ts';
import { lengthOf, type World } from '../../products/measure/tune/session.ts';
import { SEQS, type Setting, type Study, settingKey, TOKENS } from '../../products/measure/tune/tune-file.ts';
import type { Record, Which } from '../../products/measure/tune/tune-record.ts';
import type { Failure } from '../../products/measure/tune/tuned-server.ts';
import { type Preset, withFlags } from '../../products/simulator/presets.ts';

export interface Model {
  /** the server as it is */
  preset: Preset;
  study: Study;
  /** relative deviation of a block, and of a start */
  noise?: { block: number; start: number };
  seed?: number;
  fails?(setting: Setting, which: Which): Failure | undefined;
  /** in place of the engine: the throughput of a setting */
  throughput?(setting: Setting): number;
}

/** `starts`: which sessions measured anything, in their order. */
export function virtualWorld(model: Model): { world: World; starts: Which[] } {
  const { study, preset, noise = { block: 0, start: 0 }, seed = 1 } = model;
  const { input_tokens: prompt = 1, output_tokens: output = 1 } = study.load;
  const lengths = [{ prompt, shared: 0, output }];
  const random = seeded(seed);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const starts = new Map<string, { which: Which; factor: number }>();
  const known = new Map<string, number>();
  const serverOf = (setting: Setting): Preset =>
    withFlags(preset, {
      maxNumSeqs: numberAt(setting, SEQS, preset.limits.maxNumSeqs),
      maxNumBatchedTokens: numberAt(setting, TOKENS, preset.limits.maxNumBatchedTokens),
    });
  const nameOf = ({ phase, setting, run }: Which): string => `${phase} ${run} ${settingKey(setting)}`;

  function full(setting: Setting): number {
    const name = settingKey(setting);
    const clients = concurrencyOf(study, setting);
    const value =
      known.get(name) ??
      model.throughput?.(setting) ??
      throughputOf(closedRun(serverOf(setting), lengths, { clients, requests: Math.max(1_000, 6 * clients) }))
        .requests;
    known.set(name, value);
    return value;
  }

  function point(which: Which, what: string): Point {
    const start = starts.get(nameOf(which)) ?? { which, factor: 1 + noise.start * normal() };
    starts.set(nameOf(which), start);
    const rate = /^rate ([\d.]+), seed (\d+)$/.exec(what);
    if (rate === null)
      return pointAt(full(which.setting) * start.factor * (1 + noise.block * normal()), [1, 1], null);
    const [perSecond, seedOf] = [Number(rate[1]), Number(rate[2])];
    const count = Math.max(requestsFor(study.slo), Math.ceil((perSecond * lengthOf(study)) / 1000));
    const { ended } = openRun(serverOf(which.setting), lengths, { rate: perSecond, count, seed: seedOf });
    const good = ended.filter(({ sent, end }) => study.slo.every(({ ms }) => end - sent <= ms)).length;
    return pointAt(perSecond, [good, count], perSecond);
  }

  function pointAt(perSecond: number, [good, of]: [number, number], rate: number | null): Point {
    const requests = perSecond;
    return {
      load: rate === null ? { kind: 'closed', concurrency: 1 } : { kind: 'open', rate, requests: of },
      completed: of,
      failed: 0,
      requests_per_s: requests,
      output_tokens_per_s: requests * output,
      good_per_s: study.slo.length === 0 ? null : (requests * good) / of,
      good_tokens_per_s: study.slo.length === 0 ? null : (requests * output * good) / of,
      within: Object.fromEntries(study.slo.map(({ name }) => [name, { good, of }])),
      lengths: [[prompt, output]],
      cached_share: null,
      server: null,
      client: { verdict: 'ok', limits: [], facts: {} },
    } as unknown as Point;
  }

  const record: Record = {
    lines: [],
    starts: () => 0,
    point,
    failure: which => model.fails?.(which.setting, which),
    version: () => null,
    start: () => {},
    notePoint: () => {},
    noteFailure: () => {},
  };
  const none = (): never => {
    throw new Error('expected everything to be on record');
  };
  const world: World = {
    study,
    record,
    mark: 'none',
    times: { poll: 1, grace: 1, pause: 0 },
    signal: new AbortController().signal,
    say: () => {},
    logFor: none,
    endpoint: none,
    workload: none,
  };
  return {
    world,
    get starts() {
      return [...starts.values()].map(({ which }) => which);
    },
  };
}
