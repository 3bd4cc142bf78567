/** Every try of a ledger as a document of its own, for who audits it: schemas/export.schema.json. */

import { nameOfCall } from '../../engine/asking/ledger/key-index.ts';
import { type CallHead, callsOf, type Line, type Tell } from '../../engine/asking/ledger/read-ledger.ts';
import { type Request, readRequest, type Texts, textsOf } from '../../engine/asking/ledger/request-texts.ts';
import type { TokenLogprob, WholeAnswer } from '../../engine/core/item/item.ts';
import type { Answers, Verdict } from './answer-outcomes.ts';

export interface Wanted {
  /** the earliest end of a call, ISO 8601 in UTC */
  since: string | undefined;
  model: string | undefined;
  agent: string | undefined;
  outcome: string | undefined;
}

export interface Exported extends Request {
  key: string;
  item: string;
  agent: string;
  round: number;
  attempt: number;
  time: string;
  latency_ms: number;
  endpoint: string;
  model: string;
  outcome: string;
  detail?: string;
  redacted?: true;
  output?: string;
  /** there where `output` is only the beginning */
  whole?: WholeAnswer;
  logprobs?: TokenLogprob[];
  finish?: string;
  tokens?: { in: number; out: number; cached?: number };
  verdict?: Verdict;
  again?: true;
  run: { label: string; started: string; host: string; version: string } | null;
  place: { file: string; byte: number };
}

export interface Exporting {
  answers: Answers;
  wanted: Wanted;
  /** the name of a file in the ledger */
  nameOf: (path: string) => string;
  tell: Tell;
}

export function* exported(paths: readonly string[], exporting: Exporting): Generator<Exported> {
  const { wanted, tell } = exporting;
  for (const [file, path] of paths.entries()) {
    const texts = textsOf(path);
    try {
      for (const line of callsOf(path, tell, texts)) {
        if (isWanted(line.call, wanted)) yield documentOf(line, { ...exporting, file, path, texts });
      }
    } finally {
      texts.close();
    }
  }
}

function isWanted({ time, model, agent, outcome }: CallHead, wanted: Wanted): boolean {
  return (
    (wanted.since === undefined || time >= wanted.since) &&
    (wanted.model === undefined || model === wanted.model) &&
    (wanted.agent === undefined || agent === wanted.agent) &&
    (wanted.outcome === undefined || outcome === wanted.outcome)
  );
}

interface From extends Exporting {
  file: number;
  path: string;
  texts: Texts;
}

function documentOf(line: Line & { call: CallHead }, { answers, nameOf, file, path, texts }: From): Exported {
  const { call, at, header } = line;
  const { key, item, agent, round, attempt, time, ms, endpoint, model, outcome } = call;
  const { detail, redacted, answer, whole, logprobs, finish, usage } = call;
  const isAnswer = answer !== undefined;
  const name = nameOfCall(call, header);
  const isFirst = isAnswer && answers.isFirst(name, file, at);
  const verdict = isFirst ? answers.verdictOf(name) : null;
  return {
    key,
    item,
    agent,
    round,
    attempt,
    time,
    latency_ms: ms,
    endpoint,
    model,
    outcome,
    ...(detail !== undefined && { detail }),
    ...readRequest(line, texts),
    ...(redacted && { redacted }),
    ...(isAnswer && { output: answer }),
    ...(whole && { whole }),
    ...(logprobs && { logprobs }),
    ...(finish !== undefined && { finish }),
    ...(usage && {
      tokens: {
        in: usage.prompt,
        out: usage.completion,
        ...(usage.cached !== undefined && { cached: usage.cached }),
      },
    }),
    ...(verdict && { verdict }),
    ...(isAnswer && !isFirst && answers.has(name) && { again: true }),
    run: header && {
      label: header.label,
      started: header.started,
      host: header.host,
      version: header.version,
    },
    place: { file: nameOf(path), byte: at },
  };
}
