/** The runs of a ledger, one for each header: what `fw ledger ls` lists. */

import { ENDS, type Header, isCall, isEnd, isHeader } from '../../engine/asking/ledger/ledger-format.ts';
import { callIn, linesOf, parsed } from '../../engine/asking/ledger/read-ledger.ts';
import { nameIn } from '../../engine/core/item/account.ts';
import type { End } from '../../engine/core/item/call.ts';
import type { Usage } from '../../engine/core/item/item.ts';

export interface Run {
  path: string;
  /** null where it is lost */
  header: Header | null;
  /** tries by what became of them */
  outcomes: Map<string, number>;
  tokens: Required<Usage>;
  /** of whole lines, of damage, and of a torn tail */
  bytes: number;
  damaged: number;
  torn: number;
  /** how it ended, as its last line says; null where none does */
  end: End | null;
  /** why the file could not be read to its end; null where it could */
  unreadable: string | null;
}

/** Of one file; files that were put end to end have several. A file without a whole line is a run without a header. */
export function* runsOf(path: string): Generator<Run> {
  let run = newRun(path);
  let isBegun = false;
  const lines = linesOf(path, ({ kind, length, message }) => {
    if (kind === 'torn') run.torn += length;
    else if (length > 0) run.damaged += length;
    else run.unreadable ??= message;
  });
  for (const { bytes, header } of lines) {
    if (isBegun && isHeader(bytes)) {
      yield run;
      run = newRun(path);
    }
    isBegun = true;
    run.header = header;
    run.bytes += bytes.length + 1;
    if (isCall(bytes)) add(run, bytes);
    else if (isEnd(bytes)) run.end = endIn(bytes);
  }
  yield run;
}

function newRun(path: string): Run {
  const tokens = { prompt: 0, completion: 0, cached: 0 };
  const sums = { bytes: 0, damaged: 0, torn: 0 };
  return { path, header: null, outcomes: new Map(), tokens, ...sums, end: null, unreadable: null };
}

function endIn(bytes: Buffer): End | null {
  const { end } = parsed(bytes.toString()) ?? {};
  return typeof end === 'string' && ENDS.includes(end) ? (end as End) : null;
}

function add({ outcomes, tokens }: Run, bytes: Buffer): void {
  const call = callIn(bytes);
  const outcome = nameIn(outcomes, call?.outcome ?? 'not understood');
  outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  tokens.prompt += call?.usage?.prompt ?? 0;
  tokens.completion += call?.usage?.completion ?? 0;
  tokens.cached += call?.usage?.cached ?? 0;
}
