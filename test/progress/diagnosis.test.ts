/** What held a run up, as real runs say it: each against a server that does one thing, by the closing line. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import type { ConcurrencyLevel } from '../../engine/asking/pool/pool-stats.ts';
import { slotsOf } from '../../engine/running/watch/servers.ts';
import { runs, slow } from '../all.ts';
import { folder, shell } from '../fw.ts';
import { type Ask, type Fake, type Served, serve } from '../pool/serving.ts';

const SEED = Number(process.env.SEED ?? Date.now() % 2 ** 31);
console.log(`slots: SEED=${SEED}`);

const AGENTS = ['one', 'two', 'three', 'four'];
let agents: string;
beforeAll(() => {
  agents = folder();
  for (const key of AGENTS) {
    writeFileSync(
      join(agents, `${key}.yaml`),
      `key: ${key}\nshort: ${key}\ndisplay: ${key}\nrole: agent\npersona: Be ${key}.\nsampling: { temperature: 0, max_tokens: 9 }\n` +
        'schema: { type: object, required: [ok], properties: { ok: { type: boolean } } }\n',
    );
  }
  writeFileSync(join(agents, 'orderings.yaml'), `default: [[${AGENTS.join(', ')}]]\n`);
});

const answer = (ask: Ask): void =>
  ask.answer('{"ok":true}', { usage: { prompt_tokens: 9, completion_tokens: 20 } });
const after = (ms: number) => (ask: Ask) => void setTimeout(() => answer(ask), ms);

/** Works on so many at a time, in the order in which they came, `ms` each. */
function slots(count: number, ms: number): (ask: Ask) => void {
  const queue: Ask[] = [];
  let busy = 0;
  const next = (): void => {
    while (busy < count && queue.length > 0) {
      const ask = queue.shift() as Ask;
      busy += 1;
      setTimeout(() => {
        busy -= 1;
        answer(ask);
        next();
      }, ms);
    }
  };
  return ask => {
    queue.push(ask);
    next();
  };
}

interface Situation {
  says: RegExp;
  server: (ask: Ask) => void;
  served?: Served;
  items: number;
  options: string;
  /** of the items, and what stands before and behind fw */
  prompt?: (id: number) => string;
  before?: string;
  behind?: string;
  /** of `agent-step`, else the chain of four */
  one?: boolean;
  during?: (fake: Fake) => void;
}

const page = (running: number, waiting: number, kv: number) => ({
  metrics: () =>
    `vllm:num_requests_running ${running}\nvllm:num_requests_waiting ${waiting}\nvllm:kv_cache_usage_perc ${kv}\n`,
});

/** until fw is about to ask */
const ASKING = 'until grep -q asking err; do sleep 0.1; done';

