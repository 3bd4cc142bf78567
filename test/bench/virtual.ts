/** Time that jumps from event to event, and a server of one place in it: what a load does is exact, on any machine. */
import type { Line } from '../../products/measure/bench/bench-wire.ts';
import { type Outcome, Stopped } from '../../products/measure/bench/timed-answer.ts';

export function virtualTime() {
  let now = 0;
  let timers: { at: number; run: () => void }[] = [];
  return {
    now: () => now,
    after(ms: number, run: () => void): () => void {
      const timer = { at: now + ms, run };
      timers.push(timer);
      return () => {
        timers = timers.filter(each => each !== timer);
      };
    },
    /** Runs whatever falls due until nothing is left, or `until`. */
    run(until = Number.POSITIVE_INFINITY): void {
      for (;;) {
        const next = timers.reduce<(typeof timers)[number] | null>(
          (first, each) => (first === null || each.at < first.at ? each : first),
          null,
        );
        if (next === null || next.at > until) return;
        timers = timers.filter(each => each !== next);
        now = next.at;
        next.run();
      }
    },
  };
}

export const answered = (due: number, sent: number, end: number): Outcome => ({
  ok: true,
  due,
  sent,
  end,
  ttft: end - sent,
  firstEvent: end - sent,
  firstAnswer: end - sent,
  e2el: end - sent,
  tpot: Number.NaN,
  contents: [end],
  coalesced: 0,
  usage: { prompt: 10, completion: 1, cached: null },
});

export const refused = (due: number, sent: number): Outcome => ({
  ok: false,
  due,
  sent,
  end: sent,
  code: 'call-failed',
  cause: 'connection refused',
  message: 'connection refused',
  isIncomplete: false,
  isUnsent: true,
});

/** Answers one after the other, each in `service` ms, and none within a stall. */
export function queueServer(
  time: ReturnType<typeof virtualTime>,
  {
    service,
    stall,
    fails,
    diesAt = Number.POSITIVE_INFINITY,
  }: { service: number; stall?: { from: number; to: number }; fails?: boolean; diesAt?: number },
) {
  let freeAt = 0;
  let busy = 0;
  let most = 0;
  let gone: ((reason: Error) => void)[] = [];
  const paths: string[] = [];
  const line: Line = {
    send({ path }, due, ended, settle) {
      paths.push(path);
      const sent = time.now();
      most = Math.max(most, ++busy);
      let isOver = false;
      const end = (outcome: Outcome): void => {
        if (isOver) return;
        isOver = true;
        busy--;
        ended();
        settle(outcome);
      };
      if (fails || sent >= diesAt) return void time.after(0, () => end(refused(due, sent)));
      freeAt = Math.max(freeAt, sent) + service;
      // what would be at work when the server stops is done when it works again
      if (stall && freeAt > stall.from && freeAt - service < stall.to && freeAt <= stall.to + service)
        freeAt = Math.max(freeAt, stall.to + service);
      const at = freeAt;
      time.after(at - sent, () => end(answered(due, sent, time.now())));
      gone.push(reason => {
        const isIncomplete = reason instanceof Stopped;
        end({ ...refused(due, sent), end: time.now(), isIncomplete } as Outcome);
      });
    },
    abort(reason) {
      const all = gone;
      gone = [];
      for (const each of all) each(reason);
    },
    sweep() {},
    get busy() {
      return busy;
    },
    closes: false,
    close: async () => {},
  };
  return {
    line,
    paths,
    get most() {
      return most;
    },
  };
}
