/** The engine in virtual time: what it promises whatever comes, and that its stretches are what single steps would give. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Engine } from '../../products/simulator/engine.ts';
import { type Preset, presetNamed } from '../../products/simulator/presets.ts';
import type { Handle } from '../../products/simulator/sequence.ts';
import { computedIn, MOST_DRAFTED, speculating } from '../../products/simulator/speculation.ts';
import { runs } from '../all.ts';
import { closedLoop, drain, promptLike } from './closed-loop.ts';
import { type Request, referenceRun, type Told } from './reference-engine.ts';

const preset = presetNamed('3b-a6000');
const small = (limits: Partial<Preset['limits']>): Preset => ({
  ...preset,
  limits: { maxNumSeqs: 4, maxNumBatchedTokens: 64, kvTokens: 640, ...limits },
});

/** Prompts of three families that share their beginnings, on engines so small that everything runs short. */
const request: fc.Arbitrary<Request> = fc
  .record({
    at: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 1_000, noNaN: true })),
    tokens: fc.integer({ min: 1, max: 200 }),
    output: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 120 })),
    family: fc.integer({ min: 0, max: 2 }),
    shared: fc.integer({ min: 0, max: 12 }),
    own: fc.integer({ min: 0, max: 5 }),
    progress: fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined }),
    priority: fc.oneof(fc.constant(0), fc.integer({ min: -1, max: 2 })),
    patience: fc.option(fc.double({ min: 0, max: 2_000, noNaN: true }), { nil: undefined, freq: 4 }),
  })
  .map(({ family, shared, own, patience, ...rest }) => ({
    ...rest,
    blocks: Array.from({ length: Math.floor(rest.tokens / 16) }, (_, index) =>
      index < shared ? `${family}:${index}` : `${family}:${shared}:${own}:${index}`,
    ),
    removeAt: patience === undefined ? undefined : rest.at + patience,
  }));

const scenario = fc.record({
  requests: fc.array(request, { minLength: 1, maxLength: 50, size: 'max' }),
  maxNumSeqs: fc.integer({ min: 1, max: 12 }),
  spareTokens: fc.integer({ min: 0, max: 100 }),
  kvBlocks: fc.integer({ min: 20, max: 50 }),
});

const drafts = fc.option(
  fc
    .tuple(fc.integer({ min: 1, max: MOST_DRAFTED }), fc.double({ min: 0, max: 1, noNaN: true }))
    .map(([drafted, acceptance]) => speculating(drafted, acceptance)),
  { nil: undefined },
);

/** Does to an engine at its time what the requests say; calls `look` after each event. */
function run(
  engine: Engine,
  requests: readonly Request[],
  look: (now: number, told: readonly Told[]) => void = () => {},
) {
  const words = new Map<string, number>();
  const wordOf = (name: string) => {
    if (!words.has(name)) words.set(name, words.size + 1);
    return words.get(name)!;
  };
  const told: Told[] = requests.map(() => ({ progress: [] }));
  const handles = new Map<number, Handle>();
  const added = requests.map(({ at }, index) => ({ at, index, comes: true }));
  const removed = requests.flatMap(({ removeAt }, index) =>
    removeAt === undefined ? [] : [{ at: removeAt, index, comes: false }],
  );
  const acts = [...added, ...removed].sort((a, b) => a.at - b.at || Number(b.comes) - Number(a.comes));
  while (acts.length > 0 || engine.due() !== null) {
    const due = engine.due() ?? Number.POSITIVE_INFINITY;
    const act = acts[0];
    if (act === undefined || due < act.at) {
      engine.advance(due);
      look(due, told);
      continue;
    }
    acts.shift();
    const { index, at } = act;
    const { tokens, output, blocks, progress, priority = 0 } = requests[index]!;
    const mine = told[index]!;
    if (!act.comes) engine.remove(handles.get(index)!, at);
    else {
      const hashes = Int32Array.from(blocks.flatMap(name => [wordOf(name), 0]));
      const handle = engine.add(
        {
          prompt: { tokens, blocks: hashes },
          output,
          priority,
          firstToken(time) {
            expect(mine.first).toBeUndefined();
            mine.first = time;
          },
          ...(progress === undefined
            ? {}
            : {
                progress: { every: progress, tokens: (time, made) => void mine.progress.push([time, made]) },
              }),
          done(time, { cachedTokens: cached, preemptions }) {
            expect(mine.done).toBeUndefined();
            Object.assign(mine, { done: time, cached, preemptions });
          },
        },
        at,
      );
      handles.set(index, handle);
    }
    look(at, told);
  }
  return told;
}

