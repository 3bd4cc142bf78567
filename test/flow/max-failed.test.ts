/** When a run stops because its items fail: judged in the order in which they began, whatever the order in which they end. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Code } from '../../engine/core/item/codes.ts';
import type { Item, Step } from '../../engine/core/item/item.ts';
import { maxFailedOf, watchFailing } from '../../engine/flow/max-failed.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';

const before = (at: number): Item => ({ id: String(at), prompt: 'x' });
const good = (item: Item): Item => ({ ...item, steps: [{ agent: 'a', output: 1, rung: 'clean' } as Step] });
const failed =
  (code: Code, agent = 'a', message = 'why') =>
  (item: Item): Item => ({ ...item, failure: { stage: 'chain', code, agent, message } });
const bad = failed('no-valid-answer');

/** Items begin `ahead` before the oldest that is not back; `order` says which of those in flight ends next. */
function played(
  option: string | undefined,
  outcomes: readonly ((item: Item) => Item)[],
  {
    ahead = 50,
    order = () => 0,
  }: { ahead?: number; order?: (inFlight: number, begun: number) => number } = {},
): { message: string | null; ended: number } {
  let message: string | null = null;
  const watch = watchFailing(maxFailedOf(option), text => {
    expect(message).toBe(null); // once
    message = text;
  });
  const inFlight: (() => void)[] = [];
  let ended = 0;
  let next = 0;
  while (message === null && (next < outcomes.length || inFlight.length > 0)) {
    if (next < outcomes.length && inFlight.length < ahead) {
      const item = before(next);
      const after = outcomes[next++]?.(item) as Item;
      const end = watch.begin(item);
      inFlight.push(() => end(after));
      continue;
    }
    const [act] = inFlight.splice(order(inFlight.length, next), 1);
    act?.();
    ended += 1;
  }
  return { message, ended };
}

const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

test('200 that fail end the run, and 199 do not', () => {
  expect(played(undefined, times(199, bad)).message).toBe(null);
  const { message, ended } = played(undefined, times(1_000, bad));
  expect(ended).toBe(200);
  expect(message).toBe(
    'expected answers, found none: the first 200 items that were asked all failed: no-valid-answer of a\nthe first: 0: why',
  );
});

test('each cause is named, the most frequent first', () => {
  const codes = [bad, bad, bad, failed('no-valid-answer', 'b'), failed('call-timeout', 'b')];
  const outcomes = Array.from({ length: 500 }, (_, at) => codes[at % 5] as typeof bad);
  expect(played(undefined, outcomes).message).toBe(
    'expected answers, found none: the first 200 items that were asked all failed: 120 no-valid-answer of a, 40 no-valid-answer of b, 40 call-timeout of b\nthe first: 0: why',
  );
});

test.each<[string, ((item: Item) => Item)[]]>([
  ['one good one among them', [...times(150, bad), good, ...times(5_000, bad)]],
  ['one good one at the beginning', [good, ...times(5_000, bad)]],
  ['refusals, which cost nothing', times(5_000, failed('call-refused'))],
  ['prompts that are too long', times(5_000, failed('prompt-too-long'))],
  ['items that are no items', times(5_000, failed('unexpected-input'))],
  ['a stop by somebody else', times(5_000, failed('interrupted'))],
  ['what nobody asked', times(5_000, item => item)],
])('they do not where there are %s', (_what, outcomes) => {
  expect(played(undefined, outcomes).message).toBe(null);
});

test('what cost nothing, or was there before, stands between them and counts as nothing', () => {
  const between = [failed('prompt-too-long'), (item: Item) => item];
  const mixed = Array.from({ length: 600 }, (_, at) =>
    at % 3 === 0 ? bad : (between[at % 2] as typeof bad),
  );
  expect(played(undefined, mixed).message).toContain('the first 200 items');
});

test('an item that failed in an earlier run, and passes, is not counted', () => {
  const watch = watchFailing('all', () => expect.unreachable());
  for (let at = 0; at < 1_000; at++) {
    const item = bad(before(at));
    watch.begin(item)(item);
  }
});

test('those that fail fast do not speak for those that take long', () => {
  // one in five fails at once, the good ones take as long as 400 others: far more than 200 fail before the first is good
  const outcomes = Array.from({ length: 4_000 }, (_, at) => (at % 5 === 0 ? bad : good));
  const isBad: boolean[] = [];
  let failures = 0;
  const watch = watchFailing('all', () => expect.unreachable());
  const slow: (() => void)[] = [];
  for (const [at, outcome] of outcomes.entries()) {
    const end = watch.begin(before(at));
    isBad.push(outcome === bad);
    if (outcome === bad) {
      failures += 1;
      end(outcome(before(at)));
    } else slow.push(() => end(outcome(before(at))));
  }
  expect(failures).toBeGreaterThan(200);
  for (const end of slow) end();
});

