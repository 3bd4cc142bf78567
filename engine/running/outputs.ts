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

interface Target extends Unfinished {
  fd: number;
  output: Output;
}

export interface Targets {
  /** the one path of all lines, which is made at the start: a run without lines leaves an empty file, and no old one */
  always: string | null;
  /** the path for a line */
  of(line: Item): string;
}

/** Exit 74 where the one path cannot be made. */
export function toFiles(targets: Targets, onBroken: OnBroken, frame?: Frame) {
  const open = new Map<string, Target>();
  const outputFor = (name: string, around: Frame | undefined): Output => {
    const known = open.get(name);
    if (known) return known.output;
    if (open.size === MAX_OPEN_OUTPUTS) {
      throw ioError(
        `expected at most ${MAX_OPEN_OUTPUTS} output files, found one more: ${name}; look at {ordering} in output`,
      );
    }
    const { path, partial, fd } = opened(name);
    const output = toFile(fd, partial ?? path, onBroken, around);
    open.set(name, { path, partial, fd, output });
    return output;
  };
  if (targets.always !== null) outputFor(targets.always, frame);
  return {
    write(line: Item): boolean {
      const path = targets.of(line);
      const said = provenanceCarried(line);
      const beside = said && besideOf(path);
      // the frame is that of the results: a file beside a document has lines, which verify and merge read back
      if (beside) outputFor(beside, undefined).write(said as Item);
      return outputFor(path, frame).write(line);
    },
    ready: (act: () => void): void => act(),
    async end(complete?: boolean, model?: string): Promise<void> {
      for (const { output } of open.values()) await output.end(complete, model);
    },
    /** Gives every file its name; returns their paths, and what there is to say of old ones and of leftovers. */
    finish() {
      const said: string[] = [];
      for (const { path, partial, fd } of open.values()) {
        if (partial === null) continue;
        fsyncSync(fd);
        closeSync(fd);
        said.push(...replace(partial, path));
      }
      return { paths: [...open.keys()], said };
    },
    /** The paths of what was written so far, under names that end in .partial; those without a byte are removed. */
    partial: () =>
      [...open.values()].flatMap(({ partial, fd }) => {
        if (partial === null) return [];
        if (fstatSync(fd).size > 0) return [partial];
        rmSync(partial, { force: true });
        return [];
      }),
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
