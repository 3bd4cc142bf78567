/** Who is asked in which order is said before the first call, and that nobody has set an order. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';

let server: Servers;
beforeAll(async () => {
  server = await servers(1);
});

function agents(keys: readonly string[], orderings: string | null): string {
  const at = folder();
  mkdirSync(join(at, 'agents'));
  for (const key of keys)
    writeFileSync(
      join(at, 'agents', `${key}.yaml`),
      `key: ${key}\nshort: ${key}\ndisplay: ${key}\nrole: ${key === 'end' ? 'synthesis' : 'agent'}\npersona: Answer.\nsampling: { temperature: 0, max_tokens: 400 }\n`,
    );
  if (orderings !== null) writeFileSync(join(at, 'agents/orderings.yaml'), orderings);
  return at;
}

const NO_ORDER = 'the agents answer in the order of their file names';
const OWN_ORDER = 'agents answer in the order that the items give; the first: ';
const plain = '{"id":"1","prompt":"x"}\n{"id":"2","prompt":"y"}\n';
const own = plain.replaceAll('"prompt"', '"ordering":["writer","critic"],"prompt"');

test.each<[string, string[], string | null, string, string, string | null]>([
  ['two, and no order', ['critic', 'writer'], null, plain, 'critic, writer', `${NO_ORDER}: critic, writer`],
  [
    'two and a synthesis',
    ['critic', 'end', 'writer'],
    null,
    plain,
    'critic, writer, end',
    `${NO_ORDER}: critic, writer`,
  ],
  [
    'an order',
    ['critic', 'end', 'writer'],
    'default: [[writer, critic]]',
    plain,
    'writer, critic, end',
    null,
  ],
  [
    'an order that leaves one out',
    ['critic', 'writer'],
    'default: [[writer]]',
    plain,
    'writer; not asked: critic',
    null,
  ],
  [
    'a list of another name',
    ['critic', 'writer'],
    'other: [[writer, critic]]',
    plain,
    'critic, writer',
    NO_ORDER,
  ],
  ['one', ['writer'], null, plain, 'writer', null],
  ['one and a synthesis', ['end', 'writer'], null, plain, 'writer, end', null],
  ['items with an order', ['critic', 'writer'], null, own, 'critic, writer', `${OWN_ORDER}writer, critic`],
  [
    'items with another order',
    ['critic', 'writer'],
    'default: [[critic, writer]]',
    own,
    'critic, writer',
    `${OWN_ORDER}writer, critic`,
  ],
  [
    'items with the same order',
    ['critic', 'writer'],
    'default: [[writer, critic]]',
    own,
    'writer, critic',
    null,
  ],
])('%s', async (_what, keys, orderings, stdin, asked, told) => {
  const at = agents(keys, orderings);
  const { stderr, code } = await fw(`fw chain ${server.flags}`, { cwd: at, stdin });
  expect(code, stderr).toBe(0);
  expect(stderr).toContain(` as ${asked} (`);
  const said = stderr.split('\n').filter(line => line.includes(NO_ORDER) || line.includes(OWN_ORDER));
  expect(said.length).toBe(told === null ? 0 : 1);
  if (told !== null) expect(said[0]).toContain(told);
});

test.each(['--topology independent', '--topology peer'])('%s has no order to speak of', async topology => {
  const at = agents(['critic', 'writer'], null);
  const { stderr } = await fw(`fw chain ${topology} ${server.flags}`, { cwd: at, stdin: plain });
  expect(stderr).not.toContain(NO_ORDER);
});

test('agent-step names the one that it asks', async () => {
  const at = agents(['critic', 'writer'], null);
  const { stderr } = await fw(`fw agent-step --agent writer ${server.flags}`, { cwd: at, stdin: plain });
  expect(stderr).toContain(' as writer (');
});

test.each(['chain', 'classify', 'extract', 'translate'])(
  'the starter %s says nothing of it',
  async starter => {
    const at = folder();
    const { code, stderr } = await fw(`fw init own --starter ${starter}`, { cwd: at });
    expect(code, stderr).toBe(0);
    const ran = await fw(`fw run pipeline.yaml ${server.flags} --limit 1`, { cwd: join(at, 'own') });
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stderr).not.toContain(NO_ORDER);
    expect(ran.stderr).not.toContain('not asked:');
  },
);

test('neither do the packaged agents', async () => {
  const csv = join(ROOT, 'fixtures/applications-60.csv');
  const { stderr } = await fw(`fw ingest ${csv} --limit 1 | fw chain ${server.flags}`, { cwd: folder() });
  expect(stderr).toContain(
    ' as risk_manager, data_science, regulatory, consumer_advocate, business_decision (packaged',
  );
  expect(stderr).not.toContain(OWN_ORDER);
});
