/** Which stages of a pipeline run on workers, and what travels with them. */
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { newAccount } from '../../engine/core/item/account.ts';
import { type AsksWith, type Call, CallFailure } from '../../engine/core/item/call.ts';
import type { Item } from '../../engine/core/item/item.ts';
import type { Values } from '../../engine/flow/options.ts';
import { type Stage, stagesOf, type Tools } from '../../engine/flow/stage.ts';
import { readPipeline } from '../../engine/running/pipeline.ts';
import type { OptionsOfStage } from '../../engine/running/stage-options.ts';
import { bundleOf } from '../../products/workers/bundle.ts';
import { checkMoved, expecting, movingIn, staying } from '../../products/workers/handing.ts';
import type { Files } from '../../products/workers/protocol.ts';
import { stages } from '../../stages/index.ts';
import { folder, ROOT } from '../fw.ts';

const AGENTS = join(ROOT, 'pipelines', 'fairwatch', 'agents');
/** where a pipeline file has them, in a folder of its own */
const COPIED = 'pipelines/fairwatch/agents';

/** A folder with the agents and the schemas that they name. */
function withAgents(): string {
  const at = folder();
  for (const path of [COPIED, 'schemas']) cpSync(join(ROOT, path), join(at, path), { recursive: true });
  return at;
}

/** The row of a pipeline file whose stages are `text`. */
async function rowOf(text: string, at = folder()): Promise<OptionsOfStage[]> {
  const path = join(at, 'pipeline.yaml');
  writeFileSync(path, `stages: [ ${text} ]\n`);
  return (await readPipeline(path, stages)).row;
}

const namesOf = (row: readonly OptionsOfStage[]): string => row.map(({ stage }) => stage.name).join(' ');

describe('the row is cut', () => {
  test('from the first stage that asks to the last one', async () => {
    const row = await rowOf(
      '{ ingest: {} }, { validate: {} }, { chain: {} }, { null-fix: {} }, { legacy: {} }, { verify: {} }',
    );
    const { before, moved, behind } = movingIn(row);
    expect([namesOf(before), namesOf(moved), namesOf(behind)]).toEqual([
      'ingest validate',
      'chain null-fix synthesize-decision',
      'legacy-convert verify',
    ]);
  });

  const refused: [string, string, RegExp][] = [
    ['nobody asks', '{ ingest: {} }, { verify: {} }', /expected a stage that asks, found none/],
    [
      'the whole',
      '{ chain: { decision: false } }, { select: { failed: true } }, { synthesize-decision: {} }',
      /between chain and synthesize-decision, found select, .* after synthesize-decision/,
    ],
    ['the whole, verified', '{ chain: {} }, { verify: {} }, { chain: {} }', /found verify/],
    [
      'failures before others ask',
      '{ chain: { failures: a } }, { synthesize-decision: {} }',
      /expected chain without failures, found it/,
    ],
    ['order', '{ chain: { ordered: true } }', /without ordered/],
    ['shared answers', '{ chain: { share: true } }', /without share/],
    [
      'endpoints',
      '{ chain: { endpoint: [http://a/v1] } }',
      /expected chain without endpoint, found it: workers have their own endpoints/,
    ],
    ['a wait', '{ chain: { wait: 5m } }', /without wait/],
  ];
  for (const [what, text, message] of refused)
    test(`refused: ${what}`, async () => {
      const row = await rowOf(text);
      expect(() => movingIn(row)).toThrow(message);
    });

  test('failures of the last stage, metrics and the ledger stay', async () => {
    const { moved } = movingIn(
      await rowOf(
        '{ chain: { in-flight: 9, ledger: l, metrics: "1", model: m } }, { synthesize-decision: { failures: f, grace: 1s } }',
      ),
    );
    const { failures, ledger, metrics, model, 'max-line': maxLine } = staying(moved);
    expect([failures, ledger, metrics, model, maxLine]).toEqual(['f', 'l', '1', undefined, 8 * 1024 * 1024]);
    const { row } = bundleOf(moved, ROOT);
    expect(row.map(({ stage }) => stage)).toEqual(['chain', 'synthesize-decision']);
    const names = [
      'in-flight',
      'ledger',
      'metrics',
      'failures',
      'grace',
      'fsync',
      'wait',
      'max-body',
      'total',
    ];
    for (const { options } of row) for (const name of names) expect(options).not.toHaveProperty(name);
    expect(row[0]?.options).toMatchObject({ attempts: 3, seed: 0, model: 'm', decision: true });
  });
});

