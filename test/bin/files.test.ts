/** Files that options name: what a schema says of them is all that has to be said. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { commands } from '../../bin/commands/index.ts';
import { parseFlags } from '../../bin/flags.ts';
import { begunAt, pidNamespace } from '../../engine/core/files/process.ts';
import { Fatal } from '../../engine/core/item/failure.ts';
import type { Command } from '../../engine/flow/command.ts';
import type { OptionSchemas } from '../../engine/flow/options.ts';
import { type Stage, stagesOf } from '../../engine/flow/stage.ts';
import { optionsOf } from '../../engine/running/stage-options.ts';
import { refuseOverwriting } from '../../engine/running/to-files.ts';
import { stages } from '../../stages/index.ts';
import { every } from '../all.ts';
import { folder, ROOT, shell } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';

const AGENTS = join(ROOT, 'pipelines', 'fairwatch', 'agents');

const all: Stage[] = [];
for (const load of Object.values(stages)) {
  const { default: made } = await load();
  if (!('row' in made)) all.push(...stagesOf(made));
}
const commandOptions: [string, OptionSchemas][] = [];
for (const load of Object.values(commands)) {
  const within = (command: Command): [string, OptionSchemas][] => [
    [command.name, command.options],
    ...Object.values(command.verbs ?? {}).flatMap(within),
  ];
  commandOptions.push(...within((await load()).default));
}
const filesIn = (options: OptionSchemas): [string, string][] =>
  Object.entries(options).flatMap(([name, schema]) =>
    'file' in schema && schema.file ? [[name, schema.file] as [string, string]] : [],
  );
const written = all.flatMap(stage =>
  filesIn(optionsOf(stage))
    .filter(([, use]) => use === 'write')
    .map(([option]): [string, string] => [stage.name, option]),
);

let one: Servers;
beforeAll(async () => {
  one = await servers(1);
});

/** Every path below `at` with its kind, times and bytes. */
function snapshot(at: string): Record<string, string> {
  const seen: Record<string, string> = {};
  for (const name of ['.', ...readdirSync(at, { recursive: true, encoding: 'utf8' })].sort()) {
    const path = join(at, name);
    const stat = lstatSync(path, { bigint: true });
    const bytes = stat.isFile() ? readFileSync(path, 'base64') : '';
    seen[name] = `${stat.mode} ${stat.ino} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs} ${bytes}`;
  }
  return seen;
}

test('an option whose description speaks of a file or a folder says in its schema what it does with it', () => {
  const described = [...all.map(stage => [stage.name, optionsOf(stage)] as const), ...commandOptions];
  const silent = described.flatMap(([verb, options]) =>
    Object.entries(options)
      .filter(([, schema]) => schema.type === 'string' || schema.type === 'array')
      .filter(([, schema]) => !('file' in schema && schema.file))
      .filter(([, { description }]) => /\b(?:file|files|folder|path)\b/i.test(description))
      .map(([option]) => `${verb} --${option}`),
  );
  // they speak of files and name none, or hand them to stages, which look at them
  expect([...new Set(silent)].sort()).toEqual(SPEAK_OF_FILES);
});
const SPEAK_OF_FILES = [
  'batch --input-file',
  'batch --output-file',
  'chain --passed',
  'ingest --format',
  'keys add --storage',
  'plan --set',
  'run --set',
  'select --id',
];

/** What a stage needs beside the option under test. */
const NEEDS: Record<string, string> = { 'agent-step': 'agent: risk_manager', merge: 'old: [old.ndjson]' };

/** A command in this process, its page thrown away. Resolves to the exit code. */
async function commanded(name: 'run' | 'plan', argv: readonly string[]): Promise<number> {
  const { default: made } = await (commands[name] as () => Promise<{ default: Command }>)();
  const spoken = { name, summary: '', positional: '', options: made.options, examples: [] };
  const { values, positionals } = await parseFlags(spoken, argv);
  const stdout = vi.spyOn(process.stdout, 'write').mockImplementation((_text: unknown, then?: unknown) => {
    if (typeof then === 'function') then();
    return true;
  });
  const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  try {
    return await made.run(values as never, positionals);
  } catch (error) {
    if (error instanceof Fatal) return error.exit;
    throw error;
  } finally {
    stdout.mockRestore();
    stderr.mockRestore();
  }
}

