/** The rules of retrying and of choosing, as functions. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { hasTooManyValues, MAX_VALUES, readCompletion } from '../../engine/asking/endpoints/completion.ts';
import { isTooLong, lengthNumbers, serverWords } from '../../engine/asking/endpoints/endpoint-words.ts';
import {
  backoff,
  medianOf,
  readRetryAfter,
  systemClock,
  TIMING,
} from '../../engine/asking/endpoints/pool-clock.ts';
import { createWaiting } from '../../engine/asking/pool/call-queue.ts';
import { choose } from '../../engine/asking/pool/choose.ts';
import { createTimeLimits, noteAnswer } from '../../engine/asking/pool/health.ts';
import { createPart } from '../../engine/asking/pool/part.ts';
import { createEndpoint, type Endpoint, enter, leave, Ticket } from '../../engine/asking/pool/pool-state.ts';
import { kindOfStatus } from '../../engine/asking/pool/reactions.ts';
import { callOf } from './serving.ts';

const part = createPart({}, [], systemClock, () => {});
const ticket = (item: string): Ticket =>
  new Ticket(
    callOf({ item }),
    part,
    0,
    () => {},
    () => {},
  );
const up = (limits: number[]): Endpoint[] =>
  limits.map((limit, index) => {
    const endpoint = createEndpoint(
      { url: `http://127.0.0.1:${index + 1}/v1`, limit, pinned: true },
      index,
      undefined,
    );
    endpoint.state = 'up';
    endpoint.models = new Set(['m']);
    return endpoint;
  });

test('what is asked again', () => {
  const again = [408, 429, 500, 502, 503, 504, 599];
  const never = [301, 400, 401, 403, 404, 405, 413, 422, 501, 505];
  const isRetried = (status: number): boolean => kindOfStatus(status) !== 'refused';
  expect(again.filter(isRetried)).toEqual(again);
  expect(never.filter(isRetried)).toEqual([]);
});

test('backoff doubles, keeps between half and whole, and has a cap', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 40 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (tries, random) => {
        const full = Math.min(15_000, 250 * 2 ** (tries - 1));
        const wait = backoff(tries, 250, 15_000, () => random);
        expect(wait).toBeGreaterThanOrEqual(full / 2);
        expect(wait).toBeLessThanOrEqual(full);
      },
    ),
  );
});

test('Retry-After in seconds, as a date, capped, or not at all', () => {
  const date = Date.UTC(2026, 0, 1);
  const read = (value: string | undefined) => readRetryAfter(value, date, 600_000);
  expect(read('2')).toBe(2_000);
  expect(read(' 0.5 ')).toBe(500);
  expect(read('86400')).toBe(600_000);
  expect(read('Thu, 01 Jan 2026 00:00:30 GMT')).toBe(30_000);
  expect(read('Wed, 31 Dec 2025 23:00:00 GMT')).toBe(0);
  for (const value of [undefined, 'soon', '', 'x'.repeat(100)]) expect(read(value)).toBe(undefined);
});

test('prompts that are too long, in the words of three servers', () => {
  const says = (text: string) => Buffer.from(JSON.stringify({ error: { message: text } }));
  const vllm = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.";
  const llama = Buffer.from(
    '{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":5120,"n_ctx":4096}}',
  );
  expect(isTooLong(400, says(vllm))).toBe(true);
  expect(isTooLong(400, says('The prompt is longer than the maximum model length of 4096'))).toBe(true);
  expect(isTooLong(400, llama)).toBe(true);
  expect(lengthNumbers(llama)).toBe('5120 tokens where the context has 4096');
  expect(isTooLong(400, says('temperature must be at least 0'))).toBe(false);
  expect(isTooLong(500, says(vllm))).toBe(false);
});

/** The answer in a body, or what is wrong with it. */
const answerIn = (json: string, key?: Parameters<typeof readCompletion>[1]) => {
  const read = readCompletion(Buffer.from(json), key);
  return typeof read === 'string' ? read : read.answer;
};

