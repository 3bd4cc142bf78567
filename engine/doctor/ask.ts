/**
 * The requests of an examination, one after the other: each is bounded by the time that the endpoint has left, by the
 * wire in size, and tells besides its answer when what of it came.
 */
import type { Clock, Timing } from '../pool/clock.ts';
import type { Endpoint } from '../pool/health.ts';
import type { Reply, Request, Watch } from '../pool/wire.ts';
import { NoAnswerInTime, seconds } from '../pool/words.ts';

export interface Heard extends Reply {
  /** ms from sending to the last byte */
  took: number;
  /** what had come when: ms from sending, and the bytes of the body until then */
  arrivals: readonly Arrival[];
}

export interface Arrival {
  at: number;
  bytes: number;
}

export interface Asking {
  /** Never throws: what stood in the way is the outcome. `path` is from the root of the server. */
  get(path: string): Promise<Heard | Error>;
  post(path: string, body: object): Promise<Heard | Error>;
  /** ms by which the server's clock is ahead, by the first answer that had a date */
  skew(): number | undefined;
  /** requests sent so far */
  calls(): number;
}

/** A body that comes byte by byte must not make a list of every byte. */
const MOST_ARRIVALS = 10_000;
/** HTTP dates are cut to whole seconds: on average half of one is missing. */
const CUT_OFF = 500;

/** Everything that is asked has to be answered before `until`, in ms of the clock. */
export function askingOf(
  endpoint: Endpoint,
  { clock, timing }: { clock: Clock; timing: Timing },
  until: number,
): Asking {
  let skew: number | undefined;
  let calls = 0;

  function ask(request: Request, most: number): Promise<Heard | Error> {
    const sent = clock.now();
    const left = Math.min(most, until - sent);
    if (left <= 0) return Promise.resolve(new NoAnswerInTime('there was no time left to ask'));
    calls++;
    return new Promise(resolve => {
      const arrivals: Arrival[] = [];
      const watch: Watch = {
        head: ({ date }) => {
          const said = typeof date === 'string' && date.length < 64 ? Date.parse(date) : Number.NaN;
          if (skew === undefined && !Number.isNaN(said)) skew = said + CUT_OFF - clock.date();
        },
        data: bytes => {
          const last = arrivals.at(-1);
          const at = clock.now() - sent;
          const all = (last?.bytes ?? 0) + bytes;
          if (last && arrivals.length >= MOST_ARRIVALS) Object.assign(last, { at, bytes: all });
          else arrivals.push({ at, bytes: all });
        },
      };
      const exchange = endpoint.wire.send({ ...request, watch }, outcome => {
        callOff();
        resolve(outcome instanceof Error ? outcome : { ...outcome, took: clock.now() - sent, arrivals });
      });
      const callOff = clock.after(left, () => {
        const late = new NoAnswerInTime(`no answer within ${seconds(left)}`);
        resolve(late);
        exchange.abort(late);
      });
    });
  }

  return {
    get: path => ask({ method: 'GET', path }, timing.probeTimeout),
    post: (path, body) => ask({ method: 'POST', path, body: Buffer.from(JSON.stringify(body)) }, Infinity),
    skew: () => skew,
    calls: () => calls,
  };
}
