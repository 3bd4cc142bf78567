/** Runs that are watched, in virtual time: what the closing line says of a load on simulated engines, and how long it took. */

import type { PoolStats } from '../../engine/asking/pool/pool-stats.ts';
import { newAccount, newTimes } from '../../engine/core/item/account.ts';
import type { Call } from '../../engine/core/item/call.ts';
import { snapshotOf, watchRoom } from '../../engine/running/watch/closing.ts';
import { type Diagnosis, diagnose } from '../../engine/running/watch/diagnosis.ts';
import { presetNamed } from '../../products/simulator/presets.ts';
import { lcg } from '../../products/simulator/random.ts';
import type { Limits } from '../../products/simulator/scheduler.ts';
import { promptOf } from '../../products/simulator/tokens.ts';
import type { Answering } from '../../products/simulator/virtual-servers.ts';
import { callOf, virtual } from '../pool/virtual.ts';

export interface Watched {
  preset: string;
  limits?: Partial<Limits>;
  servers?: number;
  /** requests, each of so many tokens of prompt and answer; the first `shared` tokens of every `group` in a row are the same */
  calls: number;
  prompt: number;
  writes: number;
  shared?: number;
  group?: number;
  /** in an order by chance */
  shuffled?: boolean;
  /** in flight at a time; as many as the limits allow unless given */
  inFlight?: number;
  /** set by a person, at each server */
  limit?: number;
  /** the servers say nothing of themselves */
  silent?: boolean;
}

export interface Seen {
  seconds: number;
  found: Diagnosis;
  stats: PoolStats;
}

/** ms between two looks at why servers have room, as in a run */
const LOOK = 250;

export async function watch(load: Watched): Promise<Seen> {
  const { preset, limits = {}, servers: count = 1, limit } = load;
  const { clock, pool } = await virtual(
    { preset: presetNamed(preset), limits, count, metrics: load.silent !== true, answer: answers },
    ({ servers }) =>
      limit === undefined ? {} : { endpoints: servers.map(({ url }) => ({ url, limit, pinned: true })) },
  );
  const account = newAccount('watched');
  const times = newTimes();
  const most = (): number => load.inFlight ?? pool.itemsInFlight;
  const room = watchRoom(account, {
    stats: () => pool.stats(),
    get itemsInFlight() {
      return most();
    },
  });
  const began = clock.now();
  const looking = clock.every(LOOK, () => room.look(clock.now()));
  await clock.until(
    new Promise<void>(resolve => {
      const calls = callsOf(load);
      const more = (): void => {
        while (account.read < calls.length && times.inside < most()) {
          const call = calls[account.read++] as Call;
          times.inside += 1;
          times.entered += clock.now();
          const since = clock.now();
          void pool.call(call).finally(() => {
            times.inside -= 1;
            times.entered -= since;
            times.items += clock.now() - since;
            account.rungs.clean += 1;
            if (account.rungs.clean === calls.length) return resolve();
            more();
          });
        }
        if (account.read === calls.length) account.endedAt ??= clock.now();
      };
      pool.onRoom(more);
      more();
    }),
  );
  looking.stop();
  room.look(clock.now());
  const stats = pool.stats();
  const seconds = (clock.now() - began) / 1_000;
  const at = { now: clock.now(), loop: 0, itemsInFlight: most(), room: room.room() };
  const found = diagnose(snapshotOf({ stats, times, ...at }));
  await clock.until(pool.close());
  return { seconds, found, stats };
}

/** Characters of a token, as the simulator counts them. */
const TOKEN = 4;

function callsOf({ calls, prompt, writes, shared = 0, group = 1, shuffled = false }: Watched): Call[] {
  const made = Array.from({ length: calls }, (_, n) => {
    const common = `document ${Math.floor(n / group)} `.padEnd(
      shared * TOKEN,
      `of ${Math.floor(n / group)} `,
    );
    const own = `question ${n} `.padEnd((prompt - shared) * TOKEN, `${n} `);
    const body = {
      model: 'simulated',
      messages: [{ role: 'user', content: (shared > 0 ? common : '') + own }],
      writes,
    };
    const url = '/v1/chat/completions';
    return {
      ...callOf(n, ''),
      raw: true as const,
      path: url,
      agent: url,
      body: Buffer.from(JSON.stringify(body)),
    };
  });
  if (!shuffled) return made;
  const random = lcg(5);
  return made
    .map(call => ({ call, by: random() }))
    .sort((a, b) => a.by - b.by)
    .map(({ call }) => call);
}

/** The model writes as many tokens as the body says. */
const answers: Answering = bytes => {
  const { messages, writes } = JSON.parse(bytes.toString()) as {
    messages: { role: string; content: string }[];
    writes: number;
  };
  const prompt = promptOf(messages);
  const choices = [{ index: 0, message: { role: 'assistant', content: 'said' }, finish_reason: 'stop' }];
  const bodyOf = (cached: number): Buffer => {
    const usage = {
      prompt_tokens: prompt.tokens,
      completion_tokens: writes,
      prompt_tokens_details: { cached_tokens: cached },
    };
    return Buffer.from(JSON.stringify({ object: 'chat.completion', model: 'simulated', choices, usage }));
  };
  return { prompt, tokens: writes, bodyOf };
};
