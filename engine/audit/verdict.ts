/** Verification as an account: each line is accepted, refused, or was failed before; and the whole is judged at the end. */

import { dueIn } from '../asking/agents/arrangement.ts';
import { type Agents, folderOfAgents, loadAgents, packagedAgents } from '../asking/agents/load-agents.ts';
import { type AnswerPlace, answerPlace } from '../asking/agents/reopen.ts';
import { expandPaths } from '../core/files/input-files.ts';
import { isFromDocument } from '../core/files/origin.ts';
import { usageError } from '../core/item/failure.ts';
import {
  ACCEPTED,
  carryRung,
  type Failure,
  failureOf,
  type Item,
  isItem,
  isLegacy,
  isLegacyLike,
  RUNGS,
  type Rung,
  rungOf,
  worse,
} from '../core/item/item.ts';
import { isTexts } from '../core/item/line-shape.ts';
import { isBatchResult } from '../core/item/response.ts';
import { counted, number } from '../core/item/wording.ts';
import type { JsonObject } from '../core/json/pointer.ts';
import { COMMON } from '../flow/join.ts';
import { namesIn, type OptionSchemas } from '../flow/options.ts';
import { openVouchers, provenanceCarried, type Vouchers } from '../flow/provenance.ts';
import { type Tools, withFailure } from '../flow/stage.ts';
import { callsOfOthers, sharedAnswers } from './calls.ts';
import { checkIds, describeNamed, identityOf, type Named } from './expected-ids.ts';
import { type DocumentCheck, documentCheck, labelCheck } from './labels.ts';
import { type AnswerSchemas, answerSchemas } from './legacy/answer-schemas.ts';
import { broken, type Violation } from './legacy/leftovers.ts';
import { findInLegacy, isDocument } from './legacy/strict.ts';
import { findInItem, findInRecord } from './legacy/strict-items.ts';
import type { OnRecord } from './on-record.ts';
import { addLine, addOne, addVerdict, closeTally, type Kind, Tally, type Verdict } from './tally.ts';

export { describeVerdict, reportOf } from './tally.ts';

export interface LineOptions {
  stage: string;
  accept: ReadonlySet<Rung>;
  schemas: AnswerSchemas;
  /** finds a legacy result that is not what its file says of all its results */
  findInLabel?(line: Item): Violation | null;
  /** holds the results of documents to what their metadata say */
  documents?: DocumentCheck;
  /** compares answers with those of a ledger */
  onRecord?: OnRecord;
  /** what is said of the making of legacy results */
  vouchers?: Vouchers;
  /** distinct results that must be accepted */
  expect?: number;
  /** a file of ids that must be there, each once */
  ids?: string;
  maxLine: number;
}

export type LinesJudge = ReturnType<typeof judgeLines>;

