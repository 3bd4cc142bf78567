/** The lines of legacy files, each as the item that it was made of: for `ingest --format legacy`. */

import { createIdSet } from '../../core/files/idset.ts';
import type { ByteInput } from '../../core/files/input-files.ts';
import { mapLines, readItems } from '../../core/files/ndjson-in.ts';
import { ItemFailure } from '../../core/item/failure.ts';
import { failureOf, type Item, idOf, isItem, isLegacyLike } from '../../core/item/item.ts';
import { number } from '../../core/item/wording.ts';
import { type Items, itemWork, type Tools } from '../../flow/stage.ts';
import { checksOfResults } from './answer-schemas.ts';
import { refusedIn } from './read-answers.ts';
import { type LegacyContext, readLegacy } from './read-legacy.ts';

export interface ReadingResults extends LegacyContext {
  maxLine: number;
  /** of a line, from 1 over all inputs */
  isTaken(line: number): boolean;
  /** take no line after this one */
  lastRow: number;
  tools: Tools;
}

/** Items among the lines pass as they are, so that the failed items of a run can be read beside its results. */
export function readResults(inputs: readonly ByteInput[], options: ReadingResults): Items {
  const { stage, maxLine, isTaken, lastRow, tools } = options;
  const { signal, asking, account } = tools;
  const { agents } = options;
  const check = checksOfResults(() => agents);
  const ids = createIdSet();
  let line = 0;
  let othersShown = 0;
  let othersKnown = 0;

  const read = (record: Item): Item => {
    if (isItem(record)) {
      if (record.id !== null) claim(String(record.id));
      return record;
    }
    const before = failureOf(record);
    if (!isLegacyLike(record)) {
      if (before !== undefined) return record;
      const keys = Object.keys(record).slice(0, 5).join(', ');
      throw new ItemFailure(
        'not-strict',
        `expected a legacy result, found an object with ${keys || 'no keys'}`,
      );
    }
    const { item: whole, showsOther } = readLegacy(record, options);
    const item = whole.failure === undefined ? refused(whole, record) : whole;
    claim(item.id as string);
    if (showsOther) othersShown += 1;
    const known = idOf(record);
    if (known !== null && known !== `${item.row}/${item.ordering?.join()}`) othersKnown += 1;
    // whoever refused the line before may have seen what is not looked for here
    return before === undefined || item.failure !== undefined ? item : { ...item, failure: before };
  };
  /** Verify would refuse it for one of its answers: that is to be asked again, or mended by the text stages. */
  const refused = (item: Item, record: Item): Item => {
    const found = refusedIn(item, record, { agents, check });
    return found === null ? item : { ...item, failure: { stage, ...found } };
  };
  const claim = (id: string): void => {
    if (ids.add(id)) return;
    throw new ItemFailure(
      'duplicate-id',
      `expected every result once, found '${id}' again; fw merge keeps the newest of each`,
    );
  };
  const work = itemWork({ name: stage, summary: '', options: {}, heals: () => true }, {}, read);

  const lines = readItems(inputs, {
    stage,
    maxLine,
    documents: true,
    stopped: input => line >= lastRow || (signal.aborted && (input.regular || asking.aborted)),
  });
  return mapLines(
    lines,
    record => {
      line += 1;
      return line <= lastRow && isTaken(line) ? (work(record) as Item) : null;
    },
    () => {
      const { notes } = account;
      if (othersShown > 0)
        notes.push(
          `results in which an agent saw another text than fw shows: ${number(othersShown)}; legacy-convert writes the text of fw`,
        );
      if (othersKnown > 0)
        notes.push(
          `results that name their row or agents in another way than fw: ${number(othersKnown)}; written by legacy-convert they get other ids, and merge does not recognise them`,
        );
      notes.push(...(options.provenance?.notes() ?? []));
    },
  );
}
