/**
 * A server that takes so many calls at once, in virtual time: a few lines of queueing in the place of a GPU, so that the
 * best limit is known and a hundred thousand calls take a second. It may refuse some calls at random.
 */

import type { Reply } from '../../engine/asking/endpoints/exchange.ts';
import type { OpenWire } from '../../engine/asking/endpoints/wire.ts';
import { Agenda, type Entry } from '../../products/simulator/event-queue.ts';
import { lcg } from '../../products/simulator/random.ts';
import type { Source, VirtualClock } from '../../products/simulator/virtual-clock.ts';

/**
 * What a call beyond its places meets:
 * - `queue`: it waits its turn, first come, first served;
 * - `share`: all are served at once, each the slower, the sum the same;
 * - `refuse`: it is refused with 503.
 * A number: all are served at once, and the sum falls as (places / calls) to this power.
 */
export type Beyond = 'queue' | 'share' | 'refuse' | number;

export interface Limited {
  places: number;
  beyond: Beyond;
  metrics: boolean;
  /** share of the calls that are refused with 429 whatever the load, 0 to 1 */
  random: number;
  /** ms of an answer where there is room … */
  answer?: number;
  /** … and how far one differs from another: drawn evenly from 1 ± this */
  spread?: number;
  seed?: number;
}

export interface LimitedServer {
  readonly url: string;
  readonly openWire: OpenWire;
  /** calls that it has, and those it has refused so far */
  here(): number;
  sentAway(): number;
}

const TOKENS = 100;
const BODY = Buffer.from(
  JSON.stringify({
    choices: [{ index: 0, message: { role: 'assistant', content: '{}' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 500, completion_tokens: TOKENS, total_tokens: 500 + TOKENS },
  }),
);
const reply = (status: number, body: Buffer = Buffer.alloc(0)): Reply => ({
  status,
  body,
  retryAfter: undefined,
});
const MODELS = Buffer.from('{"object":"list","data":[{"id":"limited","object":"model"}]}');

export function limitedServer(
  clock: VirtualClock,
  { places, beyond, metrics, random, answer = 200, spread = 0.2, seed = 1 }: Limited,
): LimitedServer {
  const draw = lcg(seed);
  const isQueue = beyond === 'queue';
  const power = typeof beyond === 'number' ? beyond : 0;
  // What is served progresses alike: the clock of its progress runs slower where many share the server.
  const served = new Agenda<Job>();
  const queue: Job[] = [];
  let first = 0;
  let progress = 0;
  let at = 0;
  let away = 0;
  let jobs = 0;

  const speed = (): number =>
    served.size <= places ? 1 : (places / served.size) * (places / served.size) ** power;
  const reach = (now: number): void => {
    progress += (now - at) * speed();
    at = now;
  };
  const source: Source = {
    due() {
      const next = served.first();
      return next === undefined ? null : at + Math.max(0, next.at - progress) / speed();
    },
    advance(now) {
      reach(now);
      let hasActed = false;
      for (let job = served.first(); job !== undefined && job.at <= progress + 1e-6; job = served.first()) {
        served.remove(job);
        const next = queue[first];
        if (next !== undefined) {
          first++;
          if (first > 4_096) {
            queue.splice(0, first);
            first = 0;
          }
          begin(next);
        }
        hasActed = true;
        job.settle(reply(200, BODY));
      }
      return hasActed;
    },
  };
  clock.add(source);

  function begin(job: Job): void {
    job.at = progress + answer * (1 + spread * (2 * draw() - 1));
    served.push(job);
  }

  const here = (): number => served.size + queue.length - first;
  function get(path: string): Reply {
    if (path === '/v1/models') return reply(200, MODELS);
    if (!metrics || path !== '/metrics') return reply(404);
    const waiting = queue.length - first;
    return reply(
      200,
      Buffer.from(`vllm:num_requests_running ${served.size}\nvllm:num_requests_waiting ${waiting}\n`),
    );
  }

  const later = (settle: () => void) => ({ received: null, overrun: null, abort: clock.after(0, settle) });
  return {
    url: 'http://limited:8000/v1',
    here,
    sentAway: () => away,
    openWire: () => ({
      send({ method, path }, settle) {
        if (method === 'GET') return later(() => settle(get(path)));
        const isAtRandom = draw() < random;
        if (isAtRandom || (beyond === 'refuse' && here() >= places)) {
          away++;
          return later(() => settle(reply(isAtRandom ? 429 : 503)));
        }
        reach(clock.now());
        const job: Job = { at: 0, number: jobs++, place: -1, settle };
        if (isQueue && served.size >= places) queue.push(job);
        else begin(job);
        return { received: null, overrun: null, abort: () => {} };
      },
      close: async () => {},
    }),
  };
}

/** `at` is what the progress is when it is done */
interface Job extends Entry {
  settle: (outcome: Reply) => void;
}
