/**
 * The bar counts calls: through the real stages and the bounded map, on a pool that answers, refuses, replays and stops
 * as a seed says, it ends at exactly 100 %, is never above, and falls back by no more than what nobody could know.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { aheadOf, begin, newAccount, newWorkload } from '../../engine/core/item/account.ts';
import { CallFailure, type Pool } from '../../engine/core/item/call.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { drain, openRow } from '../../engine/flow/join.ts';
import { resolveOptions } from '../../engine/flow/options.ts';
import { given } from '../../engine/flow/pull.ts';
import { stage, type Tools } from '../../engine/flow/stage.ts';
import { optionsOf } from '../../engine/running/stage-options.ts';
import { createLook, type Facts } from '../../engine/running/watch/run-facts.ts';
import agentStep from '../../stages/agent-step.ts';
import chain from '../../stages/chain.ts';
import synthesize from '../../stages/synthesize-decision.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';

const SEED = Number(process.env.SEED ?? Date.now() % 2 ** 31);
const RUNS = runs(60, 120, 'FW_SHARES');
console.log(`share of calls: SEED=${SEED}`);

const AGENTS = ['one', 'two', 'three', 'four'];
let agents: string;
beforeAll(() => {
  agents = folder();
  const file = (key: string, role: string): void =>
    writeFileSync(
      join(agents, `${key}.yaml`),
      `key: ${key}\nshort: ${key}\ndisplay: ${key}\nrole: ${role}\npersona: Be ${key}.\nsampling: { temperature: 0, max_tokens: 9 }\n` +
        'schema: { type: object, required: [ok], properties: { ok: { type: boolean } } }\n',
    );
  for (const key of AGENTS) file(key, 'agent');
  file('decide', 'synthesis');
  writeFileSync(join(agents, 'orderings.yaml'), `default: [[${AGENTS.join(', ')}]]\n`);
});

interface World {
  items: Item[];
  row: { stage: Parameters<typeof optionsOf>[0]; values: Record<string, unknown> }[];
  inFlight: number;
  /** of 100 calls so many fail for good, and so many answers are no JSON; these many are on record */
  fails: number;
  garbage: number;
  onRecord: number;
  /** the total is known from the beginning, as of a file; else from the end of the input on, as of a pipe */
  counted: boolean;
  seed: number;
}

/** The facts after each call, and when all is over. */
async function run({
  items,
  row,
  inFlight,
  fails,
  garbage,
  onRecord,
  counted,
  seed,
}: World): Promise<Facts[]> {
  let state = seed | 1;
  const draw = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state / 2 ** 32) * 100;
  };
  const account = newAccount('test');
  const stats = { answered: 0, replayed: 0 };
  const pool = {
    model: 'm',
    itemsInFlight: inFlight,
    onRoom() {},
    async call() {
      if (draw() < onRecord) stats.replayed++;
      else {
        for (let turns = draw() / 8; turns > 0; turns--) await Promise.resolve();
        if (draw() < fails) throw new CallFailure('call-failed', 'gone');
        stats.answered++;
      }
      look();
      return {
        text: draw() < garbage ? 'no' : '{"ok":true}',
        finish: 'stop',
        usage: { prompt: 1, completion: 1 },
      };
    },
    judge: () => {},
    close: async () => {},
    stats: () => ({
      ...stats,
      failed: {},
      retries: 0,
      usage: { prompt: 0, cached: 0, completion: 0 },
      endpoints: [],
      noEndpointMs: 0,
    }),
  };
  const seen: Facts[] = [];
  let now = 0;
  const lookAt = createLook(account, pool as never, aside => (counted ? items.length - aside : null));
  const look = (): void => {
    now += 1_000;
    seen.push(lookAt(now));
  };
  const never = new AbortController().signal;
  const tools: Tools = {
    base: agents,
    files: [],
    signal: never,
    asking: never,
    account,
    started: new Date(0),
    warn: () => {},
    pool: async () => pool as unknown as Pool,
  };
  const placed = row.map(({ stage, values }) => ({
    stage,
    options: resolveOptions(
      optionsOf(stage),
      { ...(stage.asks && { agents, 'in-flight': inFlight }), ...values },
      (name, message) => {
        throw new Error(`${name}: ${message}`);
      },
    ),
    tools,
  }));
  const flow = await openRow(placed);
  const left = items.slice();
  const output = {
    write: () => true,
    ready: (act: () => void) => act(),
    pass: () => true,
    end: async () => {},
  };
  await drain(flow(given(() => left.shift() ?? null)), output, account);
  look();
  return seen;
}

/** An item that has `answered` of its steps, and maybe its decision, or a failure that nobody takes up. */
const itemOf = (id: number, answered: number, rest: object = {}): Item => ({
  id: String(id),
  prompt: 'p',
  ordering: AGENTS,
  steps: AGENTS.slice(0, answered).map(agent => ({
    agent,
    output: { ok: true },
    rung: 'clean',
    saw: 'clean',
    repairs: [],
    calls: [],
    attempts: 1,
    usage: { prompt: 1, completion: 1 },
  })),
  ...rest,
});

