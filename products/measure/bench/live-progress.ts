/** Shows a benchmark while it goes on: a table whose last row changes on a terminal, a line every ten seconds in a log. */

import { counted } from '../../../engine/core/item/wording.ts';
import type { Host, Run } from './bench.ts';
import { type Live, liveHead, liveRow, liveWords } from './live-table.ts';
import { say } from './request-sources.ts';
import { loadWords, notesOf } from './summary.ts';

const ON_TERMINAL_MS = 500;
const IN_LOG_MS = 10_000;

/** `outputTokens`: what made-up requests ask for; null where that is not known. */
export function hostOf(signal: AbortSignal, outputTokens: number | null): Host {
  const { stderr } = process;
  const { isTTY } = stderr;
  let timer: NodeJS.Timeout | undefined;
  let name = '';
  let hasHead = false;
  let look: (() => Live) | null = null;

  const draw = (live: Live): void =>
    void stderr.write(`\r\x1b[K${liveRow(name, live, stderr.columns || 80)}`);
  return {
    signal,
    warn: say,
    began(load, servers, run) {
      name = `${loadWords(load)}${servers > 1 ? ` on ${servers}` : ''}${run > 1 ? `, run ${run}` : ''}`;
      if (!isTTY) say(`${loadWords(load)} on ${counted(servers, 'server')}${run > 1 ? `, run ${run}` : ''}`);
      else if (!hasHead) stderr.write(`${liveHead(stderr.columns || 80)}\n`);
      hasHead = true;
    },
    live(next) {
      look = next;
      timer = setInterval(
        () => (isTTY ? draw(next()) : say(`${name}: ${liveWords(next())}`)),
        isTTY ? ON_TERMINAL_MS : IN_LOG_MS,
      ).unref();
    },
    ended(run: Run) {
      clearInterval(timer);
      if (isTTY && look !== null) {
        draw(look());
        stderr.write('\n');
      }
      for (const note of notesOf(run, outputTokens)) say(note);
    },
  };
}
