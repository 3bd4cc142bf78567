/** Files into what is counted: opens what lines are judged by, reads each file, and says what a reader should know. */
import { basename } from 'node:path';
import { folderOfAgents, loadAgents } from '../agents/load.ts';
import { resolveOrdering } from '../agents/orderings.ts';
import { judgeOptions } from '../audit/judging.ts';
import { judgeLines } from '../audit/verdict.ts';
import { besidesOf } from '../files/provenance-files.ts';
import { openVouchers } from '../flow/provenance.ts';
import { usageError } from '../item/failure.ts';
import { counted, number } from '../item/words.ts';
import type { JsonObject } from '../json/pointer.ts';
import { show } from '../json/show.ts';
import { type Collected, createCollector } from './collect.ts';
import { createNames } from './names.ts';
import { type Asked, observe } from './observe.ts';
import { eachLine, type LineKind, sourceColumns } from './read.ts';
import { READ_OUTS, type ReadOut } from './read-out.ts';
import type { FileRow } from './report.ts';

/** What a study says of its decisions, for every verb that counts them. */
export const OUTCOME_OPTIONS = {
  outcome: {
    type: 'string',
    description: 'What was decided: a key of the decision or a JSON Pointer into it; of a table, a column.',
  },
  approve: {
    type: 'string',
    description: 'The value of --outcome that counts as approval; all others do not.',
  },
  'read-out': {
    type: 'string',
    enum: READ_OUTS,
    description:
      "Whose outcome counts: judge, that of the synthesis; terminal, the last agent's; majority, what most agents said. Default: the decision, else the last answer.",
  },
  tie: {
    type: 'string',
    description:
      'Of --read-out majority: what equal halves count as. Default: they have no outcome, and are left out.',
  },
} as const;

export interface GatherOptions {
  group: readonly string[];
  outcome: string;
  approve: string;
  'read-out'?: string | undefined;
  tie?: string | undefined;
  twins: readonly string[];
  risk?: string | undefined;
  source?: string | undefined;
  accept: string[];
  agents?: string;
  decision: boolean;
  provenance?: string[];
  'max-line': number;
}

/** Orderings that a file is said to hold, by name. */
const NAMED_ORDERINGS = 24;

/**
 * Reads `paths`. Exit 64 where nothing that was read has the outcome, or a group column: then a name was mistyped, and
 * the message has those that are there.
 */
export async function gather(
  paths: readonly string[],
  options: GatherOptions,
  { stage, warn }: { stage: string; warn(message: string): void },
): Promise<{ collected: Collected; files: FileRow[]; notes: string[] }> {
  const { source, 'max-line': maxLine } = options;
  if (options.tie !== undefined && options['read-out'] !== 'majority')
    throw usageError(
      '--tie: expected --read-out majority beside it, which alone has ties, found another or none',
    );
  const by = await judgeOptions(options, { base: process.cwd() });
  const besides = besidesOf(paths);
  // without any, no result needs its hash, which is a third of the work
  const beside = besides.length > 0 ? await openVouchers(besides, { stage, maxLine }) : undefined;
  const vouchers = by.vouchers ?? beside;
  const judge = judgeLines({ stage, maxLine, ...by, ...(vouchers && { vouchers }) });
  const columnsOf = source === undefined ? undefined : await sourceColumns(source, { maxLine, warn });
  const asked: Asked = {
    groups: options.group,
    outcome: options.outcome,
    approve: options.approve,
    readOut: options['read-out'] as ReadOut | undefined,
    tie: options.tie,
    twins: options.twins,
    risk: options.risk,
    ...(columnsOf && { columnsOf }),
  };
  const { collected, add } = createCollector(asked, by.accept);
  const seenKeys = createNames();
  const orderOfName = orderingsOfNames(options.agents);
  const files: FileRow[] = [];
  for (const path of paths) {
    const kinds = new Set<LineKind>();
    const orderings = new Set<string>();
    let lines = 0;
    await eachLine(path, { stage, maxLine, judge, warn }, (line, where, kind, failure) => {
      lines += 1;
      kinds.add(kind);
      const observation = observe(line, asked, where, failure);
      if (observation.order !== '' && orderings.size < NAMED_ORDERINGS) orderings.add(observation.order);
      if (observation.outcome === null && seenKeys.list.length < 60)
        noteKeys(line, observation.decision, seenKeys);
      add(observation);
    });
    const named = orderOfName(path);
    files.push({
      path,
      lines,
      kinds: [...kinds],
      orderings: [...orderings],
      named: named !== null && orderings.size > 0 && !orderings.has(named) ? named : null,
    });
  }
  expectSome(collected, seenKeys.list);
  return { collected, files, notes: notesOf(collected, files, vouchers?.notes() ?? []) };
}

