/**
 * What is read of an answer, exactly: bytes with the stamps at which they came, no clock and no socket. A table of the
 * shapes that servers send; bench/clock.ts has the same over real sockets.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { eventSplitter, LARGEST_EVENT } from '../../engine/asking/endpoints/sse.ts';
import {
  type Answered,
  type Failed,
  type Outcome,
  Reading,
  Stopped,
  TookTooLong,
} from '../../products/measure/bench/timed-answer.ts';
import { runs } from '../all.ts';
import { content, DONE, event, finished, role, SHAPES, usage } from './shapes.ts';

const SENT = 1_000;
type Chunk = readonly [at: number, bytes: string | Buffer];

/** Reads chunks that came so many ms after the request was sent, on a stream that ended with the last of them. */
function read(
  chunks: readonly Chunk[],
  more: { status?: number; type?: string; error?: Error; keepText?: boolean } = {},
): Outcome {
  const { status = 200, type = 'text/event-stream; charset=utf-8', error, keepText = true } = more;
  const reading = new Reading({ due: SENT - 5, sent: SENT }, { key: undefined, keepText });
  if (status > 0) reading.head(status, type, SENT + (chunks[0]?.[0] ?? 0));
  for (const [at, bytes] of chunks) if (!reading.chunk(Buffer.from(bytes as string), SENT + at)) break;
  return reading.end(SENT + (chunks.at(-1)?.[0] ?? 0), error);
}

describe('a stream', () => {
  test.each(SHAPES)('$name', ({ chunks, truth }) => {
    const outcome = read(chunks) as Answered;
    expect(outcome).toMatchObject({ ok: true, due: SENT - 5, sent: SENT });
    const { ttft, tpot, e2el, contents, coalesced, text } = outcome;
    const gaps = contents.slice(1).map((at, i) => at - (contents[i] as number));
    const found = { ttft, tpot, e2el, gaps, coalesced, text, tokens: outcome.usage?.completion ?? null };
    for (const [name, value] of Object.entries(truth)) {
      const seen = found[name as keyof typeof found];
      if (typeof value === 'number' && !Number.isNaN(value)) expect(seen, name).toBeCloseTo(value, 9);
      else expect(seen, name).toEqual(value);
    }
  });

  test('is the same however its bytes are cut', () => {
    const whole = SHAPES.map(({ chunks }) =>
      Buffer.concat(chunks.map(([, bytes]) => Buffer.from(bytes as string))),
    );
    fc.assert(
      fc.property(fc.constantFrom(...whole), fc.array(fc.nat(), { maxLength: 30 }), (bytes, cuts) => {
        const events = (pieces: Buffer[]): string[] => {
          const found: string[] = [];
          const splitter = eventSplitter(data => void found.push(data));
          for (const piece of pieces) splitter.feed(piece);
          splitter.end();
          return found;
        };
        const places = [...new Set([0, ...cuts.map(cut => cut % bytes.length), bytes.length])].sort(
          (a, b) => a - b,
        );
        const pieces = places.slice(1).map((to, i) => bytes.subarray(places[i], to));
        expect(events(pieces)).toEqual(events([bytes]));
      }),
      { seed: 11, numRuns: runs(200, 2_000) },
    );
  });

  test('counts the first event with choices apart, as vLLM does, and the first word outside of reasoning', () => {
    const thinking = event({ choices: [{ index: 0, delta: { reasoning_content: 'hm' } }] });
    const outcome = read([
      [10, role],
      [20, thinking],
      [30, content('yes')],
      [40, finished + DONE],
    ]) as Answered;
    expect(outcome).toMatchObject({ firstEvent: 10, ttft: 20, firstAnswer: 30, e2el: 30 });
  });

  test('without usage has no tokens, and nothing is made up', () => {
    const outcome = read([
      [10, content('a')],
      [20, content('b') + finished + DONE],
    ]) as Answered;
    expect(outcome.usage).toBeNull();
    expect(outcome.tpot).toBeNaN();
    expect(outcome.e2el).toBe(20);
  });

  test('that breaks behind its last word has still been said', () => {
    expect(read([[10, content('a') + finished + DONE]], { error: new Error('reset') }).ok).toBe(true);
  });
});

