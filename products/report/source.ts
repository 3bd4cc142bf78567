/**
 * The table that was asked, for results that lack its columns. A row is joined by the id where both have one, else by its
 * number, and has to agree with all that the result still holds of it: a shuffled table would give everybody another
 * person's columns.
 */
import { hash } from 'node:crypto';
import { dataError } from '../../engine/core/item/failure.ts';
import { idOf, isLegacyLike } from '../../engine/core/item/item.ts';
import { counted, cut } from '../../engine/core/item/wording.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { show } from '../../engine/core/json/show.ts';
import { provenanceCarried } from '../../engine/flow/provenance.ts';
import { contentId } from '../../engine/tables/row-items.ts';
import { textOf } from './outcome-texts.ts';
import { eachRow } from './read-lines.ts';
import { canonical } from './values.ts';

/** How many records found their row, and how. */
export interface Joined {
  path: string;
  rows: number;
  byId: number;
  byRow: number;
  /** of `byRow`: nothing in the record tells whether the row is its own */
  unchecked: number;
  /** records that name no row of the table */
  unjoined: number;
}

export interface Source {
  joined: Joined;
  /**
   * The columns of the row of a line, without the prompt; undefined where it names none. `own`: what the line has of its
   * columns. Exit 65 where the row is another's; a failed line may be damaged, and then has none.
   */
  rowOf(line: JsonObject, about: Joining): JsonObject | undefined;
}

interface Joining {
  own: JsonObject | undefined;
  where: string;
  /** a row of a plain table: joined by its id alone */
  isRow: boolean;
  isFailed: boolean;
  /** the columns that are looked at */
  used: readonly string[];
}

interface SourceRow {
  row: number;
  columns: JsonObject;
  prompt: { hash: string; begin: string } | null;
  /** why it is no row */
  trouble: string | null;
}

const BEGIN = 60;
const MOST_OF_ONE_ID = 8;
const hashOf = (text: string): string => hash('sha256', text, 'base64');

export async function readSource(
  path: string,
  reading: { maxLine: number; warn(message: string): void },
): Promise<Source> {
  const rows: SourceRow[] = [];
  const ids = new Map<string, SourceRow[]>();
  let idColumn: string | null | undefined;
  await eachRow(path, reading, (line, _number, trouble) => {
    const { prompt, ...columns } = line;
    const text = typeof prompt === 'string' && prompt.trim() !== '' ? prompt : null;
    const row: SourceRow = {
      ...{ row: rows.length + 1, columns, trouble: trouble?.message ?? null },
      prompt: text === null ? null : { hash: hashOf(text), begin: text.slice(0, BEGIN) },
    };
    rows.push(row);
    if (trouble) return;
    // as ingest: the column id, else prompt_id, else the hash of the row
    idColumn ??= ['id', 'prompt_id'].find(name => Object.hasOwn(line, name)) ?? null;
    const fields = Object.values(line);
    const id =
      idColumn !== null
        ? textOf(line[idColumn])
        : fields.every(field => typeof field === 'string')
          ? contentId(Object.keys(line), fields)
          : null;
    const same = id === null ? undefined : ids.get(id);
    if (same === undefined && id !== null) ids.set(id, [row]);
    // more of one id are no better known
    else if (same && same.length < MOST_OF_ONE_ID) same.push(row);
  });
  const joined: Joined = { path, rows: rows.length, byId: 0, byRow: 0, unchecked: 0, unjoined: 0 };

  return {
    joined,
    rowOf(line, about) {
      const { where, isFailed, isRow } = about;
      const made = provenanceCarried(line)?.id;
      const byId = idsOf(line, isRow, made).flatMap(id => ids.get(id) ?? []);
      const number = isRow ? null : numberOf(line);
      const byRow = number === null ? undefined : rows[number - 1];
      // the prompt_id of a result is the number of its row, unless the table has a column of that name; an id is an id
      const isNumberFirst = isLegacyLike(line) && made === undefined && idColumn !== 'prompt_id';
      const first = isNumberFirst ? [...(byRow ? [byRow] : []), ...byId] : byId;
      const candidates = [...new Set(first.length > 0 ? first : byRow ? [byRow] : [])];
      const judged = candidates.map(row => ({ row, ...agreement(row, line, about) }));
      const fitting = judged.filter(({ why }) => why === null);
      const sure = fitting.filter(({ isChecked }) => isChecked);
      const found = sure.length > 0 ? sure : fitting;
      const [one] = found;
      if (one === undefined) {
        joined.unjoined += 1;
        if (isFailed) return undefined;
        const [other] = judged;
        const what = show(idOf(line) ?? where);
        if (other) throw wrongRow(`${where}: ${what}: ${path}: row ${other.row.row}: ${other.why}`);
        if (number !== null && number > rows.length)
          throw wrongRow(
            `${where}: ${what}: expected row ${number} of ${path}, found ${counted(rows.length, 'row')}`,
          );
        return undefined;
      }
      const rival = found.find(({ row }) => JSON.stringify(row.columns) !== JSON.stringify(one.row.columns));
      if (rival && !isFailed)
        throw dataError(
          `${where}: expected one row of ${path} for ${show(idOf(line) ?? where)}, found rows ${one.row.row} and ${rival.row.row}, which differ; give each row an id of its own`,
        );
      if (byId.includes(one.row)) joined.byId += 1;
      else {
        joined.byRow += 1;
        if (!one.isChecked) joined.unchecked += 1;
      }
      return one.row.columns;
    },
  };
}

