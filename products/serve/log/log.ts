/**
 * The log of a server: a line for each request and each event, on stderr, as text or as JSON.
 *
 *   2026-11-26T22:25:18.123Z warn fw serve: http://gpu1:8005/v1 is down: connection refused; … endpoints_up=1
 *   {"time":"2026-11-26T22:25:18.123Z","level":"warn","event":"endpoint-down","message":"http://gpu1:8005/v1 is down: …","endpoint":…}
 *
 * Names and words of others are in it, so nothing of them may begin a line: what a terminal would obey is shown as
 * `<U+001B>`, and texts are bounded.
 */
import { fstatSync } from 'node:fs';
import { type About, LEVELS, type Level, type Say } from '../../../engine/core/item/say.ts';
import { number } from '../../../engine/core/item/wording.ts';
import { visible, visibleLines } from '../../../engine/core/json/visible.ts';
import { LineSink } from './line-sink.ts';

export const FORMATS = ['text', 'json'] as const;
export type Format = (typeof FORMATS)[number];

export interface LogOptions {
  /** lines below it are not written */
  level: Level;
  lineOf: LineOf;
  sink: Pick<LineSink, 'write'>;
  /** ms since 1970 */
  now?: () => number;
}

/** Characters of a message, which may be the stack of a bug; of any other text. */
const LONGEST_MESSAGE = 2_000;
const LONGEST_TEXT = 300;

/** of syslog, which the journal speaks: debug, info, warning, err */
const PRIORITY: Readonly<Record<Level, number>> = { debug: 7, info: 6, warn: 4, error: 3 };

export function openLog({ level, lineOf, sink, now = Date.now }: LogOptions): Say {
  const least = LEVELS.indexOf(level);
  let stampedAt = 0;
  let stamp = '';
  const timeOf = (time: number): string => {
    if (time !== stampedAt) {
      stampedAt = time;
      stamp = new Date(time).toISOString();
    }
    return stamp;
  };
  return (message, about = NOTE) => {
    const { level: own = 'info' } = about;
    if (LEVELS.indexOf(own) < least) return;
    // that of a request (it took some ms) is one of thousands a second, and may wait for others; all else is written at once
    sink.write(lineOf(timeOf(now()), own, message, about), about.ms === undefined);
  };
}

/** What a text line has said otherwise: the message of a request begins with its method, path and status. */
const SHOWN: ReadonlySet<string> = new Set(['event', 'level', 'method', 'path', 'status']);
/** Of a text, from where on it is not said again that a message has: an id, a URL. */
const LONG = 8;

/** Nothing that JSON does not know. */
const isSaid = (value: About[string]): value is string | number | boolean =>
  typeof value === 'number' ? Number.isFinite(value) : value !== undefined && value !== null;

const NOTE: About = { event: 'note' };

/** A line with its newline; `time` in ISO 8601. */
export type LineOf = (time: string, level: Level, message: string, about: About) => string;

/**
 * `label`: what text lines name as their writer. `toJournal`: stderr is systemd's journal, which reads the level at the
 * beginning of a line.
 */
export const lineIn = (format: Format, label: string, toJournal = false): LineOf =>
  format === 'json' ? jsonLine : textLine(label, toJournal);

const jsonLine: LineOf = (time, level, message, about) => {
  let line = `{"time":"${time}","level":"${level}","event":"${about.event}","message":${textOf(message, LONGEST_MESSAGE)}`;
  for (const name in about) {
    if (name === 'event' || name === 'level') continue;
    const value = about[name];
    if (!isSaid(value)) continue;
    line += `,"${name}":${typeof value === 'string' ? textOf(value, LONGEST_TEXT) : value}`;
  }
  return `${line}}\n`;
};

function textLine(label: string, toJournal: boolean): LineOf {
  return (time, level, message, about) => {
    const begin = toJournal ? `<${PRIORITY[level]}>` : '';
    const [first = '', ...more] = PLAIN.test(message)
      ? [withoutKeys(message)]
      : visibleLines(cut(withoutKeys(message), LONGEST_MESSAGE));
    let line = `${begin}${time} ${level} ${label}: ${first}`;
    for (const name in about) {
      if (SHOWN.has(name)) continue;
      const value = about[name];
      if (!isSaid(value)) continue;
      if (typeof value !== 'string') line += ` ${name}=${value}`;
      else if (value.length < LONG || !message.includes(value)) line += ` ${name}=${wordOf(value)}`;
    }
    // the journal takes each line for one of its own
    for (const next of more) line += `\n${begin}  ${next}`;
    return `${line}\n`;
  };
}

/** Nothing in it has to be shown otherwise than it is: most texts are so. */
const PLAIN = /^[\x20-\x7e]{0,300}$/;
/** … nor quoted */
const WORD = /^[\x21\x23-\x3c\x3e-\x5b\x5d-\x7e]{1,300}$/;

const wordOf = (text: string): string =>
  WORD.test(text) ? withoutKeys(text) : JSON.stringify(visible(cut(withoutKeys(text), LONGEST_TEXT)));

const textOf = (text: string, most: number): string =>
  JSON.stringify(
    PLAIN.test(text) ? withoutKeys(text) : visibleLines(cut(withoutKeys(text), most)).join('\n'),
  );

/** A key of ours is in no line, wherever somebody has put it. */
const withoutKeys = (text: string): string => (text.includes('fw_') ? text.replace(KEY, 'fw_…') : text);
const KEY = /fw_[A-Za-z0-9_-]{40,}/g;

/** What is left out is said. */
function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most)}… (${text.length - most} characters more)`;
}

/** The form of a log, and the level below which lines are left out. */
export interface LogSettings {
  format: Format;
  level: Level;
}

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
