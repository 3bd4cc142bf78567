/** One agent that fails, and who is asked all the same: everybody who is not shown its answer. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { Item } from '../../engine/core/item/item.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';

const KEYS = ['a', 'b', 'c'];
const SHORT = 1; // tokens of an agent that fails: its answer is cut off
const LONG = 400;

let server: Servers;
beforeAll(async () => {
  server = await servers(1);
});

/** Agents a, b and c and the synthesis d; those of `short` answer too short. */
function agents(at: string, short: readonly string[]): void {
  mkdirSync(join(at, 'agents'), { recursive: true });
  const schema =
    '{ type: object, required: [ok], properties: { ok: { type: boolean } }, additionalProperties: false }';
  for (const key of [...KEYS, 'd'])
    writeFileSync(
      join(at, `agents/${key}.yaml`),
      `key: ${key}\nshort: ${key}\ndisplay: ${key.toUpperCase()}\nrole: ${key === 'd' ? 'synthesis' : 'agent'}\npersona: Answer.\nschema: ${schema}\nsampling: { temperature: 0, max_tokens: ${short.includes(key) ? SHORT : LONG} }\n`,
    );
  writeFileSync(join(at, 'agents/orderings.yaml'), 'default: [[a, b, c]]\n');
}

const itemsIn = (at: string, name: string): Item[] =>
  readFileSync(join(at, name), 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
const shown = ({ steps = [], decision }: Item): string =>
  [...steps, ...(decision ? [decision] : [])]
    .map(({ agent, output }) => (output === undefined ? `${agent}!` : agent))
    .join(' ');

test.each<[string, string[], string]>([
  ['sequential', ['a'], 'a!'],
  ['sequential', ['b'], 'a b!'],
  ['independent', ['a'], 'a! b c'],
  ['independent', ['b'], 'a b! c'],
  ['independent', ['a', 'c'], 'a! b c!'],
  ['independent', ['a', 'b', 'c'], 'a! b! c!'],
  ['independent', ['d'], 'a b c d!'],
  ['peer', ['a'], 'a! b c'],
  ['peer', ['a', 'c'], 'a! b c!'],
])('%s, where %j fail: %s', async (topology, short, asked) => {
  const at = folder();
  agents(at, short);
  const flags = `--agents agents --topology ${topology} --attempts 1 ${server.flags}`;
  writeFileSync(join(at, 'in.ndjson'), '{"id":"1","prompt":"x"}\n{"id":"2","prompt":"y"}\n');
  const ran = await fw(`fw chain ${flags} --ordered --ledger led in.ndjson > out.ndjson`, { cwd: at });
  expect(ran.code, ran.stderr).toBe(1);
  for (const item of itemsIn(at, 'out.ndjson')) {
    expect(shown(item)).toBe(asked);
    expect(item.failure?.agent).toBe(short[0]);
    expect(item.steps?.every(step => step !== null)).toBe(true);
  }

  // the same command again asks nothing and gives the same bytes
  const requests = server.requests();
  await fw(
    `fw chain --agents agents --topology ${topology} --attempts 1 --ordered --ledger led in.ndjson > again.ndjson`,
    { cwd: at },
  );
  expect(readFileSync(join(at, 'again.ndjson'), 'utf8')).toBe(readFileSync(join(at, 'out.ndjson'), 'utf8'));
  expect(server.requests()).toBe(requests);

  // mended, the failed ones are asked again, and those that could not be asked; the answers that were there stay
  agents(at, []);
  const healed = await fw(
    `fw chain --retry-failed --ordered ${flags} --ledger led out.ndjson > healed.ndjson; fw verify --agents agents --expect 2 healed.ndjson`,
    { cwd: at },
  );
  expect(healed.code, healed.stderr).toBe(0);
  const turns = topology === 'peer' ? [...KEYS, ...KEYS] : KEYS;
  const before = itemsIn(at, 'out.ndjson');
  const after = itemsIn(at, 'healed.ndjson');
  for (const [nth, item] of after.entries()) {
    expect(shown(item)).toBe([...turns, 'd'].join(' '));
    for (const [turn, step] of (before[nth]?.steps ?? []).entries())
      if (step.output !== undefined) expect(item.steps?.[turn]).toEqual(step);
  }
  const kept = before.flatMap(({ steps = [] }) => steps).filter(({ output }) => output !== undefined).length;
  expect(server.requests() - requests).toBe(2 * (turns.length + 1) - kept);
});

test('agent-step leaves an item as it is that failed at another agent', async () => {
  const at = folder();
  agents(at, ['b']);
  writeFileSync(join(at, 'in.ndjson'), '{"id":"1","prompt":"x"}\n');
  const flags = `--agents agents ${server.flags}`;
  await fw(`fw chain ${flags} --attempts 1 in.ndjson > failed.ndjson`, { cwd: at });
  agents(at, []);
  for (const key of ['a', 'c', 'd']) {
    const ran = await fw(
      `fw agent-step ${flags} --agent ${key} --retry-failed failed.ndjson > after.ndjson`,
      {
        cwd: at,
      },
    );
    expect([ran.code, itemsIn(at, 'after.ndjson')], ran.stderr).toEqual([1, itemsIn(at, 'failed.ndjson')]);
  }
  await fw(`fw agent-step ${flags} --agent b --retry-failed failed.ndjson > after.ndjson`, { cwd: at });
  expect(itemsIn(at, 'after.ndjson').map(shown)).toEqual(['a b']);
});