export function judgeLines({ expect, ids: list, stage, maxLine, ...by }: LineOptions) {
  const { schemas, documents, onRecord, vouchers } = by;
  const tally = new Tally();
  const find = finder(by);
  const ids = checkIds(list, { stage, maxLine });
  let others = 0; // accepted records of another kind, of which nobody asked for any
  return {
    /** The line for the next stage: itself, or with its failure. */
    judge(line: Item): Item {
      const said = provenanceCarried(vouchers?.vouch(line) ?? line);
      const kind = lineKind(line);
      // an item that does not say itself that it failed is refused here
      const before = kind === 'items' && line.failure === undefined ? undefined : failureOf(line);
      // nobody says how a record of another kind came about
      if (kind === 'other records' || kind === 'batch results')
        carryRung(line, worse(rungOf(line), 'unknown'));
      documents?.see(line);
      const found = before === undefined ? find(line, kind, said) : null;
      const isAnswers = kind === 'items' || kind === 'legacy results';
      const other = found && isAnswers ? ids.otherThanAsked(line) : null;
      if (other) found?.push(other);
      if (found?.length === 0 && onRecord) {
        const wrong = isAnswers ? onRecord.find(line, said) : onRecord.findNone(line);
        if (wrong) found.push(wrong);
      }
      if (said && vouchers) tally.vouched += 1;
      // what a stage has changed since says so itself
      else if (line._fw === undefined && vouchers?.isOfOthers(line)) found?.unshift(OTHER_ANSWERS);
      const judged = found?.length
        ? withFailure(line, refusal(stage, found, placeIn(line, found[0] as Violation, schemas)))
        : line;
      const identity = identityOf(line);
      if (identity.id === null) tally.withoutId += 1;
      if (before !== undefined) addOne(tally.failed, `${before.code} (${before.stage})`);
      else if (found?.length) addOne(tally.refused, (found[0] as Violation).rule);
      const accepted = found?.length === 0;
      // of these alone can there be too many or too few
      const isResult = before !== undefined || kind !== 'other records';
      if (list !== undefined && !isResult) identity.id = null;
      const isFirst = ids.see(identity);
      if (accepted && !isResult) others += 1;
      else if (accepted && isFirst) tally.accepted += 1;
      if (found !== null) addVerdict(tally, kind, accepted);
      addLine(tally, judged);
      return judged;
    },
    /** Once, after the last line: what only the whole can tell, by id and by number. */
    close(): Verdict {
      closeTally(tally);
      const { duplicates, unknown } = ids;
      const listed = ids.missing();
      const findings: string[] = [];
      const nameAll = (what: string, named: Named | undefined): void => {
        if (named !== undefined && named.count > 0) findings.push(`${what}: ${describeNamed(named)}`);
      };
      if (tally.read === 0) findings.push('expected results, found none');
      if (expect !== undefined && expect !== tally.accepted) {
        const beside = others > 0 ? `, and ${counted(others, 'accepted record')} of another kind` : '';
        findings.push(
          `expected ${counted(expect, 'accepted result')}, each id once, found ${number(tally.accepted)}${beside}`,
        );
      }
      if (vouchers && tally.kinds.has('legacy results') && tally.vouched === 0)
        findings.push('--provenance: expected lines of these results, found lines of others only');
      findings.push(...(onRecord?.findings() ?? []), ...(documents?.findings() ?? []));
      nameAll(`missing ids (of ${number(listed?.expected ?? 0)})`, listed?.missing);
      nameAll('unknown ids', unknown);
      nameAll('duplicate ids', duplicates);
      onRecord?.close();
      const record = onRecord && { ...onRecord.sum, notes: onRecord.notes() };
      return { ...tally, ...(record && { record }), ids: { ...listed, unknown, duplicates }, findings };
    },
  };
}

/** Which answer is to be asked again: that which is refused, or the one that is missing. */
function placeIn(line: Item, { at, rule }: Violation, schemas: AnswerSchemas): AnswerPlace | null {
  const place = answerPlace(line, at);
  if (place !== null || !isItem(line)) return place;
  const decider = at === '/decision' && line.decision === undefined ? schemas.decider() : null;
  if (decider !== null) return { agent: decider, at };
  const due = at === '/steps' && rule === 'ordering' ? dueIn(line) : null;
  const { steps = [] } = line;
  if (!isTexts(due) || !steps.every((step, turn) => step.agent === due[turn])) return null;
  const agent = due[steps.length];
  return agent === undefined ? null : { agent, at: `/steps/${steps.length}` };
}

/** What is wrong with each line, before it is compared with others and with what is on record. */
function finder({ accept, schemas, findInLabel }: Pick<LineOptions, 'accept' | 'schemas' | 'findInLabel'>) {
  const findShared = sharedAnswers(schemas);
  const findCall = callsOfOthers();
  return (line: Item, kind: Kind, said: JsonObject | undefined): Violation[] => {
    const isResult = kind === 'legacy results';
    const [found, apart] =
      kind === 'items'
        ? [findInItem(line, accept, schemas), [findShared(line), findCall(line)]]
        : [
            isResult ? findInLegacy(line, schemas, said) : isDocument(line) ? [MISPLACED] : [],
            [isResult ? findInLabel?.(line) : null, ...findInRecord(line, accept)],
          ];
    for (const one of apart) if (one) found.push(one);
    return found;
  };
}

const OTHER_ANSWERS = broken(
  'other answers than its provenance',
  '',
  'the answers that its line of provenance has the hash of',
  'others: somebody edited the result, or the file of provenance is of another run',
);
const MISPLACED = broken(
  'document among lines',
  '',
  'a result',
  'a document, which is read as one where its results are a list and it begins the input',
);

