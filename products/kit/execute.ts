/**
 * A row of stages as the work of this whole process: its messages on stderr, its progress on the terminal, its signals,
 * and V8 set up for it. What it does with the items is engine/running.
 */

import { constants } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { CLEAR_BELOW, visibleLines } from '../../engine/core/json/visible.ts';
import { type Run, run, type Stopper, showProgress } from '../../engine/running/run.ts';

export type Execution = Omit<Run, 'say' | 'progress' | 'stoppable'>;

/** Says a message on stderr, whose lines begin with `label`. */
export function sayAs(label: string): (message: string) => void {
  return message => {
    const clear = process.stderr.isTTY ? CLEAR_BELOW : '';
    process.stderr.write(`${clear}${label}: ${visibleLines(message).join('\n  ')}\n`);
  };
}

/** Sets V8 up for thousands of requests in flight. */
export function expectManyRequests(): void {
  // they outlive the young generation, and V8 lets the old one grow to four times what lives: at three and a half the
  // memory is a tenth below that of a bare loop, and at three a call would cost 2 % more
  setFlagsFromString('--heap-growing-percent=250');
  // bodies are some kilobytes: cut from blocks, and not each a piece of memory for itself, a call costs 3 % less
  Buffer.poolSize = 64 * 1024;
}

/** Resolves to the exit code, having said what there was to say; rejects with a bug. */
export async function execute(execution: Execution): Promise<number> {
  // machine code that inlines less is made in two thirds of the time, which most runs never win back
  setFlagsFromString('--max-inlined-bytecode-size-cumulative=200');
  if (execution.row.some(({ stage }) => stage.asks)) expectManyRequests();
  const { exit } = await run({
    ...execution,
    say: sayAs(execution.label),
    progress: showProgress,
    stoppable: listen,
  });
  return exit;
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Stops a run by the signals of this process, until what is returned is called. */
export function listen(stop: (by: Stopper) => void): () => void {
  const hasTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
  const onSignal = (signal: (typeof SIGNALS)[number]): void => {
    // whoever logs out leaves the run behind
    if (signal === 'SIGHUP' && !hasTerminal) return;
    stop({ name: signal, exit: 128 + constants.signals[signal] });
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return () => {
    for (const signal of SIGNALS) process.off(signal, onSignal);
  };
}
