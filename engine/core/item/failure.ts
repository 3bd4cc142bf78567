/**
 * Errors to throw: one fails an item (a failure is data and flows on; its codes are in codes.ts), the other ends the
 * process. Match on codes, never on messages.
 */
import type { Code } from './codes.ts';
import type { Item } from './item.ts';

/** Thrown in a stage: fails one item. `item` is how far it got, so that paid steps are kept. */
export class ItemFailure extends Error {
  override name = 'ItemFailure';
  readonly code: Code;
  readonly agent?: string;
  readonly item?: Item;
  /** JSON Pointer of the answer that is refused, where the item keeps it */
  readonly at?: string;
  constructor(code: Code, message: string, more: { agent?: string; item?: Item; at?: string } = {}) {
    super(message);
    this.code = code;
    this.agent = more.agent;
    this.item = more.item;
    this.at = more.at;
  }
}

/** Exit codes after sysexits.h and the shell's 128 + signal. */
export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 64,
  data: 65,
  unavailable: 69,
  bug: 70,
  io: 74,
  pipe: 141,
} as const;

/** Ends the run with `exit` and a message for a person: expected, found, where, what to do. */
export class Fatal extends Error {
  override name = 'Fatal';
  readonly exit: number;
  constructor(exit: number, message: string) {
    super(message);
    this.exit = exit;
  }
}

export const usageError = (message: string): Fatal => new Fatal(EXIT.usage, message);
/** Of options that something else found wrong: its error is the cause. */
export const badOptions = (cause: Error): Fatal => Object.assign(usageError(cause.message), { cause });
export const dataError = (message: string): Fatal => new Fatal(EXIT.data, message);
export const unavailable = (message: string): Fatal => new Fatal(EXIT.unavailable, message);
export const ioError = (message: string): Fatal => new Fatal(EXIT.io, message);

/** The ending that an error stands for: ours, one of the system (disk full, no permission), or a bug. */
export function fatalOf(error: unknown): Fatal {
  if (error instanceof Fatal) return error;
  const { code, syscall, message, path, stack } = error as NodeJS.ErrnoException;
  if (syscall === undefined || code === undefined) {
    return new Fatal(EXIT.bug, `a bug, please report it: ${stack ?? String(error)}`);
  }
  const hint = code === 'EMFILE' || code === 'ENFILE' ? '; raise the limit with ulimit -n 1024' : '';
  return new Fatal(
    EXIT.io,
    `expected ${syscall} to work${path ? ` on ${path}` : ''}, found ${message}${hint}`,
  );
}