const close = (value: number | undefined, other: number | undefined) =>
  value === other || Math.abs(value! - other!) <= 1e-9 * Math.abs(other!);

test.each([
  [false, undefined],
  [true, undefined],
  [false, speculating(3, 0.4)],
  [false, speculating(15, 1)],
])(
  'stretches give what one step after the other gives: times, tokens, cache, preemptions (by priority: %s, drafts: %j)',
  (byPriority, speculation) => {
    // one that is preempted after the step gave it a block has thrown that out of the cache at vLLM, and not here
    const isPlain = !byPriority && speculation === undefined;
    let preempted = 0;
    let cached = 0;
    fc.assert(
      fc.property(scenario, ({ requests: drawn, maxNumSeqs, spareTokens, kvBlocks }) => {
        const requests = byPriority ? drawn.map(one => ({ ...one, blocks: [] })) : drawn;
        const limits = {
          maxNumSeqs,
          maxNumBatchedTokens: maxNumSeqs * computedIn(speculation) + spareTokens,
          kvTokens: kvBlocks * 16,
          byPriority,
          speculation,
        };
        const reference = referenceRun(requests, small(limits));
        const engine = new Engine(small(limits));
        const told = run(engine, requests);
        const { busyMs, ...totals } = engine.state(1e9);
        expect(totals).toMatchObject(
          Object.fromEntries(Object.entries(reference.totals).filter(([name]) => name !== 'busyMs')),
        );
        expect(close(busyMs, reference.totals.busyMs)).toBe(true);
        told.forEach((mine, index) => {
          const theirs = reference.told[index]!;
          expect([mine.cached, mine.preemptions]).toEqual([theirs.cached, theirs.preemptions]);
          expect(close(mine.first, theirs.first), `first ${mine.first} ${theirs.first}`).toBe(true);
          expect(close(mine.done, theirs.done), `done ${mine.done} ${theirs.done}`).toBe(true);
          expect(mine.progress.map(([, made]) => made)).toEqual(theirs.progress.map(([, made]) => made));
          mine.progress.forEach(([at], mark) => {
            expect(close(at, theirs.progress[mark]![0])).toBe(true);
          });
        });
        preempted += totals.preemptions;
        cached += totals.prefixHits;
      }),
      { numRuns: runs(isPlain ? 100 : 50, 300) },
    );
    // otherwise this test would have shown little
    expect(preempted).toBeGreaterThan(runs(isPlain ? 10 : 5, 100));
    if (isPlain) expect(cached).toBeGreaterThan(runs(1_000, 10_000));
  },
);

test('whatever comes: each ends once, no token is lost, no limit is passed, and nothing is held at the end', () => {
  fc.assert(
    fc.property(scenario, drafts, ({ requests, maxNumSeqs, spareTokens, kvBlocks }, speculation) => {
      const maxNumBatchedTokens = maxNumSeqs * computedIn(speculation) + spareTokens;
      const engine = new Engine(
        small({ maxNumSeqs, maxNumBatchedTokens, kvTokens: kvBlocks * 16, speculation }),
      );
      let before = engine.state(0);
      const told = run(engine, requests, now => {
        const state = engine.state(now);
        expect(state.running).toBeLessThanOrEqual(maxNumSeqs);
        expect(state.kvUsage).toBeGreaterThanOrEqual(0);
        expect(state.kvUsage).toBeLessThanOrEqual(1);
        for (const name of ['steps', 'outputTokens', 'busyMs', 'kvRead', 'preemptions'] as const) {
          expect(state[name]).toBeGreaterThanOrEqual(before[name]);
        }
        before = state;
      });
      const state = engine.state(1e9);
      expect(state).toMatchObject({ running: 0, waiting: 0, kvUsage: 0, prefillTokens: 0 });
      told.forEach(({ done, first }, index) => {
        const { at, removeAt } = requests[index]!;
        if (removeAt === undefined) expect(done).toBeDefined();
        if (done !== undefined) {
          expect(first).toBeLessThanOrEqual(done);
          expect(first).toBeGreaterThan(at);
          expect(done).toBeLessThan(removeAt ?? Number.POSITIVE_INFINITY);
        }
      });
      const whole = requests.filter((_, index) => told[index]!.done !== undefined);
      const made = whole.reduce((sum, { output }) => sum + output, 0);
      if (whole.length === requests.length) expect(state.outputTokens).toBe(made);
      else expect(state.outputTokens).toBeGreaterThanOrEqual(made);
    }),
    { numRuns: runs(60, 200) },
  );
});

