/** Verification as an account: each line is accepted, refused, or was failed before; and the whole is judged at the end. */

import { dueIn } from '../asking/agents/arrangement.ts';
import { type AnswerPlace, answerPlace } from '../asking/agents/reopen.ts';
import { isFromDocument } from '../core/files/origin.ts';
import {
  carryRung,
  type Failure,
  failureOf,
  type Item,
  isItem,
  isLegacyLike,
  type Rung,
  rungOf,
  worse,
} from '../core/item/item.ts';
import { isTexts } from '../core/item/line-shape.ts';
import { isBatchResult } from '../core/item/response.ts';
import { counted, number } from '../core/item/wording.ts';
import type { JsonObject } from '../core/json/pointer.ts';
import { provenanceCarried, type Vouchers } from '../flow/provenance.ts';
import { withFailure } from '../flow/stage.ts';
import { callsOfOthers } from './calls.ts';
import { checkIds, describeNamed, identityOf, type Named } from './expected-ids.ts';
import type { DocumentCheck } from './labels.ts';
import type { AnswerSchemas } from './legacy/answer-schemas.ts';
import type { Violation } from './legacy/leftovers.ts';
import { findInLegacy, isDocument } from './legacy/strict.ts';
import { findInItem, findInRecord } from './legacy/strict-items.ts';
import type { OnRecord } from './on-record.ts';
import { sharedAnswers } from './shared.ts';
import { addLine, addOne, addVerdict, closeTally, type Kind, newTally, type Verdict } from './tally.ts';

export interface JudgeOptions {
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

export interface LinesJudge {
  /** The line for the next stage: itself, or with its failure. */
  judge(line: Item): Item;
  /** Once, after the last line: what only the whole can tell, by id and by number. */
  close(): Verdict;
}

export function judgeLines({ expect, ids: list, stage, maxLine, ...by }: JudgeOptions): LinesJudge {
  const { accept, schemas, findInLabel, documents, onRecord, vouchers } = by;
  const tally = newTally();
  const findShared = sharedAnswers(schemas);
  const findCall = callsOfOthers();
  const ids = checkIds(list, { stage, maxLine });
  let others = 0; // accepted records of another kind, of which nobody asked for any
  return {
    judge(line) {
      const said = provenanceCarried(vouchers?.vouch(line) ?? line);
      const kind = lineKind(line);
      // an item that does not say itself that it failed is refused here
      const before = kind === 'items' && line.failure === undefined ? undefined : failureOf(line);
      // nobody says how a record of another kind came about
      if (kind === 'other records' || kind === 'batch results')
        carryRung(line, worse(rungOf(line), 'unknown'));
      documents?.see(line);
      const found = before === undefined ? findIn(line, said) : null;
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
        ? withFailure(line, refusal(stage, found, placeIn(line, found[0] as Violation)))
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
    close() {
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

  /** Which answer is to be asked again: that which is refused, or the one that is missing. */
  function placeIn(line: Item, { at, rule }: Violation): AnswerPlace | null {
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

  function findIn(line: Item, said?: JsonObject): Violation[] {
    const kind = lineKind(line);
    if (kind === 'items') {
      const found = findInItem(line, accept, schemas);
      for (const apart of [findShared(line), findCall(line)]) if (apart !== null) found.push(apart);
      return found;
    }
    const found =
      kind === 'legacy results' ? findInLegacy(line, schemas, said) : isDocument(line) ? [MISPLACED] : [];
    const mislabelled = kind === 'legacy results' && findInLabel?.(line);
    if (mislabelled) found.push(mislabelled);
    found.push(...findInRecord(line, accept));
    return found;
  }
}

const OTHER_ANSWERS: Violation = {
  code: 'not-strict',
  rule: 'other answers than its provenance',
  at: '',
  expected: 'the answers that its line of provenance has the hash of',
  got: 'others: somebody edited the result, or the file of provenance is of another run',
};

const MISPLACED: Violation = {
  code: 'not-strict',
  rule: 'document among lines',
  at: '',
  expected: 'a result',
  got: 'a document, which is read as one where its results are a list and it begins the input',
};

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