describe('fw run --dry-run and fw plan write nothing', () => {
  const item =
    '{"id":"a","prompt":"Credit score: 700","failure":{"stage":"x","code":"call-failed","message":"m"}}\n';
  // --failures is every stage's, by the same code
  const own = written.filter(([, option]) => option !== 'failures');
  const shared = written.filter(([, option]) => option === 'failures');
  test.each([...own, ...every(4, shared)])('with %s: { %s: … }', async (name, option) => {
    const at = folder();
    for (const file of ['yesterday.ndjson', 'old.ndjson', 'input.ndjson'])
      writeFileSync(join(at, file), item);
    writeFileSync(join(at, 'fine.ndjson'), '{"id":"b","prompt":"Credit score: 710"}\n');
    writeFileSync(join(at, 'table.csv'), 'id,prompt\na,Credit score: 720\n');
    const asks = all.find(stage => stage.name === name)?.asks;
    const chain = `- chain: { agents: ${AGENTS} }`;
    const rows = ['yesterday.ndjson', 'new/folder/x.ndjson', 'input.ndjson', 'table.csv'].flatMap(path => {
      const own = `- ${name}: { ${[NEEDS[name]?.replace('old.nd', `${at}/old.nd`), `${option}: ${at}/${path}`].filter(Boolean).join(', ')} }`;
      if (name === 'ingest') return [[own, chain]];
      return asks
        ? [[own]]
        : [
            [own, chain],
            [chain, own],
          ];
    });
    const pipelines = rows.map((row, index) => {
      const path = join(at, `${index}.yaml`);
      writeFileSync(
        path,
        `stages:\n${row.map(line => `  ${line}\n`).join('')}output: ${at}/yesterday.ndjson\n`,
      );
      return path;
    });
    const before = snapshot(at);
    const inputs =
      name === 'ingest' ? [join(at, 'table.csv')] : [join(at, 'input.ndjson'), join(at, 'fine.ndjson')];
    // the table has none of the columns that these agents are for, so that they are to be named for the run
    const sets = name === 'ingest' ? ['--set', `chain.agents=${AGENTS}`] : [];
    const codes: number[] = [];
    for (const path of pipelines) {
      codes.push(
        await commanded('run', [path, ...inputs, ...sets, '--dry-run', '--ledger', join(at, 'ledger')]),
      );
      expect(snapshot(at), path).toEqual(before);
    }
    // what asks is reached, and the first file is the output's as well
    expect(codes[0]).toBe(64);
    expect(codes.filter(code => code <= 1).length, `${codes}`).toBeGreaterThan(0);
    const planned = await commanded('plan', [pipelines.at(-1) as string, ...inputs, '--preset', '3b-a6000']);
    expect(snapshot(at)).toEqual(before);
    expect([0, 64, 65]).toContain(planned);
  });
});

