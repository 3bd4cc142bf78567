/** Each row of the table of reactions against what a pool does: the wire is scripted, the clock is moved by hand. */
import { expect, onTestFinished, test } from 'vitest';
import { NoAnswerInTime, TooLong } from '../../engine/asking/endpoints/endpoint-words.ts';
import { REQUEST_ID, type Reply } from '../../engine/asking/endpoints/exchange.ts';
import { type OpenWire, type Request, sockets } from '../../engine/asking/endpoints/wire.ts';
import { type FailureKind, MAX_TRIES, REACTIONS, type Reaction } from '../../engine/asking/pool/reactions.ts';
import { type Call, CallFailure } from '../../engine/core/item/call.ts';
import type { Code } from '../../engine/core/item/codes.ts';
import { manualClock } from './clock.ts';
import { callOf, open, outcome } from './serving.ts';

/** ms */
const RETRY_AFTER = 3_000;
const REST = 20_000;

const errorOf = (code: string): Error => Object.assign(new Error(code), { code });
const status = (status: number, text = '{}'): Reply => ({
  status,
  retryAfter: String(RETRY_AFTER / 1000),
  body: Buffer.from(text),
});
const TOO_LONG = '{"error":{"message":"maximum context length is 8"}}';
const CROSSED = '{"id":"fw-0123456789abcdef-00000000-1","choices":[{"message":{"content":"no"}}]}';

/** What a server or the way to it does, for each row. */
const FAILURES: Record<FailureKind, () => Reply | Error> = {
  throttled: () => status(503),
  'server-error': () => status(502),
  'internal-error': () => status(500),
  'broken-off': () => errorOf('ECONNRESET'),
  'broken-stream': () => errorOf('ECONNRESET'),
  timeout: () => new NoAnswerInTime('no answer within 1 s'),
  'bad-answer': () => status(200, 'no JSON'),
  crossed: () => status(200, CROSSED),
  refused: () => status(400),
  'refused-for-good': () => status(400),
  'too-long': () => status(400, TOO_LONG),
  'too-large': () => new TooLong('an answer larger than 4 MiB', true),
  unreachable: () => errorOf('ECONNREFUSED'),
  'no-socket': () => errorOf('EMFILE'),
  interrupted: () => new CallFailure('interrupted', 'dropped'),
};

const MODELS = JSON.stringify({ object: 'list', data: [{ id: 'm' }] });
const answerTo = ({ id }: Request): Reply =>
  status(200, JSON.stringify({ id: `${REQUEST_ID}-${id}`, choices: [{ message: { content: 'yes' } }] }));

type Script = (server: number, tries: number) => FailureKind | false;

/** A pool over `count` servers; `script` says of a try, by its number, whether it fails, and how. */
async function poolWhere(
  count: number,
  script: Script,
  { retryBudget = 0.2, ...limit }: { retryBudget?: number; limit?: number; pinned?: boolean } = {},
  call: Partial<Call> = {},
) {
  const clock = manualClock();
  const seen = {
    posts: Array<number>(count).fill(0),
    at: [] as number[],
    probes: 0,
    recorded: [] as string[],
  };
  const openWire: OpenWire = origin => ({
    send(request, settle) {
      const server = Number(new URL(origin).port) - 1;
      let got: Reply | Error = status(404);
      let passedOn = false;
      if (request.path.endsWith('/models')) {
        seen.probes++;
        got = status(200, MODELS);
      } else if (request.method === 'POST') {
        seen.at.push(clock.now());
        seen.posts[server] = (seen.posts[server] as number) + 1;
        const failure = script(server, seen.at.length);
        got = failure ? FAILURES[failure]() : answerTo(request);
        passedOn = failure === 'broken-stream';
      }
      queueMicrotask(() => settle(got));
      return { received: null, passedOn, overrun: null, abort: () => {} };
    },
    close: async () => {},
  });
  const ledger = {
    find: () => undefined,
    ready: () => undefined,
    begin: () => {},
    append(line: { outcome: string }, done?: () => void) {
      seen.recorded.push(line.outcome);
      done?.();
    },
    close: async () => {},
  };
  const urls = Array.from({ length: count }, (_, n) => ({
    url: `http://127.0.0.1:${n + 1}/v1`,
    limit: 8,
    ...limit,
  }));
  const pool = await open(urls, {
    openWire,
    clock,
    random: () => 0.5,
    ledger: ledger as never,
    // long enough to be seen, and no part of any other wait
    timing: { rest: REST, restCap: REST, giveUp: 1e9, stall: 1e9 },
    retryBudget,
  });
  seen.probes = 0;
  const ask = async (): Promise<string> => {
    const told = await clock.turning(outcome(pool, callOf(call)));
    return told.includes('yes') ? 'yes' : told; // the answer to a raw call is all of the body
  };
  return { pool, seen, ask };
}

