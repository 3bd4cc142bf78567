/** How fast batches go: what of each had come back at a few moments of the last minute, noted all the time, so that who looks first sees them too. */
import { type BatchRecord, isFinal } from './batch-state.ts';

export interface Rates {
  /** To be called once a second or so. */
  note(records: readonly BatchRecord[]): void;
  /** lines a second; null before two notes, and of a batch that has ended */
  of(id: string): number | null;
}

/** ms that are looked back on, and notes in them */
const BACK = 60_000;
const NOTES = 30;

export function createRates(now: () => number): Rates {
  const seen = new Map<string, { at: number; done: number }[]>();
  return {
    note(records) {
      const at = now();
      const live = new Set<string>();
      for (const { id, status, counts } of records) {
        if (isFinal(status) || counts.total === 0) continue;
        live.add(id);
        const before = seen.get(id) ?? [];
        const last = before.at(-1);
        // of a clock that was set back the notes say nothing
        const notes = last === undefined || last.at > at ? [] : before;
        if (last !== undefined && at >= last.at && at - last.at < BACK / NOTES) continue;
        notes.push({ at, done: counts.completed + counts.failed });
        while (notes.length > 2 && at - (notes[0]?.at ?? at) > BACK) notes.shift();
        seen.set(id, notes);
      }
      for (const id of seen.keys()) if (!live.has(id)) seen.delete(id);
    },
    of(id) {
      const notes = seen.get(id) ?? [];
      const [first] = notes;
      const last = notes.at(-1);
      if (first === undefined || last === undefined || last.at <= first.at) return null;
      return ((last.done - first.done) * 1000) / (last.at - first.at);
    },
  };
}
