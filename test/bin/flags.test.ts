/** What is typed: mistyped options and verbs name the right one, values may begin with a dash, `--` ends options. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { commands } from '../../bin/commands/index.ts';
import { parseFlags } from '../../bin/flags.ts';
import { Fatal } from '../../engine/core/item/failure.ts';
import { editsBetween, nearest } from '../../engine/core/item/wording.ts';
import type { Command } from '../../engine/flow/command.ts';
import type { OptionSchemas } from '../../engine/flow/options.ts';
import { stagesOf } from '../../engine/flow/stage.ts';
import { optionsOf } from '../../engine/running/stage-options.ts';
import { stages } from '../../stages/index.ts';
import { every } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

/** Every verb with its options. */
const verbs: [string, OptionSchemas][] = [];
for (const [name, load] of Object.entries(stages)) {
  verbs.push([name, Object.assign({}, ...stagesOf((await load()).default).map(optionsOf))]);
}
for (const [name, load] of Object.entries(commands)) {
  const all = (command: Command): [string, OptionSchemas][] => [
    [command.name, command.options],
    ...Object.values(command.verbs ?? {}).flatMap(all),
  ];
  verbs.push(...all((await load()).default), [name, {}]);
}

const parse = (options: OptionSchemas, ...argv: string[]) =>
  parseFlags({ name: 'x', summary: '', positional: '', options, examples: [] }, argv);
const refused = async (options: OptionSchemas, ...argv: string[]): Promise<string> => {
  try {
    await parse(options, ...argv);
  } catch (error) {
    expect(error).toBeInstanceOf(Fatal);
    expect((error as Fatal).exit).toBe(64);
    return (error as Fatal).message;
  }
  throw new Error(`${argv.join(' ')} was taken`);
};

/** One letter left out, doubled, swapped with the next, or another. */
const slip = (word: string, at: number, kind: number): string => {
  const [before, letter = '', after] = [word.slice(0, at), word[at], word.slice(at + 1)];
  if (kind === 0) return before + after;
  if (kind === 1) return before + letter + letter + after;
  if (kind === 2) return before + (after[0] ?? '') + letter + after.slice(1);
  return `${before}q${after}`;
};

test('a slip in the name of any option of any verb is answered with that option', async () => {
  const table = verbs.flatMap(([, options]) => Object.keys(options).map(name => ({ options, name })));
  expect(table.length).toBeGreaterThan(100);
  for (const { options, name } of every(5, table)) {
    for (const kind of [0, 1, 2, 3]) {
      for (let at = 0; at < name.length; at++) {
        const typed = slip(name, at, kind);
        if (name.length < 4 || typed in options || typed.startsWith('-') || typed.startsWith('no-')) continue;
        const told = await refused(options, `--${typed}`);
        // some are told in a sentence of their own
        const meant =
          /did you mean '--([^']+)'\?/.exec(told)?.[1] ??
          new RegExp(`--(${name})\\b`).exec(told.split(';').slice(1).join())?.[1];
        expect(meant, `--${typed} for --${name}: ${told}`).toBeDefined();
        expect(editsBetween(typed, meant as string)).toBeLessThanOrEqual(editsBetween(typed, name));
      }
    }
  }
});

test('a slip in any verb is answered with that verb, and what is like none with no guess', () => {
  const known = [...Object.keys(stages), ...Object.keys(commands)];
  for (const name of known) {
    for (let at = 0; at < name.length; at++) {
      for (const kind of [0, 1, 2, 3]) {
        const typed = slip(name, at, kind);
        if (known.includes(typed)) continue;
        // export and report are one edit from eport
        const asNear = known.filter(other => editsBetween(typed, other) <= editsBetween(typed, name));
        expect(asNear, typed).toContain(nearest(typed, known));
      }
    }
  }
  for (const word of ['', 'zzzzzz', 'x'.repeat(100_000), '日本語', 'tickets.csv'])
    expect(nearest(word, known), word).toBeNull();
});

test('edits are a distance', () => {
  const word = fc.string({ maxLength: 8 });
  fc.assert(
    fc.property(word, word, word, (a, b, c) => {
      expect(editsBetween(a, a)).toBe(0);
      expect(editsBetween(a, b)).toBe(editsBetween(b, a));
      expect(editsBetween(a, b)).toBeGreaterThanOrEqual(Math.abs(a.length - b.length));
      expect(editsBetween(a + c, b + c)).toBeLessThanOrEqual(editsBetween(a, b));
    }),
  );
});

