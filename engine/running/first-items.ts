/** The items that come to the first stage that asks: the stages before it are run, and nothing is asked or written. */

import { inputsOf } from '../core/files/input-files.ts';
import { newAccount } from '../core/item/account.ts';
import { usageError } from '../core/item/failure.ts';
import type { Item } from '../core/item/item.ts';
import { drain, join } from '../flow/join.ts';
import { stage, type Tools } from '../flow/stage.ts';
import { silent } from './named-files.ts';
import type { Pipeline } from './pipeline.ts';

export interface Before {
  row: Pipeline['row'];
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
  const tools: Tools = {
    base,
    files,
    signal: enough.signal,
    asking: enough.signal,
    account,
    started: new Date(),
    warn,
    pool: () => Promise.reject(usageError(`${label}: a stage before the asking one asked`)),
  };
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
