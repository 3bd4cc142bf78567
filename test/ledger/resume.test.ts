/** The same command again: what is on record is not asked, what has changed is, and it is said before anything is. */
import { EventEmitter, once } from 'node:events';
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Simulator, startSimulator } from '../../products/simulator/simulator.ts';
import { folder, type Ran, ROOT, type ShellOptions, shell } from '../fw.ts';
import { fw } from '../here.ts';

const CSV = join(ROOT, 'fixtures', 'applications-60.csv');
const AGENTS = join(ROOT, 'pipelines', 'fairwatch', 'agents');
const ROWS = 4;
/** in the order in which they are asked */
const ORDER = ['risk_manager', 'data_science', 'regulatory', 'consumer_advocate', 'business_decision'];

let server: Simulator;
/** the agent of each request that came in, since it was last emptied */
let asked: string[] = [];
const asking = new EventEmitter();
let items: string;

beforeAll(async () => {
  server = await simulator({});
  afterAll(() => server.close());
  const made = await fw(`fw ingest ${CSV} --limit ${ROWS}`);
  items = made.stdout;
});

/** The name that requests carry their schema under is the agent's. */
const agentIn = (body: string): string => JSON.parse(body).response_format.json_schema.name;

function simulator(options: Parameters<typeof startSimulator>[0]): Promise<Simulator> {
  const onRequest = ({ body }: { body: string }): void => {
    asked.push(agentIn(body));
    asking.emit('asked');
  };
  return startSimulator({ ...options, onRequest });
}

interface Run extends Ran {
  /** how often each agent was asked, in the order of the chain */
  asked: number[];
  /** stdout, sorted by id */
  sorted: string;
}

async function run(line: string, options: ShellOptions = {}): Promise<Run> {
  asked = [];
  const ran = await fw(line, { stdin: items, ...options });
  const counts = ORDER.map(agent => asked.filter(name => name === agent).length);
  return { ...ran, asked: counts, sorted: ran.stdout.split('\n').filter(Boolean).sort().join('\n') };
}

const chain = (ledger: string, more = ''): string =>
  `fw chain --ledger ${ledger} --endpoint ${server.url} ${more}`;
const every = (count: number): number[] => ORDER.map(() => count);

/** A ledger with the first run on it, and what that run gave. */
async function recorded(more = ''): Promise<{ ledger: string; first: Run }> {
  const ledger = join(folder(), 'ledger');
  const first = await run(chain(ledger, more));
  expect(first.code, first.stderr).toBe(0);
  return { ledger, first };
}

const filesIn = (ledger: string): string[] =>
  (readdirSync(ledger, { recursive: true }) as string[]).filter(name => name.endsWith('.ndjson')).sort();
const linesIn = (ledger: string): Record<string, unknown>[] =>
  filesIn(ledger).flatMap(name =>
    readFileSync(join(ledger, name), 'utf8')
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line)),
  );

