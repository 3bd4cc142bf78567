/** ledger repair: what is whole of a damaged ledger, in a new folder. */

import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import type { Place } from '../../engine/asking/ledger/key-index.ts';
import {
  FORMAT,
  type Header,
  idOfText,
  isCall,
  isText,
  kindIn,
  roomFor,
  textIdIn,
  writeSealed,
} from '../../engine/asking/ledger/ledger-format.ts';
import {
  callIn,
  callsOf,
  type Line,
  linesOf,
  openLines,
  parsed,
  stageIn,
  type Tell,
} from '../../engine/asking/ledger/read-ledger.ts';
import { hasBody, textIdsIn } from '../../engine/asking/ledger/request-texts.ts';
import { version } from '../../engine/core/config/package.ts';
import { writePage, writeWhole } from '../../engine/core/files/ndjson-out.ts';
import { dataError, EXIT, ioError, usageError } from '../../engine/core/item/failure.ts';
import { number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { LEDGER, openReading } from './reading-options.ts';

export default command({
  name: 'ledger repair',
  summary: 'Copy the intact lines of a damaged ledger into a new folder, and report what was lost.',
  examples: ['fw ledger repair --out ledger-2', 'fw ledger repair --ledger out/ledger --out out/ledger-2'],
  options: {
    ...LEDGER,
    out: {
      type: 'string',
      file: 'write-folder',
      description: 'New folder to write to. The old ledger stays as it is.',
    },
  },

  async run({ ledger, out }) {
    if (out === undefined) throw usageError('expected a new folder, found none: fw ledger repair --out NEW');
    const lines: string[] = [];
    const { at, paths, tell, end } = openReading(ledger, line => void lines.push(line), { torn: true });
    const repaired = repairLedger(at, paths, { to: out, version: version(), tell });
    const { files, tries, headers, found, lost } = repaired;
    const exit = end();
    if (lines.length > 0) lines.unshift('lost:');
    if (headers > 0) lines.push(`lost headers, rebuilt from the first call after each: ${number(headers)}`);
    if (found > 0) lines.push(`lost texts of requests, found in another file: ${number(found)}`);
    if (lost > 0)
      lines.push(
        `lost texts of requests (their calls are replayed, but cannot be shown in full): ${number(lost)}`,
      );
    lines.push(
      `${visible(out)}: files ${number(files)} · lines ${number(repaired.lines)} · tries ${number(tries)}`,
    );
    await writePage(`${lines.join('\n')}\n`);
    if (files === 0)
      throw dataError(
        `expected whole lines of a ledger in ${at}, found none: nothing was copied, and no folder made`,
      );
    return exit === EXIT.io ? exit : EXIT.ok;
  },
});

// A whole ledger out of a damaged one: each file's whole lines, byte for byte, into a new folder. The old one is only
// read. What is lost is told by file and offset; the calls among it are asked again by the next run.

export interface Repaired {
  /** files of the new ledger */
  files: number;
  /** lines copied, and the calls among them */
  lines: number;
  tries: number;
  /** headers that were lost and made anew from the first call behind them */
  headers: number;
  /** texts that were lost in a file and found in another one, and those that were found nowhere */
  found: number;
  lost: number;
}

export interface Repairing {
  /** the new folder */
  to: string;
  /** of fw */
  version: string;
  tell: Tell;
}

/** `from` has the files `paths`. Exit 64 where `to` is not empty, or within the ledger; 74 where it cannot be written. */
export function repairLedger(
  from: string,
  paths: readonly string[],
  { to, version, tell }: Repairing,
): Repaired {
  makeRoom(from, to);
  const repaired: Repaired = { files: 0, lines: 0, tries: 0, headers: 0, found: 0, lost: 0 };
  const texts = openLines(paths);
  const places = textPlaces(paths);
  try {
    for (const path of paths) {
      const name = path === from ? basename(path) : relative(from, path);
      const sink = createSink(join(to, name));
      try {
        copy(path, { sink, repaired, version, tell, places, texts });
      } finally {
        sink.close();
      }
      if (sink.isOpen) repaired.files += 1;
    }
  } finally {
    texts.close();
  }
  return repaired;
}

/** The new folder is to be nowhere that the old ledger's files are looked for. */
function makeRoom(from: string, to: string): void {
  const found = statSync(to, { throwIfNoEntry: false });
  if (found !== undefined && (!found.isDirectory() || readdirSync(to).length > 0)) {
    throw usageError(`--out: expected a new or empty folder, found something in ${to}`);
  }
  let above = resolve(to);
  while (statSync(above, { throwIfNoEntry: false }) === undefined) above = dirname(above);
  const inside = relative(realpathSync(from), join(realpathSync(above), relative(above, resolve(to))));
  if (statSync(from).isDirectory() && (inside === '' || !/^\.\.(?:\/|$)/.test(inside))) {
    throw usageError(`--out: expected a folder outside of the ledger, found ${to}`);
  }
}

function textPlaces(paths: readonly string[]): Map<string, Place> {
  const places = new Map<string, Place>();
  for (const [file, path] of paths.entries()) {
    for (const { at, bytes } of linesOf(path, () => {})) {
      if (isText(bytes)) places.set(textIdIn(bytes), { file, offset: at, length: bytes.length });
    }
  }
  return places;
}

interface Copying {
  sink: Sink;
  repaired: Repaired;
  version: string;
  tell: Tell;
  /** the places of texts, over all files */
  places: ReadonlyMap<string, Place>;
  texts: ReturnType<typeof openLines>;
}

function copy(path: string, copying: Copying): void {
  const { sink, repaired, version, tell } = copying;
  const known = new Set<string>();
  for (const line of linesOf(path, tell)) {
    const { at, bytes } = line;
    const leaveOut = (why: string): void =>
      tell({
        path,
        kind: 'damage',
        at,
        length: bytes.length,
        message: `${why} at byte ${at}, which is left out`,
      });
    if (!isUnderstood(line)) {
      leaveOut('a line that is whole, and none of a ledger,');
      continue;
    }
    if (line.header === null && !sink.isOpen) {
      const header = headerFor(path, version);
      if (header === null) return leaveOut('lines without a header and without a call');
      sink.line(JSON.stringify(header).slice(0, -1));
      repaired.headers += 1;
    }
    if (isText(bytes)) known.add(textIdIn(bytes));
    if (isCall(bytes)) {
      repaired.tries += 1;
      for (const id of textIdsIn(bytes) ?? []) {
        if (!known.has(id)) restoreText(id, copying);
        known.add(id);
      }
    }
    sink.copy(bytes);
    repaired.lines += 1;
  }
}

/** What a run reads must be what it begins like, or the run would end there. */
function isUnderstood({ bytes, header }: Line): boolean {
  const kind = kindIn(bytes);
  if (kind === 'header') return header !== null;
  if (kind === 'call') return callIn(bytes) !== null && (hasBody(bytes) || textIdsIn(bytes) !== null);
  if (kind === 'stage') return stageIn(bytes) !== null;
  return kind !== null && parsed(bytes.toString()) !== null;
}

/** What can be known of a run whose header is lost; null where there is no call of it. */
function headerFor(path: string, version: string): Header | null {
  for (const { call } of callsOf(path, () => {})) {
    const { time, model, endpoint } = call;
    const unknown = { host: '', pid: 0, label: 'repaired', files: [] };
    return { fw: FORMAT, version, started: time, ...unknown, model, endpoints: [endpoint] };
  }
  return null;
}

function restoreText(id: string, { sink, repaired, places, texts }: Copying): void {
  const place = places.get(id);
  const content = place && parsed(texts.read(place).toString())?.content;
  const isFound = typeof content === 'string' && idOfText(content) === id;
  if (isFound) repaired.found += 1;
  else repaired.lost += 1;
  sink.line(`{"text":"${id}",${isFound ? `"content":${JSON.stringify(content)}` : '"lost":true'}`);
}

interface Sink {
  /** something was put into it, so that the file is there */
  readonly isOpen: boolean;
  copy(bytes: Buffer): void;
  /** A line without its checksum and closing brace. */
  line(text: string): void;
  close(): void;
}

const FLUSH_BYTES = 1 << 20;
const NEWLINE = Buffer.from('\n');

function createSink(path: string): Sink {
  let file: number | null = null;
  let waiting: Buffer[] = [];
  let length = 0;

  function put(bytes: Buffer): void {
    file ??= create(path);
    waiting.push(bytes);
    length += bytes.length;
    if (length >= FLUSH_BYTES) flush();
  }
  function flush(): void {
    writeWhole(file as number, Buffer.concat(waiting), path);
    waiting = [];
    length = 0;
  }

  return {
    get isOpen() {
      return file !== null;
    },
    copy(bytes) {
      put(Buffer.from(bytes));
      put(NEWLINE);
    },
    line(text) {
      const bytes = Buffer.allocUnsafe(roomFor(text));
      put(bytes.subarray(0, writeSealed(text, bytes, 0)));
    },
    close() {
      if (file === null) return;
      flush();
      try {
        fsyncSync(file);
        closeSync(file);
      } catch (error) {
        throw ioError(`${path}: expected to write, found ${(error as Error).message}`);
      }
    },
  };
}

function create(path: string): number {
  try {
    // for its owner alone, as the ledger that it is copied from
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    return openSync(path, 'wx', 0o600);
  } catch (error) {
    throw ioError(`${path}: expected to create a file, found ${(error as Error).message}`);
  }
}
