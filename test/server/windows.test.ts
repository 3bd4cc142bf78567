/** Windows of batches in virtual time: what is forecast, who goes first, and what the servers' speed is taken for. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { systemClock } from '../../engine/asking/endpoints/pool-clock.ts';
import { createLanes } from '../../engine/asking/pool/lanes.ts';
import { createPart } from '../../engine/asking/pool/part.ts';
import type { Ticket } from '../../engine/asking/pool/pool-state.ts';
import { type BatchRun, MOST_RUNNING, Turns } from '../../products/serve/batches/batch-run.ts';
import type { BatchRecord } from '../../products/serve/batches/batch-state.ts';
import { Groups, Speeds } from '../../products/serve/batches/speeds.ts';
import { firstLines } from '../../products/serve/batches/validate-lines.ts';
import { type OpenWork, planOf } from '../../products/serve/batches/window-plan.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';

/** lines that the servers answer in a second */
const SPEED = 20;

interface Load {
  owner: string;
  lines: number;
  /** s: when it is made, and its window */
  at: number;
  window: number;
}

interface Open extends Load {
  id: string;
  left: number;
  weight: number;
  /** s in which it was open, and lines that it got in the last hundred */
  seconds: number;
  got: number[];
}

/** As the pool does it, second by second: who takes turns in its lanes. */
function ran(loads: readonly Load[], rule: 'weights' | 'slack') {
  const lanes = createLanes();
  let open: Open[] = [];
  let [missed, starved] = [0, 0];
  const queued = new Map<string, number>();
  const byId = new Map<string, Open>();
  const last = Math.max(...loads.map(({ at, window }) => at + window));
  for (let now = 0; now <= last; now++) {
    for (const [n, load] of loads.entries()) {
      if (load.at !== now) continue;
      const one = {
        ...load,
        id: `b${n}`,
        left: load.lines,
        weight: 86_400 / load.window,
        seconds: 0,
        got: [],
      };
      open.push(one);
      byId.set(one.id, one);
    }
    if (rule === 'slack') {
      const works = open.map(
        ({ id, owner, left, window, at }): OpenWork => ({
          ...{ id, owner, left, weight: 86_400 / window, deadline: at + window - now },
        }),
      );
      for (const [id, { weight }] of planOf(works, SPEED)) (byId.get(id) as Open).weight = weight;
    }
    for (const one of open) {
      const part = createPart(
        {
          share: {
            ...{ owner: one.owner, batch: one.id },
            get weight() {
              return one.weight;
            },
          },
        },
        [],
        systemClock,
        () => {},
      );
      for (let n = queued.get(one.id) ?? 0; n < Math.min(one.left, SPEED); n++) {
        lanes.push({ part, call: { model: 'm' } } as Ticket);
        queued.set(one.id, n + 1);
      }
      one.got.push(0);
    }
    let places = SPEED;
    lanes.offer(({ part }) => {
      if (places === 0) return false;
      places--;
      const { batch } = part.share;
      const one = byId.get(batch) as Open;
      one.left -= 1;
      one.got[one.got.length - 1] = (one.got.at(-1) as number) + 1;
      queued.set(batch, (queued.get(batch) as number) - 1);
      return true;
    });
    for (const one of open)
      if (one.got.length >= 200 && one.left > 0 && one.got.slice(-200).every(n => n === 0)) starved++;
    const over = open.filter(({ at, window, left }) => left > 0 && now + 1 >= at + window);
    missed += over.length;
    for (const one of over) lanes.withdraw(({ part }) => part.share.batch === one.id);
    open = open.filter(one => one.left > 0 && !over.includes(one));
  }
  return { missed, starved };
}