describe('nothing has changed', () => {
  let ledger: string;
  let first: Run;
  beforeAll(async () => {
    ({ ledger, first } = await recorded());
  });

  test('the first run asks each agent once for each item, and keeps each answer with its verdict', () => {
    expect(first.asked).toEqual(every(ROWS));
    expect(first.stderr).not.toContain('not resumable');
    const lines = linesIn(ledger);
    const answers = lines.filter(({ outcome }) => outcome === 'answer').map(({ key }) => key);
    expect(answers).toHaveLength(5 * ROWS);
    expect(
      lines
        .filter(({ verdict }) => verdict === 'clean')
        .map(({ key }) => key)
        .sort(),
    ).toEqual(answers.sort());
    const steps = first.sorted
      .split('\n')
      .flatMap(line => [...JSON.parse(line).steps, JSON.parse(line).decision]);
    expect(steps.flatMap(step => step.calls).sort()).toEqual(answers);
    expect(readdirSync(join(ledger, 'locks'))).toEqual([]);
  });

  test('the second gives the same bytes, asks nothing and writes nothing', async () => {
    const files = filesIn(ledger);
    const again = await run(chain(ledger));
    expect(again).toMatchObject({ code: 0, asked: every(0), sorted: first.sorted });
    expect(again.stderr).toContain(`0 calls + ${5 * ROWS} replayed`);
    expect(again.stderr).not.toContain('since the run of');
    expect(filesIn(ledger)).toEqual(files);
  });

  test('FW_LEDGER names it too', async () => {
    const again = await run(`fw chain --endpoint ${server.url}`, { env: { FW_LEDGER: ledger } });
    expect(again).toMatchObject({ code: 0, asked: every(0), sorted: first.sorted });
  });

  test('no endpoint is needed: none named, none there', async () => {
    for (const endpoint of ['', '--endpoint http://127.0.0.1:9/v1']) {
      const again = await run(`fw chain --ledger ${ledger} ${endpoint}`);
      expect(again, again.stderr).toMatchObject({ code: 0, asked: every(0), sorted: first.sorted });
      expect(again.stderr).toContain(`continuing with the ${5 * ROWS} answers on record`);
      // a heading is no reason
      if (endpoint !== '')
        expect(again.stderr).toContain('found none: http://127.0.0.1:9/v1: connection refused\n');
    }
  });

  test('without an endpoint what is not on record ends the run, after what is', async () => {
    const more = `${items}{"id":"new","prompt":"And this one?"}\n`;
    const again = await run(`fw chain --ledger ${ledger}`, { stdin: more });
    expect(again.code).toBe(64);
    expect(again.stderr).toContain('the call of risk_manager for item "new" is not on record');
    const finished = again.sorted.split('\n').filter(line => JSON.parse(line).failure === undefined);
    expect(first.sorted.split('\n')).toEqual(expect.arrayContaining(finished));
  });

  test('other stages of the pipe share it, and so does a pipeline file', async () => {
    const line = `fw chain --no-decision --ledger ${ledger} | fw synthesize-decision --ledger ${ledger}`;
    expect(await run(line)).toMatchObject({ code: 0, asked: every(0), sorted: first.sorted });
    const at = folder();
    writeFileSync(join(at, 'p.yaml'), `stages: [{ chain: {} }]\noutput: out.ndjson\nledger: ${ledger}\n`);
    const file = await run('fw run p.yaml', { cwd: at });
    expect(file, file.stderr).toMatchObject({ code: 0, asked: every(0) });
    expect(readFileSync(join(at, 'out.ndjson'), 'utf8').trimEnd().split('\n').sort().join('\n')).toBe(
      first.sorted,
    );
  });

  test('--fsync as it likes, and nothing else', async () => {
    for (const fsync of ['always', 'never', '0s']) {
      const own = join(folder(), 'l');
      expect(await run(chain(own, `--fsync ${fsync}`))).toMatchObject({ code: 0, sorted: first.sorted });
      expect(linesIn(own).filter(({ outcome }) => outcome === 'answer')).toHaveLength(5 * ROWS);
    }
    const wrong = await run(chain(ledger, '--fsync sometimes'));
    expect(wrong).toMatchObject({ code: 64, asked: every(0) });
  });

  test('a ledger that cannot be written to is replayed from; what is not in it ends the run with 74', async () => {
    const copy = join(folder(), 'l');
    cpSync(ledger, copy, { recursive: true });
    const folders = [copy, ...(readdirSync(copy) as string[]).map(name => join(copy, name))];
    for (const path of folders) chmodSync(path, 0o555);
    const as =
      process.getuid?.() === 0 ? 'setpriv --bounding-set=-dac_override --inh-caps=-dac_override' : '';
    const again = await run(`${as} ${chain(copy)}`);
    expect(again, again.stderr).toMatchObject({ code: 0, asked: every(0), sorted: first.sorted });
    const more = await run(`${as} ${chain(copy)}`, { stdin: '{"id":"new","prompt":"And this one?"}\n' });
    expect(more).toMatchObject({ code: 74, asked: every(0) });
    expect(more.stderr).toContain('expected a ledger that can be written to, found EACCES');
    for (const path of folders) chmodSync(path, 0o755);
  });
});

