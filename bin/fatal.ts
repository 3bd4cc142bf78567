import { EXIT, Fatal } from '../engine/flow/failure.ts';

/** The ending that an error stands for: ours, or one of the system (disk full, no permission). Throws what is a bug. */
export function fatalOf(error: unknown): Fatal {
  if (error instanceof Fatal) return error;
  const { code, syscall, message, path } = error as NodeJS.ErrnoException;
  if (syscall === undefined || code === undefined) throw error;
  return new Fatal(EXIT.io, `expected ${syscall} to work${path ? ` on ${path}` : ''}, found ${message}`);
}
