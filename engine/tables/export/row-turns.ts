/** Lines that leave in the order of their rows, some at a time: those that come early wait, and so does who brings them. */

import type { OnBroken } from '../../core/files/ndjson-out.ts';
import { letGo } from '../../core/files/origin.ts';
import type { Fatal } from '../../core/item/failure.ts';
import type { Item } from '../../core/item/item.ts';
import type { InOrder } from './in-order.ts';

/** Characters of lines that waited and leave before the event loop has its turn. */
const AT_ONCE = 4 * 1024 * 1024;

export interface Turns {
  /** Takes the line of an item, whose source is needed no longer; false where lines whose turn it is have not all left: wait for `ready`. */
  add(item: Item, text: string): boolean;
  ready(act: () => void): void;
  /** Resolves when all lines have left. */
  end(): Promise<void>;
}

export interface Leaving {
  /** null: each leaves at once */
  order: InOrder | null;
  emit(text: string): void;
  /** whether the reader takes more without waiting, and what tells when it does again */
  isOpen(): boolean;
  ready(act: () => void): void;
  onBroken: OnBroken;
}

export function inTurns({ order, emit, isOpen, ready, onBroken }: Leaving): Turns {
  let isBehind = false; // lines whose turn it is have not left yet

  function pump(): void {
    isBehind = false;
    for (let left = AT_ONCE; isOpen(); ) {
      const text = order?.next() ?? null;
      if (text === null) return;
      emit(text);
      left -= text.length;
      if (left <= 0) break;
    }
    isBehind = true;
  }
  function caughtUp(act: () => void): void {
    try {
      pump();
    } catch (error) {
      return onBroken(error as Fatal);
    }
    if (!isOpen()) ready(() => caughtUp(act));
    else if (isBehind) setImmediate(caughtUp, act);
    else act();
  }

  return {
    add(item, text) {
      const { row } = item;
      letGo(item);
      if (order === null || !isRow(row)) emit(text);
      else {
        order.add(row, text);
        if (!isBehind) pump();
      }
      return isOpen() && !isBehind;
    },
    ready: caughtUp,
    async end() {
      order?.finish();
      if (order) await new Promise<void>(resolve => caughtUp(resolve));
      order?.close();
    },
  };
}

const isRow = (row: unknown): row is number => Number.isSafeInteger(row) && (row as number) > 0;