function lineKind(line: Item): Kind {
  if (isItem(line)) return 'items';
  if (isLegacyLike(line) || isFromDocument(line)) return 'legacy results';
  return isBatchResult(line) ? 'batch results' : 'other records';
}

/** Findings that a message names; the rest is a number. */
const MAX_NAMED_PLACES = 3;

function refusal(stage: string, found: readonly Violation[], place: AnswerPlace | null): Failure {
  const named = found
    .slice(0, MAX_NAMED_PLACES)
    .map(({ at, expected, got }) => `${at || '(root)'}: expected ${expected}, got ${got}`);
  if (found.length > MAX_NAMED_PLACES) named.push(`and ${found.length - MAX_NAMED_PLACES} more`);
  const { code } = found[0] as Violation;
  return { stage, ...place, code, message: named.join('; ') };
}

const KNOWN: readonly Rung[] = RUNGS.filter(rung => rung !== 'failed');

export const ACCEPT_OPTION = {
  accept: {
    type: 'array',
    items: { type: 'string' },
    default: ACCEPTED,
    description: `Rungs to accept, comma-separated: ${KNOWN.join(', ')}.`,
  },
} as const satisfies OptionSchemas;

/** The options of verification that say by what a line is judged. */
export const JUDGE_OPTIONS = {
  ...ACCEPT_OPTION,
  agents: {
    type: 'string',
    file: 'read-folder',
    from: 'base',
    description:
      'Folder of agents whose schemas answers must fit. Default for items: FW_AGENTS, else ./agents, else the packaged FairWatch agents; for legacy results: the packaged ones.',
  },
  decision: {
    type: 'boolean',
    default: true,
    description: 'Require a decision by the synthesis; --no-decision accepts items from chain --no-decision.',
  },
  provenance: {
    type: 'array',
    items: { type: 'string' },
    file: 'read-many',
    description:
      'File written by legacy-convert --provenance, with the rungs of legacy results. Default: the one beside each FILE, e.g. out.jsonl.provenance.ndjson.',
  },
} as const satisfies OptionSchemas;

/** The agents of items, and of legacy results, with all that their folder says: each read when it is first needed. */
export function agentsFor(named: string | undefined, base: string): (of: 'items' | 'results') => Agents {
  const loaded = new Map<string, Agents>();
  return of => {
    const folder = of === 'results' && named === undefined ? packagedAgents() : folderOfAgents(named, base);
    const agents = loaded.get(folder) ?? loadAgents(folder);
    loaded.set(folder, agents);
    return agents;
  };
}

interface JudgeOptions {
  accept: string[];
  agents?: string;
  decision: boolean;
  provenance?: string[];
  'max-line'?: number;
}

/** What lines are judged by, as the options say. */
export async function judgeOptions(
  { accept, agents, decision, provenance, ...rest }: JudgeOptions,
  { base }: Pick<Tools, 'base'>,
) {
  const reading = { stage: 'verify', maxLine: rest['max-line'] ?? COMMON['max-line'].default };
  const vouchers = provenance && (await openVouchers(await expandPaths(provenance), reading));
  const schemas = answerSchemas({ agents, decision }, base);
  return {
    accept: acceptedRungs(accept),
    schemas,
    findInLabel: labelCheck(() => schemas.ofResults()),
    documents: documentCheck(),
    ...(vouchers && { vouchers }),
  };
}

/** `--accept`: the rungs that count, for the stages that judge rungs. */
/** Exit 64 for what is no rung. A list that is given says all: without `unknown` in it, unknown results are refused. */
export function acceptedRungs(texts: readonly string[]): ReadonlySet<Rung> {
  const rungs = new Set(namesIn(texts) as Rung[]);
  for (const rung of rungs) {
    if (!KNOWN.includes(rung)) {
      throw usageError(`--accept: expected some of ${KNOWN.join(', ')}, found '${rung}'`);
    }
  }
  return rungs;
}

/** Whether a line is a legacy result that verification refuses; `agents` as `answerSchemas` has them. */
export function refusedResults(agents: string | undefined, base: string): (line: Item) => boolean {
  const schemas = answerSchemas({ agents }, base);
  return line => isLegacy(line) && findInLegacy(line, schemas).length > 0;
}
