/** What the verbs of `fw ledger` share: which ledger, what is said of what cannot be read, aligned columns. */

import { ledgerFiles, type Tell } from '../../engine/asking/ledger/read-ledger.ts';
import { EXIT } from '../../engine/core/item/failure.ts';
import { cut, number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import type { OptionSchemas } from '../../engine/flow/options.ts';

export const LEDGER = {
  ledger: {
    type: 'string',
    file: 'read-folder',
    description: 'Ledger folder, or one file of it. Default: FW_LEDGER, else ledger/.',
  },
} as const satisfies OptionSchemas;

export function placeOf(ledger: string | undefined): string {
  return ledger ?? (process.env.FW_LEDGER || 'ledger/');
}

export interface Reading {
  at: string;
  paths: string[];
  tell: Tell;
  /** Says how much more there was to say. The exit code: 65 where something is damaged, 74 where it cannot be read. */
  end(): number;
}

/** Troubles that are named; a file can have millions. */
const MAX_NAMED_DAMAGES = 100;

/** `say` is handed lines about what cannot be read; `torn`: about torn tails too, though they cost nobody anything. */
export function openReading(
  ledger: string | undefined,
  say: (line: string) => void,
  { torn = false } = {},
): Reading {
  const at = placeOf(ledger);
  let told = 0;
  let exit: number = EXIT.ok;
  const tell: Tell = ({ path, kind, message }) => {
    if (kind === 'torn' && !torn) return;
    if (kind === 'unreadable') exit = EXIT.io;
    else if (kind === 'damage' && exit === EXIT.ok) exit = EXIT.data;
    told += 1;
    if (told <= MAX_NAMED_DAMAGES) say(visible(cut(`${path}: ${message}`, 1_000)));
  };
  return {
    at,
    paths: ledgerFiles(at, tell),
    tell,
    end() {
      if (told > MAX_NAMED_DAMAGES) say(`and ${number(told - MAX_NAMED_DAMAGES)} more of this kind`);
      return exit;
    },
  };
}

export function toStderr(verb: string): (line: string) => void {
  return line => process.stderr.write(`fw ledger ${verb}: ${line}\n`);
}

/** `812 in (43 % cached), 148 out`; of an answer without usage, or of no other, `unknown`. */
export function tokensOf({ in: prompt, cached, out }: { in: number; cached: number; out: number }): string {
  if (prompt === 0 && out === 0) return 'unknown';
  const share = cached > 0 ? ` (${Math.round((100 * cached) / prompt)} % cached)` : '';
  return `${number(prompt)} in${share}, ${number(out)} out`;
}
