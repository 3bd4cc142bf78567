/** What an answer was read as. */
import type { Code } from '../core/item/codes.ts';
import type { Repair, Rung } from '../core/item/item.ts';

export interface Reading {
  rung: Rung;
  /** the answer; where the rung is `failed`, the object as far as it could be read, for whoever fills what is missing */
  output?: unknown;
  /** the output as later agents are shown it (see `wordsOf`); there where the rung is not `failed` */
  compact?: string;
  /** syntax entries on the text first, then values in the order of their change */
  repairs: Repair[];
  problem?: { code: Code; message: string };
  /** where the model's own turn ends, if there is text behind it, which is never read or judged */
  turnEnd?: number;
}

export function failed(code: Code, message: string, repairs: readonly Repair[] = []): Reading {
  return { rung: 'failed', repairs: [...repairs], problem: { code, message } };
}