const wrongRow = (message: string): Error =>
  dataError(
    `${message}. Expected the table that was asked, with all its rows in their order, or with the ids of the results`,
  );

/** What a line calls its row: its id, without the ordering and the sample that may end it. */
function idsOf(line: JsonObject, isRow: boolean, made: unknown): string[] {
  const named = isRow
    ? (textOf(idOf(line)) ?? textOf(line.id) ?? textOf(line.prompt_id))
    : isLegacyLike(line)
      ? textOf(line.prompt_id)
      : textOf(line.id);
  // the line of provenance of a result has the id of its item
  const known = textOf(made) ?? named;
  return known === null ? [] : withoutEnds(known);
}

function withoutEnds(named: string): string[] {
  const single = named.replace(/#\d{1,9}$/, '');
  const slash = single.lastIndexOf('/');
  return [...new Set([named, single, ...(slash > 0 ? [single.slice(0, slash)] : [])])];
}

function numberOf(line: JsonObject): number | null {
  const named = isLegacyLike(line) ? line.prompt_id : line.row;
  const number = typeof named === 'string' && /^[1-9]\d{0,14}$/.test(named) ? Number(named) : named;
  return Number.isSafeInteger(number) && (number as number) > 0 ? (number as number) : null;
}

/** `why` says what of the line is not of that row; `isChecked`: something was there to look at. */
function agreement(
  { columns, prompt, trouble }: SourceRow,
  line: JsonObject,
  { own, isRow, used }: Joining,
): { why: string | null; isChecked: boolean } {
  if (trouble !== null) return { why: `expected a row, found: ${trouble}`, isChecked: true };
  const text = isLegacyLike(line) ? line.initial_prompt : line.prompt;
  let isChecked = false;
  if (prompt !== null && typeof text === 'string' && text.trim() !== '') {
    if (hashOf(text) !== prompt.hash) {
      const found = show(cut(text.slice(0, BEGIN), BEGIN));
      return {
        why: `expected the prompt of the result, ${found}…, found ${show(prompt.begin)}…`,
        isChecked: true,
      };
    }
    isChecked = true;
  }
  // of a plain table only what is looked at has to be the same; an item has the columns of its row
  const names = isRow ? used : Object.keys(own ?? {});
  for (const name of names) {
    if (name === 'prompt' || own === undefined) continue;
    if (!Object.hasOwn(columns, name) || !Object.hasOwn(own, name)) continue;
    const [here, there] = [own[name], columns[name]];
    if (typeof here === 'object' && here !== null) continue;
    if (canonicalOf(here) !== canonicalOf(there))
      return {
        why: `expected ${name} ${show(here)}, as the result has it, found ${show(there)}`,
        isChecked: true,
      };
    isChecked = true;
  }
  return { why: null, isChecked };
}

/** 720 of a prompt and `720` of a table are the same; so are a null and an empty field. */
const canonicalOf = (value: unknown): string => canonical(textOf(value) ?? '');
