/**
 * What people say of what is shown: right, wrong, unsure, a note. Each is a line that is forced to disk before the page says
 * so; nothing else is ever written, and no line is changed.
 */
import { closeSync, fstatSync, fsyncSync, openSync, readSync, statSync, writeSync } from 'node:fs';
import {
  type Held,
  hashOfJudged,
  type Label,
  labelLine,
  readLabels,
  type Verdict,
} from '../../engine/audit/labels-file.ts';
import { OWNER_ONLY } from '../../engine/core/files/durable.ts';
import { ioError } from '../../engine/core/item/failure.ts';
import { idOf } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';

export interface JudgingOptions {
  path: string;
  by: string;
  hidden: readonly string[];
  maxLine: number;
  now(): Date;
}

export interface Said {
  row: number;
  line: JsonObject;
  /** '' for the whole line */
  path: string;
  verdict: Verdict | null;
  note: string;
  sample: Label['sample'];
}

/** Notes are short: what is longer is no note. */
export const LONGEST_NOTE = 4_000;

export class Judging {
  readonly path: string;
  readonly by: string;
  readonly #options: JudgingOptions;
  /** by id: those of the file, and those said since */
  readonly #held = new Map<string, Label[]>();
  /** `before`: what this judge held of it until then */
  readonly #said: { row: number; label: Label; before: Label | undefined }[] = [];
  #file: number | null = null;
  /** lines of the file that say nothing, since their writing broke off */
  torn: readonly string[] = [];

  private constructor(options: JudgingOptions) {
    this.#options = options;
    this.path = options.path;
    this.by = options.by;
  }

  /** Reads the labels that are there: none where there is no file yet. Rejects with 65 where it is something else. */
  static async open(options: JudgingOptions): Promise<Judging> {
    const judging = new Judging(options);
    if (isThere(options.path)) {
      const { all, torn } = await readLabels([options.path], options.maxLine);
      judging.torn = torn;
      for (const label of all) judging.#hold(label);
    }
    return judging;
  }

  get isBegun(): boolean {
    return this.#held.size > 0;
  }

  /** What this judge holds of a line as it is now, whole or in parts. */
  own(line: JsonObject): Held[] {
    return this.#of(line).filter(({ by }) => by === this.by);
  }

  /** Other judges of it: who they are, and not what they said. */
  others(line: JsonObject): string[] {
    return [...new Set(this.#of(line).map(({ by }) => by))].filter(by => by !== this.by);
  }

  #of(line: JsonObject): Held[] {
    const id = idOf(line);
    const labels = id === null ? undefined : this.#held.get(id);
    if (labels === undefined) return [];
    const hash = hashOfJudged(line);
    return labels.filter((label): label is Held => label.verdict !== null && label.hash === hash);
  }

  /** The verdict on the whole line with this id, whatever its answer: for a table. */
  verdictOf(id: string): Verdict | null {
    return this.#held.get(id)?.findLast(({ by, path }) => by === this.by && path === '')?.verdict ?? null;
  }

  /** Why a line cannot be judged; null where it can. */
  refusal(line: JsonObject | null): string | null {
    if (line === null) return 'It was not read.';
    if (idOf(line) === null) return 'It has no id: nobody could find it again.';
    if (hashOfJudged(line) === null) return 'It nests too deeply.';
    return null;
  }

  /** Resolves once it is on disk. The line must be one without a `refusal`. */
  say({ row, line, path, verdict, note, sample }: Said): void {
    const label: Label = {
      id: idOf(line) as string,
      path,
      verdict,
      ...(note !== '' && { note }),
      by: this.by,
      at: this.#options.now().toISOString(),
      hash: hashOfJudged(line) as string,
      ...(sample !== undefined && { sample }),
      ...(this.#options.hidden.length > 0 && { hidden: [...this.#options.hidden] }),
    };
    const before = this.#heldLike(label);
    this.#append(labelLine(label));
    this.#hold(label);
    if (verdict === null) return;
    this.#said.push({ row, label, before });
  }

  /** Takes back what was said last since the start; the row that it was of, or null where nothing was said. */
  takeBack(): number | null {
    const last = this.#said.at(-1);
    if (last === undefined) return null;
    const { note: _, ...rest } = last.label;
    const at = this.#options.now().toISOString();
    // what was said before it holds again
    const label: Label = last.before ? { ...last.before, at } : { ...rest, verdict: null, at };
    this.#append(labelLine(label));
    this.#said.pop();
    this.#hold(label);
    return last.row;
  }

  #heldLike({ id, by, path, hash }: Label): Label | undefined {
    return this.#held
      .get(id)
      ?.find(one => one.by === by && one.path === path && one.hash === hash && one.verdict !== null);
  }

  #hold(label: Label): void {
    const { id, by, path, hash } = label;
    const before = (this.#held.get(id) ?? []).filter(
      one => one.by !== by || one.path !== path || one.hash !== hash,
    );
    this.#held.set(id, [...before, label]);
  }

  #append(line: string): void {
    try {
      this.#file ??= openForLines(this.path);
      const bytes = Buffer.from(line);
      for (let at = 0; at < bytes.length; ) at += writeSync(this.#file, bytes, at);
      fsyncSync(this.#file);
    } catch (error) {
      // what was written of it is ended by the next one: it opens the file anew
      this.close();
      throw ioError(`expected to add a label to ${this.path}, found ${(error as Error).message}`);
    }
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }
}

function isThere(path: string): boolean {
  try {
    // to open a pipe waits until somebody writes into it
    if (!statSync(path).isFile()) throw new Error('no file');
    closeSync(openSync(path, 'r'));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw ioError(`expected --labels to be readable, found ${(error as Error).message}`);
  }
}

/** Appending alone: two who judge into one file lose nothing. A torn last line is ended, so that the next is a line of its own. */
function openForLines(path: string): number {
  const file = openSync(path, 'a+', OWNER_ONLY.file);
  const { size } = fstatSync(file);
  const last = Buffer.alloc(1);
  if (size > 0 && readSync(file, last, 0, 1, size - 1) === 1 && last[0] !== 0x0a) writeSync(file, '\n');
  return file;
}