describe('what is no answer enters no latency, and says why', () => {
  const failed = (outcome: Outcome): Failed => {
    expect(outcome.ok).toBe(false);
    return outcome as Failed;
  };
  const reset = Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
  test.each<[string, Outcome, Partial<Failed>]>([
    [
      'an error in the stream',
      read([
        [9, content('a')],
        [12, event({ error: { message: 'engine died' } }) + DONE],
      ]),
      { code: 'call-failed', cause: 'error in the stream', message: 'engine died' },
    ],
    ['a stream that is cut', read([[9, content('a')]]), { code: 'call-failed', cause: 'stream cut short' }],
    [
      'no JSON in it',
      read([[9, 'data: <html>\n\n']]),
      { code: 'call-failed', cause: 'no JSON in the stream' },
    ],
    ['a list in it', read([[9, 'data: []\n\n']]), { code: 'call-failed', cause: 'no JSON in the stream' }],
    ['nothing at all', read([]), { code: 'call-failed', cause: 'stream cut short' }],
    [
      'an event without end',
      read([
        [9, `data: ${'x'.repeat(LARGEST_EVENT + 1)}`],
        [10, 'x'],
      ]),
      { code: 'answer-too-long' },
    ],
    [
      'a refusal',
      read([[9, '{"error":{"message":"no such model"}}']], { status: 404, type: 'application/json' }),
      { code: 'call-refused', cause: 'HTTP 404', message: 'HTTP 404: no such model' },
    ],
    [
      'a long prompt',
      read([[9, '{"error":{"message":"maximum context length is 10"}}']], {
        status: 400,
        type: 'application/json',
      }),
      { code: 'prompt-too-long', cause: 'HTTP 400' },
    ],
    [
      'a busy server',
      read([[9, '']], { status: 503, type: 'text/plain' }),
      { code: 'call-failed', cause: 'HTTP 503' },
    ],
    ['too many requests', read([], { status: 429 }), { code: 'call-failed', cause: 'HTTP 429' }],
    [
      'a long page',
      read([[9, 'x'.repeat(70_000)]], { status: 500, type: 'text/html', error: reset }),
      { code: 'call-failed', cause: 'HTTP 500' },
    ],
    [
      'a broken connection',
      read([[9, content('a')]], { error: reset }),
      { code: 'call-failed', cause: 'connection reset' },
    ],
    [
      'a refused connection',
      read([], { status: 0, error: Object.assign(new Error('x'), { code: 'ECONNREFUSED' }) }),
      { code: 'call-failed', cause: 'connection refused' },
    ],
    [
      'silence',
      read([], { status: 0, error: new TookTooLong('no byte within 600 s') }),
      { code: 'call-timeout', message: 'no byte within 600 s' },
    ],
    [
      'a page in place of JSON',
      read([[9, '<html>']], { type: 'text/html' }),
      { code: 'call-failed', cause: 'bad answer' },
    ],
    [
      'a stopped run',
      read([[9, content('a')]], { error: new Stopped('stopped') }),
      { code: 'interrupted', isIncomplete: true },
    ],
  ])('%s', (_, outcome, expected) => {
    expect(failed(outcome)).toMatchObject(expected);
  });
});

test('an answer that is not streamed has its end alone', () => {
  const body = JSON.stringify({
    choices: [{ message: { content: 'yes' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 9, completion_tokens: 3 },
  });
  const outcome = read(
    [
      [700, body.slice(0, 30)],
      [800, body.slice(30)],
    ],
    { type: 'application/json' },
  ) as Answered;
  expect(outcome).toMatchObject({
    ok: true,
    e2el: 800,
    text: 'yes',
    usage: { prompt: 9, completion: 3, cached: null },
  });
  expect([outcome.ttft, outcome.tpot]).toEqual([Number.NaN, Number.NaN]);
  expect(usage(4)).toContain('"completion_tokens":4');
});