describe('a written file and another of the same run', () => {
  const linked = (make: (from: string, to: string) => void) => (from: string, to: string) => {
    make(from, to);
    return to;
  };
  const SAME: [string, (from: string, to: string) => string][] = [
    ['itself', from => from],
    ['a way around', from => join(dirname(from), 'sub', '..', '.').replace(/$/, `/./${basename(from)}`)],
    ['a symbolic link', linked(symlinkSync)],
    ['a hard link', linked(linkSync)],
  ];
  const table = all.flatMap(stage =>
    filesIn(optionsOf(stage))
      .filter(([, use]) => use === 'write')
      .flatMap(([option]) => SAME.map(([how, make]) => ({ stage, option, how, make }))),
  );
  test.each(table)(
    '$stage.name --$option on its input, as $how, is refused',
    async ({ stage, option, make }) => {
      const at = folder();
      mkdirSync(join(at, 'sub'));
      const input = join(at, 'input.csv');
      writeFileSync(input, 'id,prompt\na,b\n');
      const path = make(input, join(at, 'link.csv'));
      const run = { row: [{ stage, options: { [option]: path } }], base: at };
      await expect(refuseOverwriting({ ...run, files: [input] })).rejects.toThrow(/which it would overwrite/);
      await refuseOverwriting({ ...run, files: [input], atEnd: true });
      await refuseOverwriting({ ...run, files: [join(at, 'another')] });
      // and so with every file that another option reads
      const reads = filesIn(optionsOf(stage)).filter(([, use]) => use === 'read' || use === 'read-many');
      for (const [read] of reads) {
        const row = [{ stage, options: { [option]: path, [read]: input } }];
        await expect(refuseOverwriting({ row, base: at, files: [] }), read).rejects.toThrow(
          /would overwrite/,
        );
      }
    },
  );

  test.each([
    ['fw verify --report a.ndjson --failures ./a.ndjson in.ndjson', /a file of its own/],
    ['fw legacy-convert --provenance a --failures ./a in.ndjson', /a file of its own/],
    [
      'fw select --failures out.ndjson in.ndjson > out.ndjson',
      /a file of its own, found that of standard output/,
    ],
    ['fw select --failures /dev/stdout in.ndjson | cat', /a file of its own, found that of standard output/],
    ['fw merge --old "o*.ndjson" --failures old.ndjson in.ndjson', /than the input/],
    ['fw verify --ids ids --report ids in.ndjson', /than the input/],
    ['fw validate --schema s.json --failures s.json in.ndjson', /than the input/],
    [
      'fw select < in.ndjson >> in.ndjson',
      /output and input are the same file: \S*in\.ndjson; write to another one/,
    ],
    [
      'fw select in.ndjson >> in.ndjson',
      /output and input are the same file: \S*in\.ndjson; write to another one/,
    ],
    ['fw verify --failures old.provenance.ndjson old.ndjson', /than the input/],
    ['fw select --failures in.ndjson.provenance.ndjson in.ndjson', /than the input/],
    ['fw merge --old old.ndjson --failures old.provenance.ndjson in.ndjson', /than the input/],
    [
      'fw validate --agents agents --failures agents/a.yaml in.ndjson',
      /than those that this run is set up by/,
    ],
    ['fw validate --failures agents/a.yaml in.ndjson', /than those that this run is set up by/],
    ['fw validate --failures agents/a.schema.json in.ndjson', /than those that this run is set up by/],
    ...[
      'p.yaml',
      './sub/../p.yaml',
      'pool.yaml',
      'agents/a.yaml',
      'agents/a.schema.json',
      's.json',
      'ids',
    ].flatMap((path): [string, RegExp][] => [
      [`fw run p.yaml in.ndjson --output ${path}`, /--output .*than those that this run is set up by/],
      [
        `fw run p.yaml in.ndjson --set verify.failures=${path}`,
        /--failures .*than those that this run is set up by/,
      ],
    ]),
    [
      'fw run p.yaml in.ndjson --output out --set verify.failures=out.provenance.ndjson',
      /of its own, found that of the provenance beside the output/,
    ],
  ])('%s', async (line, says) => {
    const at = folder();
    const item = '{"id":"a","prompt":"?"}\n';
    const others = [
      'old.ndjson',
      'ids',
      's.json',
      'in.provenance.ndjson',
      'in.ndjson.provenance.ndjson',
      'old.provenance.ndjson',
    ];
    for (const name of ['in.ndjson', ...others]) writeFileSync(join(at, name), item);
    mkdirSync(join(at, 'sub'));
    mkdirSync(join(at, 'agents'));
    const definitions = {
      'agents/a.yaml':
        'key: a\nshort: a\ndisplay: A\nrole: agent\npersona: P\nschema: a.schema.json\nsampling: { temperature: 0, max_tokens: 9 }\n',
      'agents/a.schema.json': '{"type":"object"}',
      'pool.yaml': 'endpoints: [http://127.0.0.1:1/v1]\n',
      'p.yaml': 'pool: pool.yaml\nstages:\n  - validate: { schema: s.json }\n  - verify: { ids: ids }\n',
    };
    for (const [name, text] of Object.entries(definitions)) writeFileSync(join(at, name), text);
    const ran = await fw(line, { cwd: at });
    expect(ran.code, ran.stderr).toBe(64);
    expect(ran.stderr).toMatch(says);
    const untouched = line.includes('>> in.ndjson') ? ['in.ndjson', ...others] : others;
    for (const name of untouched) expect(readFileSync(join(at, name), 'utf8')).toBe(item);
    for (const [name, text] of Object.entries(definitions))
      expect(readFileSync(join(at, name), 'utf8')).toBe(text);
  });

  test('what may be shared: a null device, a report on standard output', async () => {
    const line = `echo '{"id":"a","prompt":"?"}' | fw verify --report /dev/stdout --failures /dev/null | cat`;
    const ran = await fw(line);
    expect(ran.code, ran.stderr).toBe(1); // it was asked nothing, which is no result
    expect(JSON.parse(ran.stdout)).toMatchObject({});
  });
});