const SITUATIONS: Record<string, Situation> = {
  'few slots, and nothing that says so': {
    says: /bottleneck: the servers: .*http\S+ takes about ([5-9]|1[0-6]) at a time and had \d\d: /,
    server: slots(8, 700),
    items: 100,
    options: '--in-flight 64',
    one: true,
  },
  'few slots, chains of four': {
    says: /bottleneck: the servers: .*http\S+ takes about ([2-8]) at a time and had \d\d: /,
    server: slots(4, 400),
    items: 30,
    options: '--in-flight 40',
  },
  'a queue that the server tells of': {
    says: /bottleneck: the servers: .*http\S+ runs 8 at a time(?:, as many as it ever did,)? and 52 more wait there/,
    server: after(700),
    served: page(8, 52, 0.2),
    items: 200,
    options: '--in-flight 60',
    one: true,
  },
  'a KV cache that is full': {
    says: /bottleneck: the servers: .*http\S+ has its KV cache 97 % full with 30 sequences/,
    server: after(700),
    served: page(30, 0, 0.97),
    items: 150,
    options: '--in-flight 40',
    one: true,
  },
  'few items': {
    says: /bottleneck: too few items: all 5 were in flight from the start/,
    server: after(300),
    items: 5,
    options: '',
  },
  'a reader that is slow': {
    says: /bottleneck: the reader of the output: it was not ready \d+ % of the time/,
    server: after(5),
    items: 400,
    prompt: id => `${id} ${'x'.repeat(4_000)}`,
    options: '--in-flight 50',
    one: true,
    behind: `| (${ASKING}; sleep 4; cat)`,
  },
  'a server that is away': {
    says: /bottleneck: no endpoint was available \d+ % of the time: http\S+ is up again, after \d+ (not connected|transport)/,
    server: after(50),
    items: 60,
    options: '--in-flight 10',
    one: true,
    during: async fake => {
      await fake.reached(20);
      await fake.close();
      setTimeout(() => void serve(after(50), { port: fake.port }), 3_000);
    },
  },
  'a server that sends calls away': {
    says: /bottleneck: the servers refuse calls: \d+ % of the tries \(\d+ HTTP 429\)/,
    server: ask => (ask.n % 3 === 0 ? ask.send(429, '{}') : after(60)(ask)),
    items: 100,
    options: '--in-flight 20',
    one: true,
  },
  'a server that fails': {
    says: /bottleneck: tries that fail: \d+ % of the tries \(\d+ HTTP 500/,
    server: ask => (ask.n % 3 === 0 ? ask.send(500, '{}') : after(60)(ask)),
    items: 100,
    options: '--in-flight 20',
    one: true,
  },
  'a limit that somebody set': {
    says: /bottleneck: the limit of 4 calls that was set for http\S+: calls waited for a place [6-9]\d % of the time/,
    server: after(60),
    items: 150,
    options: '--pool pool.yaml',
    one: true,
  },
  'too few in flight': {
    says: /bottleneck: --in-flight 4: the servers had room/,
    server: after(60),
    items: 150,
    options: '--in-flight 4',
    one: true,
  },
  'a tail': {
    says: /bottleneck: the tail: [5-9]\d % of the time only the last items were in flight/,
    server: ask => after(ask.body.includes('slow') ? 1_000 : 30)(ask),
    items: 40,
    prompt: id => (id === 39 ? 'slow' : 'quick'),
    options: '--in-flight 10',
  },
  'an input that is slow': {
    says: /bottleneck: the input: \d+ % of the time it had no item ready/,
    server: after(30),
    items: 60,
    options: '--in-flight 10',
    one: true,
    before: `| (${ASKING}; while read -r line; do echo "$line"; sleep 0.05; done)`,
  },
};

/** A few at a time, since each is a process. */
const AT_ONCE = 2;

// it lasts as long as real servers take; what is said of which figures is in closing.test.ts too
slow('the closing line of real runs', async () => {
  const left = Object.entries(SITUATIONS);
  const wrong: typeof left = [];
  const work = async (): Promise<void> => {
    for (let next = left.shift(); next; next = left.shift()) {
      if (!next[1].says.test(await closingOf(next[1]))) wrong.push(next);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  // on a machine that has too much to do that may be what held a run up: these once more, one at a time
  for (const [name, situation] of wrong) expect(await closingOf(situation), name).toMatch(situation.says);
});

async function closingOf(situation: Situation): Promise<string> {
  const {
    server,
    served,
    items,
    options,
    prompt = String,
    before = '',
    behind = '',
    one,
    during,
  } = situation;
  const fake = await serve(server, served);
  const cwd = folder();
  writeFileSync(join(cwd, 'pool.yaml'), `endpoints: ["${fake.url}"]\nlimit: 4\n`);
  const lines = Array.from(
    { length: items },
    (_, id) => `${JSON.stringify({ id: String(id), prompt: prompt(id) })}\n`,
  );
  writeFileSync(join(cwd, 'items.ndjson'), lines.join(''));
  const verb = one ? 'agent-step --agent one' : 'chain --no-decision';
  const endpoint = options.includes('--pool') ? '' : `--endpoint ${fake.url}`;
  during?.(fake);
  const { stderr } = await shell(
    `touch err; cat items.ndjson ${before} | fw ${verb} --agents ${agents} ${options} ${endpoint} 2> err ${behind} > done.ndjson; cat err >&2`,
    { cwd },
  );
  return stderr.split('\n').find(line => line.includes('bottleneck: ')) ?? stderr;
}

/** The levels of a run of `calls` calls, `inFlight` at a time, on a server in made-up time. */
function levelsOf(
  calls: number,
  inFlight: number,
  seed: number,
  latency: (there: number) => number,
  places = Number.POSITIVE_INFINITY,
): ConcurrencyLevel[] {
  let state = seed | 1;
  const spread = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return 0.8 + 0.4 * (state / 2 ** 32);
  };
  const levels: ConcurrencyLevel[] = [];
  const running: { until: number; sent: number; among: number; tokens: number }[] = [];
  const queue: { sent: number; among: number }[] = [];
  let now = 0;
  let sent = 0;
  const begin = (): void => {
    while (queue.length > 0 && running.length < places) {
      const { sent: at, among } = queue.shift() as { sent: number; among: number };
      const tokens = Math.round(100 * spread());
      running.push({ until: now + (tokens / 100) * latency(running.length + 1), sent: at, among, tokens });
    }
  };
  const send = (): void => {
    while (sent < calls && running.length + queue.length < inFlight) {
      sent += 1;
      queue.push({ sent: now, among: running.length + queue.length + 1 });
      begin();
    }
  };
  send();
  while (running.length > 0) {
    const next = running.reduce((first, one) => (one.until < first.until ? one : first));
    running.splice(running.indexOf(next), 1);
    now = next.until;
    const at = Math.floor(Math.log2(next.among));
    while (levels.length <= at) levels.push({ answers: 0, calls: 0, ms: 0, tokens: 0 });
    const level = levels[at] as ConcurrencyLevel;
    level.answers += 1;
    level.calls += next.among;
    level.ms += now - next.sent;
    level.tokens += next.tokens;
    begin();
    send();
  }
  return levels;
}

describe('how many calls a server takes, from its answers', () => {
  const seeds = fc.integer({ min: 1, max: 2 ** 31 - 1 });

  test('as many as it has places, where three times as many are in flight or more', () => {
    fc.assert(
      fc.property(
        seeds,
        // of 4 places and 12 calls there are four answers from below the top: of 100 such runs one says nothing
        fc.integer({ min: 5, max: 64 }),
        fc.integer({ min: 3, max: 12 }),
        (seed, places, times) => {
          const found = slotsOf(levelsOf(12 * times * places, times * places, seed, () => 1_000, places));
          expect(found).toBeGreaterThan(0.5 * places);
          expect(found).toBeLessThan(2 * places);
        },
      ),
      { seed: SEED, numRuns: runs(150, 600) },
    );
  });

  test('none is said of one that takes all that it gets, at the same speed or somewhat slower', () => {
    fc.assert(
      fc.property(
        seeds,
        fc.integer({ min: 8, max: 300 }),
        fc.constantFrom(0, 0.2, 0.5),
        (seed, inFlight, slower) => {
          const levels = levelsOf(8 * inFlight, inFlight, seed, there => 1_000 * there ** slower);
          expect(slotsOf(levels)).toBeNull();
        },
      ),
      { seed: SEED, numRuns: runs(150, 600) },
    );
  });

  test('nothing is said of a few answers', () => {
    expect(slotsOf([])).toBeNull();
    expect(slotsOf(levelsOf(3, 3, 1, () => 1_000, 1))).toBeNull();
  });
});
