/** Verification as an account: each line is accepted, refused, or was failed before; and the whole is judged at the end. */
import { number } from '../flow/account.ts';
import { isFromDocument } from '../flow/document.ts';
import { checkIds, describeNamed, type Named } from '../flow/expected.ts';
import { type Failure, failureOf, type Item, idOf, isItem, type Rung } from '../flow/item.ts';
import { withFailure } from '../flow/stage.ts';
import type { Finding } from './leftovers.ts';
import { claimsToBeLegacy, findInItem, findInLegacy, findInRecord, isDocument } from './strict.ts';
import { addLine, addOne, addVerdict, closeTally, type Kind, newTally, type Verdict } from './tally.ts';

export interface VerifyOptions {
  stage: string;
  accept: ReadonlySet<Rung>;
  /** distinct results that must be accepted */
  expect?: number;
  /** a file of ids that must be there, each once */
  ids?: string;
  maxLine: number;
}

export interface Verifier {
  /** The line as it goes on: itself, or with its failure. */
  judge(line: Item): Item;
  /** Once, after the last line. */
  close(): Verdict;
}

export function verifier(options: VerifyOptions): Verifier {
  const { accept, expect, stage, maxLine } = options;
  const tally = newTally();
  const ids = checkIds(options.ids, { stage, maxLine });

  return {
    judge(line) {
      const isFirst = ids.see(line);
      const before = failureOf(line);
      const found = before === undefined ? findIn(line) : null;
      const judged = found?.length ? withFailure(line, refusal(stage, found)) : line;
      if (idOf(line) === null) tally.withoutId += 1;
      if (before !== undefined) addOne(tally.failed, `${before.code} (${before.stage})`);
      else if (found?.length) addOne(tally.refused, (found[0] as Finding).rule);
      else if (isFirst) tally.accepted += 1;
      if (found !== null) addVerdict(tally, kindOf(line), found.length === 0);
      addLine(tally, judged);
      return judged;
    },

    close() {
      closeTally(tally);
      const { duplicates, unknown } = ids;
      const list = ids.missing();
      const findings: string[] = [];
      const nameAll = (what: string, named: Named | undefined): void => {
        if (named !== undefined && named.count > 0) findings.push(`${what}: ${describeNamed(named)}`);
      };
      if (tally.read === 0) findings.push('expected results, found none');
      if (expect !== undefined && expect !== tally.accepted) {
        findings.push(
          `expected ${number(expect)} accepted results, each id once, found ${number(tally.accepted)}`,
        );
      }
      nameAll(`missing ids (of ${number(list?.expected ?? 0)})`, list?.missing);
      nameAll('unknown ids', unknown);
      nameAll('duplicate ids', duplicates);
      return { ...tally, ids: { ...list, unknown, duplicates }, findings };
    },
  };

  function findIn(line: Item): Finding[] {
    const kind = kindOf(line);
    if (kind === 'items') return findInItem(line, accept);
    const found = kind === 'legacy results' ? findInLegacy(line) : isDocument(line) ? [MISPLACED] : [];
    return [...found, ...findInRecord(line, accept)];
  }
}

const MISPLACED: Finding = {
  code: 'not-strict',
  rule: 'document among lines',
  at: '',
  expected: 'a result',
  got: 'a document, which is read as one where its results are a list and it begins the input',
};

function kindOf(line: Item): Kind {
  if (isItem(line)) return 'items';
  return claimsToBeLegacy(line) || isFromDocument(line) ? 'legacy results' : 'other records';
}

/** Findings that a message names; the rest is a number. */
const NAMED = 3;

function refusal(stage: string, found: readonly Finding[]): Failure {
  const named = found
    .slice(0, NAMED)
    .map(({ at, expected, got }) => `${at || '(root)'}: expected ${expected}, got ${got}`);
  if (found.length > NAMED) named.push(`and ${found.length - NAMED} more`);
  return { stage, code: (found[0] as Finding).code, message: named.join('; ') };
}
