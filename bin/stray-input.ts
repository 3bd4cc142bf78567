/** Standard input that nobody would read, since a glob without its quotes has become file names. */
import { closeSync, constants, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { usageError } from '../engine/core/item/failure.ts';
import type { Values } from '../engine/flow/options.ts';
import type { Stage } from '../engine/flow/stage.ts';
import { optionsOf } from '../engine/running/stage-options.ts';

/**
 * `--old out/*` is `--old` and the first file for `fw`, and the others are its input, in place of standard input. Exit 64
 * where bytes wait there: they would be lost. An open pipe without a byte is nobody's mistake, such as that of a job; but
 * as the process before this one may need long for its first line, it is to be looked at again at the end. True where it
 * is still open.
 */
export function refuseStrayInput(
  stages: readonly Stage[],
  options: Values,
  files: readonly string[],
): boolean {
  if (files.length === 0 || files.includes('-')) return false;
  const many = stages.flatMap(stage => Object.entries(optionsOf(stage)));
  const [option] = many.find(([name, schema]) => isTaken(schema, options[name])) ?? [];
  const waits = option === undefined ? 'nothing' : waiting();
  if (waits !== 'bytes') return waits === 'open';
  throw usageError(
    `expected files or standard input, found both: ${files[0]} after --${option}, and bytes on standard input; quote the glob: --${option} 'out/*', or end the command with < /dev/null`,
  );
}

export const STILL_OPEN =
  "standard input was not read, because files are named; if the shell expanded a glob into them, quote it: 'out/*'";

function isTaken(schema: object, value: unknown): boolean {
  return 'file' in schema && schema.file === 'read-many' && Array.isArray(value) && value.length > 0;
}

/** What a read from standard input would give now. Of a file no byte is taken, of a pipe one. */
function waiting(): 'bytes' | 'open' | 'nothing' {
  try {
    const stat = fstatSync(0);
    if (stat.isFile()) return stat.size > position() ? 'bytes' : 'nothing';
    return stat.isFIFO() && byteCame() ? 'bytes' : 'nothing';
  } catch (error) {
    // any other: closed, or not to be asked on this system
    return (error as NodeJS.ErrnoException).code === 'EAGAIN' ? 'open' : 'nothing';
  }
}

/** How far standard input was read: a loop of the shell may have read its list to the end. */
function position(): number {
  return Number(/^pos:\s*(\d+)/m.exec(readFileSync('/proc/self/fdinfo/0', 'utf8'))?.[1] ?? 0);
}

/** Opened anew, for a read that does not wait would else make those of the other processes not wait either. */
function byteCame(): boolean {
  const fd = openSync('/proc/self/fd/0', constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return readSync(fd, Buffer.alloc(1), 0, 1, null) > 0;
  } finally {
    closeSync(fd);
  }
}
