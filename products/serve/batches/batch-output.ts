/**
 * The lines of a batch as they come back: those with an answer in one file, the others in another, each in the order of the
 * input. What was refused by a server has its status and no error, as at OpenAI; what was never answered has an error. Once
 * all are written both become files of the owner.
 */
import { closeSync, fsyncSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { openNew } from '../../../engine/core/files/durable.ts';
import { type OnBroken, type Output, writeWhole } from '../../../engine/core/files/ndjson-out.ts';
import { promptIn, usageOfParts } from '../../../engine/core/item/dialects.ts';
import { failureOf, type Item, isFailed } from '../../../engine/core/item/item.ts';
import { cut } from '../../../engine/core/item/wording.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { InOrder, inTurns } from '../../../engine/tables/export/in-order.ts';
import { lineOf, responseOf } from '../../../engine/tables/export/openai-batch.ts';
import type { FileStore } from '../file-store.ts';
import { newFileId } from '../ids.ts';
import type { BatchRecord, BatchUsage, Counts, FailureGroup, Outputs } from './batch-state.ts';
import { linked } from './batch-store.ts';

/** Why the rest of a batch is not asked. */
export type Ending = 'expired' | 'cancelled' | 'spent';

const NOT_ASKED: Readonly<Record<Ending, { code: string; message: string }>> = {
  expired: {
    code: 'batch_expired',
    message: 'This request could not be executed before the completion window expired.',
  },
  cancelled: { code: 'batch_cancelled', message: 'This request was not executed: the batch was cancelled.' },
  spent: {
    code: 'rate_limit_exceeded',
    message: 'This request was not executed: the key of the batch has used its tokens of the day (UTC).',
  },
};

export const isNotAsked = (code: string): boolean => Object.values(NOT_ASKED).some(one => one.code === code);

/** What whoever wrote the lines has to put right: no trouble of servers or of this one. */
const USERS = new Set([
  ...['no-such-model', 'bad-request', 'prompt-too-long', 'model-refused', 'id-not-utf8'],
  ...['HTTP 400', 'HTTP 413', 'HTTP 422'],
]);

/**
 * Lines of batches that have come back, by who would have to do something: nobody about what was cancelled or expired before
 * it was asked, its user about what is `refused` for what he wrote, the operator about what `failed`.
 */
export type Outcomes = Record<'completed' | 'failed' | 'refused' | 'not_asked', number>;

export function outcomesOf({ counts, failures }: BatchRecord): Outcomes {
  const sums = { completed: counts.completed, failed: counts.failed, refused: 0, not_asked: 0 };
  for (const { code, count } of failures) {
    const outcome = isNotAsked(code) ? 'not_asked' : USERS.has(code) ? 'refused' : null;
    if (outcome === null) continue;
    sums[outcome] += count;
    sums.failed -= count;
  }
  return sums;
}

export interface Tally {
  counts: Omit<Counts, 'total'>;
  usage: BatchUsage;
  failures: FailureGroup[];
  /** of these, lines that were asked in this run, and are on no record of before */
  fresh: { completed: number; usage: BatchUsage };
}

export const newTally = (): Tally => ({
  counts: { completed: 0, failed: 0 },
  usage: { input: 0, cached: 0, output: 0, reasoning: 0 },
  failures: [],
  fresh: { completed: 0, usage: { input: 0, cached: 0, output: 0, reasoning: 0 } },
});

/** What has come back where so much had before: what is on record comes by when its turn is, which may take a while. */
export function onTop({ counts, usage }: Progress, { fresh }: Tally): Progress {
  const { input, cached, output, reasoning } = fresh.usage;
  return {
    counts: { completed: counts.completed + fresh.completed, failed: counts.failed },
    usage: {
      input: usage.input + input,
      cached: usage.cached + cached,
      output: usage.output + output,
      reasoning: usage.reasoning + reasoning,
    },
  };
}

export type Progress = Pick<Tally, 'counts' | 'usage'> & Partial<Pick<Tally, 'failures'>>;

/**
 * With what has come back. A batch that is run again counts from its beginning, and nobody is to see it fall back: lines
 * that have an answer keep it, and one that failed may have an answer this time.
 */
export function withTally<R extends BatchRecord>(record: R, { counts, usage, failures }: Progress): R {
  const { total, completed, failed } = record.counts;
  const isAhead = counts.completed + counts.failed >= completed + failed;
  const most = Math.min(total, Math.max(completed, counts.completed));
  return {
    ...record,
    counts: { total, completed: most, failed: Math.min(isAhead ? counts.failed : failed, total - most) },
    failures: isAhead && failures !== undefined ? failures : record.failures,
    usage: mostOf(record.usage, usage),
  };
}

const mostOf = (one: BatchUsage, other: BatchUsage): BatchUsage => ({
  input: Math.max(one.input, other.input),
  cached: Math.max(one.cached, other.cached),
  output: Math.max(one.output, other.output),
  reasoning: Math.max(one.reasoning, other.reasoning),
});

export const pathsIn = (folder: string): { output: string; error: string } => ({
  output: join(folder, 'output.jsonl'),
  error: join(folder, 'error.jsonl'),
});

/** Counts into `tally`, and what is `isFresh` into its `fresh` too; `ending` is asked for each line that was not. Both files are on disk when `end` resolves. */
export function linesInto(
  { output, error: errors }: ReturnType<typeof pathsIn>,
  { tally, isFresh }: { tally: Tally; isFresh(id: string): boolean },
  ending: () => Ending | null,
  onBroken: OnBroken,
): Output {
  const good = lines(output);
  const bad = lines(errors);
  const turns = inTurns({
    order: new InOrder(dirname(output), NEAR),
    emit: text => (text.startsWith(GOOD) ? good : bad).put(text.slice(1)),
    isOpen: () => true,
    ready: act => act(),
    onBroken,
  });
  return {
    write(item) {
      const isGood = !isFailed(item);
      // of a run that is paused: it is asked by the next one, and these lines are written anew
      const isLeft = ending() === null && failureOf(item)?.code === 'interrupted';
      if (!isLeft) tally.counts[isGood ? 'completed' : 'failed'] += 1;
      noteUsage(tally.usage, item);
      if (isFresh(String(item.id)) && isGood) {
        tally.fresh.completed += 1;
        noteUsage(tally.fresh.usage, item);
      }
      const error = isGood ? null : errorOf(item, ending());
      if (!isGood && !isLeft) noteFailure(tally.failures, item, error);
      return turns.add(item, (isGood ? GOOD : BAD) + lineOf(item, () => error));
    },
    ready: turns.ready,
    async end() {
      await turns.end();
      for (const each of [good, bad]) each.end();
    },
  };
}

/** Characters of lines that wait in memory for those before them: several batches run at once. */
const NEAR = 1024 * 1024;
const GOOD = ' ';
const BAD = '!';

function errorOf(item: Item, ending: Ending | null): { code: string; message: string } | null {
  const failure = failureOf(item);
  const status = responseOf(item)?.status_code ?? 0;
  // what a server lacks is said in our words: its own say no more than that nothing is there
  if (failure?.code === 'no-such-path') return failure;
  if (failure === undefined || status >= 400) return null;
  return failure.code === 'interrupted' && ending !== null ? NOT_ASKED[ending] : failure;
}

/** Codes of one batch, bounded whatever servers say; examples of each, and characters of them. */
const MOST_CODES = 30;
const MOST_EXAMPLES = 3;
const LONGEST = 300;
export const OTHER = 'other';

/** Counts a line that failed; `error` is what the line says is wrong, null where a server's refusal says it. */
function noteFailure(
  groups: FailureGroup[],
  item: Item,
  error: { code: string; message: string } | null,
): void {
  const { status_code, body } = responseOf(item) ?? {};
  const refusal = isObject(body) && isObject(body.error) ? body.error.message : undefined;
  const message =
    error?.message ?? (typeof refusal === 'string' ? refusal : (failureOf(item)?.message ?? ''));
  const group = groupOf(groups, error?.code ?? `HTTP ${status_code}`);
  group.count += 1;
  if (group.examples.length < MOST_EXAMPLES)
    group.examples.push({ custom_id: cut(String(item.id), LONGEST), message: cut(message, LONGEST) });
}

function groupOf(groups: FailureGroup[], code: string): FailureGroup {
  const found = groups.find(group => group.code === code);
  if (found !== undefined) return found;
  if (groups.length >= MOST_CODES && code !== OTHER) return groupOf(groups, OTHER);
  const group: FailureGroup = { code, count: 0, examples: [] };
  groups.push(group);
  return group;
}

function noteUsage(usage: BatchUsage, item: Item): void {
  const body = responseOf(item)?.body;
  const said = isObject(body) ? body.usage : undefined;
  if (!isObject(said)) return;
  if (said.input_tokens !== undefined) {
    const { prompt, completion, cached = 0, reasoning } = usageOfParts(said);
    usage.input += prompt;
    usage.output += completion;
    usage.cached += cached;
    usage.reasoning += reasoning;
    return;
  }
  usage.input += said.prompt_tokens === undefined ? promptIn(said) : countOf(said, 'prompt_tokens');
  usage.output += countOf(said, 'completion_tokens');
  usage.cached += countOf(said.prompt_tokens_details, 'cached_tokens');
  usage.reasoning += countOf(said.completion_tokens_details, 'reasoning_tokens');
}

function countOf(of: unknown, key: string): number {
  const count = isObject(of) ? (of as JsonObject)[key] : undefined;
  return Number.isSafeInteger(count) && (count as number) > 0 ? (count as number) : 0;
}

/** Characters that leave in one write. */
const ROOM = 128 * 1024;

function lines(path: string) {
  const fd = openNew(path);
  let waiting: string[] = [];
  let characters = 0;
  const flush = (): void => {
    const bytes = Buffer.from(waiting.join(''));
    [waiting, characters] = [[], 0];
    writeWhole(fd, bytes, path);
  };
  return {
    put(text: string): void {
      waiting.push(text, '\n');
      characters += text.length + 1;
      if (characters >= ROOM) flush();
    },
    end(): void {
      try {
        flush();
        fsyncSync(fd);
      } finally {
        closeSync(fd);
      }
    },
  };
}

/** Ids for what is there: a file without a line is none. `now` in ms. */
export function outputsIn(folder: string, now: number): Outputs {
  const { output, error } = pathsIn(folder);
  const bytes = { output: statSync(output).size, error: statSync(error).size };
  const idFor = (size: number): string | null => (size === 0 ? null : newFileId(now));
  return { output: idFor(bytes.output), error: idFor(bytes.error), bytes };
}

/** Whether all of these lines are there: in a copy that was made while they were written they may not be. */
export function areWhole(
  { owner }: BatchRecord,
  outputs: Outputs,
  folder: string,
  files: FileStore,
): boolean {
  return (['output', 'error'] as const).every(kind => {
    const file = outputs[kind];
    if (file === null || files.get(owner, file) !== null || outputs.bytes === undefined) return true;
    return statSync(pathsIn(folder)[kind], { throwIfNoEntry: false })?.size === outputs.bytes[kind];
  });
}

/** Gives the lines their place among the files; done again, it is the same files. `folder` is that of the batch; `keep` and `now` in ms. */
export function placeOutputs(
  { id, owner, outputs_kept }: BatchRecord,
  outputs: Outputs,
  { files, folder, keep, now }: { files: FileStore; folder: string; keep: number; now: number },
): void {
  const created_at = Math.floor(now / 1000);
  const expires_at = created_at + (outputs_kept ?? Math.floor(keep / 1000));
  for (const kind of ['output', 'error'] as const) {
    const file = outputs[kind];
    if (file === null || files.get(owner, file) !== null) continue;
    const path = pathsIn(folder)[kind];
    linked(path, files.spoolOf(file));
    const bytes = statSync(path).size;
    files.add({
      ...{ id: file, owner, filename: `${id}_${kind}.jsonl`, purpose: 'batch_output', bytes },
      ...{ created_at, expires_at },
    });
  }
}