test('a completion is read defensively', () => {
  const read = (value: unknown) => answerIn(JSON.stringify(value));
  const with_ = (message: unknown, more: object = {}) =>
    read({ choices: [{ message, finish_reason: 'stop' }], ...more });
  const usage = { prompt_tokens: 12, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 8 } };
  expect(with_({ content: 'hi' }, { usage })).toEqual({
    text: 'hi',
    finish: 'stop',
    usage: { prompt: 12, completion: 5, cached: 8 },
    replayed: false,
  });
  expect(with_({ content: null })).toMatchObject({ text: '', usage: { prompt: 0, completion: 0 } });
  expect(with_({ content: 'x' }, { usage: { prompt_tokens: -1, completion_tokens: '7' } })).toMatchObject({
    usage: { prompt: 0, completion: 0 },
  });
  expect(read({ choices: [{ message: { content: 'x' } }] })).toMatchObject({ finish: 'unknown' });
  for (const bad of [
    null,
    [],
    7,
    {},
    { choices: [] },
    { choices: [null] },
    { choices: [{}] },
    { error: { message: 'x' } },
  ]) {
    expect(typeof read(bad)).toBe('string');
  }
  for (const content of [undefined, 7, ['x']]) expect(typeof with_({ content })).toBe('string');
  expect(typeof read({ choices: [{ message: { content: 'x' }, finish_reason: 'abort' }] })).toBe('string');
  expect(readCompletion(Buffer.from([0x22, 0xff, 0x22]), undefined)).toContain('not UTF-8');
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 200 }),
      bytes => void readCompletion(Buffer.from(bytes), undefined),
    ),
  );
  fc.assert(fc.property(fc.jsonValue(), value => void read(value)));
});

test("a server's words: one line, shortened, without the key and without control characters", () => {
  const key = { name: '$FW_API_KEY', read: () => 'sk-secret' };
  const words = (body: string) => serverWords(Buffer.from(body), key);
  expect(words('{"error":{"message":"bad key sk-secret\\n\\u001b[31mred"}}')).toBe('bad key *** [31mred');
  expect(words('{"error":"Unauthorized"}')).toBe('Unauthorized');
  expect(words('{"detail":[{"msg":"field required"}]}')).toContain('field required');
  expect(words('<!doctype html><p>sk-secret')).toBe('an HTML page');
  expect(words('x'.repeat(1000))).toHaveLength(300);
  expect(words(`${'x'.repeat(295)}sk-secret`)).not.toContain('sk-s');
});

test('the key is hidden in every form that a server may give it back in, also where a long body is cut', () => {
  const secret = 'sk-SECRET/123+"x';
  const key = { name: '$FW_API_KEY', read: () => secret };
  const words = (body: string) => serverWords(Buffer.from(body), key);
  const escaped = [...secret].map(one => `\\u00${one.charCodeAt(0).toString(16)}`).join('');
  for (const body of [
    `{"errors":["Bearer ${escaped}"]}`,
    JSON.stringify({ errors: [secret] }),
    JSON.stringify({ error: { message: JSON.stringify({ inner: `${secret}` }) } }),
    JSON.stringify({ error: { message: `{"inner":"${escaped.toUpperCase().replaceAll('U', 'u')}"}` } }),
    encodeURIComponent(secret),
    Buffer.from(secret).toString('hex'),
    [...secret].map(one => `&#x${one.charCodeAt(0).toString(16)};`).join(''),
  ]) {
    expect(words(body)).toContain('***');
    expect(words(body)).not.toMatch(/SECRET|5345|\\u0053|CRET/i);
  }
  for (const before of ['', 'a', 'ab', 'Bearer ']) {
    for (const encoding of ['base64', 'base64url'] as const) {
      const body = Buffer.from(`${before}${secret} and more`).toString(encoding);
      const left = Buffer.from(words(body).replace('***', ''), encoding).toString('latin1');
      expect(words(body)).toContain('***');
      expect(left).not.toContain('ECRE');
    }
  }
  for (let cut = 0; cut < secret.length; cut++) {
    expect(words(`${' '.repeat(65_536 - cut)}${secret}`)).not.toContain('s');
  }
});

