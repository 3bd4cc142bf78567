/** What batch scripts do in place of a pool: endpoints by turns, or a fixed share of the items for each. */

import { readCompletion } from '../../engine/asking/endpoints/completion.ts';
import type { Clock } from '../../engine/asking/endpoints/pool-clock.ts';
import type { OpenWire, Wire } from '../../engine/asking/endpoints/wire.ts';
import { hashOf } from '../../engine/asking/pool/pool-state.ts';
import { type Call, CallFailure, type Pool } from '../../engine/core/item/call.ts';
import { VIRTUAL_MODEL } from '../../products/simulator/virtual-servers.ts';

export interface Script {
  urls: readonly string[];
  openWire: OpenWire;
  clock: Clock;
  /** `turns`: each call goes to the next endpoint; `shares`: all calls of an item to its own */
  by: 'turns' | 'shares';
}

const TRIES = 5;
/** ms, doubled after each try */
const PAUSE = 1_000;
/** items in flight for each endpoint: what a script's semaphore is set to */
const EACH = 256;

export function scriptPool({ urls, openWire, clock, by }: Script): Pool & { answered: () => number } {
  const wires = urls.map(url => openWire(new URL(url).origin, undefined));
  let turn = 0;
  let answered = 0;

  function once(wire: Wire, { path, body }: Call): Promise<ReturnType<typeof readCompletion>> {
    return new Promise(resolve => {
      wire.send({ method: 'POST', path: `/v1${path}`, body: Buffer.from(body) }, outcome => {
        if (outcome instanceof Error || outcome.status !== 200) resolve(String(outcome));
        else resolve(readCompletion(outcome.body, undefined));
      });
    });
  }

  return {
    model: VIRTUAL_MODEL,
    itemsInFlight: EACH * urls.length,
    onRoom: () => {},
    async call(call) {
      for (let tries = 0; tries < TRIES; tries++) {
        const at = by === 'turns' ? turn++ : hashOf(call.item);
        const answer = await once(wires[at % wires.length] as Wire, call);
        if (typeof answer !== 'string') {
          answered++;
          return answer.answer;
        }
        await new Promise<void>(resolve => void clock.after(PAUSE * 2 ** tries, resolve));
      }
      throw new CallFailure('call-failed', `no answer after ${TRIES} tries`);
    },
    judge: () => {},
    close: async () => {},
    answered: () => answered,
  };
}
