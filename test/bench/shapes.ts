/** Twelve shapes of streams, with what is true of them: chunks by the ms after the request was sent. */

export const event = (value: object): string => `data: ${JSON.stringify(value)}\n\n`;
export const content = (text: string): string => event({ choices: [{ index: 0, delta: { content: text } }] });
export const role: string = event({ choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] });
export const finished: string = event({ choices: [{ index: 0, delta: {}, finish_reason: 'length' }] });
export const usage = (tokens: number): string =>
  event({
    choices: [],
    usage: { prompt_tokens: 11, completion_tokens: tokens, prompt_tokens_details: { cached_tokens: 0 } },
  });
export const DONE = 'data: [DONE]\n\n';

export interface Shape {
  name: string;
  chunks: readonly (readonly [at: number, bytes: string | Buffer])[];
  truth: {
    ttft: number;
    tpot: number;
    e2el: number;
    gaps: readonly number[];
    tokens: number | null;
    coalesced?: number;
    text?: string;
  };
}

const accent = Buffer.from(content('é'));
/** in the middle of the two bytes of é */
const CUT = accent.indexOf(0xc3) + 1;

export const SHAPES: readonly Shape[] = [
  {
    name: 'steady',
    chunks: [
      ...[0, 1, 2, 3, 4].map(i => [100 + 20 * i, content(`t${i}`)] as const),
      [180, finished + usage(5) + DONE],
    ],
    truth: {
      ttft: 100,
      tpot: 20,
      e2el: 180,
      gaps: [20, 20, 20, 20],
      tokens: 5,
      coalesced: 0,
      text: 't0t1t2t3t4',
    },
  },
  {
    name: 'bursty: three events in a chunk',
    chunks: [
      [50, content('a') + content('b') + content('c')],
      [150, content('d') + content('e') + content('f') + finished + usage(6) + DONE],
    ],
    truth: { ttft: 50, tpot: 20, e2el: 150, gaps: [0, 0, 100, 0, 0], tokens: 6, coalesced: 4 },
  },
  {
    name: 'an event with two tokens',
    chunks: [
      [40, content('one two')],
      [80, content('three four')],
      [120, content('five') + finished + usage(5) + DONE],
    ],
    truth: { ttft: 40, tpot: 20, e2el: 120, gaps: [40, 40], tokens: 5, coalesced: 0 },
  },
  {
    name: 'the role first, long before the first word',
    chunks: [
      [5, role],
      [205, content('a')],
      [215, content('b') + finished + usage(2) + DONE],
    ],
    truth: { ttft: 205, tpot: 10, e2el: 215, gaps: [10], tokens: 2 },
  },
  {
    name: 'usage last, late',
    chunks: [
      [30, content('a')],
      [60, content('b') + finished],
      [900, usage(2)],
      [905, DONE],
    ],
    truth: { ttft: 30, tpot: 30, e2el: 60, gaps: [30], tokens: 2 },
  },
  {
    name: 'comments and other fields',
    chunks: [
      [10, ': ping\n\n'],
      [20, `event: message\nid: 7\nretry: 10\n${content('a')}`],
      [30, ':\n\n: ping\n'],
      [40, `${content('b')}: bye\n\n${finished}${usage(2)}${DONE}`],
    ],
    truth: { ttft: 20, tpot: 20, e2el: 40, gaps: [20], tokens: 2 },
  },
  {
    name: 'a character that is cut in two: it is there when its event is whole',
    chunks: [
      [10, accent.subarray(0, CUT)],
      [35, accent.subarray(CUT)],
      [60, content('b') + finished + usage(2) + DONE],
    ],
    truth: { ttft: 35, tpot: 25, e2el: 60, gaps: [25], tokens: 2, text: 'éb' },
  },
  {
    name: 'a stall of two seconds',
    chunks: [
      [100, content('a')],
      [110, content('b')],
      [2_110, content('c')],
      [2_120, content('d') + finished + usage(4) + DONE],
    ],
    truth: { ttft: 100, tpot: 2_020 / 3, e2el: 2_120, gaps: [10, 2_000, 10], tokens: 4 },
  },
  {
    name: 'an end without [DONE], and without its last blank line',
    chunks: [
      [10, content('a')],
      [20, content('b')],
      [25, finished],
      [30, usage(2).trimEnd()],
    ],
    truth: { ttft: 10, tpot: 10, e2el: 20, gaps: [10], tokens: 2 },
  },
  {
    name: 'an event in single bytes',
    chunks: [
      ...[...content('a')].map((byte, i) => [10 + i, byte] as const),
      [200, content('b') + finished + usage(2) + DONE],
    ],
    truth: {
      ttft: 9 + content('a').length,
      tpot: 191 - content('a').length,
      e2el: 200,
      gaps: [191 - content('a').length],
      tokens: 2,
    },
  },
  {
    name: 'carriage returns, no blank behind the colon, data in two lines',
    chunks: [
      [10, content('a').replaceAll('\n', '\r\n').replace('data: ', 'data:')],
      [30, 'data: {"choices":[{"index":0,\r\ndata: "delta":{"content":"b"}}]}\r\n\r\n'],
      [30, (finished + usage(2) + DONE).replaceAll('\n', '\r\n')],
    ],
    truth: { ttft: 10, tpot: 20, e2el: 30, gaps: [20], tokens: 2, text: 'ab' },
  },
  {
    name: 'one token',
    chunks: [
      [10, role],
      [70, content('a') + finished + usage(1) + DONE],
    ],
    truth: { ttft: 70, tpot: Number.NaN, e2el: 70, gaps: [], tokens: 1 },
  },
];