/** Its files as a worker has them; returns the folder. */
function unpacked(files: Buffer | null): string {
  const at = folder();
  const told = JSON.parse(String(files)) as Files;
  for (const [path, { base64 }] of Object.entries(told.files)) {
    mkdirSync(join(at, dirname(path)), { recursive: true });
    writeFileSync(join(at, path), Buffer.from(base64, 'base64'));
  }
  return at;
}

const pathsIn = (files: Buffer | null): string[] => Object.keys((JSON.parse(String(files)) as Files).files);

/** The keys of the first call of each item, and what is asked with. */
async function askedBy(stage: string, options: Values, base: string, items: Item[]) {
  const keys: string[] = [];
  const with_: AsksWith[] = [];
  const { signal } = new AbortController();
  const tools: Tools = {
    ...{ base, files: [], signal, asking: signal, account: newAccount(''), started: new Date(0), warn() {} },
    pool: async asksWith => {
      if (asksWith) with_.push(asksWith);
      return {
        ...{ model: 'm', itemsInFlight: 1, onRoom() {}, judge() {}, close: async () => {} },
        call({ key }: Call) {
          keys.push(key);
          return Promise.reject(new CallFailure('call-failed', 'enough'));
        },
      };
    },
  };
  const [found] = stagesOf((await (stages[stage] as () => Promise<{ default: Stage }>)()).default);
  const each = await found?.each?.(options, tools);
  for (const item of items) await Promise.resolve(each?.(item)).catch(() => {});
  return { keys, with_ };
}

describe('files go along', () => {
  const items = ['risk_manager', 'data_science', 'regulatory', 'consumer_advocate'].map(
    (key, at): Item => ({ id: `a${at}`, prompt: 'p', ordering: [key] }) as Item,
  );

  test('agents that were bundled ask the same, under the same keys', async () => {
    const { moved } = movingIn(
      await rowOf(`{ chain: { agents: ${AGENTS} } }, { synthesize-decision: { agents: ${AGENTS} } }`),
    );
    const { row, files } = bundleOf(moved, ROOT);
    const at = unpacked(files);
    const here = await askedBy('chain', moved[0]?.options as Values, ROOT, items);
    const there = await askedBy('chain', row[0]?.options as Values, at, items);
    expect(here.keys).toHaveLength(items.length);
    expect(there).toEqual(here);
    expect(row.map(({ options }) => options.agents)).toEqual([`1/${COPIED}`, `1/${COPIED}`]);
  });

  test('the same wherever they lie, without what the input should be', async () => {
    const bundles = await Promise.all(
      [withAgents(), withAgents()].map(async at =>
        bundleOf(movingIn(await rowOf(`{ chain: { agents: ${COPIED} } }`, at)).moved, at),
      ),
    );
    expect(bundles[0]).toEqual(bundles[1]);
    const at = unpacked(bundles[0]?.files ?? null);
    expect(readFileSync(join(AGENTS, 'folder.yaml'), 'utf8')).toContain('expects');
    const said = JSON.parse(readFileSync(join(at, '1', COPIED, 'folder.yaml'), 'utf8'));
    expect(Object.keys(said)).toEqual(['own_words', 'passing']);
  });

  test('schemas that lie elsewhere, defaults and photos', async () => {
    const at = folder();
    mkdirSync(join(at, 'agents'));
    mkdirSync(join(at, 'schemas'));
    mkdirSync(join(at, 'photos', 'more'), { recursive: true });
    writeFileSync(
      join(at, 'agents', 'a.yaml'),
      'key: a\nshort: a\ndisplay: A\nrole: agent\npersona: You.\nschema: ../schemas/a.schema.json\nsampling: { max_tokens: 9, temperature: 0 }\n',
    );
    writeFileSync(
      join(at, 'schemas', 'a.schema.json'),
      '{"type":"object","properties":{"x":{"type":"string"}}}',
    );
    writeFileSync(join(at, 'defaults.yaml'), 'a: [ { at: /x, put: "" } ]\n');
    writeFileSync(join(at, 'photos', 'more', '1.png'), 'png');
    writeFileSync(join(at, 'secret'), 'of this machine');
    symlinkSync(join(at, 'secret'), join(at, 'photos', 'link.png'));
    const { moved } = movingIn(
      await rowOf(
        '{ chain: { agents: agents, files: photos } }, { null-fix: { agents: agents, defaults: defaults.yaml } }, { chain: { agents: agents } }',
        at,
      ),
    );
    const { row, files } = bundleOf(moved, at);
    expect(pathsIn(files)).toEqual([
      '1/more/1.png',
      '2/agents/a.yaml',
      '2/schemas/a.schema.json',
      '3/defaults.yaml',
    ]);
    expect(row.map(({ options: { agents, files, defaults } }) => [agents, files, defaults])).toEqual([
      ['2/agents', '1', undefined],
      ['2/agents', undefined, '3/defaults.yaml'],
      ['2/agents', undefined, undefined],
    ]);
    const there = unpacked(files);
    await expect(
      askedBy('chain', row[0]?.options as Values, there, items.slice(0, 0)),
    ).resolves.toBeDefined();
  });

  test('refused: more than 16 MiB, and a schema by its absolute path', async () => {
    const at = withAgents();
    mkdirSync(join(at, 'photos'));
    for (const name of ['1.png', '2.png'])
      writeFileSync(join(at, 'photos', name), Buffer.alloc(9 * 1024 * 1024));
    const { moved } = movingIn(await rowOf(`{ chain: { agents: ${COPIED}, files: photos } }`, at));
    expect(() => bundleOf(moved, at)).toThrow(
      /at most 10000 files of 16 MiB together .* found more at .*2\.png/,
    );
    const path = join(at, COPIED, 'risk_manager.yaml');
    const schema = join(at, 'schemas', 'decision.schema.json');
    writeFileSync(
      path,
      `key: risk_manager\nshort: risk\ndisplay: R\nrole: agent\nsampling: { max_tokens: 9, temperature: 0 }\nschema: ${schema}\n`,
    );
    const { moved: absolute } = movingIn(await rowOf(`{ chain: { agents: ${COPIED} } }`, at));
    expect(() => bundleOf(absolute, at)).toThrow(
      /risk_manager\.yaml:\d+:\d+: schema: expected a path from the agent file/,
    );
  });

  test('what is read is in the hash, and nothing else', async () => {
    const at = withAgents();
    const hash = async (): Promise<string> => {
      const { files } = bundleOf(movingIn(await rowOf(`{ chain: { agents: ${COPIED} } }`, at)).moved, at);
      return createHash('sha256')
        .update(files as Buffer)
        .digest('hex');
    };
    const before = await hash();
    writeFileSync(join(at, COPIED, 'notes.txt'), 'mine');
    expect(await hash()).toBe(before);
    writeFileSync(join(at, COPIED, 'defaults.yaml'), '{}\n');
    expect(await hash()).not.toBe(before);
  });
});