describe('the scheduler', () => {
  test('looks at a sequence when the running step ends, and tells of answers after the next was planned', () => {
    const engine = new Engine(preset);
    const times: [string, number][] = [];
    const sequence = (name: string, output: number) => ({
      prompt: promptLike(32, times.length),
      output,
      firstToken: (at: number) => void times.push([`${name} first`, at]),
      done(at: number) {
        times.push([`${name} done`, at]);
        // too late for the step that begins now
        if (name === 'a') engine.add(sequence('c', 1), at);
      },
    });
    engine.add(sequence('a', 2), 0);
    const first = engine.advance(0)!;
    engine.add(sequence('b', 3), first / 2);
    drain(engine);
    const at = Object.fromEntries(times);
    expect(at['a first']).toBe(first);
    expect(at['b first']).toBe(at['a done']);
    expect(at['c first']).toBe(at['b done']);
  });

  test('what the prefix cache has is not computed', () => {
    const ask = (engine: Engine, now: number) => {
      let cached = -1;
      let first = 0;
      engine.add(
        {
          prompt: promptLike(1_000, 1),
          output: 1,
          done(at, told) {
            cached = told.cachedTokens;
            first = at - now;
          },
        },
        now,
      );
      drain(engine);
      return { cached, first };
    };
    const engine = new Engine(preset);
    const cold = ask(engine, 0);
    const warm = ask(engine, 1_000);
    expect([cold.cached, warm.cached]).toEqual([0, 992]);
    expect(warm.first).toBeLessThan(cold.first / 3);
    expect(engine.state(2_000)).toMatchObject({ prefixQueries: 2_000, prefixHits: 992 });
  });

  test('a client that has gone frees its place at the end of the running step', () => {
    const engine = new Engine(small({ maxNumSeqs: 1 }));
    const ended: string[] = [];
    const add = (name: string, now: number) =>
      engine.add({ prompt: promptLike(16, 0), output: 30, done: () => void ended.push(name) }, now);
    const first = add('first', 0);
    engine.advance(0);
    add('second', 1);
    const third = add('third', 1);
    engine.remove(first, 50);
    engine.remove(third, 50);
    expect(engine.state(50)).toMatchObject({ running: 1, waiting: 1 });
    const due = engine.due()!;
    expect(due - 50).toBeLessThan(15);
    engine.advance(due);
    expect(engine.state(due)).toMatchObject({ running: 1, waiting: 0 });
    drain(engine);
    expect(ended).toEqual(['second']);
  });

  test.each([
    [{ tokens: 100, output: 0 }, /found 0/],
    [{ tokens: 100, output: 1.5 }, /found 1.5/],
    [{ tokens: 600, output: 42 }, /expected 1 to 41 tokens after a prompt of 600, found 42/],
  ])('%j is refused', ({ tokens, output }, message) => {
    const engine = new Engine(small({}));
    expect(() => engine.add({ prompt: promptLike(tokens, 0), output, done() {} }, 0)).toThrow(message);
  });

  test('a batch smaller than the number of sequences is refused, as vLLM does', () => {
    expect(() => new Engine(preset, { maxNumSeqs: 4_096 })).toThrow(/found 2048/);
  });
});

test('the same load gives the same numbers, to the last bit', () => {
  const load = { clients: 300, calls: [{ prompt: 700, output: 150, shared: 320 }], rounds: 4 };
  expect(closedLoop(preset, load)).toEqual(closedLoop(preset, load));
  // made on Node 20; any other engine has to give the same
  expect(closedLoop(preset, load)).toMatchInlineSnapshot(`
    {
      "tokensPerSecond": 2594.295846494421,
      "tpot": 94.09481446687332,
      "ttft": 2642.3514907327412,
    }
  `);
});
