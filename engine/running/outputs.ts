/**
 * The outputs of a pipeline file: one path, or one for each value of `{ordering}` in it. Lines go to a partial file
 * (engine/core/files/saving.ts), which gets its name when the run has ended.
 */
import { closeSync, fstatSync, fsyncSync, openSync, rmSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { agentsOf } from '../asking/agents/asking-options.ts';
import type { Agents } from '../asking/agents/load-agents.ts';
import { orderingLabel, resolveOrdering } from '../asking/agents/orderings.ts';
import { makeFolder } from '../core/files/durable.ts';
import { besideOf } from '../core/files/input-files.ts';
import { type Frame, type OnBroken, type Output, toFile } from '../core/files/ndjson-out.ts';
import { flagsFor, isKept, replace, type Unfinished, unfinished } from '../core/files/saving.ts';
import { Fatal, ioError, usageError } from '../core/item/failure.ts';
import type { Item } from '../core/item/item.ts';
import { isTexts } from '../core/item/line-shape.ts';
import type { Values } from '../flow/options.ts';
import { provenanceCarried } from '../flow/provenance.ts';

/** Files that a run may have open; 24 orderings are the most that anyone has asked for. */
const MAX_OPEN_OUTPUTS = 256;

export type FilesOutput = ReturnType<typeof toFiles>;

interface Target {
  output: Output;
  /** Gives it its name, for all to see; returns what there is to say of an old one. */
  finish(): string[] | Promise<string[]>;
  /** Of a run that ended early: the path of what was written so far; null where nothing is left. */
  leave(): string | null | Promise<string | null>;
}

export interface Targets {
  /** the one path of all lines, which is made at the start: a run without lines leaves an empty file, and no old one */
  always: string | null;
  /** the path for a line */
  of(line: Item): string;
}

/** Exit 74 where the one path cannot be made. `store`: where it is no path of this machine. */
export function toFiles(targets: Targets, onBroken: OnBroken, frame?: Frame, store?: Store) {
  const open = new Map<string, Target>();
  const outputFor = (name: string, around: Frame | undefined): Output => {
    const known = open.get(name);
    if (known) return known.output;
    if (open.size === MAX_OPEN_OUTPUTS) {
      throw ioError(
        `expected at most ${MAX_OPEN_OUTPUTS} output files, found one more: ${name}; look at {ordering} in output`,
      );
    }
    const target = store?.open(name, onBroken, around) ?? onDisk(name, onBroken, around);
    open.set(name, target);
    return target.output;
  };
  if (targets.always !== null) outputFor(targets.always, frame);
  return {
    write(line: Item): boolean {
      const path = targets.of(line);
      const said = provenanceCarried(line);
      const beside = said && besideOf(path);
      // the frame is that of the results: a file beside a document has lines, which verify and merge read back
      const isOpen = !beside || outputFor(beside, undefined).write(said as Item);
      return outputFor(path, frame).write(line) && isOpen;
    },
    ready(act: () => void): void {
      if (open.size === 0) return act();
      let left = open.size;
      const isReady = (): void => {
        left -= 1;
        if (left === 0) act();
      };
      for (const { output } of open.values()) output.ready(isReady);
    },
    async end(complete?: boolean, model?: string): Promise<void> {
      for (const { output } of open.values()) await output.end(complete, model);
    },
    /** Gives every file its name; resolves to their paths, and what there is to say of old ones and of leftovers. */
    async finish() {
      const said: string[] = [];
      for (const target of open.values()) said.push(...(await target.finish()));
      return { paths: [...open.keys()], said };
    },
    /** The paths of what was written so far, under names that end in .partial; those without a byte are removed. */
    async partial() {
      const left: string[] = [];
      for (const target of open.values()) {
        const path = await target.leave();
        if (path !== null) left.push(path);
      }
      return left;
    },
  };
}

/** Where outputs go that are no paths of this machine. */
export interface Store {
  open(name: string, onBroken: OnBroken, frame: Frame | undefined): Target;
  /** Of a run that ended before it opened any. */
  leave(): Promise<unknown>;
}

function onDisk(name: string, onBroken: OnBroken, frame: Frame | undefined): Target {
  const { path, partial, fd } = opened(name);
  return {
    output: toFile(fd, partial ?? path, onBroken, frame),
    finish() {
      if (partial === null) return [];
      fsyncSync(fd);
      closeSync(fd);
      return replace(partial, path);
    },
    leave() {
      if (partial === null) return null;
      if (fstatSync(fd).size > 0) return partial;
      rmSync(partial, { force: true });
      return null;
    },
  };
}

function opened(name: string): Unfinished & { fd: number } {
  try {
    makeFolder(dirname(name));
    const place = unfinished(name, 'output');
    return { ...place, fd: openSync(place.partial ?? place.path, flagsFor(place.partial ?? place.path)) };
  } catch (error) {
    if (error instanceof Fatal) throw error;
    throw ioError(`output: expected to create ${name}, found ${(error as NodeJS.ErrnoException).code}`);
  }
}

/**
 * The path of every line, or, where `{ordering}` is in `target`, that for a line: `{ordering}` becomes the short names of its agents, as in the files of the older scripts, and
 * `unordered` where a line has none, or one that is not understood.
 */
export function namer(target: string, row: readonly { options: Values }[], base: string): Targets {
  const [before, after, ...more] = target.split('{ordering}');
  if (more.length > 0 || /[{}]/.test(`${before}${after ?? ''}`)) {
    throw usageError(`output: expected a path with at most one {ordering} in it, found '${target}'`);
  }
  if (after === undefined) return { always: target, of: () => target };
  const withAgents = row.find(({ options }) => options.agents !== undefined) ?? row[0];
  const agents = agentsOf({ agents: withAgents?.options.agents as string | undefined }, { base });
  const labels = new Map<string, string>();
  const of = (line: Item): string => {
    const { ordering } = line as { ordering?: unknown };
    const keys = isTexts(ordering) ? ordering.join(',') : typeof ordering === 'string' ? ordering : '';
    const label = labels.get(keys) ?? labelOf(keys, agents);
    if (label !== UNORDERED) labels.set(keys, label);
    return `${before}${label}${after}`;
  };
  return { always: null, of };
}

/** The files that fit the pattern `target` and that this run did not write, unfinished ones too. */
export async function othersOf(target: string, written: readonly string[]): Promise<string[]> {
  const [before = '', after] = target.split('{ordering}');
  if (after === undefined) return [];
  const { default: glob } = await import('fast-glob');
  const escaped = (text: string): string => text && glob.escapePath(text);
  const pattern = `${escaped(before)}*${escaped(after)}`;
  const found = await glob([pattern, `${pattern}.*.partial`]);
  const own = new Set(written.map(path => resolve(path)));
  return found.filter(path => !isKept(path) && !own.has(resolve(path))).sort();
}

const UNORDERED = 'unordered';

/** What a line says is never a part of a path but as names that the agents folder has. */
function labelOf(keys: string, agents: Agents): string {
  if (keys === '') return UNORDERED;
  try {
    return orderingLabel(resolveOrdering(keys, agents), agents, '_');
  } catch (error) {
    if (error instanceof Fatal) return UNORDERED;
    throw error;
  }
}