/** Each could be kept alone, but for one in ten; all of them ask for about what there is. */
const load = (most: number) =>
  fc
    .record({
      owner: fc.constantFrom('a', 'a', 'b'),
      lines: fc.integer({ min: 40, max: 1500 }),
      at: fc.integer({ min: 0, max: most }),
      times: fc.integer({ min: 9, max: 100 }),
    })
    .map(
      ({ times, ...one }): Load => ({
        ...one,
        window: Math.max(10, Math.ceil(((one.lines / SPEED) * times) / 10)),
      }),
    );

test('fewer windows are missed than by weights alone, and nobody gets nothing', () => {
  for (const most of [0, 100]) {
    let [byWeights, bySlack] = [0, 0];
    fc.assert(
      fc.property(fc.array(load(most), { minLength: 1, maxLength: 8 }), loads => {
        const [before, after] = [ran(loads, 'weights'), ran(loads, 'slack')];
        byWeights += before.missed;
        bySlack += after.missed;
        expect(after.starved).toBe(0);
        // where a load is as large as the servers, what is put back may be a line short
        expect(after.missed).toBeLessThanOrEqual(before.missed + 1);
      }),
      { numRuns: runs(15, 300) },
    );
    expect(bySlack).toBeLessThanOrEqual(byWeights);
  }
});

const work = (id: string, more: Partial<OpenWork> = {}): OpenWork => ({
  ...{ id, owner: 'o', weight: 1, left: 100, deadline: 3_600 },
  ...more,
});

test('a batch that cannot be kept does not take from those that can, nor from another owner', () => {
  const loads: Load[] = [
    { owner: 'a', lines: 100_000, at: 0, window: 60 },
    { owner: 'a', lines: 300, at: 0, window: 40 },
    { owner: 'b', lines: 550, at: 0, window: 60 },
  ];
  expect(ran(loads, 'weights').missed).toBe(2);
  expect(ran(loads, 'slack').missed).toBe(1);
});

test('while every window is kept, what is shared stays as it was; an urgent batch goes first where it would not be', () => {
  const calm = planOf([work('one'), work('other', { weight: 3 })], 10);
  expect([...calm.values()].map(({ weight }) => weight)).toEqual([3, 1]);
  expect(calm.get('other')?.end).toBeCloseTo(400 / 3 / 10);
  expect(calm.get('one')?.end).toBeCloseTo(20);
  const urgent = planOf([work('long', { left: 1_000 }), work('short', { deadline: 12 })], 10);
  const [long, short] = [urgent.get('long'), urgent.get('short')];
  expect((short?.weight ?? 0) / (long?.weight ?? 1)).toBeGreaterThan(10);
  expect(short?.end).toBeLessThan(12);
});

test('a batch that has to be first does not wait until one of many that run has ended', () => {
  const recordOf = (id: string) => ({ id, owner: 'o', counts: { total: 5_000 } }) as BatchRecord;
  let first = '';
  const turns = new Turns(
    { of: recordOf },
    { areThere: () => true },
    { weightOf: () => 1, isFirst: ({ id }) => id === first },
  );
  for (let n = 0; n < MOST_RUNNING; n++) turns.begin(recordOf(`b${n}`), {} as BatchRun);
  expect(turns.hasTurn(recordOf('urgent'))).toBe(false);
  first = 'urgent';
  expect(turns.hasTurn(recordOf('urgent'))).toBe(true);
  for (let n = 0; n < MOST_RUNNING; n++) turns.begin(recordOf(`c${n}`), {} as BatchRun);
  expect(turns.hasTurn(recordOf('urgent'))).toBe(false);
});

