/**
 * How results came about, beside them: a legacy result has no place to say it, so a file of lines does. Each is of one
 * result, which it names and whose hash it has: a line of other answers vouches for nothing, wherever it is. beside.ts has
 * the name of the file.
 */
import { createHash } from 'node:crypto';
import { markedRepairs } from '../answers/answers-of-line.ts';
import { editsOf } from '../answers/entries.ts';
import { rungOfEntries } from '../answers/rules.ts';
import { createIdSet, createIdTable } from '../core/files/idset.ts';
import { type LineFile, openLines, type Place } from '../core/files/line-places.ts';
import { carryRung, idOf, isLegacy, RUNGS, type Rung, sampleMark, worse } from '../core/item/item.ts';
import { number } from '../core/item/wording.ts';
import { type JsonObject, parsePointer, setAt } from '../core/json/pointer.ts';

/** SHA-256 of what a line of provenance vouches for: row, ordering, prompt and every answer, as compact JSON. */
export function hashOfResult(result: JsonObject): string | null {
  const { prompt_id, ordering, initial_prompt, conversation_history, business_decision, sample } = result;
  const turns = Array.isArray(conversation_history) ? conversation_history : [];
  const answers = turns.map(turn => [turn?.agent, turn?.output]);
  try {
    const own = Number.isSafeInteger(sample) ? [sample] : [];
    const text = JSON.stringify([prompt_id, ordering, initial_prompt, answers, business_decision, ...own]);
    return createHash('sha256').update(text).digest('hex');
  } catch (error) {
    if (error instanceof RangeError) return null; // nests too deeply, so nobody wrote it from an item
    throw error;
  }
}

const carried = new WeakMap<object, () => JsonObject>();

/** For a result that is still in the process: whoever writes it to a file writes this line beside it. */
export function carryProvenance<T extends JsonObject>(result: T, line: () => JsonObject): T {
  carried.set(result, line);
  return result;
}

export function provenanceCarried(result: JsonObject): JsonObject | undefined {
  const line = carried.get(result)?.();
  // its hash is most of the work, and who judges the result asks before who writes it
  if (line !== undefined) carried.set(result, () => line);
  return line;
}

export interface Vouchers {
  /** The line of provenance of a result; undefined where none is of these answers. */
  of(result: JsonObject): JsonObject | undefined;
  /** Gives a legacy result the rung that its line of provenance says; it, and what is said of it, stay in the process. */
  vouch<T extends JsonObject>(line: T): T;
  /** Whether a result, before what its own mark says was changed, has lines of provenance that are all of other answers. */
  isOfOthers(result: JsonObject): boolean;
  /** What was found, for the account. */
  notes(): string[];
}

/** Reads files of provenance, in any order, with lines of anything else between them. */
export async function openVouchers(
  paths: readonly string[],
  reading: { stage: string; maxLine: number },
): Promise<Vouchers> {
  const hashes = createIdTable();
  const names = createIdSet();
  const bound = createIdSet(); // those whose lines have a hash
  const places: (Place & { file: LineFile; rung: Rung })[] = [];
  let mistaken = 0;
  for (const path of paths) {
    const file = openLines(path, reading);
    for (const scanned of file.scan()) {
      if (scanned === null) {
        await new Promise(setImmediate); // signals have their turn
        continue;
      }
      const line = file.item(scanned);
      const { prompt_id: row, ordering, sha256 } = line;
      if (!Array.isArray(line.agents) || typeof ordering !== 'string') continue;
      const name = `${row}/${ordering}${sampleMark(line)}`;
      names.add(name);
      if (typeof sha256 !== 'string') continue; // version 0.1.0 did not say of which answers
      bound.add(name);
      const { offset, length, number } = scanned;
      const place = { file, offset, length, number, rung: rungSaid(line) ?? 'failed' };
      const nth = hashes.numberOf(sha256, places.length);
      const other = places[nth];
      // of two lines for the same answers the worse counts, whichever comes first
      if (other === undefined || worse(other.rung, place.rung) !== other.rung) places[nth] = place;
    }
  }
  const vouchers: Vouchers = {
    of(result) {
      const hash = hashOfResult(result);
      if (hash !== null && hashes.has(hash)) {
        const { file, rung, ...place } = places[hashes.numberOf(hash, 0)] as (typeof places)[number];
        const said = file.read(place);
        if (rung !== 'failed' && said.prompt_id === result.prompt_id && said.ordering === result.ordering)
          return said;
      }
      if (names.has(idOf(result) ?? '')) mistaken += 1;
      return undefined;
    },
    vouch(line) {
      if (!isLegacy(line) || carried.has(line)) return line;
      const said = vouchers.of(line);
      const rung = said && rungSaid(said);
      if (rung === undefined) return line;
      return carryProvenance(carryRung(line, worse(rung, markOf(line))), () => said as JsonObject);
    },
    isOfOthers(result) {
      if (!isLegacy(result) || !bound.has(idOf(result) ?? '')) return false;
      const before = beforeMark(result);
      if (before === null) return false;
      const hash = hashOfResult(before);
      return hash === null || !hashes.has(hash);
    },
    notes: () =>
      mistaken === 0
        ? []
        : [
            `results that do not match their line of provenance: ${number(mistaken)}; those lines were ignored`,
          ],
  };
  return vouchers;
}

/** The result without the changes to values that its mark tells; null where its text was changed, which cannot be undone. */
function beforeMark(result: JsonObject): JsonObject | null {
  if (result._fw === undefined) return result;
  const entries = markedRepairs(result);
  if (editsOf(entries).length > 0) return null;
  return entries.reduceRight<unknown>(
    (value, { at = '', from }) => setAt(value, parsePointer(at), from),
    result,
  ) as JsonObject;
}

/**
 * The worst rung that a line names; undefined where nothing in it is believed: it names what is none, or a failed answer,
 * which no result has, or a rung that is better than the entries beside it allow.
 */
function rungSaid({ rung, agents }: JsonObject): Rung | undefined {
  const answers = agents as (JsonObject | null)[];
  const all = [rung, ...answers.flatMap(answer => [answer?.rung, answer?.saw ?? 'clean'])] as Rung[];
  if (answers.length === 0 || all.some(name => name === 'failed' || !RUNGS.includes(name))) return undefined;
  let shown: Rung = 'clean'; // the worst before an answer: legacy results have agents who were shown all of it
  const isBetter = answers.some(answer => {
    const said = answer?.rung as Rung;
    const saw = (answer?.saw ?? 'clean') as Rung;
    const entries = answer?.repairs ?? [];
    if (worse(saw, shown) !== saw) return true;
    shown = worse(worse(said, saw), shown);
    return !Array.isArray(entries) || worse(said, rungOfEntries(entries, 'coerced')) !== said;
  });
  return isBetter ? undefined : all.reduce(worse);
}

function markOf({ _fw: mark }: JsonObject): Rung {
  const rung = (mark as { rung?: Rung } | null | undefined)?.rung;
  return mark === undefined ? 'clean' : rung !== undefined && RUNGS.includes(rung) ? rung : 'failed';
}