/** What a pool is seen to do, in the words of the table. */
async function seenOf(kind: FailureKind): Promise<Reaction> {
  // one that refuses is a case of its own only where another one can be asked
  const isRefused = kind === 'refused';
  const call: Partial<Call> = kind === 'too-large' ? { raw: true, path: '/v1/chat/completions' } : {};
  const pool = (count: number, script: Script, limits = {}) => poolWhere(count, script, limits, call);

  const first = await pool(isRefused ? 2 : 1, (_, tries) => tries === 1 && kind);
  const told = await first.ask();
  const ends = told !== 'yes';
  const isCounted = first.pool.stats().endpoints.some(({ failed }) => Object.keys(failed).length > 0);
  const isDown = first.pool.warnings.some(text => text.includes('is down'));
  const [sent = 0, again = 0] = first.seen.at;

  const always = await pool(isRefused ? 12 : 1, (_, tries) => tries <= 20 && kind);
  const code = await always.ask();
  const tries = always.seen.at.length;

  const bad = await pool(kind === 'refused-for-good' ? 1 : 2, server => server === 0 && kind);
  for (let n = 0; n < 100 && (bad.seen.posts[0] as number) < 5; n++) await bad.ask();
  const isResting = bad.pool.stats().endpoints[0]?.state === 'paused';

  const nearly = await pool(1, (_, tries) => (tries === 5 ? kind : tries < 10 && 'bad-answer'));
  if (ends) for (let n = 0; n < 2; n++) await nearly.ask();
  const { at } = nearly.seen;
  const hasRested = at.some((time, n) => n > 0 && time - (at[n - 1] as number) >= REST);

  const costly = await pool(2, (_, tries) => tries % 2 === 1 && kind, { retryBudget: 0 });
  const outcomes = new Set<string>();
  for (let n = 0; n < 300 && !ends; n++) outcomes.add(await costly.ask());

  const limits: number[] = [];
  const crowd = await pool(
    1,
    (_, tries) => {
      limits.push(crowd.pool.stats().endpoints[0]?.limit ?? 0);
      return tries > 60 && tries % 2 === 0 && tries < 200 && kind;
    },
    { limit: 32, pinned: false },
  );
  await Promise.all(Array.from({ length: 160 }, crowd.ask));

  return {
    ...(first.seen.recorded[0] !== 'answer' && { recorded: true }),
    ...(isCounted && { counted: true }),
    ...(isResting && { against: true }),
    ...(ends && !hasRested && { clears: true }),
    ...(isDown && { takesOut: true }),
    ...(again - sent >= RETRY_AFTER && { pauses: true }),
    ...(Math.min(...limits.slice(60)) < 32 && !isDown && { cutsLimit: true }),
    ...(first.seen.probes > 0 && !isDown && { suspect: true }),
    ...(tries === MAX_TRIES && { costsTry: true }),
    ...(outcomes.size > 1 && { spendsBudget: true }),
    ...(isRefused && tries === 2 && { asksOneOther: true }),
    ...(ends && { ends: true }),
    ...(tries === MAX_TRIES && code !== 'call-failed' && { code: code as Code }),
  };
}

const { 'no-socket': noSocket, ...others } = REACTIONS;

test.each(Object.keys(others) as FailureKind[])('what happens on a failure: %s', async kind => {
  expect(await seenOf(kind)).toEqual(REACTIONS[kind]);
});

test('what happens on a failure: no-socket, with no other connection at work', async () => {
  onTestFinished(() => sockets.setMost(Number.POSITIVE_INFINITY));
  const { pool, seen, ask } = await poolWhere(1, () => 'no-socket');
  expect([await ask(), seen.recorded, pool.stats().endpoints[0]?.failed]).toEqual(['interrupted', [], {}]);
  expect(pool.verdict()?.exit).toBe(74);
  expect([noSocket, sockets.most]).toEqual([{ fewerSockets: true }, 1]);
});
