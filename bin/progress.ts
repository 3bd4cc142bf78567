/**
 * What a person sees while a run asks: a bar on a terminal, a plain line every ten seconds in a log. On stderr, never
 * on stdout, and only for stages that ask: the others are over before anyone looks.
 */
import { SingleBar } from 'cli-progress';
import { type Account, type Asked, number } from '../engine/flow/account.ts';
import { RUNGS } from '../engine/flow/item.ts';

const LINE_EVERY = 10_000;
const BAR_EVERY = 250;

export interface Progress {
  stop(): void;
}

/** `asked` tells what the pool has done so far. */
export function startProgress(label: string, account: Account, asked: () => Asked): Progress {
  const begun = performance.now();
  const facts = () => {
    const seconds = (performance.now() - begun) / 1000;
    const done = RUNGS.reduce((sum, rung) => sum + account.rungs[rung], 0);
    const { calls, retries, completionTokens } = asked();
    return {
      label,
      done,
      flight: number(account.read - done - account.aside),
      failed: number(account.rungs.failed),
      rate: (calls / seconds).toFixed(0),
      tokens: (completionTokens / seconds).toFixed(0),
      retries: number(retries),
    };
  };
  if (!process.stderr.isTTY) {
    const timer = setInterval(() => {
      const { done, flight, failed, rate, tokens, retries } = facts();
      process.stderr.write(
        `${label}: ${number(done)} items done, ${flight} in flight, ${failed} failed · ${rate} calls/s, ${tokens} tokens/s out, ${retries} retries\n`,
      );
    }, LINE_EVERY);
    return { stop: () => clearInterval(timer) };
  }
  // the total is what has come in so far: a pipe does not say how much is still to come
  const bar = new SingleBar({
    format:
      '{label} {bar} {value}/{total} · {flight} in flight · {failed} failed · {rate} calls/s · {tokens} tokens/s · {retries} retries',
    barsize: 20,
    hideCursor: true,
    clearOnComplete: true,
    stopOnComplete: false,
    noTTYOutput: false,
  });
  const timer = setInterval(() => {
    const { done, ...rest } = facts();
    // begun at the first tick, when what there was to say at the start has been said
    if (!bar.isActive) bar.start(account.read, done, { done, ...rest });
    bar.setTotal(Math.max(account.read, 1));
    bar.update(done, rest);
  }, BAR_EVERY);
  return {
    stop() {
      clearInterval(timer);
      bar.stop();
    },
  };
}
