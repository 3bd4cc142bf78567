/**
 * Two runs over the same rows, joined by what `fw compare` joins by: the id, or of a legacy result its row and ordering. Only
 * numbers are held, so that a million rows are joined in a second. What differs most comes first.
 */
import { answersIn } from '../../engine/answers/answers-of-line.ts';
import { namesOf } from '../../engine/audit/search.ts';
import { idOf, isItem, rungOf } from '../../engine/core/item/item.ts';
import { answerText } from '../../engine/core/item/response.ts';
import { isObject, type JsonObject } from '../../engine/core/json/pointer.ts';

/** Of each row of a run: hashes (53 bits), NaN where there is none. */
export interface RunHashes {
  ids: Float64Array;
  /** what was decided, what was answered in all, and the rung */
  decided: Float64Array;
  said: Float64Array;
  rungs: Float64Array;
  /** another name of the row, such as row and ordering, for runs whose ids differ */
  names?: Float64Array;
  /** rows that are none any more: they were read again, longer */
  gone?: ReadonlySet<number>;
}

/** By what a pair differs, added up. `ALONE`: the row is in one of the runs. */
export const DIFFERS = { decision: 4, rung: 2, text: 1 } as const;

export interface Joined {
  /** of each pair the row in the first run, and in the second; -1: it has none */
  first: Int32Array;
  second: Int32Array;
  /** sums of DIFFERS; 0 for the same, and for a row that is in one run alone */
  differs: Uint8Array;
  /** pairs, those that differ most first: decision, rung, text, in the order of the first run; then those of one run alone */
  order: Int32Array;
  counts: {
    matched: number;
    onlyFirst: number;
    onlySecond: number;
    decision: number;
    rung: number;
    text: number;
    same: number;
  };
}

/** Joins rows; an id that is there several times is joined in the order of the rows. */
export function joinRuns(a: RunHashes, b: RunHashes): Joined {
  const partnerOf = new Int32Array(b.ids.length).fill(-1);
  const found = new Int32Array(a.ids.length).fill(-1);
  match(a.ids, b.ids, found, partnerOf);
  if (a.names || b.names) match(a.names ?? a.ids, b.names ?? b.ids, found, partnerOf);
  let onlySecond = 0;
  const isAlone = (row: number): boolean => partnerOf[row] === -1 && !b.gone?.has(row);
  for (let row = 0; row < partnerOf.length; row++) if (isAlone(row)) onlySecond += 1;
  const pairs = a.ids.length + onlySecond;
  const first = new Int32Array(pairs).fill(-1);
  const second = new Int32Array(pairs).fill(-1);
  const differs = new Uint8Array(pairs);
  const counts = { matched: 0, onlyFirst: 0, onlySecond, decision: 0, rung: 0, text: 0, same: 0 };
  for (let row = 0; row < a.ids.length; row++) {
    if (a.gone?.has(row)) continue;
    const other = found[row] as number;
    first[row] = row;
    second[row] = other;
    if (other < 0) {
      counts.onlyFirst += 1;
      continue;
    }
    counts.matched += 1;
    const isSame = (name: 'decided' | 'rungs' | 'said'): boolean => Object.is(a[name][row], b[name][other]);
    const by =
      (isSame('decided') ? 0 : DIFFERS.decision) +
      (isSame('rungs') ? 0 : DIFFERS.rung) +
      (isSame('said') ? 0 : DIFFERS.text);
    differs[row] = by;
    if (by & DIFFERS.decision) counts.decision += 1;
    if (by & DIFFERS.rung) counts.rung += 1;
    if (by & DIFFERS.text) counts.text += 1;
    if (by === 0) counts.same += 1;
  }
  let at = a.ids.length;
  for (let row = 0; row < partnerOf.length; row++) if (isAlone(row)) second[at++] = row;
  return {
    first,
    second,
    differs,
    order: orderOf(first, second, differs).filter(pair => first[pair] !== -1 || second[pair] !== -1),
    counts,
  };
}

/** Fills in the partners of rows that have none yet. Sorted by hash, both sides are gone through once. */
function match(a: Float64Array, b: Float64Array, found: Int32Array, partnerOf: Int32Array): void {
  const one = sortedRows(a, found);
  const other = sortedRows(b, partnerOf);
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    const [rowA, rowB] = [one[i] as number, other[j] as number];
    const [x, y] = [a[rowA] as number, b[rowB] as number];
    if (x === y) {
      found[rowA] = rowB;
      partnerOf[rowB] = rowA;
    }
    if (x <= y) i += 1;
    if (y <= x) j += 1;
  }
}