test('agents that cannot be used are said before anything is given out', async () => {
  const at = withAgents();
  writeFileSync(join(at, COPIED, 'regulatory.yaml'), 'key: other\n');
  const { moved } = movingIn(await rowOf(`{ chain: { agents: ${COPIED} } }`, at));
  const how = { base: at, sets: [], model: 'm' };
  await expect(checkMoved(moved, how)).rejects.toThrow(/regulatory\.yaml/);
  cpSync(AGENTS, join(at, COPIED), { recursive: true });
  await expect(checkMoved(moved, how)).resolves.toBeUndefined();
});

test('what requests ask is noted: the models that they name, and that one names none', async () => {
  const { moved } = movingIn(await rowOf('{ request: {} }'));
  const lines = { models: new Set<string>(), hasUnnamed: false };
  const { stage, options } = expecting(moved, ROOT, lines);
  const work = await stage.each?.(options, {} as Tools);
  const item = (body: object) =>
    ({ id: 'a', request: { method: 'POST', url: '/v1/completions', body } }) as Item;
  await work?.(item({ model: 'A' }));
  expect(lines).toEqual({ models: new Set(['A']), hasUnnamed: false });
  for (const body of [{}, { model: null }]) {
    lines.hasUnnamed = false;
    await work?.(item(body));
    expect(lines.hasUnnamed).toBe(true);
  }
});

test('the first item of all decides whether the agents are meant', async () => {
  const { moved } = movingIn(await rowOf('{ chain: {} }'));
  const { stage, options } = expecting(moved, ROOT, { models: new Set(), hasUnnamed: false });
  expect(stage.name).toBe('chain');
  const { signal } = new AbortController();
  const tools = {
    base: ROOT,
    sets: [],
    files: [],
    signal,
    asking: signal,
    account: newAccount(''),
    started: new Date(0),
    warn() {},
  };
  const each = await stage.each?.(options, tools as unknown as Tools);
  const ticket = { id: '1', prompt: 'p', input: { subject: 'printer' } } as unknown as Item;
  expect(() => each?.(ticket)).toThrow(/found the item 1 with other columns/);
  expect(each?.({ id: '2' } as Item)).toEqual({ id: '2' });
});
