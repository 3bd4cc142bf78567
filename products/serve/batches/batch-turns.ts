/** Batches that run at once, and whose turn it is where more wait. */
import type { BatchRun } from './batch-run.ts';
import type { BatchRecord } from './batch-state.ts';
import type { BatchStore } from './batch-store.ts';

export interface Turns {
  /** by id of the batch */
  readonly running: ReadonlyMap<string, BatchRun>;
  begin(record: BatchRecord, run: BatchRun): void;
  end(id: string): void;
  hasTurn(record: BatchRecord): boolean;
  /** As the pool gives places: owners in equal parts, and each to its batches by their weight. */
  shareOf(record: BatchRecord): number;
  /** Who answers them may have come or gone. */
  look(): void;
}

/** Each has blocks of its file and requests in memory. */
export const MOST_RUNNING = 24;
/** lines of one that has little in memory: it runs beside so many, up to four times as many in all */
const SMALL = 1_000;

const DAY = 24 * 60 * 60;
/** Of the batches of an owner, one with half the time gets twice as much: it is over with its window, so none starves. */
export const weightOf = ({ window }: Pick<BatchRecord, 'window'>): number => DAY / window;

export function createTurns(
  store: Pick<BatchStore, 'of'>,
  isServed: (record: BatchRecord) => boolean,
): Turns {
  const running = new Map<string, BatchRun>();
  /** of these, whether who answers them is there */
  const served = new Map<string, boolean>();
  return {
    running,
    begin(record, run) {
      running.set(record.id, run);
      served.set(record.id, isServed(record));
    },
    end(id) {
      running.delete(id);
      served.delete(id);
    },
    /**
     * Where more wait than run at once, those of the owner with the fewest come first, and of these the oldest. Those that
     * no worker serves do not keep others waiting.
     */
    hasTurn(record) {
      const { owner, id, counts } = record;
      const most = counts.total <= SMALL ? 4 * MOST_RUNNING : MOST_RUNNING;
      if (running.size < most) return true;
      const isLike = isServed(record);
      const others = [...served].filter(([, is]) => is === isLike).map(([other]) => store.of(other));
      return others.length < most || others.every(other => other.owner !== owner || other.id === id);
    },
    shareOf(record) {
      const all = [...running.keys()].map(store.of);
      const owners = new Set(all.map(({ owner }) => owner)).size;
      const own = all.filter(({ owner }) => owner === record.owner);
      const sum = own.reduce((total, one) => total + weightOf(one), 0);
      return sum === 0 ? 1 : weightOf(record) / (owners * sum);
    },
    look() {
      for (const id of running.keys()) served.set(id, isServed(store.of(id)));
    },
  };
}
