/** The log of this process, on its stderr. */
import { fstatSync } from 'node:fs';
import type { Say } from '../../../engine/core/item/say.ts';
import { number } from '../../../engine/core/item/wording.ts';
import type { LogSettings } from '../serve-config.ts';
import { LineSink } from './line-sink.ts';
import { lineIn, openLog } from './log.ts';

export interface StderrLog {
  say: Say;
  /** Resolves when the reader has it all, or has had a second for it. */
  close(): Promise<void>;
}

/** `label`: what text lines name as their writer. */
export function openStderr(label: string, { format, level }: LogSettings): StderrLog {
  const lineOf = lineIn(format, label, isJournal());
  const sink = new LineSink(process.stderr, count => {
    const words = `${number(count)} lines of this log were dropped: stderr was not read`;
    return lineOf(new Date().toISOString(), 'warn', words, { event: 'log-dropped', lines: count });
  });
  // a bug ends the process from where it happens
  process.on('exit', () => sink.flush());
  return { say: openLog({ level, lineOf, sink }), close: () => sink.close() };
}

/** Whether stderr is the stream that systemd names in JOURNAL_STREAM, by device and inode (systemd.exec(5)). */
function isJournal(): boolean {
  const named = process.env.JOURNAL_STREAM;
  if (named === undefined) return false;
  try {
    const { dev, ino } = fstatSync(2);
    return named === `${dev}:${ino}`;
  } catch {
    return false;
  }
}