/**
 * Rows without a partner by their hashes, then by their places: digit by digit, the lowest first, each pass keeping the order
 * of the one before. No row is compared with another, so that no choice of ids makes it slow.
 */
function sortedRows(hashes: Float64Array, partners: Int32Array): Uint32Array {
  const low = new Uint32Array(hashes.length);
  const high = new Uint32Array(hashes.length);
  let from = new Uint32Array(hashes.length);
  let count = 0;
  for (let row = 0; row < hashes.length; row++) {
    const hash = hashes[row] as number;
    if ((partners[row] as number) >= 0 || Number.isNaN(hash)) continue;
    low[row] = hash | 0; // the lowest 32 of 53 bits
    high[row] = Math.floor(hash / 2 ** 32);
    from[count++] = row;
  }
  from = from.subarray(0, count);
  let to = new Uint32Array(count);
  for (const [words, shift] of [
    [low, 0],
    [low, 11],
    [low, 22],
    [high, 0],
    [high, 11],
  ] as const) {
    const starts = new Uint32Array(DIGITS + 1);
    for (let at = 0; at < count; at++)
      starts[((words[from[at] as number]! >>> shift) & (DIGITS - 1)) + 1]! += 1;
    for (let digit = 1; digit <= DIGITS; digit++) starts[digit]! += starts[digit - 1]!;
    for (let at = 0; at < count; at++) {
      const row = from[at] as number;
      to[starts[(words[row]! >>> shift) & (DIGITS - 1)]!++] = row;
    }
    [from, to] = [to, from];
  }
  return from;
}

const DIGITS = 2 ** 11;

function orderOf(first: Int32Array, second: Int32Array, differs: Uint8Array): Int32Array {
  const order = new Int32Array(first.length);
  // 7 to 1: what differs, 0: the same; those of one run alone are between them
  const rankOf = (pair: number): number => {
    const by = differs[pair] as number;
    if (by > 0) return 7 - by;
    return first[pair] === -1 ? 8 : second[pair] === -1 ? 7 : 9;
  };
  const starts = new Uint32Array(11);
  for (let pair = 0; pair < first.length; pair++) starts[rankOf(pair) + 1]! += 1;
  for (let rank = 1; rank < starts.length; rank++) starts[rank]! += starts[rank - 1]!;
  for (let pair = 0; pair < first.length; pair++) order[starts[rankOf(pair)]!++] = pair;
  return order;
}

/** What of a line is compared: `name` is what it is joined by beside its id; null for none. */
export interface Comparable {
  id: string | null;
  name: string | null;
  rung: string;
  decision: unknown;
  /** what was answered, by whom, in the order of asking */
  answers: { at: string; agent: string; value: unknown }[];
}

/** The same of any line: an item, a legacy result, an answer of a batch, a row of a table. */
export function comparable(line: JsonObject, isRow = false): Comparable {
  if (isRow) return { id: idIn(line.id), name: null, rung: '', decision: line, answers: [] };
  const [id = '', ...names] = namesOf(line);
  const { decision, business_decision, conversation_history: turns, response } = line;
  const answers = isItem(line)
    ? answersIn(line).map(({ at, agent, output, response: said }) => ({
        at,
        agent,
        value: output ?? said?.body,
      }))
    : (Array.isArray(turns) ? turns : []).map((turn, nth) => ({
        at: `/conversation_history/${nth}`,
        agent: isObject(turn) ? String(turn.agent) : '',
        value: isObject(turn) ? turn.output : turn,
      }));
  const { body } = isObject(response) ? response : {};
  const said = body === undefined ? undefined : (answerText(body) ?? body);
  if (said !== undefined) answers.push({ at: '/response/body', agent: 'answer', value: said });
  const decided = isItem(line) && isObject(decision) ? decision.output : business_decision;
  return {
    id: id === '' ? idOf(line) : id,
    name: names.at(-1) ?? null,
    rung: rungOf(line),
    decision: decided ?? answers.at(-1)?.value,
    answers: answers.filter(({ at }) => at !== '/decision'),
  };
}

const idIn = (id: unknown): string | null =>
  typeof id === 'string' || typeof id === 'number' ? String(id) : null;
