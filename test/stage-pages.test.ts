/**
 * docs/stages/ has a page a stage, made of the header of its file and of its options, and an index. They are written by
 *   FW_UPDATE=1 npx vitest run test/stage-pages.test.ts
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commands } from '../bin/commands/index.ts';
import type { Group, OptionSchema, OptionSchemas } from '../engine/flow/options.ts';
import { type Stage, type StageRow, stagesOf } from '../engine/flow/stage.ts';
import { optionsOf } from '../engine/running/stage-options.ts';
import { stages } from '../stages/index.ts';
import { ROOT } from './fw.ts';

const FOLDER = join(ROOT, 'docs', 'stages');
/** The groups that several stages share, which the index has once. */
const SHARED: readonly [Group, string][] = [
  ['Asking', 'How a stage asks, and how often.'],
  ['Endpoints', 'Which servers are asked; [endpoints](../endpoints.md) has more.'],
  ['Ledger', 'Where answers are kept; [the ledger](../ledger.md) has more.'],
  ['Watching', 'What others can see of a run; [watching](../watching.md) has more.'],
  ['Common', 'Every stage has these.'],
];

const loaded = await Promise.all(
  Object.entries(stages).map(async ([name, load]) => [name, (await load()).default] as const),
);

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('<', '&lt;');

function wordFor(schema: OptionSchema): string {
  if (schema.type === 'boolean') return '';
  if ('enum' in schema && schema.enum) return ` ${schema.enum.join('\\|')}`;
  if (schema.type === 'integer' || schema.type === 'number') return ' N';
  if (!('file' in schema) || schema.file === undefined) return ' TEXT';
  return schema.file.endsWith('folder') ? ' DIR' : ' FILE';
}

function tableOf(options: OptionSchemas): string[] {
  const rows = Object.entries(options).map(([name, schema]) => {
    const standard = schema.default === undefined ? '' : ` Default: ${schema.default}.`;
    return `| \`--${name}${wordFor(schema)}\` | ${cell(schema.description)}${standard} |`;
  });
  return ['| option | |', '| --- | --- |', ...rows];
}

function optionsIn(stage: Stage | StageRow, group?: Group): OptionSchemas {
  const all: OptionSchemas = Object.assign({}, ...stagesOf(stage).map(optionsOf));
  return Object.fromEntries(Object.entries(all).filter(([, schema]) => schema.group === group));
}

/** The header as a page: its sentences, its example as a console, and Reads, Writes and Fails. */
function headerOf(name: string): string[] {
  const source = readFileSync(join(ROOT, 'stages', `${name}.ts`), 'utf8');
  const header = /^\/\*\*(.*?)\*\//s.exec(source)?.[1] as string;
  const lines = header.split('\n').map(line => line.replace(/^ ?\* ?/, '').trimEnd());
  const page: string[] = [];
  let open = false;
  for (const line of lines) {
    const example = line.startsWith('  ');
    const field = /^(Reads|Writes|Fails) +(.*)$/.exec(line);
    if (example && line.startsWith('  $ ')) page.push('', '```console');
    if (line === '' && open) page.push('```');
    if (line.startsWith('  $ ')) open = true;
    else if (line === '') open = false;
    if (open) page.push(line.slice(2));
    else if (field) page.push(`- **${field[1]}**: ${field[2]}`);
    else if (line !== '' && page.at(-1)?.startsWith('- **') && example) page.push(`  ${line.trim()}`);
    else if (example) page.push(`  ${line.trim()}`);
    else page.push(line.trim());
  }
  return page
    .join('\n')
    .replace(new RegExp(`^\\s*${name}: (.)`), (_, first: string) => first.toUpperCase())
    .trim()
    .split('\n');
}