test('an answer that holds the key is none, and no other field of it carries the key into an item', () => {
  const key = { name: '$FW_API_KEY', read: () => 'sk-SECRET123' };
  const read = (content: string, finish_reason = 'stop') =>
    answerIn(JSON.stringify({ choices: [{ message: { content }, finish_reason }] }), key);
  expect(read('{"a":"sk-SECRET123"}')).toBe('HTTP 200 with the API key in its answer');
  expect(read('{"a":"sk\\u002dSECRET123"}')).toBe('HTTP 200 with the API key in its answer');
  expect(read('{"a":"sk"}', 'because of sk-SECRET123')).toMatchObject({ finish: 'because of ***' });
  // a key that is none must not swallow honest answers
  const dummy = { name: '$FW_API_KEY', read: () => 'EMPTY' };
  const body = '{"choices":[{"message":{"content":"EMPTY"},"finish_reason":"stop"}]}';
  expect(answerIn(body, dummy)).toMatchObject({ text: 'EMPTY', finish: 'stop' });
});

test('of several choices the one with index 0 is the answer', () => {
  const choice = (content: string, index?: number) => ({
    index,
    message: { content },
    finish_reason: 'stop',
  });
  const read = (...choices: unknown[]) => answerIn(JSON.stringify({ choices }));
  expect(read(choice('second', 1), choice('first', 0))).toMatchObject({ text: 'first' });
  expect(read(choice('second', 1))).toBe('HTTP 200 without choices');
});

test('least outstanding relative to the limit, never above it, not the one that failed last', () => {
  const [small, large] = up([2, 8]) as [Endpoint, Endpoint];
  const both = [small, large];
  const counts = { small: 0, large: 0 };
  for (let i = 0; i < 10; i++) {
    const one = ticket(`t${i}`);
    const chosen = choose(both, one, 0) as Endpoint;
    enter(chosen, one, 0);
    counts[chosen === small ? 'small' : 'large']++;
  }
  expect(counts).toEqual({ small: 2, large: 8 });
  expect(choose(both, ticket('full'), 0)).toBe(null);
  leave(small, small.running[0] as Ticket);
  const retried = ticket('retried');
  retried.avoid = small;
  expect(choose(both, retried, 0)).toBe(null);
  large.pausedUntil = 10;
  expect(choose(both, retried, 0)).toBe(small);
  expect(choose(both, retried, 10)).toBe(null);
});

test('names that repeat with period 3 do not line up with three idle endpoints', () => {
  const endpoints = up([256, 256, 256]);
  for (const name of ['Ahmed', 'Emily', 'Wei'].entries()) {
    const seen = new Map<Endpoint, number>();
    for (let row = name[0]; row < 5760; row += 3) {
      const chosen = choose(endpoints, ticket(`row-${row}-${name[1]}`), 0) as Endpoint;
      seen.set(chosen, (seen.get(chosen) ?? 0) + 1);
    }
    const expected = 5760 / 9;
    const chiSquare = endpoints.reduce(
      (sum, one) => sum + ((seen.get(one) ?? 0) - expected) ** 2 / expected,
      0,
    );
    // 2 degrees of freedom, p = 0.001; the hash is fixed, so this is no matter of luck
    expect(chiSquare).toBeLessThan(13.8);
  }
});

test('values are counted before a body is parsed, outside of texts alone', () => {
  const most = MAX_VALUES;
  const of = (text: string): boolean => hasTooManyValues(Buffer.from(text));
  expect(of(`[${'0,'.repeat(most - 2)}0]`)).toBe(false);
  expect(of(`[${'0,'.repeat(most)}0]`)).toBe(true);
  expect(of(`${'{"a":'.repeat(most + 1)}`)).toBe(true);
  // a text is one value, whatever stands in it
  for (const text of [',{['.repeat(most), '\\",'.repeat(most), '"'.repeat(most), '\\'.repeat(most)]) {
    expect(of(JSON.stringify({ content: text, more: [1, 2] }))).toBe(false);
    expect(of(`${JSON.stringify(text)},${'0,'.repeat(most)}`)).toBe(true);
  }
});

