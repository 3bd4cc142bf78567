/** Files into what is counted: opens what lines are judged by, reads each file, and says what a reader should know. */
import { basename } from 'node:path';
import { folderOfAgents, loadAgents } from '../../engine/asking/agents/load-agents.ts';
import { resolveOrdering } from '../../engine/asking/agents/orderings.ts';
import { readLabels } from '../../engine/audit/labels-file.ts';
import { judgeLines, judgeOptions } from '../../engine/audit/verdict.ts';
import { besidesOf } from '../../engine/core/files/input-files.ts';
import { usageError } from '../../engine/core/item/failure.ts';
import { counted, number } from '../../engine/core/item/wording.ts';
import { isObject, type JsonObject } from '../../engine/core/json/pointer.ts';
import { show } from '../../engine/core/json/show.ts';
import { openVouchers } from '../../engine/flow/provenance.ts';
import { allowedValues } from './allowed.ts';
import { type Collected, createCollector, createNames } from './collect.ts';
import { LinesJudged } from './judged-lines.ts';
import { type Observation, observe } from './observe.ts';
import { expectOutcomes, outcomeNotes } from './outcome-notes.ts';
import { eachLine, type LineKind } from './read-lines.ts';
import { READ_OUTS, type ReadOut } from './read-out.ts';
import type { FileRow } from './report.ts';
import type { Asked } from './report-names.ts';
import { type Joined, readSource } from './source.ts';
import { outcomeRule } from './values.ts';

/** What a study says of its decisions, for every verb that counts them. */
export const OUTCOME_OPTIONS = {
  outcome: {
    type: 'string',
    description:
      "Where the outcome is: a key of the decision, or a JSON Pointer into it; for an answer that is a text or a number, its agent's name; for a table, a column.",
  },
  agent: {
    type: 'string',
    description:
      'Agent whose answer counts; without --outcome, its whole answer. Default: the decision, else the last answer.',
  },
  approve: {
    type: 'array',
    items: { type: 'string' },
    description: 'Value of --outcome that counts as approval. May be repeated.',
  },
  deny: {
    type: 'array',
    items: { type: 'string' },
    description:
      'Value of --outcome that counts as denial; all further values are then no outcome. May be repeated. Default: the other values in the schema; for tables and free texts, the opposite word (1 and 0, yes and no, approve and deny).',
  },
  'read-out': {
    type: 'string',
    enum: READ_OUTS,
    description:
      'Whose outcome counts: that of the synthesis (judge), of the last agent (terminal), or of most agents (majority). Default: the decision, else the last answer.',
  },
  tie: {
    type: 'string',
    description: 'Outcome to count a tie as, with --read-out majority. Default: none; ties are left out.',
  },
} as const;

export interface GatherOptions {
  group: readonly string[];
  outcome: string;
  agent?: string | undefined;
  approve: readonly string[];
  deny?: readonly string[] | undefined;
  'read-out'?: string | undefined;
  tie?: string | undefined;
  twins: readonly string[];
  risk?: string | undefined;
  source?: string | undefined;
  accept: string[];
  agents?: string;
  decision: boolean;
  provenance?: string[];
  /** files of labels */
  labels?: readonly string[] | undefined;
  'max-line': number;
}

/**
 * The outcome and the approvals that were named. Exit 64 where they are missing: `usage` is how the command is called.
 */
export function outcomeNamed(
  { outcome, agent, approve = [] }: { outcome?: string; agent?: string; approve?: readonly string[] },
  usage: string,
): { outcome: string; approve: readonly string[] } {
  const name = outcome ?? agent;
  if (name !== undefined && approve.length > 0) return { outcome: name, approve };
  const missing =
    name === undefined ? '--outcome, what was decided' : '--approve, the value that is an approval';
  throw usageError(`expected ${missing}, found none: ${usage} --outcome NAME --approve VALUE`);
}

/** Orderings that a file is said to hold, by name. */
const NAMED_ORDERINGS = 24;

export interface Gathered {
  collected: Collected;
  files: FileRow[];
  notes: string[];
  source: Joined | null;
  /** of the lines that --labels name; null without it */
  judged: LinesJudged | null;
}

/**
 * Reads `paths`. Exit 64 where nothing that was read has the outcome, or a group column: then a name was mistyped, and
 * the message has those that are there.
 */
