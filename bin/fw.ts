#!/usr/bin/env node
/**
 * fw: argv → stage or command → exit code. The only place that ends the process. What is not needed for the verb at
 * hand is not loaded: a pipe starts one of these for every stage.
 */
import { closeSync, fstatSync } from 'node:fs';

/** The build writes it in, so that nothing has to be read for it. */
declare const FW_VERSION: string;

const argv = process.argv.slice(2);

process.stderr.on('error', () => {}); // a terminal that has gone away must not end the run

async function main(): Promise<number> {
  const [verb] = argv;
  if (verb === '--version' || verb === '-V') {
    process.stdout.write(`${FW_VERSION}\n`);
    return 0;
  }
  if (!isSomewhere()) {
    process.stderr.write('fw: expected a current folder, found that it was removed: cd to another one\n');
    return 74;
  }
  const { dispatch } = await import('./dispatch.ts');
  return dispatch(argv);
}

/** Whether the current folder still exists: nothing can be resolved from one that was deleted. */
function isSomewhere(): boolean {
  try {
    return process.cwd() !== '';
  } catch {
    return false;
  }
}

/** ms in which the reader of stderr takes something, or has gone to sleep */
const PATIENCE = 1_000;

/** Says the last words and leaves: once they are read, as far as anybody reads. A pipe that is full and stands still ends nothing. */
function leaveSaying(words: string, code: number): void {
  const { stderr } = process;
  stderr.write(words, () => leave(code));
  let waiting = stderr.writableLength;
  setInterval(() => {
    if (stderr.writableLength >= waiting) return void leave(code);
    waiting = stderr.writableLength;
  }, PATIENCE);
}

async function leave(code: number): Promise<void> {
  await closeHungUpTerminals();
  process.exit(code);
}

/**
 * Closes the standard streams whose terminal has hung up: the session was lost, or somebody logged out and left the run
 * behind. At its end Node sets terminals back to how they were, and aborts where that fails (Node 20: 134 in place of the
 * exit code). What is closed by then it leaves alone.
 */
async function closeHungUpTerminals(): Promise<void> {
  for (const stream of [0, 1, 2]) {
    try {
      if (!fstatSync(stream).isCharacterDevice()) continue;
      const { isatty } = await import('node:tty');
      // other devices are closed too, such as /dev/null: they have had what there was
      if (!isatty(stream)) closeSync(stream);
    } catch {
      // it was closed before
    }
  }
}

/** Node's own ending would be 1, which means that items failed. */
function leaveWithBug(error: unknown): void {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === 'EMFILE' || code === 'ENFILE') {
    // it may be that not even all of fw could be loaded
    const told = 'expected to open another file, found the limit reached: raise it with ulimit -n 1024';
    return leaveSaying(`fw: ${told}\n`, 74);
  }
  const told = (error as Error | undefined)?.stack ?? error;
  leaveSaying(`fw: a bug, please report it: ${told}\n`, 70);
}

process.on('uncaughtException', leaveWithBug);
main().then(code => leaveSaying('', code), leaveWithBug);