/** The names that an outcome or a group could have had. */
function noteKeys(
  line: JsonObject,
  decision: JsonObject | undefined,
  names: ReturnType<typeof createNames>,
): void {
  const { input } = line;
  const columns = typeof input === 'object' && input !== null ? input : {};
  for (const key of [...Object.keys(decision ?? {}), ...Object.keys(decision ? columns : line)])
    if (names.list.length < 60 && key.length <= 60) names.of(key);
}

/** The ordering in the name of a file, as the agents folder reads it; null where its name says none. */
function orderingsOfNames(agents: string | undefined): (path: string) => string | null {
  let loaded: ReturnType<typeof loadAgents> | undefined;
  return path => {
    if (!/^sequential_.*\.(?:json|jsonl|ndjson)$/.test(basename(path))) return null;
    try {
      loaded ??= loadAgents(folderOfAgents(agents, process.cwd()));
      return resolveOrdering(basename(path), loaded).join();
    } catch {
      return null; // a name of somebody's own
    }
  };
}

function expectSome({ seen, outcomes, fate, groups, asked }: Collected, keys: readonly string[]): void {
  if (seen.length === 0) return;
  const blank = fate.left.get('blank-outcome') ?? 0;
  const there = keys.length === 0 ? '' : `; there are: ${keys.slice(0, 40).map(show).join(', ')}`;
  if (outcomes.size === 0 && blank > 0)
    throw usageError(`--outcome: expected lines with '${asked.outcome}', found none${there}`);
  for (const { column, values } of groups) {
    if (values.list.length > 0) continue;
    const hint = asked.columnsOf
      ? ''
      : '; results whose prompt is no row as JSON need the table that was asked: --source prompts.csv';
    throw usageError(`--group: expected lines with '${column}', found none${hint}`);
  }
}

function notesOf(
  { fate, repeated, repeats, outcomes, asked }: Collected,
  files: readonly FileRow[],
  more: readonly string[],
): string[] {
  const notes = [...more];
  for (const { path, named, orderings } of files)
    if (named !== null)
      notes.push(`${path}: its name says the ordering ${named}, its lines say ${orderings.join(' and ')}`);
  if (repeated > 0)
    notes.push(
      `${counted(repeated, 'line')} with an id that was there before: the first enters the rates, ${number(repeats.length)} of the later ones are repeats for the noise floor`,
    );
  if (outcomes.size > 0 && !outcomes.has(asked.approve)) {
    const values = [...outcomes.keys()].slice(0, 10).map(show).join(', ');
    notes.push(`nobody was approved: no '${asked.outcome}' is '${asked.approve}'; there are: ${values}`);
  }
  const blank = fate.left.get('blank-outcome') ?? 0;
  if (asked.readOut)
    notes.push(
      `outcomes are read out as ${asked.readOut}${asked.readOut === 'majority' ? `; equal halves ${asked.tie === undefined ? `have no outcome: ${number(fate.left.get('tied') ?? 0)} left out` : `count as '${asked.tie}'`}` : ''}`,
    );
  if (blank > 0)
    notes.push(`${counted(blank, 'record')} without an outcome (empty, NA, NaN, null or None) left out`);
  return notes;
}
