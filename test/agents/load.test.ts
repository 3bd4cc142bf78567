/** Agent files: the packaged ones load, and whatever is wrong with a folder is said with file, line and column. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { folderOfAgents, loadAgents } from '../../engine/asking/agents/load-agents.ts';
import { packageRoot } from '../../engine/core/config/package.ts';
import { Fatal } from '../../engine/core/item/failure.ts';
import { runs } from '../all.ts';

const packaged = join(packageRoot(), 'pipelines/fairwatch/agents');

/** aliases or keys of a file */
const MANY = runs(5_000, 80_000, 'MANY');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fw-agents-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function agentYaml(key: string, more: Record<string, unknown> = {}): string {
  const agent = {
    key,
    short: key.replaceAll('_', ''),
    display: `The ${key}`,
    role: 'agent',
    persona: 'You judge.',
    schema: { type: 'object' },
    sampling: { temperature: 0.7, max_tokens: 500 },
    ...more,
  };
  return Object.entries(agent)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}\n`)
    .join('');
}

const write = (name: string, text: string | Buffer): void => writeFileSync(join(folder, name), text);

function failureOf(run: () => unknown): Fatal {
  try {
    run();
  } catch (error) {
    if (error instanceof Fatal) return error;
    throw error;
  }
  throw new Error('expected a Fatal, found none');
}

describe('the packaged agents', () => {
  const agents = loadAgents(packaged);

  test('are the five of the study, in its order', () => {
    expect(agents.agents.map(({ key, short, display }) => [key, short, display])).toEqual([
      ['risk_manager', 'risk', 'Risk Manager'],
      ['data_science', 'data', 'Data Science'],
      ['regulatory', 'regulatory', 'Regulatory Compliance'],
      ['consumer_advocate', 'consumer', 'Consumer Advocate'],
    ]);
    expect(agents.synthesis?.display).toBe('Business Decision');
    expect(agents.synthesis?.askAgain).toEqual({
      at: '/confidence_probability',
      when: [0, null],
      temperatures: [0.7, 0.9, 1.1, 1.3],
    });
    expect([...agents.byKey.keys()].sort()).toEqual([
      'business_decision',
      'consumer_advocate',
      'data_science',
      'regulatory',
      'risk_manager',
    ]);
  });

  test('ask for every key and every allowed value of their schemas, in 150 to 300 words', () => {
    for (const { persona = '', schema, key } of agents.byKey.values()) {
      expect(persona.split(/\s+/).length, key).toBeGreaterThanOrEqual(150);
      expect(persona.split(/\s+/).length, key).toBeLessThanOrEqual(300);
      expect(persona).toContain('exactly one JSON object');
      const strings = [...JSON.stringify(schema).matchAll(/"(?:required|enum)":\[([^\]]*)\]/g)];
      for (const word of strings.flatMap(match => match[1]!.split(','))) expect(persona, key).toContain(word);
    }
  });

  test('have the sampling of the study, a schema by name and a hash each', () => {
    for (const agent of agents.byKey.values()) {
      expect(agent.sampling).toEqual({ temperature: 0.7, max_tokens: 500 });
      expect(agent.schemaName).toBe(agent.role === 'agent' ? 'assessment' : 'decision');
      for (const hash of Object.values(agent.hashes)) expect(hash).toMatch(/^[0-9a-f]{16}$/);
    }
    expect(new Set([...agents.byKey.values()].map(agent => agent.hashes.persona)).size).toBe(5);
  });

  test('have defaults, none of which decides or fills the confidence of a decision', () => {
    const defaults = agents.defaults!;
    expect([...defaults.keys()]).toEqual(['assessment', 'decision', 'legacy']);
    const filled = [...defaults].flatMap(([name, rules]) => rules.map(({ at }) => `${name}/${at.join('/')}`));
    expect(filled.filter(at => /approval|^decision\/confidence|influence/.test(at))).toEqual([
      'assessment/reasoning/approval_decision_reason',
      'assessment/reasoning/approval_type_reason',
    ]);
    const lists = new Set([...defaults.values()]);
    for (const rule of defaults.get('legacy')!) expect('rules' in rule && lists.has(rule.rules)).toBe(true);
  });
});

describe('a hash', () => {
  test('follows persona, schema and sampling, and nothing else', () => {
    const hashes = [
      {},
      { display: 'Another', short: 'other' },
      { persona: 'You judge!' },
      { schema: { type: 'array' } },
      { sampling: { temperature: 0.8, max_tokens: 500 } },
    ].map(more => {
      write('one.yaml', agentYaml('one', more));
      return loadAgents(folder).byKey.get('one')!.hashes;
    });
    const [first] = hashes;
    const changed = hashes.map(each =>
      (['persona', 'schema', 'sampling'] as const).filter(part => each[part] !== first?.[part]),
    );
    expect(changed).toEqual([[], [], ['persona'], ['schema'], ['sampling']]);
  });
});

describe('a folder of your own', () => {
  test('needs no orderings and no defaults; agents stand by file name', () => {
    write('beta.yaml', agentYaml('beta'));
    write('alpha.yaml', agentYaml('alpha'));
    write('notes.md', 'ignored');
    const agents = loadAgents(folder);
    expect(agents.agents.map(agent => agent.key)).toEqual(['alpha', 'beta']);
    expect(agents.synthesis).toBeUndefined();
    expect(agents.defaults).toBeUndefined();
    expect(agents.byKey.get('beta')).toMatchObject({ schema: { type: 'object' }, schemaName: 'beta' });
  });

  test('may take a schema from a path beside the file', () => {
    mkdirSync(join(folder, 'shapes'));
    write('shapes/score.schema.json', '{"type": "object", "required": ["score"]}');
    write('one.yaml', agentYaml('one', { schema: 'shapes/score.schema.json' }));
    expect(loadAgents(folder).byKey.get('one')).toMatchObject({
      schema: { type: 'object', required: ['score'] },
      schemaName: 'score',
      schemaPath: join(folder, 'shapes/score.schema.json'),
    });
  });
});

describe('what does not fit is exit 65 with its place', () => {
  test.each<[string, string, string, RegExp]>([
    [
      'broken YAML',
      'one.yaml',
      'key: one\npersona: "open\n',
      /one\.yaml:3:1: expected YAML, found: .*quote/i,
    ],
    ['a tab', 'one.yaml', 'key: one\nsampling:\n\ttemperature: 1\n', /one\.yaml:3:1: /],
    [
      'a key twice',
      'one.yaml',
      `${agentYaml('one')}key: one\n`,
      /one\.yaml:8:1: expected YAML, found: .*unique/,
    ],
    [
      'an unknown key',
      'one.yaml',
      `${agentYaml('one')}modle: x\n`,
      /one\.yaml:8:1: expected the keys .*found 'modle'/,
    ],
    [
      'an unknown key below',
      'one.yaml',
      agentYaml('one', { sampling: { temperature: 1, max_tokens: 1, seed: 3 } }),
      /one\.yaml:7:43: sampling: expected the keys temperature, .*found 'seed'/,
    ],
    [
      'missing keys, those of its role too',
      'one.yaml',
      'key: one\nrole: agent\n',
      /one\.yaml:1:1: expected the keys 'short', 'display', 'sampling', found none/,
    ],
    [
      'missing keys, all at once',
      'one.yaml',
      'key: one\n',
      /one\.yaml:1:1: expected the keys 'display', 'role', 'sampling', found none/,
    ],
    [
      'a missing key',
      'one.yaml',
      'key: one\nshort: one\nrole: agent\nsampling: { temperature: 0, max_tokens: 9 }\n',
      /one\.yaml:1:1: expected the key 'display', found none/,
    ],
    [
      'a wrong type',
      'one.yaml',
      agentYaml('one', { persona: 12 }),
      /one\.yaml:5:10: persona: expected string, found 12/,
    ],
    [
      'a null',
      'one.yaml',
      agentYaml('one').replace('"You judge."', ''),
      /one\.yaml:5:\d+: persona: .*found nothing/,
    ],
    [
      'a wrong role',
      'one.yaml',
      agentYaml('one', { role: 'judge' }),
      /one\.yaml:4:7: role: expected agent or synthesis, found "judge"/,
    ],
    [
      'a short name that cannot be told apart',
      'one.yaml',
      agentYaml('one', { short: 'a-b' }),
      /one\.yaml:2:8: short/,
    ],
    [
      'an agent without a short name',
      'one.yaml',
      agentYaml('one', { short: undefined }),
      /expected the key 'short'/,
    ],
    [
      'a key that is not the name of the file',
      'two.yaml',
      agentYaml('one'),
      /two\.yaml:1:6: key: expected 'two'/,
    ],
    ['a list at the top', 'one.yaml', '- one\n', /one\.yaml:1:1: expected object, found a list/],
    ['an empty file', 'one.yaml', '', /one\.yaml:1:1: expected object, found nothing/],
    [
      'a schema that is not there',
      'one.yaml',
      agentYaml('one', { schema: 'no.json' }),
      /one\.yaml:6:9: schema: .*no\.json/,
    ],
    ['the other ending', 'one.yml', agentYaml('one'), /one\.yml: expected a name that ends in \.yaml/],
    ['only a synthesis', 'one.yaml', agentYaml('one', { role: 'synthesis' }), /expected agent files/],
    ['nesting without end', 'one.yaml', `key: ${'['.repeat(4 * MANY)}`, /one\.yaml/],
    ['an alias bomb', 'one.yaml', bomb(), /one\.yaml: expected YAML, found: .*alias/],
    ['aliases by the thousand', 'one.yaml', '- &a x\n- *a\n'.repeat(MANY), /one\.yaml:202:3: .*100 aliases/],
    [
      'keys by the thousand',
      'one.yaml',
      `${keys(MANY)}k0: 1\n`,
      new RegExp(`one\\.yaml:${MANY + 1}:1: .*must be unique`),
    ],
    ['a key that comes twice as an object', 'one.yaml', '1: a\n"1": b\n', /one\.yaml:2:1: .*must be unique/],
    [
      'a file beyond all measure',
      'one.yaml',
      `${agentYaml('one')}#${'x'.repeat(1 << 20)}`,
      /at most 1048576 bytes/,
    ],
  ])('%s', (_, name, text, message) => {
    write(name, text);
    const failure = failureOf(() => loadAgents(folder));
    expect(failure.message).toMatch(message);
    expect(failure.exit).toBe(65);
  });

  test('bytes that are no UTF-8', () => {
    write('one.yaml', Buffer.concat([Buffer.from(agentYaml('one')), Buffer.from([0x23, 0xff, 0xfe])]));
    expect(failureOf(() => loadAgents(folder))).toMatchObject({
      exit: 65,
      message: expect.stringContaining('UTF-8'),
    });
  });

  test.each(['short', 'display'])('two agents with one %s', field => {
    write('one.yaml', agentYaml('one', { [field]: 'same' }));
    write('two.yaml', agentYaml('two', { [field]: 'same' }));
    expect(failureOf(() => loadAgents(folder)).message).toMatch(
      new RegExp(`two\\.yaml:\\d:\\d+: ${field}: expected a name of its own, found 'same', which is one's`),
    );
  });

  test('a short name that is another agent’s key, and two syntheses', () => {
    write('one.yaml', agentYaml('one'));
    write('two.yaml', agentYaml('two', { short: 'one' }));
    expect(failureOf(() => loadAgents(folder)).message).toMatch(/two\.yaml:2:8: short: .*which is one's/);
    write('two.yaml', agentYaml('two', { role: 'synthesis' }));
    write('zed.yaml', agentYaml('zed', { role: 'synthesis' }));
    expect(failureOf(() => loadAgents(folder)).message).toMatch(/zed\.yaml:4:7: role: .*second beside two/);
  });

  test('a schema file that is no schema', () => {
    write('one.yaml', agentYaml('one', { schema: 'shape.json' }));
    for (const text of ['{', '[]', 'null']) {
      write('shape.json', text);
      expect(failureOf(() => loadAgents(folder)).message).toMatch(/shape\.json: expected a JSON Schema/);
    }
  });

  test.each([
    [
      'an unknown agent',
      'mine:\n  - [one, three]\n',
      /orderings\.yaml:2:11: mine: expected an agent .*found 'three'/,
    ],
    [
      'an agent twice',
      'mine:\n  - [one, The one]\n',
      /orderings\.yaml:2:11: mine: expected every agent once/,
    ],
    [
      'the synthesis',
      'mine:\n  - [one, end]\n',
      /orderings\.yaml:2:11: mine: expected an agent, not the synthesis/,
    ],
    ['the name all', 'all:\n  - [one]\n', /orderings\.yaml:1:1: /],
    ['the name of an agent', 'one:\n  - [one]\n', /orderings\.yaml:1:1: .*not named like an agent/],
    ['an empty list', 'mine: []\n', /orderings\.yaml:1:7: mine: /],
  ])('orderings with %s', (_, text, message) => {
    write('one.yaml', agentYaml('one'));
    write('two.yaml', agentYaml('two'));
    write('end.yaml', agentYaml('end', { role: 'synthesis' }));
    write('orderings.yaml', text);
    expect(failureOf(() => loadAgents(folder)).message).toMatch(message);
  });

  test.each([
    [
      'a null as default',
      'score:\n  - { at: /x, put: null }\n',
      /defaults\.yaml:2:20: score\.0\.put: .*found nothing/,
    ],
    ['no value', 'score:\n  - { at: /x }\n', /defaults\.yaml:2:5: score\.0: expected the key 'put'/],
    ['a place that is no pointer', 'score:\n  - { at: x, put: 1 }\n', /defaults\.yaml:2:11: score\.0\.at: /],
  ])('defaults with %s', (_, text, message) => {
    write('one.yaml', agentYaml('one'));
    write('defaults.yaml', text);
    expect(failureOf(() => loadAgents(folder)).message).toMatch(message);
  });
});

