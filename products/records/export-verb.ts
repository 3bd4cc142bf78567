/** ledger export: every request of a ledger with what came of it, for who audits it. */

import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import ndjson from 'ndjson';
import { nameOfCall } from '../../engine/asking/ledger/key-index.ts';
import { isOutcome } from '../../engine/asking/ledger/ledger-format.ts';
import { type CallHead, callsOf, type Line, type Tell } from '../../engine/asking/ledger/read-ledger.ts';
import { readRequest, type Texts, textsOf } from '../../engine/asking/ledger/request-texts.ts';
import { broken, writePage } from '../../engine/core/files/ndjson-out.ts';
import { Fatal, ioError, usageError } from '../../engine/core/item/failure.ts';
import { besideOf } from '../../engine/core/item/item.ts';
import { counted } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { type Answers, readAnswers } from './answer-outcomes.ts';
import { LEDGER, openReading, toStderr } from './reading-options.ts';

export default command({
  name: 'ledger export',
  summary: 'Write every request with its answer, tokens, latency and verdict, as NDJSON or as files.',
  examples: [
    'fw ledger export > calls.ndjson',
    "fw ledger export --since 2026-11-20 --agent risk_manager --outcome answer | jq -r '.output'",
    'fw ledger export --files audit/',
  ],
  options: {
    ...LEDGER,
    since: {
      type: 'string',
      description: 'Only calls that ended at this time or later (UTC), e.g. 2026-11-20 or 2026-11-20T09:30.',
    },
    model: { type: 'string', description: 'Only calls of this model.' },
    agent: { type: 'string', description: 'Only calls of this agent, by its key.' },
    outcome: {
      type: 'string',
      description:
        "Only calls that ended this way: answer, 'bad answer', crossed, timeout, transport, refused, interrupted or 'HTTP 500'.",
    },
    files: {
      type: 'string',
      file: 'write-folder',
      description:
        'Write one JSON file per call into this new folder, by the day it ended, instead of NDJSON.',
    },
  },

  async run({ ledger, since, model, agent, outcome, files }) {
    const wanted = {
      since: since === undefined ? undefined : timeOf(since),
      model,
      agent,
      outcome: outcomeOf(outcome),
    };
    if (files !== undefined) expectEmpty(files);
    const say = toStderr('export');
    const reading = openReading(ledger, say);
    const { at, paths, tell } = reading;
    const answers = readAnswers(paths, () => {});
    const nameOf = (path: string): string => relative(at, path) || path;
    const calls = exported(paths, { answers, wanted, nameOf, tell });
    if (files === undefined) await writeLines(calls);
    else say(`wrote ${counted(writeFiles(calls, files), 'file')} under ${visible(files)}`);
    return reading.end();
  },
});

/** As fast as the reader of stdout takes them. */
async function writeLines(calls: Iterable<Exported>): Promise<void> {
  try {
    await pipeline(Readable.from(calls), ndjson.stringify(), process.stdout, { end: false });
    // a pipeline that does not end its last stream does not wait for it either
    await writePage('');
  } catch (error) {
    if (error instanceof Fatal || (error as NodeJS.ErrnoException).code === undefined) throw error;
    throw broken(error, 'stdout');
  }
}

const DAY = /^\d{4}-\d\d-\d\d$/;
const MINUTE = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?Z?$/;

/** ISO 8601 in UTC, to the millisecond, as calls have it: so they compare as texts. */
function timeOf(text: string): string {
  const zoned = DAY.test(text) || text.endsWith('Z') ? text : `${text}Z`;
  const time = DAY.test(text) || MINUTE.test(text) ? new Date(zoned) : new Date(Number.NaN);
  if (!Number.isNaN(time.getTime())) return time.toISOString();
  throw usageError(
    `--since: expected a day or a time (UTC) such as 2026-11-20 or 2026-11-20T09:30, found '${text}'`,
  );
}

function outcomeOf(text: string | undefined): string | undefined {
  if (text === undefined || isOutcome(text)) return text;
  throw usageError(
    `--outcome: expected answer, 'bad answer', crossed, timeout, transport, refused, interrupted or HTTP and a status, found '${text}'`,
  );
}

/** What is there already would be taken for a part of this export. */
function expectEmpty(folder: string): void {
  const found = statSync(folder, { throwIfNoEntry: false });
  if (found !== undefined && (!found.isDirectory() || readdirSync(folder).length > 0)) {
    throw usageError(`--files: expected a new or empty folder, found something in ${folder}`);
  }
}

/** A name is made of what the line says, so it is looked at first. */
const TIME = /^(\d{4}-\d\d-\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z$/;
const KEY = /^[0-9a-f]{32}$/;

function writeFiles(calls: Iterable<Exported>, folder: string): number {
  let written = 0;
  const days = new Set<string>();
  for (const call of calls) {
    const [, day = 'unknown', ...clock] = TIME.exec(call.time) ?? [];
    const name = `${clock.join('') || 'unknown'}-${KEY.test(call.key) ? call.key : 'unknown'}`;
    try {
      if (!days.has(day)) mkdirSync(join(folder, day), { recursive: true });
      writeNew(join(folder, day), name, `${JSON.stringify(call, null, 2)}\n`);
    } catch (error) {
      throw ioError(`${folder}: expected to write, found ${(error as Error).message}`);
    }
    days.add(day);
    written += 1;
  }
  if (written === 0) mkdirSync(folder, { recursive: true });
  return written;
}

/** Two tries of a call can end in the same millisecond: the second one's file has a number. */
function writeNew(folder: string, name: string, text: string): void {
  for (let number = 1; ; number++) {
    try {
      writeFileSync(join(folder, `${name}${number === 1 ? '' : `-${number}`}.json`), text, { flag: 'wx' });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

export interface Wanted {
  /** the earliest end of a call, ISO 8601 in UTC */
  since: string | undefined;
  model: string | undefined;
  agent: string | undefined;
  outcome: string | undefined;
}

export type Exported = ReturnType<typeof documentOf>;

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

function documentOf(line: Line & { call: CallHead }, { answers, nameOf, file, path, texts }: From) {
  const { call, at, header } = line;
  const { key, item, agent, round, attempt, time, ms, endpoint, model, outcome } = call;
  const { detail, redacted, answer, whole, logprobs, finish, usage, caller, caller_key, arm, trace, ttft } =
    call;
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
    ...(ttft !== undefined && { ttft_ms: ttft }),
    ...(caller !== undefined && { owner: caller }),
    ...(caller_key !== undefined && { owner_key: caller_key }),
    ...(arm !== undefined && { arm }),
    ...(trace !== undefined && { trace }),
    endpoint,
    model,
    outcome,
    ...(detail !== undefined && { detail }),
    ...readRequest(line, texts),
    ...(redacted && { redacted }),
    ...(isAnswer && { output: answer }),
    ...(whole && { whole }),
    ...(logprobs && { logprobs }),
    ...besideOf(call),
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
