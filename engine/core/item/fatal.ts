import { EXIT, Fatal } from './failure.ts';

/** The ending that an error stands for: ours, one of the system (disk full, no permission), or a bug. */
export function fatalOf(error: unknown): Fatal {
  if (error instanceof Fatal) return error;
  const { code, syscall, message, path, stack } = error as NodeJS.ErrnoException;
  if (syscall === undefined || code === undefined) {
    return new Fatal(EXIT.bug, `a bug, please report it: ${stack ?? String(error)}`);
  }
  const hint = code === 'EMFILE' || code === 'ENFILE' ? '; raise the limit, by ulimit -n 1024' : '';
  return new Fatal(
    EXIT.io,
    `expected ${syscall} to work${path ? ` on ${path}` : ''}, found ${message}${hint}`,
  );
}