function pageOf(name: string, stage: Stage | StageRow): string {
  const own = optionsIn(stage);
  const shared = SHARED.filter(([group]) => Object.keys(optionsIn(stage, group)).length > 0);
  const links = shared.map(([group]) => `[${group.toLowerCase()}](README.md#${group.toLowerCase()})`);
  return [
    `<!-- made from stages/${name}.ts by FW_UPDATE=1 npx vitest run test/stage-pages.test.ts -->`,
    `# ${name}`,
    '',
    ...headerOf(name),
    '',
    '## Options',
    '',
    ...(Object.keys(own).length > 0 ? [...tableOf(own), ''] : []),
    `${Object.keys(own).length > 0 ? 'Also' : 'These'}: ${links.join(', ')}.`,
    '',
    ...(stage.examples ? ['## Examples', '', '```sh', ...stage.examples, '```', ''] : []),
  ]
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n');
}

function index(): string {
  const [, chain] = loaded.find(([name]) => name === 'chain') as (typeof loaded)[number];
  return [
    '<!-- made from stages/ by FW_UPDATE=1 npx vitest run test/stage-pages.test.ts -->',
    '# The stages',
    '',
    'A stage reads NDJSON on standard input, or in the files that it is given, and writes NDJSON on',
    'standard output. Failed items pass through, unless a stage is there to take them up.',
    '',
    '| stage | what it does |',
    '| --- | --- |',
    ...loaded.map(([name, { summary }]) => `| [\`${name}\`](${name}.md) | ${cell(summary)} |`),
    '',
    `Commands are not stages: ${Object.keys(commands)
      .map(name => `\`fw ${name}\``)
      .join(', ')}.`,
    '`fw VERB --help` shows the options of each.',
    '',
    ...SHARED.flatMap(([group, text]) => [
      `## ${group}`,
      '',
      text,
      '',
      ...tableOf(optionsIn(chain, group)),
      '',
    ]),
  ].join('\n');
}

/** What an editor offers for a pipeline file: the form of one, and the options of each stage. */
function pipelineOptions(): string {
  const form = JSON.parse(readFileSync(join(ROOT, 'schemas', 'pipeline.schema.json'), 'utf8'));
  const ofStage = (stage: Stage | StageRow) => ({
    description: stage.summary,
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(
      stagesOf(stage).flatMap(each =>
        Object.entries(optionsOf(each)).map(([option, schema]) => [option, inFile(schema)]),
      ),
    ),
  });
  const { stages, pool } = form.properties;
  stages.items.additionalProperties = false;
  stages.items.properties = Object.fromEntries(loaded.map(([name, stage]) => [name, ofStage(stage)]));
  form.properties.pool = {
    description: pool.description,
    anyOf: [{ type: 'string' }, { $ref: '#/$defs/pool' }],
  };
  const {
    $schema: _,
    $defs,
    ...ofPool
  } = JSON.parse(readFileSync(join(ROOT, 'schemas', 'pool.schema.json'), 'utf8'));
  const whole = { ...form, title: 'pipeline-options', $defs: { ...$defs, pool: ofPool } };
  return `${JSON.stringify(whole, null, 1)}\n`;
}

/** As a pipeline file may write it: a text may look like a number there, and one text stands for a list of one. */
function inFile({ group: _, ...schema }: OptionSchema): object {
  const { file: _file, from: _from, ...known } = schema as typeof schema & { file?: string; from?: string };
  if (known.type === 'array') return { ...known, type: ['array', 'string'] };
  return known.type === 'string' && !known.enum ? { ...known, type: ['string', 'number'] } : known;
}

const pages = new Map([
  ['README.md', index()],
  ...loaded.map(([name, stage]) => [`${name}.md`, pageOf(name, stage)] as const),
]);
const SCHEMA = join(ROOT, 'schemas', 'pipeline-options.schema.json');
if (process.env.FW_UPDATE) {
  for (const [name, text] of pages) writeFileSync(join(FOLDER, name), text);
  writeFileSync(SCHEMA, pipelineOptions());
}

test.each([...pages])('docs/stages/%s is made of what the code says', (name, text) => {
  expect(readFileSync(join(FOLDER, name), 'utf8')).toBe(text);
});

test('the schema of a pipeline file for editors has every option', () => {
  expect(readFileSync(SCHEMA, 'utf8')).toBe(pipelineOptions());
});

test('docs/stages has no other page', () => {
  expect(readdirSync(FOLDER).sort()).toEqual([...pages.keys()].sort());
});