test('whatever the order in which they end, it is the same 200', () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    let state = seed;
    const random = (below: number): number => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
      return state % below;
    };
    const one = { ahead: 100, order: random };
    expect(played(undefined, times(2_000, bad), one).message).toContain('the first 200');
    const outcomes = times(2_000, bad);
    outcomes[random(200)] = good;
    expect(played(undefined, outcomes, one).message, `seed ${seed}`).toBe(null);
  }
});

test('a number, a share, and none', () => {
  const mixed = Array.from({ length: 1_000 }, (_, at) => (at % 4 === 0 ? bad : good));
  expect(played('none', times(5_000, bad)).message).toBe(null);
  expect(played('1', [good, bad, bad]).message).toBe(
    'expected fewer than 1 failed item (--max-failed), found 1 of 3 that were begun: no-valid-answer of a\nthe first: 1: why',
  );
  expect(played('10', mixed).message).toContain('fewer than 10 failed items');
  expect(played('250', mixed).message).toContain('found 250 of 1,000');
  expect(played('251', mixed).message).toBe(null);
  // a share of what was begun: an item that is not back may still be good
  expect(played('20%', mixed).message).toContain(
    'less than 20 % of items to fail (--max-failed), found 46 of 230',
  );
  expect(played('26%', mixed).message).toBe(null);
  expect(played('20%', mixed.slice(0, 100)).message).toBe(null); // too few to say
  expect(played('100%', times(1_000, failed('prompt-too-long'))).message).toContain('prompt-too-long of a');
  expect(played('3', [bad, failed('call-timeout'), bad]).message).toContain(
    '2 no-valid-answer of a, 1 call-timeout of a',
  );
});

test.each(['0', '-1', '0%', '101%', '1.5', 'all', '', '1e3', '20 %'])('refuses %j', text => {
  expect(() => maxFailedOf(text)).toThrow('--max-failed: expected a number of items');
});

describe('at work', () => {
  let server: Servers;
  beforeAll(async () => {
    server = await servers(1);
  });

  function study(at: string, max: number): void {
    writeFileSync(
      join(at, 'facts.yaml'),
      `key: facts\nshort: facts\ndisplay: Facts\nrole: agent\nschema: { type: object, required: [why], properties: { why: { type: string, minLength: 30 } } }\nsampling: { temperature: 0, max_tokens: ${max} }\n`,
    );
  }

  test('chain: it says which limit is too small, ends with 65, and asks what is missing once that is mended', async () => {
    const at = folder();
    study(at, 4);
    const lines = Array.from({ length: 450 }, (_, nth) => JSON.stringify({ id: `${nth}`, prompt: `${nth}` }));
    writeFileSync(join(at, 'in.ndjson'), `${lines.join('\n')}\n`);
    const command = `fw chain --agents . --attempts 1 --in-flight 20 --ledger led ${server.flags} in.ndjson > out.ndjson`;
    const ran = await fw(command, { cwd: at });
    expect(ran.code).toBe(65);
    expect(ran.stderr).toContain(
      'the first 200 items that were asked all failed: no-valid-answer (truncated) of facts',
    );
    expect(ran.stderr).toContain('its max_tokens is 4');
    expect(ran.stderr).toContain('run the same command again');
    const asked = server.requests();
    expect(asked).toBeLessThan(260);
    const left = readFileSync(join(at, 'out.ndjson'), 'utf8')
      .trim()
      .split('\n')
      .map(line => JSON.parse(line) as Item);
    // those at the server may all be answered before they are let go
    const codes = new Set(left.map(({ failure }) => failure?.code));
    codes.delete('interrupted');
    expect(codes).toEqual(new Set(['no-valid-answer', 'input-incomplete']));
    study(at, 400);
    const mended = await fw(command, { cwd: at });
    expect([mended.code, server.requests() - asked], mended.stderr).toEqual([0, 450]);
  });

  test('request: a batch goes on behind lines that are refused, and --max-failed ends it', async () => {
    const at = folder();
    const line = (nth: number, body: object): string =>
      JSON.stringify({ custom_id: `${nth}`, method: 'POST', url: '/v1/chat/completions', body });
    const ask = { messages: [{ role: 'user', content: 'x' }], max_tokens: 2 };
    const bad = Array.from({ length: 220 }, (_, nth) => line(nth, { model: 'no-such-model', ...ask }));
    const fine = Array.from({ length: 30 }, (_, nth) => line(1_000 + nth, ask));
    writeFileSync(join(at, 'in.jsonl'), `${[...bad, ...fine].join('\n')}\n`);
    const whole = await fw(`fw batch -i in.jsonl -o out.jsonl ${server.flags}`, { cwd: at });
    expect(whole.code, whole.stderr).toBe(0);
    const answers = readFileSync(join(at, 'out.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map(text => JSON.parse(text));
    expect(answers.filter(({ error }) => error === null).length).toBe(30);
    const ended = await fw(`fw batch -i in.jsonl -o ended.jsonl --max-failed 50 ${server.flags}`, {
      cwd: at,
    });
    expect(ended.code).toBe(65);
    expect(ended.stderr).toContain('expected fewer than 50 failed items (--max-failed), found 50');
  });
});
