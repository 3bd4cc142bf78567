/** What the entries of the library throw. */
import { EXIT, Fatal } from './engine/core/item/failure.ts';

/** What an error is about, as a word. */
export type ErrorCode = Exclude<keyof typeof EXIT, 'ok' | 'failed'>;

/** What is wrong with a call of the library, or ended its run early. Match on `code`, never on the message. */
export class FairwatchError extends Fatal {
  override name = 'FairwatchError';
  readonly code: ErrorCode;
  constructor({ exit, message }: Fatal) {
    super(exit, message);
    this.code = Object.entries(EXIT).find(([, other]) => other === exit)?.[0] as ErrorCode;
  }
}

/** Throws it on, with a code where it is ours. */
export function rethrow(error: unknown): never {
  throw error instanceof Fatal ? new FairwatchError(error) : error;
}