test('what is planned is a time that can be: not before the work is done at full speed, not after all of it', () => {
  const works = fc.array(
    fc.record({
      owner: fc.constantFrom('a', 'b', 'c'),
      weight: fc.double({ min: 1e-3, max: 1e5, noNaN: true }),
      left: fc.oneof(fc.constant(0), fc.double({ min: 1e-3, max: 1e9, noNaN: true })),
      deadline: fc.double({ min: -1e5, max: 1e7, noNaN: true }),
    }),
    { maxLength: 30 },
  );
  fc.assert(
    fc.property(works, fc.double({ min: 1e-6, max: 1e6, noNaN: true }), (all, speed) => {
      const named = all.map((one, n) => ({ ...one, id: `b${n}` }));
      const sum = named.reduce((total, { left }) => total + left, 0);
      const planned = planOf(named, speed);
      expect(planned.size).toBe(named.length);
      for (const { id, left } of named) {
        const { end, weight } = planned.get(id) ?? { end: Number.NaN, weight: Number.NaN };
        expect(weight).toBeGreaterThan(0);
        expect(Number.isFinite(weight)).toBe(true);
        expect(end).toBeGreaterThanOrEqual((left / speed) * 0.999);
        expect(end).toBeLessThanOrEqual((sum / speed) * 1.001);
      }
    }),
    { numRuns: runs(200, 2_000) },
  );
});

test('a speed is known once enough was seen, stays for the next batch, and the end of a batch does not lower it', () => {
  const speeds = new Speeds();
  const groups = new Groups([['m', 'n'], ['x']]);
  let [now, done] = [0, 0];
  const look = (left: number, more: number, isAsked = true): void => {
    now += 1_000;
    done += more;
    const models = ['m'];
    speeds.look([{ id: 'b', models, done, tokens: 10 * done, left, isAsked }], groups, now);
  };
  look(1_000, 0);
  expect([speeds.of(['m']), speeds.hasSeen(['m'])]).toEqual([null, false]);
  look(990, 10);
  expect([speeds.of(['m']), speeds.hasSeen(['m'])]).toEqual([null, true]);
  for (let n = 0; n < 30; n++) look(900, 10);
  expect(speeds.of(['m'])).toBeCloseTo(10);
  expect(speeds.tokensOf(['m'])).toBeCloseTo(10);
  // of the same servers; not of others
  expect([speeds.of(['n']), speeds.of(['x'])]).toEqual([speeds.of(['m']), null]);
  for (let n = 0; n < 10; n++) look(1, 1);
  expect(speeds.of(['m'])).toBeCloseTo(10);
  for (let n = 0; n < 100; n++) look(900, 0, false);
  const before = speeds.of(['m']);
  expect(before).toBeCloseTo(10, 0); // but for the second in which it stopped
  now += 3_600_000; // the clock jumped, or the process stood still
  look(900, 500);
  expect(speeds.of(['m'])).toBe(before);
  // now they are slower, and stand still: the speed falls, and is never below 0
  for (let n = 0; n < 600; n++) look(900, 2);
  expect(speeds.of(['m'])).toBeCloseTo(2, 0);
  for (let n = 0; n < 6_000; n++) look(900, 0);
  expect(speeds.of(['m'])).toBeGreaterThanOrEqual(0);
  expect(speeds.of(['m'])).toBeLessThan(1e-3);
});

test('what the beginning of a file says of all of it', () => {
  const at = join(folder(), 'in.jsonl');
  const said = (text: string) => {
    writeFileSync(at, text);
    return firstLines(at);
  };
  const line = `${JSON.stringify({ custom_id: 'r', body: { model: 'm', messages: ['x'.repeat(100)] } })}\n`;
  expect(said(line.repeat(3))).toEqual({ lines: 3, model: 'm' });
  expect(said(line.repeat(3).trimEnd())).toEqual({ lines: 3, model: 'm' });
  expect(said(line.repeat(10_000))).toEqual({ lines: 10_000, model: 'm' });
  expect(said('')).toEqual({ lines: 0, model: null });
  expect(said('[1\nno')).toEqual({ lines: 2, model: null });
  expect(said('{"body":null}')).toEqual({ lines: 1, model: null });
  expect(said('{"body":{"model":7}}\n')).toEqual({ lines: 1, model: null });
  expect(said('x'.repeat(100_000))).toEqual({ lines: null, model: null }); // a line longer than what is looked at
});