describe('how long a call may take', () => {
  const usage = { prompt: 1, completion: 1 };
  const answer = (endpoint: Endpoint, times: number, ms: (n: number) => number, agent = 'a'): void => {
    for (let n = 0; n < times; n++) noteAnswer(endpoint, agent, ms(n), usage);
  };
  const limitOf = (endpoints: Endpoint[], at: number, agent = 'a', timeouts = 0): number => {
    const one = { ...ticket('x'), codes: { 'call-timeout': timeouts } };
    return createTimeLimits(endpoints, TIMING)(endpoints[at] as Endpoint, {
      ...one,
      call: { ...one.call, agent },
    });
  };

  test('ten times the median of its agent there, at least 30 s', () => {
    const [endpoint] = up([8]) as [Endpoint];
    answer(endpoint, 20, () => 1_000);
    expect(limitOf([endpoint], 0)).toBe(30_000);
    answer(endpoint, 64, n => 20_000 + n);
    expect(medianOf(endpoint.latencies)).toBe(20_032);
    expect(limitOf([endpoint], 0)).toBe(200_320);
  });

  test('ten minutes while nobody has answered such a call', () => {
    const endpoints = up([8, 8]);
    answer(endpoints[0] as Endpoint, 100, () => 1_000);
    expect([limitOf(endpoints, 0, 'b'), limitOf(endpoints, 1, 'b')]).toEqual([600_000, 600_000]);
  });

  test('what the slowest other endpoint needs, before there are twenty answers of its own', () => {
    const endpoints = up([8, 8, 8]);
    const [fast, slow, other] = endpoints as [Endpoint, Endpoint, Endpoint];
    answer(fast, 1, () => 400);
    expect(limitOf(endpoints, 2)).toBe(20_000);
    answer(fast, 30, () => 400);
    answer(slow, 30, n => (n % 2 ? 7_000 : 9_000));
    expect(limitOf(endpoints, 0)).toBe(30_000);
    expect(limitOf(endpoints, 2)).toBe(90_000);
    // of a few answers the longest tells: the short ones come first
    answer(other, 3, n => 4_000 * (n + 1));
    expect(limitOf(endpoints, 2)).toBe(120_000);
    // a call that was given up so may need more than the others did
    expect([1, 2, 3].map(times => limitOf(endpoints, 2, 'a', times))).toEqual([240_000, 480_000, 480_000]);
    answer(other, 17, () => 1_000);
    expect(limitOf(endpoints, 2)).toBe(30_000);
  });

  test('its own few answers tell nothing against it, and something for it', () => {
    const endpoints = up([64, 64]);
    const [queueing, other] = endpoints as [Endpoint, Endpoint];
    answer(queueing, 1, () => 1_000);
    expect(limitOf(endpoints, 0)).toBe(600_000);
    answer(other, 40, () => 1_000);
    // it works through a queue, one call after the other: whoever is still in it has time
    for (let second = 10; second < 25; second++) {
      answer(queueing, 1, () => 1_000 * second);
      expect(limitOf(endpoints, 0)).toBe(10_000 * second);
    }
  });
});

test('the queue keeps the order of first tries and loses nothing, whatever is taken when', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 3000 }), { maxLength: 12 }), sizes => {
      const waiting = createWaiting();
      const left: number[] = [];
      let next = 0;
      let taken = 0;
      for (const size of sizes) {
        for (let i = 0; i < size; i++) waiting.push({ ...ticket('x'), tries: next++ });
        let places = size - (size % 7);
        waiting.offerNew(one => places-- > 0 && left.push(one.tries) > 0);
        taken = left.length;
        expect(waiting.size).toBe(next - taken);
      }
      for (const one of waiting.withdraw(() => true)) left.push(one.tries);
      expect(left).toEqual([...Array(next).keys()]);
    }),
    { numRuns: 30 },
  );
});

test('what sleeps is not offered before its time, and then before the first tries', () => {
  const waiting = createWaiting();
  const [first, late] = [ticket('first'), ticket('late')];
  late.notBefore = 50;
  waiting.push(first);
  waiting.sleep(late);
  const offered: Ticket[] = [];
  const all = () => {
    offered.length = 0;
    const look = (one: Ticket): boolean => {
      offered.push(one);
      return false;
    };
    waiting.offerDue(look);
    waiting.offerNew(look);
    return [...offered];
  };
  waiting.wake(49);
  expect(all()).toEqual([first]);
  waiting.wake(50);
  expect(all()).toEqual([late, first]);
});