export async function gather(
  paths: readonly string[],
  options: GatherOptions,
  { stage, warn }: { stage: string; warn(message: string): void },
): Promise<Gathered> {
  const { source, 'max-line': maxLine } = options;
  if (options.tie !== undefined && options['read-out'] !== 'majority')
    throw usageError(
      '--tie: expected --read-out majority with it, found another or none; only a majority can tie',
    );
  if (options.agent !== undefined && options['read-out'] !== undefined)
    throw usageError('--agent: expected no --read-out with it, which also chooses whose outcome counts');
  const by = await judgeOptions(options, { base: process.cwd() });
  const besides = besidesOf(paths);
  // without any, no result needs its hash, which is a third of the work
  const beside = besides.length > 0 ? await openVouchers(besides, { stage, maxLine }) : undefined;
  const vouchers = by.vouchers ?? beside;
  const judge = judgeLines({ stage, maxLine, ...by, ...(vouchers && { vouchers }) });
  const { labels } = options;
  const judged = labels === undefined ? null : new LinesJudged(await readLabels(labels, maxLine));
  const table = source === undefined ? undefined : await readSource(source, { maxLine, warn });
  const allowed = allowedValues(options, process.cwd());
  const asked: Asked = {
    groups: options.group,
    outcome: options.outcome,
    approve: options.approve.join(' or '),
    approvals: options.approve,
    rule: outcomeRule(options),
    allowed,
    agent: options.agent,
    readOut: options['read-out'] as ReadOut | undefined,
    tie: options.tie,
    twins: options.twins,
    risk: options.risk,
    source: table,
  };
  const { collected, add } = createCollector(asked, by.accept);
  const met = newMeeting();
  const orderOfName = orderingsOfNames(options.agents);
  const files: FileRow[] = [];
  for (const path of paths) {
    const kinds = new Set<LineKind>();
    const orderings = new Set<string>();
    let lines = 0;
    const reading = { stage, maxLine, judge, outcome: options.outcome, warn };
    await eachLine(path, reading, (line, where, kind, failure) => {
      lines += 1;
      kinds.add(kind);
      const observation = observe(line, asked, where, failure, kind);
      if (observation.order !== '' && orderings.size < NAMED_ORDERINGS) orderings.add(observation.order);
      meet(met, line, observation);
      add(observation);
      judged?.see(line, observation);
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
  expectOutcomes(collected, { allowed: met.allowed, agents: met.agents, keys: met.keys.list });
  expectColumns(collected, met);
  const notes = [...(vouchers?.notes() ?? []), ...notesOf(collected, files), ...outcomeNotes(collected)];
  if (table) notes.push(...joinNotes(table.joined));
  if (judged) notes.push(...judged.labels.torn);
  return { collected, files, notes, source: table?.joined ?? null, judged };
}

/** What was met in the lines: names that could have been meant, and whether what was named is there. */
interface Meeting {
  keys: ReturnType<typeof createNames>;
  agents: Set<string>;
  /** what the schemas of those who decided allow */
  allowed: Set<ReadonlySet<string>>;
  twins: Set<number>;
  hasRisk: boolean;
  /** the outcome is an agent's answer by its name; a key of a decision, or a column */
  isByName: Set<boolean>;
}

const newMeeting = (): Meeting => ({
  ...{ keys: createNames(), agents: new Set<string>(), allowed: new Set<ReadonlySet<string>>() },
  ...{ twins: new Set<number>(), hasRisk: false, isByName: new Set<boolean>() },
});

const MOST_KEYS = 60;

function meet(met: Meeting, line: JsonObject, observation: Observation): void {
  const { answers, decision, outcome, risk, twins } = observation;
  if (outcome !== null) met.isByName.add(observation.isByName);
  for (const [at, value] of twins.entries()) if (value !== null) met.twins.add(at);
  met.hasRisk ||= Number.isFinite(risk);
  if (observation.allowed) met.allowed.add(observation.allowed);
  for (const { agent } of answers) if (met.agents.size < MOST_KEYS) met.agents.add(agent);
  if (outcome !== null || met.keys.list.length >= MOST_KEYS) return;
  const columns = isObject(line.input) ? line.input : {};
  const whole = answers.filter(({ output }) => output !== undefined && !isObject(output));
  const names = [
    ...[...Object.keys(decision ?? {}), ...whole.map(({ agent }) => agent)],
    ...Object.keys(answers.length > 0 ? columns : line),
  ];
  for (const key of names) if (met.keys.list.length < MOST_KEYS && key.length <= 60) met.keys.of(key);
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

/** Exit 64 for a column that was named and that no line has. */
function expectColumns({ seen, groups, asked }: Collected, met: Meeting): void {
  if (seen.length === 0) return;
  if (met.isByName.size > 1)
    throw usageError(
      `--outcome: expected one meaning of '${asked.outcome}', found a key in some lines and the answer of the agent of that name in others; --agent names the agent`,
    );
  const hint = asked.source
    ? ''
    : '; results whose prompt is no row as JSON need the table that was asked: --source prompts.csv';
  for (const { column, values } of groups)
    if (values.list.length === 0)
      throw usageError(`--group: expected lines with '${column}', found none${hint}`);
  for (const [at, column] of asked.twins.entries())
    if (!met.twins.has(at)) throw usageError(`--twins: expected lines with '${column}', found none${hint}`);
  if (asked.risk !== undefined && !met.hasRisk)
    throw usageError(`--risk: expected lines with numbers in '${asked.risk}', found none${hint}`);
}

function joinNotes({ path, byId, byRow, unchecked, unjoined }: Joined): string[] {
  const notes: string[] = [];
  if (unchecked > 0)
    notes.push(
      `${path}: ${counted(unchecked, 'record')} of ${number(byId + byRow)} joined by the number of the row alone: neither a prompt nor a column tells whether it is their row; a table with ids, prompts or the columns of the results would`,
    );
  if (unjoined > 0) notes.push(`${path}: ${counted(unjoined, 'record')} without a row in it`);
  return notes;
}

function notesOf({ fate, repeated, repeats, asked, groups }: Collected, files: readonly FileRow[]): string[] {
  const notes: string[] = [];
  for (const { path, named, orderings } of files)
    if (named !== null)
      notes.push(`${path}: its name says the ordering ${named}, its lines say ${orderings.join(' and ')}`);
  if (repeated > 0)
    notes.push(
      `${counted(repeated, 'line')} with an id that was there before: the first enters the rates, ${number(repeats.length)} of the later ones are repeats for the noise floor`,
    );
  if (asked.readOut)
    notes.push(
      `outcomes are read out as ${asked.readOut}${asked.readOut === 'majority' ? `; equal halves ${asked.tie === undefined ? `have no outcome: ${number(fate.left.get('tied') ?? 0)} left out` : `count as '${asked.tie}'`}` : ''}`,
    );
  for (const { column, values } of groups)
    if (values.list.length === 1)
      notes.push(
        `${column} is ${show(values.list[0])} in every record that has it: there is nothing to compare`,
      );
  return notes;
}
