/** Verification as an account: each line is accepted, refused, or was failed before; and the whole is judged at the end. */

import { isFromDocument } from '../files/document.ts';
import { provenanceCarried, type Vouchers } from '../flow/provenance.ts';
import { withFailure } from '../flow/stage.ts';
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
} from '../item/item.ts';
import { counted, number } from '../item/words.ts';
import type { AnswerSchemas } from '../legacy/answer-schemas.ts';
import type { Violation } from '../legacy/leftovers.ts';
import { findInItem, findInLegacy, findInRecord, isDocument } from '../legacy/strict.ts';
import { checkIds, describeNamed, identityOf, type Named } from './expected.ts';
import { sharedAnswers } from './shared.ts';
import { addLine, addOne, addVerdict, closeTally, type Kind, newTally, type Verdict } from './tally.ts';

export interface JudgeOptions {
  stage: string;
  accept: ReadonlySet<Rung>;
  schemas: AnswerSchemas;
  /** finds a legacy result that is not what its file says of all its results */
  findInLabel?(line: Item): Violation | null;
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
  const { accept, schemas, findInLabel, vouchers } = by;
  const tally = newTally();
  const findShared = sharedAnswers(schemas);
  const ids = checkIds(list, { stage, maxLine });
  let others = 0; // accepted records of another kind, of which nobody asked for any
  return {
    judge(line) {
      const said = vouchers?.vouch(line) && provenanceCarried(line);
      const before = failureOf(line);
      const kind = lineKind(line);
      // nobody says how a record of another kind came about
      if (kind === 'other records') carryRung(line, worse(rungOf(line), 'unknown'));
      const found = before === undefined ? findIn(line) : null;
      if (said) tally.vouched += 1;
      else if (vouchers?.isOfOthers(line)) found?.unshift(OTHER_ANSWERS);
      const judged = found?.length ? withFailure(line, refusal(stage, found)) : line;
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
      nameAll(`missing ids (of ${number(listed?.expected ?? 0)})`, listed?.missing);
      nameAll('unknown ids', unknown);
      nameAll('duplicate ids', duplicates);
      return { ...tally, ids: { ...listed, unknown, duplicates }, findings };
    },
  };

  function findIn(line: Item): Violation[] {
    const kind = lineKind(line);
    if (kind === 'items') {
      const found = findInItem(line, accept, schemas);
      const apart = findShared(line);
      return apart === null ? found : [...found, apart];
    }
    const found =
      kind === 'legacy results' ? findInLegacy(line, schemas) : isDocument(line) ? [MISPLACED] : [];
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
  return isLegacyLike(line) || isFromDocument(line) ? 'legacy results' : 'other records';
}

/** Findings that a message names; the rest is a number. */
const MAX_NAMED_PLACES = 3;

function refusal(stage: string, found: readonly Violation[]): Failure {
  const named = found
    .slice(0, MAX_NAMED_PLACES)
    .map(({ at, expected, got }) => `${at || '(root)'}: expected ${expected}, got ${got}`);
  if (found.length > MAX_NAMED_PLACES) named.push(`and ${found.length - MAX_NAMED_PLACES} more`);
  return { stage, code: (found[0] as Violation).code, message: named.join('; ') };
}
