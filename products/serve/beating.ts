/**
 * A thread that renews the lock of DIR: reading the ledger of a large batch takes seconds in which no timer of the main
 * thread comes round, and that is no reason to take over from it. Where that one has not moved for a minute, it is.
 */
import { readFileSync, utimesSync } from 'node:fs';
import { workerData } from 'node:worker_threads';

export interface BeatingData {
  /** of the lock, and what it says while it is ours */
  path: string;
  text: string;
  /** ms between two renewals */
  beat: number;
  /** one number, which the main thread counts up at each beat of its own */
  pulse: Int32Array<SharedArrayBuffer>;
}

/** ms without a pulse after which the main thread counts as hung */
const HUNG = 60_000;

const { path, text, beat, pulse } = workerData as BeatingData;
let last = Atomics.load(pulse, 0);
let movedAt = performance.now();

setInterval(() => {
  const now = Atomics.load(pulse, 0);
  if (now !== last) movedAt = performance.now();
  last = now;
  if (performance.now() - movedAt > HUNG) return;
  try {
    if (readFileSync(path, 'utf8') === text) utimesSync(path, new Date(), new Date());
  } catch {
    // the main thread finds out that it is gone
  }
}, beat);