test('a second run of the same kind is refused while the first one goes on', async () => {
  const at = folder();
  const line = chain(join(at, 'l'));
  asked = [];
  const first = once(asking, 'asked');
  // its input ends when the others have ended
  const going = shell(`(cat; until [ -e others-ended ]; do sleep 0.05; done) | ${line}`, {
    cwd: at,
    stdin: items,
  });
  await first;
  const second = await fw(line, { stdin: items });
  expect(second.code).toBe(64);
  expect(second.stderr).toMatch(/the ledger is in use by process \d+ on/);
  // what asks with something else is another kind, and so is the task of an array with another number
  const beside = [
    fw(`${line} --seed 1`, { stdin: items }),
    fw(line, { stdin: items, env: { SLURM_ARRAY_TASK_ID: '1' } }),
  ];
  for (const ran of await Promise.all(beside)) expect(ran.code, ran.stderr).toBe(0);
  writeFileSync(join(at, 'others-ended'), '');
  expect((await going).code).toBe(0);
  expect(await run(line)).toMatchObject({ code: 0, asked: every(0) });
});

describe('what has changed is said before anything is asked, and what it touches is asked again', () => {
  /** A folder of agents with one of them changed. */
  const changed = (agent: string, change: (yaml: string) => string): string => {
    const agents = join(folder(), 'agents');
    cpSync(AGENTS, agents, { recursive: true });
    // their schemas are named from where they were
    for (const name of readdirSync(agents)) {
      const text = readFileSync(join(agents, name), 'utf8');
      writeFileSync(join(agents, name), text.replaceAll('../../../schemas', join(ROOT, 'schemas')));
    }
    const path = join(agents, `${agent}.yaml`);
    const before = readFileSync(path, 'utf8');
    const after = change(before);
    expect(after).not.toBe(before);
    writeFileSync(path, after);
    return agents;
  };
  let ledger: string;
  beforeAll(async () => {
    ({ ledger } = await recorded());
  });
  /** A copy of the ledger, so that one change does not meet another. */
  const copy = (): string => {
    const path = join(folder(), 'l');
    cpSync(ledger, path, { recursive: true });
    return path;
  };

  test('a persona of the third agent: the first two are replayed', async () => {
    const agents = changed('regulatory', yaml => yaml.replace(/persona: \|-\n\s*/, '$&Be brief. '));
    const path = copy();
    const again = await run(chain(path, `--agents ${agents}`));
    expect(again).toMatchObject({ code: 0, asked: [0, 0, ROWS, ROWS, ROWS] });
    expect(again.stderr).toMatch(
      /since the run of 20\S+: regulatory: persona changed; calls that this changes are asked again/,
    );
    expect(again.stderr.indexOf('since the run')).toBeLessThan(again.stderr.indexOf('asking simulated-3b'));
    expect(again.stderr).toContain(`${3 * ROWS} calls + ${2 * ROWS} replayed`);
    // both are on record now: neither is asked again
    for (const flags of [`--agents ${agents}`, ''])
      expect((await run(chain(path, flags))).asked).toEqual(every(0));
  });

  test('its sampling', async () => {
    const agents = changed('regulatory', yaml => yaml.replace(/max_tokens: \d+/, 'max_tokens: 499'));
    const again = await run(chain(copy(), `--agents ${agents}`));
    expect(again).toMatchObject({ code: 0, asked: [0, 0, ROWS, expect.any(Number), expect.any(Number)] });
    expect(again.stderr).toContain('regulatory: sampling changed');
  });

  test('its schema', async () => {
    const agents = changed('consumer_advocate', yaml =>
      yaml.replace(
        /schema: .*/,
        'schema: { type: object, required: [agent_name], properties: { agent_name: { type: string } } }',
      ),
    );
    const again = await run(chain(copy(), `--agents ${agents}`));
    expect(again).toMatchObject({ code: 0, asked: [0, 0, 0, ROWS, ROWS] });
    expect(again.stderr).toContain('consumer_advocate: schema changed');
  });

  test('the seed, and what is sent along', async () => {
    const seed = await run(chain(copy(), '--seed 5'));
    expect(seed).toMatchObject({ code: 0, asked: every(ROWS) });
    expect(seed.stderr).toContain('seed: 0 before, 5 now');
  });

  test('the model, by name; and the weights behind the name', async () => {
    const other = await simulator({ model: 'simulated-8b' });
    const path = copy();
    const model = await run(`fw chain --ledger ${path} --endpoint ${other.url}`);
    await other.close();
    expect(model).toMatchObject({ code: 0, asked: every(ROWS) });
    expect(model.stderr).toContain('the model was simulated-3b and is simulated-8b');
    // without an endpoint the model of the last run is the one that is replayed, or the one that is named
    expect(await run(`fw chain --ledger ${path}`)).toMatchObject({ code: 0, sorted: model.sorted });
    expect((await run(`fw chain --ledger ${path} --model simulated-3b`)).sorted).not.toBe(model.sorted);
  });

  test('an input column: the rows that it touches', async () => {
    const lines = items
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line));
    for (const row of [0, 2]) lines[row].prompt = `${lines[row].prompt} The applicant has moved.`;
    lines[3].input.note = 'not in the prompt';
    const stdin = lines.map(line => `${JSON.stringify(line)}\n`).join('');
    expect(await run(chain(copy()), { stdin })).toMatchObject({ code: 0, asked: every(2) });
  });

  test('an id: another item', async () => {
    const stdin = items.replace(/"id":"/, '"id":"x');
    expect(await run(chain(copy()), { stdin })).toMatchObject({ code: 0, asked: every(1) });
  });

  test('fewer agents: what is there is used', async () => {
    const lines = items
      .trimEnd()
      .split('\n')
      .map(line => ({ ...JSON.parse(line), ordering: ORDER.slice(0, 2) }));
    const stdin = lines.map(line => `${JSON.stringify(line)}\n`).join('');
    expect((await run(chain(copy()), { stdin })).asked).toEqual([0, 0, 0, 0, ROWS]);
  });
});

