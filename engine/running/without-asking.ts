/**
 * What is known of a row without asking anybody: the items that come to its first stage that asks, for which the stages before
 * it are run and nothing is written, and what the stages that ask would ask.
 */

import type { Recorded } from '../asking/ledger/ledger.ts';
import { inputsOf } from '../core/files/input-files.ts';
import { newAccount } from '../core/item/account.ts';
import { type Call, CallFailure } from '../core/item/call.ts';
import { usageError } from '../core/item/failure.ts';
import type { Item, Usage } from '../core/item/item.ts';
import { drain, join } from '../flow/join.ts';
import { stage, type Tools } from '../flow/stage.ts';
import { type OptionsOfStage, silent } from './stage-options.ts';

interface Before {
  row: readonly OptionsOfStage[];
  files: readonly string[];
  base: string;
  label: string;
  /** false: enough, the rest of the input is left unread */
  take(item: Item): boolean | Promise<boolean>;
  /** hears what the stages warn of */
  warn(message: string): void;
}

/** Resolves when the input is at its end, or enough was taken. Exit 64 where no stage asks, or one does that should not. */
export async function itemsBefore({ row, files, base, label, take, warn }: Before): Promise<void> {
  const asker = row.findIndex(({ stage }) => stage.asks);
  if (asker < 0) throw usageError('expected a stage that asks, found none; just run it');
  const account = newAccount(label);
  const enough = new AbortController();
  const { signal } = enough;
  const pool = () => Promise.reject(usageError(`${label}: a stage before the asking one asked`));
  const own = { signal, asking: signal, account, started: new Date() };
  const tools = { ...dryTools({ base, files, warn, pool }), ...own };
  const before = row.slice(0, asker).map(placed => ({ ...silent(placed), tools }));
  const maxLine = row[asker]?.options['max-line'];
  const items = await join(before.length > 0 ? before : [passing(label, maxLine, tools)], inputsOf(files));
  const went = (isOn: boolean): void => {
    if (!isOn) enough.abort();
  };
  let taking: Promise<void> = Promise.resolve();
  let broke: { error: unknown } | null = null;
  const output = {
    write(item: Item) {
      if (enough.signal.aborted) return true;
      const taken = take(item);
      if (typeof taken === 'boolean') went(taken);
      else
        taking = taken.then(went, error => {
          broke ??= { error };
          enough.abort();
        });
      return typeof taken === 'boolean';
    },
    ready: (act: () => void) => void taking.then(act),
    end: async () => {},
  };
  await drain(items, output, account);
  if (broke !== null) throw (broke as { error: unknown }).error;
}

/** A pipeline that begins with the asking stage reads items; nothing is done to them here. */
function passing(label: string, maxLine: unknown, tools: Tools) {
  const pass = stage({ name: label, summary: '', options: {}, each: () => (item: Item) => item });
  return { stage: pass, options: { 'max-line': maxLine }, tools };
}

/** Tools of a stage that is opened and asks nobody. */
export function dryTools(own: Pick<Tools, 'base' | 'files' | 'sets' | 'warn' | 'pool'>): Tools {
  const { signal } = new AbortController();
  return { ...own, signal, asking: signal, account: newAccount(''), started: new Date(0) };
}

export type DryPool = ReturnType<typeof dryPool>;

/** Sums over answers that say what they used. */
export interface Pilot extends Required<Usage> {
  answers: number;
}

function noteUsage(
  pilot: Map<string, Pilot>,
  agent: string,
  { prompt, completion, cached = 0 }: Usage,
): void {
  if (prompt === 0) return;
  const sum = pilot.get(agent) ?? { answers: 0, prompt: 0, completion: 0, cached: 0 };
  pilot.set(agent, sum);
  sum.answers += 1;
  sum.prompt += prompt;
  sum.completion += completion;
  sum.cached += cached;
}

/**
 * A pool that asks nobody: it answers what is on record, and notes what would be asked. A call that is not on record fails
 * as `call-failed`, which no ledger has: who does not read it goes on.
 */
export function dryPool(model: string, recorded: Recorded | null) {
  const first = new Map<string, Call>();
  const pilot = new Map<string, Pilot>();
  let replayed = 0;
  let missed = 0;
  return {
    model,
    itemsInFlight: 1,
    onRoom() {},
    async call(call: Call) {
      const answer = recorded?.find(call.key, call.model === '' ? model : undefined);
      if (answer) {
        replayed += 1;
        noteUsage(pilot, call.agent, answer.usage);
        return answer;
      }
      missed += 1;
      if (!first.has(call.agent)) first.set(call.agent, call);
      throw new CallFailure('call-failed', 'It is not on record, and a dry run asks nothing.');
    },
    ...(recorded && { onRecord: recorded }),
    judge() {},
    close: async () => recorded?.close(),
    /** what the answers on record used, by agent; by URL, of raw requests */
    pilot,
    /** the first call to each agent that it could not answer; to each URL, of raw requests */
    first,
    /** calls that the ledger has answered, and those that it could not */
    get replayed() {
      return replayed;
    },
    get missed() {
      return missed;
    },
  };
}