describe('values and words that begin with a dash', () => {
  const options = {
    id: { type: 'array', items: { type: 'string' }, description: '' },
    value: { type: 'string', description: '' },
    failed: { type: 'boolean', description: '' },
    count: { type: 'integer', description: '' },
  } as const satisfies OptionSchemas;

  const text = fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom('"', "'", '-', '=', 'a') }));

  test('any text is a value behind =, and any that has not two dashes behind a space', async () => {
    await fc.assert(
      fc.asyncProperty(text.filter(Boolean), text, async (id, value) => {
        const spaced = id.startsWith('--') ? [`--id=${id}`] : ['--id', id];
        const { values, positionals } = await parse(options, ...spaced, `--value=${value}`);
        expect(values).toMatchObject({ id: [id], value });
        expect(positionals).toEqual([]);
      }),
    );
  });

  test('behind -- everything is an argument, as it stands', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(fc.string(), fc.constantFrom('-abc', '--id', '--', '-h', '-1'))),
        async words => {
          const { positionals, help, values } = await parse(options, '--failed', '--', ...words);
          expect(positionals).toEqual(words);
          expect(help).toBeNull();
          expect(values.failed).toBe(true);
        },
      ),
    );
  });

  test('a value that was forgotten is asked for', async () => {
    expect(await refused(options, '--id', '--failed')).toMatch(/--id: expected a value, found '--failed'/);
    expect(await refused(options, '--value')).toMatch(/value/);
    expect(await refused(options, '--value', '--', 'x')).toMatch(/value/);
  });

  test('one dash and several letters is a slip', async () => {
    expect(await refused(options, '-failed')).toMatch(/--failed\?/);
  });

  test.each([
    ['fw explain -- -abc items.ndjson', 0],
    ['fw select --id -abc items.ndjson | grep -q -- \'"-abc"\'', 0],
    ['fw select -- items.ndjson --failed', 65],
  ])('%s', async (line, code) => {
    const cwd = folder();
    writeFileSync(join(cwd, 'items.ndjson'), '{"id":"-abc","prompt":"?"}\n');
    const ran = await fw(line, { cwd });
    expect(ran.code, ran.stderr).toBe(code);
  });
});

test.each([
  ["select --rung 'clean, repaired'"],
  ["verify --accept 'clean, repaired'"],
  ["validate --skip 'percent, fraction'"],
  ["synthesize-decision --redo 'zero-confidence, no-valid-answer'"],
])('fw %s: a space behind a comma is no part of a name', async line => {
  const ran = await fw(`fw ${line}`, {
    stdin: '{"failure":{"stage":"x","code":"call-failed","message":"m"}}\n',
  });
  expect(ran.stderr).not.toMatch(/expected (?:some|one|a rule)/);
  expect([0, 1], ran.stderr).toContain(ran.code);
});