test('what failed on the way is asked again; what the model said is not, until --retry-failed', async () => {
  const faulty = await simulator({ faults: 'truncated=0.1,chatty=0.2,500=0.15,drop=0.05' });
  afterAll(() => faulty.close());
  const ledger = join(folder(), 'l');
  const flags = `--ledger ${ledger} --attempts 1 --endpoint ${faulty.url}`;
  const first = await run(`fw chain ${flags}`);
  expect(first.code).toBe(1);
  const codes = (ran: Run) => ran.sorted.split('\n').map(line => JSON.parse(line).failure?.code);
  const failed = codes(first).filter(code => code === 'no-valid-answer').length;
  expect(failed).toBeGreaterThan(0);

  let last = await run(`fw chain ${flags}`);
  for (let n = 0; n < 20 && codes(last).includes('call-failed'); n++) last = await run(`fw chain ${flags}`);
  const settled = await run(`fw chain ${flags}`);
  expect(settled).toMatchObject({ code: 1, asked: every(0), sorted: last.sorted });
  expect(new Set(codes(settled))).toEqual(new Set([undefined, 'no-valid-answer']));

  expect(linesIn(ledger).filter(({ round }) => round === 1)).toEqual([]);
  const retried = await run(`fw chain --retry-failed ${flags}`, { stdin: settled.stdout });
  expect(retried.asked.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(0);
  const again = new Set(
    linesIn(ledger)
      .filter(({ round }) => round === 1)
      .map(({ item }) => item),
  );
  expect(again.size).toBe(codes(settled).filter(Boolean).length);
});

describe('what --retry-failed has got, the first command gives too', () => {
  test.each([
    ['answers that do not fit', 'truncated=0.15,chatty=0.2', 'no-valid-answer', '--attempts 1'],
    ['recovered with more attempts', 'truncated=0.3', 'no-valid-answer', '--attempts 3'],
    ['a confidence of zero', 'zero=0.8', 'zero-confidence', '--attempts 1'],
  ])('%s', async (_what, faults, code, more) => {
    const faulty = await simulator({ faults });
    afterAll(() => faulty.close());
    const flags = `--ledger ${join(folder(), 'l')} --endpoint ${faulty.url}`;
    const failed = (ran: Run) =>
      ran.sorted.split('\n').filter(line => JSON.parse(line).failure !== undefined);
    const first = await run(`fw chain --attempts 1 ${flags}`);
    expect(new Set(failed(first).map(line => JSON.parse(line).failure.code))).toEqual(new Set([code]));

    let last = first;
    for (let n = 0; failed(last).length > 0; n++) {
      expect(n, 'rounds').toBeLessThan(40);
      last = await run(`fw chain --retry-failed ${flags} ${more}`, { stdin: last.stdout });
    }
    const rounds = last.sorted.split('\n').flatMap(line => {
      const { steps, decision } = JSON.parse(line);
      return [...steps, decision].map(({ round = 0 }) => round);
    });
    expect(Math.max(...rounds)).toBeGreaterThan(0);
    const again = await run(`fw chain --attempts 1 ${flags}`);
    expect(again).toMatchObject({ code: 0, asked: every(0), sorted: last.sorted });
  });
});

describe('a ledger of one file', () => {
  test('is written once, replayed from, and asks no more', async () => {
    const file = join(folder(), 'l.ndjson');
    const first = await run(chain(file));
    expect(first).toMatchObject({ code: 0, asked: every(ROWS) });
    const bytes = readFileSync(file);
    expect(await run(chain(file))).toMatchObject({ code: 0, asked: every(0), sorted: first.sorted });
    const more = await run(chain(file), { stdin: `{"id":"new","prompt":"And this one?"}\n` });
    expect(more).toMatchObject({ code: 64, asked: every(0) });
    expect(more.stderr).toContain('a single file of a ledger takes no new answers');
    expect(readFileSync(file).equals(bytes)).toBe(true);
  });

  test('is a ledger in a folder too', async () => {
    const at = folder();
    const first = await run(chain(join(at, 'l.ndjson')));
    expect(await run(chain(at))).toMatchObject({ code: 0, asked: every(0), sorted: first.sorted });
  });
});

describe('a ledger that is not as it should be', () => {
  test('damage in the middle is refused before anything is asked, by every reader', async () => {
    const { ledger } = await recorded();
    const path = join(ledger, filesIn(ledger)[0] as string);
    const bytes = readFileSync(path);
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(path, bytes);
    for (let n = 0; n < 2; n++) {
      const again = await run(chain(ledger));
      expect(again).toMatchObject({ code: 65, asked: every(0) });
      expect(again.stderr).toMatch(/damage at byte \d+ with whole lines behind it/);
      expect(again.stderr).toContain('fw ledger repair');
    }
    expect(readdirSync(join(ledger, 'locks'))).toEqual([]);
  });

  test('a torn tail is said, and asked again', async () => {
    const { ledger, first } = await recorded();
    const path = join(ledger, filesIn(ledger)[0] as string);
    const bytes = readFileSync(path);
    const at = bytes.lastIndexOf('{"key":"');
    writeFileSync(path, bytes.subarray(0, at + 100));
    const again = await run(chain(ledger));
    expect(again).toMatchObject({ code: 0, sorted: first.sorted });
    expect(again.asked.reduce((sum, count) => sum + count, 0)).toBe(1);
    expect(again.stderr).toContain('1 of 1 file of the ledger ends in a torn line, which is skipped');
    expect((await run(chain(ledger))).asked).toEqual(every(0));
  });

  test('files of something else in its folder', async () => {
    const at = folder();
    writeFileSync(join(at, 'items.ndjson'), items);
    const ran = await run(chain(at));
    expect(ran).toMatchObject({ code: 65, asked: every(0) });
    expect(ran.stderr).toContain('move it out of the ledger');
  });

  test('a path that is a file of something else', async () => {
    const at = folder();
    writeFileSync(join(at, 'prompts.csv'), 'a,b\n');
    const ran = await run(chain(join(at, 'prompts.csv')));
    expect(ran).toMatchObject({ code: 65, asked: every(0) });
    mkdirSync(join(at, 'empty'));
    expect(await run(chain(join(at, 'empty')))).toMatchObject({ code: 0, asked: every(ROWS) });
  });
});