const ROWS = {
  chain: [{ stage: chain, values: {} }],
  'chain without a decision, then the decision': [
    { stage: chain, values: { decision: false } },
    { stage: synthesize, values: {} },
  ],
  'a chain that decides, then whoever asks for what is missing': [
    { stage: chain, values: {} },
    { stage: synthesize, values: {} },
  ],
  'an agent at a time': AGENTS.map(agent => ({ stage: agentStep, values: { agent } })),
  'a filter before': [
    {
      stage: stage({
        name: 'even',
        summary: '',
        options: {},
        through:
          (_options, { account }) =>
          items =>
            items.filter(({ id }) => {
              const stays = Number(id) % 2 === 0;
              if (!stays) account.aside += 1;
              return stays;
            }),
      }),
      values: {},
    },
    { stage: chain, values: {} },
  ],
};

const worlds = fc.record({
  size: fc.integer({ min: 1, max: 120 }),
  inFlight: fc.integer({ min: 1, max: 150 }),
  fails: fc.constantFrom(0, 0, 3, 100),
  garbage: fc.constantFrom(0, 0, 20, 100),
  onRecord: fc.constantFrom(0, 0, 40, 100),
  counted: fc.boolean(),
  seed: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  /** how many of 10 items come with answers, with all of them, or failed */
  odd: fc.constantFrom(0, 0, 5, 10),
});

const sharesOf = (seen: readonly Facts[]): number[] => seen.flatMap(({ share }) => share ?? []);

describe.each(Object.entries(ROWS))('%s', (_name, row) => {
  test('ends at 100 %, and is never above', async () => {
    await fc.assert(
      fc.asyncProperty(worlds, async ({ size, odd, ...world }) => {
        const items = Array.from({ length: size }, (_, id) => {
          if ((id * 7) % 10 >= odd) return itemOf(id, 0);
          if (id % 5 === 0)
            return itemOf(id, 0, { failure: { stage: 's', code: 'ragged-row', message: 'm' } });
          const answered = id % 5 === 1 ? AGENTS.length : id % AGENTS.length;
          return itemOf(id, row.some(({ stage }) => stage === agentStep) ? 0 : answered);
        });
        const seen = await run({ ...world, items, row });
        const shares = sharesOf(seen);
        for (const share of shares) expect(share).toBeLessThanOrEqual(1);
        expect(shares.at(-1)).toBe(1);
        expect(seen.at(-1)).toMatchObject({ done: seen.at(-1)?.total, inFlight: 0 });
        for (const facts of seen.slice(0, -1)) {
          if (facts.share === 1) expect(facts.done + facts.inFlight).toBe(facts.total);
        }
      }),
      { seed: SEED, numRuns: RUNS / Object.keys(ROWS).length },
    );
  });
});

test('of items that are alike the bar never falls back', async () => {
  await fc.assert(
    fc.asyncProperty(worlds, async ({ size, odd: _, ...world }) => {
      const items = Array.from({ length: size }, (_, id) => itemOf(id, 0));
      const shares = sharesOf(await run({ ...world, items, row: ROWS.chain }));
      for (const [at, share] of shares.entries())
        expect(share).toBeGreaterThanOrEqual((shares[at - 1] ?? 0) - 1e-9);
    }),
    { seed: SEED, numRuns: RUNS / 3 },
  );
});

test('a chain of five calls moves the bar five times', async () => {
  const items = Array.from({ length: 12 }, (_, id) => itemOf(id, 0));
  const world = { fails: 0, garbage: 0, onRecord: 50, counted: true, seed: SEED };
  const shares = sharesOf(await run({ ...world, items, row: ROWS.chain, inFlight: 1 }));
  expect(shares).toEqual(Array.from({ length: 61 }, (_, calls) => calls / 60));
});

test('of items whose chains differ at random the bar falls back by some hundredths at most', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 2 ** 31 - 1 }), async seed => {
      const items = Array.from({ length: 400 }, (_, id) =>
        itemOf(id, Math.imul(id ^ seed, 2_654_435_761) % 2 === 0 ? 0 : 3),
      );
      const shares = sharesOf(
        await run({
          items,
          row: ROWS.chain,
          inFlight: 40,
          fails: 2,
          garbage: 5,
          onRecord: 0,
          counted: true,
          seed,
        }),
      );
      let most = 0;
      for (const share of shares) {
        most = Math.max(most, share);
        expect(share).toBeGreaterThan(most - 0.05);
      }
      expect(shares.at(-1)).toBe(1);
    }),
    { seed: SEED, numRuns: runs(3, 10) },
  );
});

test('whatever is told of an item, it has settled what it lacked when it leaves, and no more', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ lacks: fc.nat(9), answered: fc.nat(12) }), { maxLength: 40 }), list => {
      const workload = newWorkload();
      const dues = list.map(({ lacks, answered }) => {
        workload.items++;
        const due = begin(workload, lacks);
        for (let times = 0; times < answered; times++) due.answered();
        expect(workload.settled).toBeLessThanOrEqual(workload.due);
        return due;
      });
      const longest = Math.max(0, ...list.map(({ lacks, answered }) => lacks - answered));
      expect(aheadOf([workload], list.length, 0).longest).toBe(longest);
      for (const due of dues) {
        due.end();
        due.end();
        workload.left++;
      }
      expect(workload.settled).toBe(workload.due);
      expect(aheadOf([workload], list.length, list.length)).toEqual({
        settled: workload.due,
        due: workload.due,
        unread: 0,
        longest: 0,
      });
    }),
    { seed: SEED },
  );
});