test.each([
  ['fw ingets prompts.csv', /did you mean 'fw ingest'\?/],
  ['fw verfy', /did you mean 'fw verify'\?/],
  ['fw ledger shwo', /found 'shwo'; did you mean 'show'\?/],
  ['fw chain --endpont http://a/v1', /found '--endpont'; did you mean '--endpoint'\?/],
  ['fw chain --no-decison', /did you mean '--no-decision'\?/],
  ['fw run --dryrun x.yaml', /did you mean '--dry-run'\?/],
  ['fw chain --request-timeout 5m', /did you mean '--timeout'\?/],
  // by the names of other tools
  ['fw chain --base-url http://a/v1', /found '--base-url'; did you mean '--endpoint'\?/],
  ['fw batch --api_base http://a/v1', /did you mean '--endpoint'\?/],
  ['fw chain --concurrency 9', /found '--concurrency'; did you mean '--endpoint-limit'\?/],
  ['fw run --num-workers 9', /did you mean '--endpoint-limit'\?/],
  ['fw bench --max-concurrency 9', /did you mean '--concurrency'\?/],
  ['fw bench --num-prompts 9', /did you mean '--requests'\?/],
  ['fw bench --request-rate 9', /did you mean '--rate'\?/],
  ['fw bench --base-url http://a', /did you mean '--endpoint'\?/],
  ['fw bench --port 8000', /did you mean '--endpoint'\?/],
  ['fw serve --port 8000', /did you mean '--listen'\?/],
  ['fw bench --random-input-len 9', /did you mean '--input-tokens'\?/],
  ['fw bench --save-result', /did you mean '--json'\?/],
  ['fw bench --dataset-path a', /name input files after the options, without a flag/],
  ['fw bench --tokenizer a', /the server counts the tokens/],
  ['fw tune --base-url http://a', /set it in the tune file/],
  ['fw chain --max-retries 3', /did you mean '--attempts'\?/],
  ['fw batch --max-retries 3', /failed calls are retried without an option/],
  ['fw batch --input a', /did you mean '--input-file'\?/],
  ['fw chain --input a', /name input files after the options/],
  ['fw verify --output a', /redirect standard output: > FILE/],
  ['fw run --output-file a', /did you mean '--output'\?/],
  ['fw chain --temperature 1', /set it in the agent file, under sampling/],
  ['fw plan --num-prompts 9', /did you mean '--requests'\?/],
  ['fw plan --base-url http://a', /--calibrate URL measures one/],
  ['fw run --num-prompts 9', /did you mean '--limit'\?/],
  ['fw batch --num-prompts 9', /pipe in fewer lines: head -n N/],
  ['fw run --request-rate 9', /limit calls in flight with --endpoint-limit N/],
  ['fw batch --max-concurrency 9', /did you mean '--endpoint-limit'\?/],
  ['fw serve --request-rate 9', /fw keys add NAME --rpm N/],
  ['fw simulate --base-url http://a', /did you mean '--host'\?/],
  ['fw run --resume', /the same command again asks only what is missing/],
  ['fw run --max-errors 1', /did you mean '--max-failed'\?/],
  ['fw ingest --num-samples 2', /did you mean '--limit'\?/],
  ['fw verify --concurrency 9', /found '--concurrency'; fw verify --help/],
  [
    'fw agent-step --agent risk,data --endpoint http://127.0.0.1:9/v1',
    /--agent risk,data: expected one agent, found 2/,
  ],
  ['fw agent-step --agent risk-data --endpoint http://127.0.0.1:9/v1', /expected one agent, found 2/],
])('%s ends with 64 and says what is meant', async (line, says) => {
  const ran = await fw(line);
  expect(ran.code).toBe(64);
  expect(ran.stderr).toMatch(says);
});

test('a pipeline file too', async () => {
  const cwd = folder();
  writeFileSync(join(cwd, 'a.yaml'), 'stages: [ { selct: {} } ]\n');
  writeFileSync(join(cwd, 'b.yaml'), 'stages:\n  - select: { rnug: clean }\n');
  const ran = await fw('fw run a.yaml; fw run b.yaml', { cwd });
  expect(ran.stderr).toMatch(/a\.yaml:1:\d+: .*found 'selct'; did you mean 'select'\?/);
  expect(ran.stderr).toMatch(/b\.yaml:2:\d+: .*'rnug'; did you mean 'rung'\?/);
});

test('fw run --limit leaves the rest of the input unread', async () => {
  const cwd = folder();
  writeFileSync(join(cwd, 'p.yaml'), 'stages: [ { select: {} } ]\n');
  const ran = await fw(`(yes '{"id":"a"}' || true) | fw run p.yaml --limit 5 --output -`, { cwd });
  expect(ran.code, ran.stderr).toBe(0);
  expect(ran.stdout).toBe('{"id":"a"}\n'.repeat(5));
  expect(ran.stderr).toMatch(/in 5 = 5 clean/);
});

test('help shows every number as one, and options under the heading of their group', async () => {
  for (const [name, options] of verbs) {
    const { help } = await parse(options, '--help');
    const page = (help as string).replaceAll(/\n {8,}/g, ' ');
    for (const [option, schema] of Object.entries(options)) {
      const line = page.split('\n').find(text => new RegExp(`^ +(?:-\\w, )?--${option} `).test(text)) ?? '';
      const number = schema.type === 'integer' || schema.type === 'number';
      expect(line.includes('[number]'), `fw ${name}: ${line}`).toBe(number);
      const above = page.slice(0, page.indexOf(line)).match(/^\w+:$/gm) ?? [];
      expect(above.at(-1), `fw ${name} --${option}`).toBe(`${schema.group ?? 'Options'}:`);
    }
  }
});