describe('the folder', () => {
  const here = (env: NodeJS.ProcessEnv = {}) => ({ folder, env });

  test('is the option, else FW_AGENTS, else ./agents, else the packaged one', () => {
    for (const name of ['base/mine', 'theirs', 'agents']) mkdirSync(join(folder, name), { recursive: true });
    write('agents/one.yaml', agentYaml('one'));
    const env = { FW_AGENTS: 'theirs' };
    expect(folderOfAgents('mine/', join(folder, 'base'), here(env))).toBe(join(folder, 'base/mine'));
    expect(folderOfAgents(undefined, join(folder, 'base'), here(env))).toBe(join(folder, 'theirs'));
    expect(folderOfAgents(undefined, folder, here())).toBe(join(folder, 'agents'));
    rmSync(join(folder, 'agents/one.yaml'));
    expect(folderOfAgents(undefined, folder, here())).toBe(packaged);
  });

  test('that was named and is not there is exit 64', () => {
    const gone = failureOf(() => folderOfAgents('gone', folder, here()));
    expect(gone).toMatchObject({
      exit: 64,
      message: `--agents: expected a folder of agent files, found none at ${folder}/gone`,
    });
    expect(failureOf(() => folderOfAgents(undefined, folder, here({ FW_AGENTS: 'gone' }))).message).toMatch(
      /^FW_AGENTS/,
    );
  });

  test('may be a copy of the packaged one, once its schemas are found', () => {
    cpSync(packaged, join(folder, 'a/b/agents'), { recursive: true });
    expect(failureOf(() => loadAgents(join(folder, 'a/b/agents'))).message).toMatch(
      /business_decision\.yaml:\d+:9: schema: expected the path of a JSON Schema, found no file at .*decision\.schema\.json/,
    );
    cpSync(join(packageRoot(), 'schemas'), join(folder, 'schemas'), { recursive: true });
    expect(loadAgents(join(folder, 'a/b/agents')).byKey.size).toBe(5);
    expect(readFileSync(join(folder, 'a/b/agents/orderings.yaml'), 'utf8')).toContain('batch4');
  });
});

function keys(count: number): string {
  return Array.from({ length: count }, (_, n) => `k${n}: 1\n`).join('');
}

function bomb(): string {
  const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
  for (let level = 1; level < 9; level++) {
    lines.push(
      `a${level}: &a${level} [${Array(9)
        .fill(`*a${level - 1}`)
        .join(', ')}]`,
    );
  }
  return `${lines.join('\n')}\n`;
}
