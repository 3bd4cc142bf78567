/** From what was seen to what it means: every check, in the order in which a person would ask. */
import { EXIT } from '../../../engine/core/item/failure.ts';
import { answering, rateOf } from './check-answers.ts';
import { reach } from './check-reach.ts';
import { serving } from './check-serving.ts';
import { together } from './cross-checks.ts';
import { type Facts, isSilence } from './endpoint-facts.ts';
import { type Check, type Finding, shown } from './finding.ts';

export interface Report {
  endpoints: Examined[];
  /** between the endpoints */
  together: Finding[];
  exit: number;
}

/** One endpoint as it is told: texts are safe to show. Figures are missing where they are not known. */
export interface Examined {
  url: string;
  reachable: boolean;
  /** it answers what it is asked, as far as a run needs it */
  usable: boolean;
  server: string;
  version?: string;
  model?: string;
  figures: {
    limit: number;
    context?: number;
    batch?: number;
    latency_ms?: number;
    ttft_ms?: number;
    tokens_per_second?: number;
    clock_skew_ms?: number;
    calls: number;
  };
  findings: Finding[];
}

export function checks(env: NodeJS.ProcessEnv): Check[] {
  return [...reach(env), ...serving, ...answering];
}

/** `env` is where a proxy may be named. */
export function judge(all: readonly Facts[], env: NodeJS.ProcessEnv): Report {
  const endpoints = all.map(facts => examined(facts, checks(env)));
  const between = together(all);
  const findings = [...endpoints.flatMap(endpoint => endpoint.findings), ...between];
  const exit = endpoints.every(({ usable }) => !usable)
    ? EXIT.unavailable
    : findings.some(({ mark }) => mark === 'trouble')
      ? EXIT.failed
      : EXIT.ok;
  return { endpoints, together: between, exit };
}

function examined(facts: Facts, all: readonly Check[]): Examined {
  const { setting, key, kind, version, model, trivial, streamed, context, batch, skew, calls } = facts;
  const told = streamed === undefined || isSilence(streamed) ? undefined : streamed;
  return {
    url: setting.url,
    reachable: facts.hindrance === undefined,
    usable: trivial !== undefined && !isSilence(trivial),
    server: kind,
    version: version === undefined ? undefined : shown(version, key),
    model: model === undefined ? undefined : shown(model.id, key),
    figures: {
      limit: setting.limit,
      context,
      batch,
      latency_ms: trivial === undefined || isSilence(trivial) ? undefined : rounded(trivial.took),
      ttft_ms: rounded(told?.first),
      tokens_per_second: told && rounded(rateOf(told)),
      clock_skew_ms: rounded(skew),
      calls,
    },
    findings: all.flatMap(({ name, expected, look }) => {
      const seen = look(facts);
      return seen === undefined ? [] : [{ check: name, expected, ...seen }];
    }),
  };
}

function rounded(value: number | undefined): number | undefined {
  return value === undefined ? undefined : Number(value.toPrecision(4));
}
