/**
 * Lines of the shell whose `fw`s take no process: their arguments go through the dispatcher of bin/ in this one, with
 * files for the pipes between them, one after the other. What else is in a line runs in a shell, and so does a line that
 * is more than pipes and redirections (line.ts). `make test-all` starts processes for all of it. Not for what gets
 * signals, or has to run beside something else: one line at a time has this process.
 */
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import { dispatch } from '../bin/dispatch.ts';
import { ALL } from './all.ts';
import { runBeside, streams } from './beside.ts';
import { environment, type Ran, type RanBytes, ROOT, type ShellOptions, shell } from './fw.ts';
import { type Command, type Pipeline, parseLine, plain, type Target } from './line.ts';

let last: Promise<unknown> = Promise.resolve();

/** Runs a line as `shell` does, here as far as that can be. */
export function fw(line: string, options: ShellOptions = {}): Promise<Ran> {
  const pipelines = ALL ? null : parseLine(line);
  if (pipelines === null || !isForHere(pipelines, options)) return shell(line, options);
  const ran = last.then(() => runAll(pipelines, options));
  last = ran.catch(() => {});
  return ran;
}

const isFw = ({ words }: Command): boolean => words[0] === 'fw';

function isForHere(pipelines: readonly Pipeline[], { stdin = '', env = {} }: ShellOptions): boolean {
  if ('NODE_OPTIONS' in env) return false;
  const own = pipelines.flatMap(({ commands }) => commands.filter(isFw));
  // what one pipe leaves of the input is for the next
  if (own.length === 0 || (pipelines.length > 1 && stdin.length > 0)) return false;
  // its descriptors and its first lines are those of a process
  return !own.some(({ raw }) => /\/dev\/(?:std|fd)|\/proc\/(?:self|\d)|^\s*fw (?:-V|--version)/.test(raw));
}

async function runAll(pipelines: readonly Pipeline[], options: ShellOptions): Promise<Ran> {
  const all: Ran = { code: 0, stdout: '', stderr: '' };
  let kept: number | undefined;
  for (const { commands, after, isAside } of pipelines) {
    if (isAside) kept ??= all.code;
    if (after !== ';' && (after === '&&') !== (all.code === 0)) continue;
    const { code, stdout, stderr } = await runPipe(commands, options);
    all.code = code;
    all.stdout += stdout;
    all.stderr += stderr;
  }
  return { ...all, code: kept ?? all.code };
}

/** As `bash -o pipefail` ends: with the last code that is not 0. */
async function runPipe(commands: readonly Command[], options: ShellOptions): Promise<RanBytes> {
  const all: RanBytes = { code: 0, stdout: Buffer.from(options.stdin ?? ''), stderr: Buffer.alloc(0) };
  for (let at = 0; at < commands.length; ) {
    const next = commands.findIndex(
      (each, index) => index > at && (isFw(each) || isFw(commands[at] as Command)),
    );
    const together = commands.slice(at, next === -1 ? undefined : next);
    const given = { ...options, stdin: all.stdout };
    const [first] = together as [Command];
    const ran = isFw(first)
      ? await runHere(first, given)
      : await runBeside(together.map(({ raw }) => raw).join('|'), given);
    all.code = ran.code || all.code;
    all.stdout = ran.stdout;
    all.stderr = Buffer.concat([all.stderr, ran.stderr]);
    at += together.length;
  }
  return all;
}

/** Runs a command with its standard input and output where a process would have them, as descriptors of files. */
async function runHere(
  command: Command,
  { cwd = ROOT, env = {}, stdin = '' }: ShellOptions,
): Promise<RanBytes> {
  const argv = await argumentsOf(command, { cwd, env });
  const { given, out, err } = streams();
  if (stdin.length > 0) writeFileSync(given, stdin);
  const to = (target: Target | undefined, path: string): [string, string] =>
    target ? [resolve(cwd, target.path), target.isAdded ? 'a' : 'w'] : [path, 'w'];
  const { input, output, errors } = command;
  const isTogether = errors === 'with the output';
  const stderr = isTogether ? 1 : openSync(...to(errors, err));
  const before = { cwd: process.cwd(), env: process.env };
  put(0, input === undefined ? (stdin.length > 0 ? given : '/dev/null') : resolve(cwd, input), 'r');
  put(1, ...to(output, out));
  const restore = [into(process.stdout, 1), into(process.stderr, stderr)];
  process.chdir(cwd);
  process.env = environment(env);
  let code: number;
  try {
    code = await dispatch(argv);
  } finally {
    process.env = before.env;
    process.chdir(before.cwd);
    for (const back of restore) back();
    for (const descriptor of [0, 1]) put(descriptor, '/dev/null', 'r+');
    if (!isTogether) closeSync(stderr);
  }
  const read = (path: string, isElsewhere: boolean): Buffer =>
    isElsewhere ? Buffer.alloc(0) : readFileSync(path);
  return { code, stdout: read(out, output !== undefined), stderr: read(err, errors !== undefined) };
}

async function argumentsOf({ words }: Command, options: ShellOptions): Promise<string[]> {
  const texts = words.slice(1).map(word => plain(withVariables(word, options)));
  if (!texts.includes(null)) return texts as string[];
  const { stdout } = await runBeside(`printf '%s\\0' ${words.slice(1).join(' ')}`, options);
  return stdout.toString().split('\0').slice(0, -1);
}

/** Puts in the variables whose values are no more than words; a shell does the others. */
function withVariables(word: string, { env = {} }: ShellOptions): string {
  if (word.includes("'")) return word;
  return word.replaceAll(/\$([A-Z_]+)\b/g, (variable, name) =>
    /^[\w:/.,-]+$/.test(env[name] ?? '') ? (env[name] as string) : variable,
  );
}

/** Opens a file as a descriptor; that of the process of the tests is gone then, and nobody misses it. */
function put(descriptor: number, path: string, flags: string): void {
  closeSync(openSync(path, flags)); // throws where it cannot be opened, while nothing has changed
  closeSync(descriptor);
  const opened = openSync(path, flags);
  if (opened !== descriptor) throw new Error(`expected ${path} as descriptor ${descriptor}, found ${opened}`);
}

/** Writes what a stream is given to a descriptor, until what is returned is called. */
function into(stream: NodeJS.WriteStream, descriptor: number): () => void {
  const { write } = stream;
  stream.write = (chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
    const then = rest.find(each => typeof each === 'function') as ((error?: Error) => void) | undefined;
    let error: Error | undefined;
    try {
      const bytes = Buffer.from(chunk as string);
      for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at);
    } catch (caught) {
      error = caught as Error;
    }
    process.nextTick(() => {
      then?.(error);
      if (error) stream.emit('error', error);
    });
    return true;
  };
  return () => {
    stream.write = write;
  };
}
