/** The pool on simulated engines in virtual time: what takes a night takes a second, and is the same each time. */
import { createHash } from 'node:crypto';
import { FIRST_LIMIT } from '../../engine/asking/endpoints/settings.ts';
import type { EndpointPool, PoolOptions } from '../../engine/asking/pool/part.ts';
import { createPool } from '../../engine/asking/pool/pool.ts';
import type { Call } from '../../engine/core/item/call.ts';
import { presetNamed } from '../../products/simulator/presets.ts';
import { type VirtualClock, virtualClock } from '../../products/simulator/virtual-clock.ts';
import {
  type VirtualServer,
  type VirtualServers,
  type VirtualSettings,
  virtualServers,
} from '../../products/simulator/virtual-servers.ts';

export interface Virtual {
  clock: VirtualClock;
  servers: VirtualServer[];
  pool: EndpointPool;
  warnings: string[];
  /** asks so many calls, so many at a time; what became of each, by its item */
  ask(
    calls: number,
    more?: { atOnce?: number; prompt?: (n: number) => string; call?: (n: number) => Call },
  ): Promise<Map<string, string>>;
}

export async function virtual(
  settings: Partial<VirtualSettings> & { count: number },
  more: Partial<PoolOptions> | ((servers: VirtualServers) => Partial<PoolOptions>) = {},
): Promise<Virtual> {
  const clock = virtualClock();
  const made = virtualServers(clock, { preset: presetNamed('3b-a6000'), seed: 3, ...settings });
  const { servers, openWire } = made;
  const warnings: string[] = [];
  const pool = await clock.until(
    createPool({
      endpoints: servers.map(({ url }) => ({ url, limit: FIRST_LIMIT, pinned: false })),
      openWire,
      clock,
      random: () => 0.5,
      retryBudget: 0.2,
      warn: message => void warnings.push(message),
      ...(typeof more === 'function' ? more(made) : more),
    }),
  );
  let asked = 0;
  const ask: Virtual['ask'] = async (
    calls,
    {
      atOnce = 512,
      prompt = (n: number) => `question ${n}`,
      call: made = (n: number) => callOf(n, prompt(n)),
    } = {},
  ) => {
    const outcomes = new Map<string, string>();
    const last = asked + calls;
    const work = async (): Promise<void> => {
      while (asked < last) {
        const n = asked++;
        const call = made(n);
        try {
          outcomes.set(call.item, (await pool.call(call)).text === '' ? 'empty' : 'answered');
        } catch (error) {
          outcomes.set(call.item, (error as { code: string }).code);
        }
      }
    };
    await clock.until(Promise.all(Array.from({ length: Math.min(atOnce, calls) }, work)));
    return outcomes;
  };
  return { clock, servers, pool, warnings, ask };
}

export function callOf(n: number, prompt: string): Call {
  const head = '{"model":"simulated","messages":[';
  const tail = ',"max_tokens":200}';
  const body = `${head}{"role":"user","content":${JSON.stringify(prompt)}}]${tail}`;
  const item = `item-${n}`;
  return {
    path: '/chat/completions',
    model: 'simulated',
    body: Buffer.from(body),
    head,
    tail,
    key: createHash('sha256').update(item).digest('hex').slice(0, 32),
    item,
    agent: 'a',
    round: 0,
    attempt: 1,
  };
}