describe('a file that cannot be written', () => {
  test.each(written.filter(([name]) => ['chain', 'verify', 'legacy-convert', 'merge'].includes(name)))(
    'fw %s --%s ends before anything is asked',
    async (name, option) => {
      const at = folder();
      writeFileSync(join(at, 'file'), '');
      writeFileSync(join(at, 'in.ndjson'), '{"id":"a","prompt":"Credit score: 700"}\n');
      mkdirSync(join(at, 'folder'));
      const before = one.requests();
      const flags = all.find(stage => stage.name === name)?.asks ? one.flags : '';
      const more = name === 'agent-step' ? '--agent risk_manager' : name === 'merge' ? '--old in.ndjson' : '';
      for (const [path, code, says] of [
        ['file/x', 74, /expected a folder, found a file|ENOTDIR/],
        ['folder', 64, /expected a file to write, found a folder/],
        ['folder/', 64, /expected a file to write, found the name of a folder/],
        ["''", 64, /expected a file to write, found an empty name/],
        ['-', 64, /for standard output, \/dev\/stdout/],
        ['file/x/y', 74, /expected a folder|ENOTDIR/],
        ['/proc/none/x', 74, /ENOENT|EACCES|EROFS|expected/],
      ] as const) {
        const ran = await fw(`fw ${name} ${more} ${flags} --${option} ${path} in.ndjson`, { cwd: at });
        expect(ran.code, `${path}: ${ran.stderr}`).toBe(code);
        expect(ran.stderr).toMatch(says);
        expect(ran.stderr).not.toMatch(/bug/);
      }
      expect(one.requests()).toBe(before);
    },
  );

  test.each(written.filter(([name]) => ['verify', 'select'].includes(name)))(
    'fw %s --%s makes its folder',
    async (name, option) => {
      const at = folder();
      writeFileSync(join(at, 'in.ndjson'), '{"id":"a","prompt":"?"}\n');
      const ran = await fw(`fw ${name} --${option} new/dir/x in.ndjson`, { cwd: at });
      expect([0, 1], ran.stderr).toContain(ran.code);
      expect(existsSync(join(at, 'new/dir/x'))).toBe(true);
    },
  );

  test('in a pipeline file too, the output as well', async () => {
    const at = folder();
    writeFileSync(join(at, 'in.ndjson'), '{"id":"a","prompt":"?"}\n');
    writeFileSync(
      join(at, 'p.yaml'),
      'stages: [ { verify: { report: new/dir/r.json } } ]\noutput: other/dir/x.ndjson\n',
    );
    const ran = await fw('fw run p.yaml in.ndjson; ls new/dir other/dir', { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stdout).toBe('new/dir:\nr.json\n\nother/dir:\nx.ndjson\n');
    for (const [path, code] of [
      ['in.ndjson/x', 74],
      ['new', 64],
    ] as const) {
      const refused = await fw(`fw run p.yaml in.ndjson --output ${path}`, { cwd: at });
      expect(refused.code, refused.stderr).toBe(code);
    }
  });
});

describe('a run without a line', () => {
  test('leaves an empty output, and no old one', async () => {
    const at = folder();
    writeFileSync(
      join(at, 'p.yaml'),
      'stages: [ { select: { failed: true, failures: side.ndjson } } ]\noutput: out.ndjson\n',
    );
    for (const name of ['out.ndjson', 'side.ndjson']) writeFileSync(join(at, name), 'yesterday\n');
    writeFileSync(join(at, 'in.ndjson'), '{"id":"a","prompt":"?"}\n');
    const ran = await fw('fw run p.yaml in.ndjson', { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stderr).toMatch(/wrote out\.ndjson, which is empty: there were no lines/);
    for (const name of ['out.ndjson', 'side.ndjson']) expect(readFileSync(join(at, name), 'utf8')).toBe('');
  });

  test('of a document leaves a document without results', async () => {
    const at = folder();
    writeFileSync(
      join(at, 'p.yaml'),
      'stages: [ { legacy-convert: { document: true } } ]\noutput: out.json\n',
    );
    writeFileSync(join(at, 'out.json'), 'yesterday');
    const ran = await fw('fw run p.yaml', { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
    expect(JSON.parse(readFileSync(join(at, 'out.json'), 'utf8')).results).toEqual([]);
  });

  test('names the old files of its pattern', async () => {
    const at = folder();
    writeFileSync(
      join(at, 'p.yaml'),
      'stages: [ { select: { failures: out/x_failed_y.ndjson } } ]\noutput: "out/x_{ordering}_y.ndjson"\n',
    );
    mkdirSync(join(at, 'out'));
    for (const name of ['x_risk_data_y.ndjson', 'x_data_risk_y.ndjson', 'other.ndjson'])
      writeFileSync(join(at, 'out', name), 'yesterday\n');
    const line = '{"id":"a","prompt":"?","ordering":["risk_manager","data_science"]}';
    const ran = await fw(`echo '${line}' | fw run p.yaml`, { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stderr).toMatch(/left as they were, not from this run: out\/x_data_risk_y\.ndjson\n/);
    expect(readFileSync(join(at, 'out/x_data_risk_y.ndjson'), 'utf8')).toBe('yesterday\n');
    const none = await fw('fw run p.yaml', { cwd: at });
    expect(none.stderr).toMatch(
      /left as they were, not from this run: out\/x_data_risk_y\.ndjson, out\/x_risk_data_y\.ndjson\n/,
    );
  });

  test('that could not begin leaves yesterday’s files and no other', async () => {
    const at = folder();
    writeFileSync(
      join(at, 'p.yaml'),
      'stages: [ { chain: { failures: f.ndjson } } ]\noutput: out.ndjson\nledger: false\n',
    );
    for (const name of ['out.ndjson', 'f.ndjson']) writeFileSync(join(at, name), 'yesterday\n');
    const before = snapshot(at);
    const ran = await fw(`echo '{"id":"a","prompt":"?"}' | fw run p.yaml`, { cwd: at });
    expect(ran.code, ran.stderr).toBe(64);
    const names = (seen: object): string[] => Object.keys(seen);
    expect(names(snapshot(at))).toEqual(names(before));
    for (const name of ['out.ndjson', 'f.ndjson'])
      expect(readFileSync(join(at, name), 'utf8')).toBe('yesterday\n');
  });
});

describe('unfinished files', () => {
  const partials = (at: string): string[] => readdirSync(at).filter(name => name.endsWith('.partial'));

  test('of a killed run are gone once a later run has finished', async () => {
    const at = folder();
    writeFileSync(
      join(at, 'p.yaml'),
      'stages: [ { select: { failures: side.ndjson } } ]\noutput: out.ndjson\n',
    );
    const child = spawn(process.execPath, [join(ROOT, 'dist/bin/fw.js'), 'run', 'p.yaml'], { cwd: at });
    child.stdin.on('error', () => {});
    child.stdin.write(
      '{"id":"a","prompt":"?"}\n{"id":"b","failure":{"stage":"s","code":"call-failed","message":"m"}}\n',
    );
    while (!partials(at).some(name => name.startsWith('side') && readFileSync(join(at, name)).length > 0))
      await new Promise(resolve => setTimeout(resolve, 20));
    expect(partials(at)).toHaveLength(2);

    // while it goes on its files are its own
    const beside = await fw(`echo '{"id":"c","prompt":"?"}' | fw run p.yaml`, { cwd: at });
    expect(beside.code, beside.stderr).toBe(0);
    expect(partials(at)).toHaveLength(2);
    expect(beside.stderr).toMatch(/next to it is .*out\.ndjson\..*\.partial, of another run/);

    child.kill('SIGKILL');
    await once(child, 'close');
    const again = await fw(`echo '{"id":"d","prompt":"?"}' | fw run p.yaml`, { cwd: at });
    expect(again.code, again.stderr).toBe(0);
    expect(partials(at)).toEqual([]);
    expect(again.stderr).toMatch(
      /removed 2 unfinished files that killed runs had left, such as out\.ndjson\..*\.partial\n/,
    );
    expect(readFileSync(join(at, 'out.ndjson'), 'utf8')).toBe('{"id":"d","prompt":"?"}\n');
  });

  test('of anybody else stay as they are', async () => {
    const at = folder();
    writeFileSync(join(at, 'p.yaml'), 'stages: [ { select: {} } ]\noutput: out.ndjson\n');
    const gone = 2 ** 22 + 1; // beyond the greatest process id of Linux
    const begun = begunAt(process.pid) ?? '0';
    const here = `${/\d+/.exec(pidNamespace() ?? '')?.[0] ?? '0'}-0123456789abcdef@${hostname()}`;
    const kept = [
      `out.ndjson.${gone}-1-${here.replace(hostname(), 'elsewhere')}.partial`,
      `out.ndjson.${gone}-1-1${here}.partial`,
      `out.ndjson.${process.pid}-${begun}-${here}.partial`,
      'out.ndjson.4711.partial',
      'out.ndjson.partial',
      'out.ndjson.mine.partial',
      `out.ndjson.${gone}-1@${hostname()}.partial`,
      `other.ndjson.${gone}-1-${here}.partial`,
      `out.ndjson.bak.${gone}-1-${here}.partial`,
      `out.ndjson.-1-1-${here}.partial`,
      `out.ndjson.0-1-${here}.partial`,
    ];
    const removed = [`out.ndjson.${gone}-1-${here}.partial`, `out.ndjson.${process.pid}-1-${here}.partial`];
    for (const name of [...kept, ...removed]) writeFileSync(join(at, name), 'x');
    const ran = await fw(`echo '{"id":"d","prompt":"?"}' | fw run p.yaml`, { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
    expect(partials(at).sort()).toEqual([...kept].sort());
    for (const name of kept.slice(0, 4)) expect(ran.stderr).toContain(name);
    expect(ran.stderr).toContain(`removed 2 unfinished files that killed runs had left, such as out.ndjson.`);
    expect(ran.stderr.match(/removed /g)).toHaveLength(1);
  });
});

describe('outputs that are no regular file', () => {
  const at = folder();
  beforeAll(() => {
    writeFileSync(join(at, 'p.yaml'), 'stages: [ { select: { failures: side } } ]\noutput: out\n');
    writeFileSync(join(at, 'in.ndjson'), '{"id":"a","prompt":"?"}\n');
  });
  test.each([
    ['fw run p.yaml in.ndjson --output /dev/null', ''],
    ['fw run p.yaml in.ndjson --output /dev/stdout', '{"id":"a","prompt":"?"}\n'],
    ['fw run p.yaml in.ndjson --output /dev/stdout > f; cat f', '{"id":"a","prompt":"?"}\n'],
    ['fw run p.yaml in.ndjson --output -', '{"id":"a","prompt":"?"}\n'],
    [
      'mkfifo pipe; (sleep 0.3; cat pipe) & fw run p.yaml in.ndjson --output pipe; wait',
      '{"id":"a","prompt":"?"}\n',
    ],
    ['mkfifo pipe2; (sleep 0.3; cat pipe2) & fw select --failed --failures pipe2 < /dev/null; wait', ''],
  ])('%s', async (line, out) => {
    const ran = await fw(line, { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stdout).toBe(out);
  });

  test('a link whose file is not there leads to it', async () => {
    const ran = await fw(
      'mkdir sub; ln -s sub/there link; fw run p.yaml in.ndjson --output link && readlink link && cat sub/there',
      { cwd: at },
    );
    expect(ran.stdout, ran.stderr).toBe('sub/there\n{"id":"a","prompt":"?"}\n');
  });

  test('so does a chain of links, over folders, and one that has no end is refused', async () => {
    const ran = await fw(
      'mkdir -p c/d e; ln -s ../c/d e/dir; ln -s e/dir/l2 l1; ln -s ../l3 c/d/l2; ln -s end c/l3; fw run p.yaml in.ndjson --output l1 && readlink l1 c/d/l2 c/l3 && cat c/end',
      { cwd: at },
    );
    expect(ran.stdout, ran.stderr).toBe('e/dir/l2\n../l3\nend\n{"id":"a","prompt":"?"}\n');
    const round = await fw('ln -s r2 r1; ln -s r1 r2; fw run p.yaml in.ndjson --output r1', { cwd: at });
    expect([64, 74], round.stderr).toContain(round.code);
    expect(round.stderr).toMatch(/^fw run: .*r1/);
  });

  test('a pipe that nobody reads is waited for, and the wait ends with the first signal', async () => {
    expect((await shell('mkfifo nobody', { cwd: at })).code).toBe(0);
    const cli = join(ROOT, 'dist', 'bin', 'fw.js');
    const child = spawn(process.execPath, [cli, 'run', 'p.yaml', 'in.ndjson', '--output', 'nobody'], {
      cwd: at,
    });
    const closed = once(child, 'close');
    let said = '';
    for await (const chunk of child.stderr) {
      said += chunk;
      if (!child.killed && said.includes('waiting for a reader of the pipe nobody')) child.kill('SIGINT');
    }
    expect(await closed, said).toEqual([130, null]);
  });
});
