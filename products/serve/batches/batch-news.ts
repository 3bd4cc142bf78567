/** What the log says of a batch at each of its states: ids, counts and codes, and nothing that its lines say. */
import type { About, Say } from '../../../engine/core/item/say.ts';
import { counted, number, timeWords } from '../../../engine/core/item/wording.ts';
import type { BatchRecord, Status } from './batch-state.ts';
import type { Forecast, LateFor } from './forecasts.ts';

const EVENTS: Readonly<Record<Status, string>> = {
  validating: 'batch-created',
  failed: 'batch-failed',
  in_progress: 'batch-begun',
  finalizing: 'batch-answered',
  completed: 'batch-completed',
  expired: 'batch-expired',
  cancelling: 'batch-cancelling',
  cancelled: 'batch-cancelled',
};
/** Codes and models that a line names. */
const MOST_NAMED = 3;

/** Told each batch that is in another state than before, as it is on disk by then. */
export function tellBatches(say: Say): (record: BatchRecord) => void {
  return record => {
    const { id, owner, key, status, counts, usage, created_at, times } = record;
    const at = times[`${status}_at`];
    const about: About = {
      ...{ event: EVENTS[status], level: status === 'expired' ? 'warn' : 'info', batch: id, owner, key },
      ...(status !== 'validating' && counts),
      ...(at !== undefined && { seconds: at - created_at }),
      ...(usage.input + usage.output > 0 && { input_tokens: usage.input, output_tokens: usage.output }),
    };
    say(`${id} of ${owner} ${wordsOf(record)}`, about);
  };
}

/** Of one that had begun and goes on: with another process, or once its disk or its room is back. */
export function tellResumed(say: Say, { id, owner, key, counts }: BatchRecord): void {
  const { total, completed, failed } = counts;
  const words = `${number(completed + failed)} of ${counted(total, 'line')} have come back`;
  say(`${id} of ${owner} goes on: ${words}`, {
    ...{ event: 'batch-resumed', batch: id, owner, key, ...counts },
  });
}

/** Of one whose window is out of reach, or in reach again. */
export function tellForecast(
  say: Say,
): (record: BatchRecord, forecast: Forecast, why: LateFor | null) => void {
  return ({ id, owner, key }, { words, slack }, why) => {
    const about: About = { event: 'batch-in-reach', batch: id, owner, key, slack_s: slack };
    if (why === null) return say(`${id} of ${owner} can keep its window again: it ${words}`, about);
    const cause =
      why === 'window'
        ? 'its window is too short for these servers'
        : 'there is more to do, or fewer servers';
    say(`${id} of ${owner} cannot keep its window: it ${words}; ${cause}`, {
      ...{ ...about, event: 'batch-late', level: 'warn', reason: why },
    });
  };
}

function wordsOf(record: BatchRecord): string {
  const { status, counts, completion_window, input_file_id, errors, models } = record;
  switch (status) {
    case 'validating':
      return `is created: ${input_file_id}, window ${completion_window}`;
    case 'in_progress':
      return `begins: ${counted(counts.total, 'line')} of ${named(models)}`;
    case 'failed':
      return `failed, and nothing was asked: ${named(errors.map(({ code, line }) => (line === null ? code : `${code} in line ${line}`)))}`;
    case 'finalizing':
      return `has all of its answers: ${countsWords(record)}`;
    case 'cancelling':
      return `is being cancelled: ${countsWords(record)}`;
    case 'expired':
      return `is expired, its window of ${completion_window} is over: ${countsWords(record)}`;
    default:
      return `is ${status}: ${countsWords(record)}`;
  }
}

function countsWords({ counts, created_at, times, status, failures }: BatchRecord): string {
  const { total, completed, failed } = counts;
  const at = times[`${status}_at`] ?? created_at;
  const why =
    failed === 0 ? '' : ` (${named(failures.map(({ code, count }) => `${number(count)} ${code}`))})`;
  return `${number(completed)} answered, ${number(failed)} failed${why} of ${counted(total, 'line')}, after ${timeWords((at - created_at) * 1000)}`;
}

function named(words: readonly string[]): string {
  const more = words.length > MOST_NAMED ? [`and ${words.length - MOST_NAMED} more`] : [];
  return [...words.slice(0, MOST_NAMED), ...more].join(', ');
}
