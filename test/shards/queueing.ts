/** Both sides of a queue on a real Redis, closed at the end of the test. */
import { afterEach, beforeEach, expect, onTestFinished, vi } from 'vitest';
import { openPointers } from '../../products/workers/part-queue.ts';
import { openTaker, type Taken, type Taker } from '../../products/workers/taker.ts';
import { QUEUE } from './queue-name.ts';

export const offer = (root: number, part = 0) => ({
  id: `w-${root}-${part}`,
  pointer: { work: 'w', root, part },
});

export async function pointersOf(url: string) {
  const said: string[] = [];
  const pointers = await openPointers({ url, prefix: 'fw', say: message => void said.push(message) });
  onTestFinished(() => pointers.close());
  return Object.assign(pointers, { said });
}

export async function takerOf(url: string, { name = 'host/1', lock = 2_000 } = {}) {
  const said: string[] = [];
  const taker = await openTaker({ url, prefix: 'fw', name, lock, say: message => void said.push(message) });
  onTestFinished(() => taker.close());
  return Object.assign(taker, { said });
}

/** Waits as long as it takes. */
export async function taken(taker: Taker): Promise<Taken> {
  const found = await taker.take([QUEUE], new AbortController().signal);
  if (found === null) throw new Error('expected a pointer, found none');
  return found;
}

/** Looks again until it holds. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise(resolve => setTimeout(resolve, 10));
}

/** In each test of a file: nothing is written to the console, where the libraries of the queue would write. */
export function nothingOnConsole(): void {
  const CONSOLE = ['log', 'info', 'warn', 'error', 'debug'] as const;
  beforeEach(() => {
    for (const name of CONSOLE) vi.spyOn(console, name).mockImplementation(() => {});
  });
  afterEach(() => {
    const written = CONSOLE.flatMap(name => vi.mocked(console[name]).mock.calls);
    vi.restoreAllMocks();
    expect(written).toEqual([]);
  });
}
