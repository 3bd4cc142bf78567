/** Finds the verb and runs it; every expected ending of the process becomes its exit code here. */
import { existsSync, writeSync } from 'node:fs';
import { expandPaths, expectResults, onTerminalRead } from '../engine/core/files/input-files.ts';
import { toNowhere, toStdout, writePage } from '../engine/core/files/ndjson-out.ts';
import { EXIT, type Fatal, fatalOf, usageError } from '../engine/core/item/failure.ts';
import { incompleteLine } from '../engine/core/item/item.ts';
import { cut, didYouMean } from '../engine/core/item/wording.ts';
import { visible, visibleLines } from '../engine/core/json/visible.ts';
import type { Command } from '../engine/flow/command.ts';
import { type Stage, type StageRow, stagesOf } from '../engine/flow/stage.ts';
import { checkWritten, filesOf, optionsOf, sideFilesOf } from '../engine/running/stage-options.ts';
import { OwnInput, refuseOverwriting, runToStream } from '../engine/running/to-files.ts';
import { execute, sayAs } from '../products/kit/execute.ts';
import { stages } from '../stages/index.ts';
import { commands } from './commands/index.ts';
import { type Flags, parseFlags, type Spoken } from './flags.ts';
import { refuseStrayInput, STILL_OPEN } from './stray-input.ts';

export async function dispatch(argv: readonly string[]): Promise<number> {
  const [verb, ...rest] = argv;
  if (verb === 'help' && rest[0] !== undefined) return dispatch([...rest, '--help']);
  if (verb === undefined || ['help', '--help', '-h'].includes(verb)) {
    process.stdout.write(await overview());
    return verb === undefined ? EXIT.usage : EXIT.ok;
  }
  onTerminalRead(() => sayAs(`fw ${verb}`)('reading from the terminal; end with Ctrl-D'));
  try {
    const stage = Object.hasOwn(stages, verb) ? await stages[verb]?.() : undefined;
    if (stage) return await runStage(stage.default, rest);
    const command = Object.hasOwn(commands, verb) ? await commands[verb]?.() : undefined;
    if (command) return await runCommand(command.default, rest);
    const near = existsSync(verb)
      ? '; the verb comes first, then its files'
      : didYouMean(verb, [...Object.keys(stages), ...Object.keys(commands), 'help'], 'fw ');
    throw usageError(`no stage or command '${visible(cut(verb, 60))}'${near}; fw --help lists them`);
  } catch (error) {
    const fatal = fatalOf(error);
    if (fatal.exit === EXIT.pipe) return fatal.exit;
    process.stderr.write(`${visibleLines(`fw ${verb}: ${fatal.message}`).join('\n')}\n`);
    if (Object.hasOwn(stages, verb)) writeIncomplete(verb, fatal);
    return fatal.exit;
  }
}

async function runStage(stage: Stage | StageRow, argv: readonly string[]): Promise<number> {
  const row = stagesOf(stage);
  const { values, positionals, help } = await parseFlags(spokenStage(stage), argv);
  if (help !== null) {
    process.stdout.write(`${help}\n`);
    return EXIT.ok;
  }
  const told = row.map(each => each.tells?.(values)).find(text => text !== undefined);
  if (told !== undefined) {
    await writePage(told);
    return EXIT.ok;
  }
  const silent = row.some(each => each.looks) && values.pass !== true;
  const paths = expectResults(await expandPaths(positionals));
  refuseStrayInput(row, values, paths);
  const base = process.cwd();
  const placed = row.map(each => ({ stage: each, options: values }));
  await refuseOverwriting({ row: placed, files: paths, base, silent });
  checkWritten(placed.flatMap(sideFilesOf));
  const output = silent ? toNowhere : toStdout;
  const run = { label: stage.name, row: placed, files: paths, base, output };
  const say = sayAs(stage.name);
  const code = await runToStream(run, { start: execute, say });
  if (code <= EXIT.failed && refuseStrayInput(row, values, paths)) say(STILL_OPEN);
  return code;
}

async function runCommand(command: Command, argv: readonly string[]): Promise<number> {
  const { name, summary, positional = '', options, examples = [], verbs } = command;
  const [verb = '', ...rest] = argv;
  if (verbs && Object.hasOwn(verbs, verb)) return runCommand(verbs[verb] as Command, rest);
  const list = Object.entries(verbs ?? {}).map(([each, { summary }]) => `  ${each.padEnd(8)}${summary}`);
  const told = list.length === 0 ? summary : [summary, '', 'Verbs:', ...list].join('\n');
  const spoken = { name, summary: told, positional, options, examples };
  let flags: Flags;
  try {
    flags = await parseFlags(spoken, argv);
    if (flags.help === null) checkWritten(filesOf(options, flags.values));
  } catch (error) {
    const fatal = fatalOf(error);
    if (await command.refused?.(argv, fatal)) return fatal.exit;
    throw error;
  }
  const { values, positionals, help } = flags;
  if (help === null) return command.run(values, positionals);
  process.stdout.write(`${help}\n`);
  return EXIT.ok;
}

function spokenStage(stage: Stage | StageRow): Spoken {
  const row = stagesOf(stage);
  return {
    name: stage.name,
    summary: stage.summary,
    positional: row[0]?.positional ?? '[FILE…]',
    options: Object.assign({}, ...row.map(optionsOf)),
    examples: stage.examples ?? [],
  };
}

/** A stage that could not begin says so to the next one; nothing else was written yet. */
function writeIncomplete(stage: string, fatal: Fatal): void {
  if (process.stdout.isTTY || fatal instanceof OwnInput) return;
  const { exit, message } = fatal;
  try {
    writeSync(1, `${JSON.stringify(incompleteLine(stage, `ended with ${exit}: ${message}`))}\n`);
  } catch {
    // nobody listens, or the disk is full: the exit code has to say it alone
  }
}

async function overview(): Promise<string> {
  const lines = [
    'fw: bulk LLM inference as Unix pipes. Every stage reads NDJSON and writes NDJSON.',
    '',
    'Stages:',
  ];
  for (const [name, load] of Object.entries(stages)) {
    lines.push(`  ${name.padEnd(21)}${(await load()).default.summary}`);
  }
  lines.push('', 'Commands:');
  for (const [name, load] of Object.entries(commands)) {
    lines.push(`  ${name.padEnd(21)}${(await load()).default.summary}`);
  }
  lines.push('', 'fw VERB --help shows the options of a verb, with examples.', '');
  return lines.join('\n');
}
