/**
 * The columns of a table, found in a first pass over its items: names, types and an order, in bounded memory. What a
 * second pass needs is here too: which cell of a row a value is.
 *
 * The values of an item are cells, by the dotted names of their columns. An object is a column for each of its keys, all the
 * way down; a list, an empty object and any other value is a cell. The answers of an item have the names of their agents
 * in front, wherever in the ordering they come.
 *
 *   {"id": "7", "input": {"text": "…"}, "steps": [{"agent": "triage", "output": {"urgency": "low"}, "rung": "clean", …}]}
 *   → id, rung, input.text, triage.output.urgency, triage.rung, …
 *
 * The answer of a raw request, and of a line of a batch, has its text in a column `answer`: in the body it is in a list.
 */
import { dataError } from '../../core/item/failure.ts';
import { failureOf, type Item, idOf, isRawRequest, rungOf, type Step } from '../../core/item/item.ts';
import { answerText, isBatchResult } from '../../core/item/response.ts';
import { counted, cut } from '../../core/item/wording.ts';
import { isObject, type JsonObject } from '../../core/json/pointer.ts';

/**
 * `json`: each cell is the JSON text of its value. Lists are, and values of several types in one column: there a text is in
 * quotes, so that "3" and 3 stay apart.
 */
export type ColumnType = 'boolean' | 'integer' | 'number' | 'text' | 'json';

export interface Column {
  name: string;
  type: ColumnType;
}

/** A JSON value, or null where the item has none or says null. */
export type Row = unknown[];

/** Keys of objects at one place, beyond which they are names of things and no columns. Columns of the input are columns. */
const MOST_KEYS = 256;
/** Beyond it nobody's reader is comfortable, and Parquet needs some kB for each in every group of rows. */
const MOST_COLUMNS = 2_000;
/** What is held while keys are still counted. */
const MOST_PLACES = 100_000;
const MOST_CHARACTERS = 8 * 1024 * 1024;

const KINDS = ['boolean', 'integer', 'number', 'text', 'list or object', 'null'] as const;
const NULL = KINDS.indexOf('null');

/** Where a column is from: a key of the item, an answer of an agent, or neither (the rung of the item, the text of an answer). */
type Origin = 'item' | 'step' | 'made';

/** A place in items: a column where it has values, and the places below it. */
interface Found {
  readonly origin: Origin;
  readonly key: string;
  readonly above: Found | null;
  readonly below: Map<string, Found>;
  /** objects are not taken apart here: they have too many different keys */
  isWhole: boolean;
  /** values, by kind */
  counts: number[];
  /** where it was first met: the rank of the item, and which value there */
  rank: number;
  nth: number;
  /** of a place that is a column, after the first pass */
  column: number;
  type: ColumnType;
}

/** The first columns; the others follow as the items have them. */
const FIRST = ['id', 'row', 'sample', 'ordering', 'rung', 'failure', 'answer', 'input'];

export class Columns {
  readonly #roots = new Map<string, Found>();
  #places = 0;
  #characters = 0;
  #rank = 0;
  #nth = 0;
  #found: Found[] = [];
  #names: string[] = [];

  constructor() {
    // the columns that every table has
    this.#meet(null, 'item', 'id');
    this.#meet(null, 'made', 'rung');
  }

  /** The first pass. Throws (65) where there would be more columns than a table can have. `rank`: its place in the table. */
  see(item: Item, rank: number): void {
    this.#rank = rank;
    this.#nth = 0;
    visit(item, {
      placeOf: (above, origin, key) => this.#meet(above, origin, key),
      cell(place, value) {
        place.counts[kindOf(value)]! += 1;
      },
    });
  }

  /** After the last item: the columns in their order. Throws as `see`. */
  settle(): readonly Column[] {
    this.#found = [...this.#roots.values()].sort(inOrder).flatMap(columnsBelow);
    if (this.#found.length > MOST_COLUMNS) throw tooMany(this.#roots, this.#found.length);
    this.#names = namesOf(this.#found);
    for (const [index, place] of this.#found.entries()) {
      place.column = index;
      place.type = typeOf(place.counts);
    }
    return this.#found.map(({ type }, index) => ({ name: this.#names[index] as string, type }));
  }

  /** The second pass, over the same items. */
  rowOf(item: Item): Row {
    const row: Row = new Array(this.#found.length).fill(null);
    visit(item, {
      placeOf: (above, origin, key) => this.#among(above).get(nameIn(above, origin, key)) ?? null,
      cell({ column }, value) {
        if (column >= 0) row[column] = value;
      },
    });
    return row;
  }

  /** What a person should know of the columns. */
  notes(): string[] {
    const mixed = this.#found.filter(({ counts }) => new Set(typesOf(counts)).size > 1);
    const whole = this.#found.filter(({ isWhole }) => isWhole);
    const nameOf = ({ column }: Found): string => cut(this.#names[column] as string, 100);
    return [
      ...listed(
        mixed,
        place =>
          `${nameOf(place)} has values of several types (${kindsOf(place)}), so each is a text of JSON`,
      ),
      ...listed(
        whole,
        place =>
          `${nameOf(place)} has objects with more than ${MOST_KEYS} different keys, so each is a text of JSON`,
      ),
    ];
  }

  #among(above: Found | null): Map<string, Found> {
    return above?.below ?? this.#roots;
  }

  /** The place of a key, as an item has it; null where nothing below is a column. */
  #meet(above: Found | null, origin: Origin, key: string): Found | null {
    if (above?.isWhole) return null;
    const among = this.#among(above);
    const name = nameIn(above, origin, key);
    let place = among.get(name);
    this.#nth += 1;
    if (place === undefined) {
      if (above !== null && above.below.size === MOST_KEYS && !isInput(above)) {
        this.#forget(above);
        above.isWhole = true;
        return null;
      }
      place = this.#make(above, origin, key);
      among.set(name, place);
    } else if (this.#rank < place.rank) {
      place.rank = this.#rank;
      place.nth = this.#nth;
    }
    return place;
  }

  #make(above: Found | null, origin: Origin, key: string): Found {
    this.#places += 1;
    this.#characters += key.length;
    if (this.#places > MOST_PLACES || this.#characters > MOST_CHARACTERS) throw tooMany(this.#roots);
    return {
      ...{ origin, key, above, below: new Map(), isWhole: false },
      ...{ counts: KINDS.map(() => 0), rank: this.#rank, nth: this.#nth, column: -1, type: 'text' },
    };
  }

  #forget(place: Found): void {
    for (const below of place.below.values()) {
      this.#places -= 1;
      this.#characters -= below.key.length;
      this.#forget(below);
    }
    place.below.clear();
  }
}

/** A key at the root is of the item, of a step, or made of the item; below it there is one of each name. */
const nameIn = (above: Found | null, origin: Origin, key: string): string =>
  above === null ? `${origin} ${key}` : key;

/** Columns that are named in full; of the others the number is said. */
const NAMED = 5;

function listed(places: readonly Found[], say: (place: Found) => string): string[] {
  const said = places.slice(0, NAMED).map(place => `column ${say(place)}`);
  if (places.length > NAMED) said.push(`so it is in ${counted(places.length - NAMED, 'more column')}`);
  return said;
}

const isInput = ({ above, origin, key }: Found): boolean =>
  above === null && origin === 'item' && key === 'input';

function kindOf(value: unknown): number {
  if (value === null) return NULL;
  if (typeof value === 'boolean') return 0;
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 1 : 2;
  return typeof value === 'string' ? 3 : 4;
}

/** The type that each kind of value would have alone. */
const TYPES: readonly ColumnType[] = ['boolean', 'integer', 'number', 'text', 'json'];

function typesOf(counts: readonly number[]): ColumnType[] {
  const types = TYPES.filter((_, kind) => (counts[kind] as number) > 0);
  return types.includes('number') ? types.filter(type => type !== 'integer') : types;
}

function typeOf(counts: readonly number[]): ColumnType {
  const [first = 'text', ...others] = typesOf(counts);
  return others.length > 0 ? 'json' : first;
}

const kindsOf = ({ counts }: Found): string =>
  KINDS.filter((_, kind) => kind !== NULL && (counts[kind] as number) > 0)
    .map(kind => counted(counts[KINDS.indexOf(kind)] as number, ...pluralOf(kind)))
    .join(', ');

const pluralOf = (kind: string): [string, string?] =>
  kind === 'list or object' ? [kind, 'lists or objects'] : [kind];

function inOrder(a: Found, b: Found): number {
  const first = ({ origin, key }: Found): number => {
    const at = origin === 'step' ? -1 : FIRST.indexOf(key);
    return at === -1 ? FIRST.length : at;
  };
  return first(a) - first(b) || byFirstMet(a, b);
}

const byFirstMet = (a: Found, b: Found): number => a.rank - b.rank || a.nth - b.nth;

/** The place itself where it has values, and those below it. A null among objects makes no column. */
function columnsBelow(place: Found): Found[] {
  const below = [...place.below.values()].sort(byFirstMet).flatMap(columnsBelow);
  const hasValues = place.counts.some((count, kind) => count > 0 && kind !== NULL);
  return hasValues || below.length === 0 ? [place, ...below] : below;
}

function tooMany(roots: ReadonlyMap<string, Found>, found?: number): Error {
  let most: Found | null = null;
  const look = (place: Found): void => {
    if (most === null || place.below.size > most.below.size) most = place;
    for (const below of place.below.values()) look(below);
  };
  for (const root of roots.values()) look(root);
  const { below } = most as unknown as Found;
  const name = cut(plainName(most as unknown as Found), 200);
  const many = found === undefined ? 'far more' : counted(found, 'column');
  return dataError(
    `expected at most ${counted(MOST_COLUMNS, 'column')}, found ${many}; ` +
      `${name} alone has ${counted(below.size, 'key')}. Remove it first, or turn it into text: ` +
      "jq -c '.a.b |= tojson'",
  );
}

function wayTo(place: Found): string[] {
  return place.above === null ? [place.key] : [...wayTo(place.above), place.key];
}

const plainName = (place: Found): string => wayTo(place).join('.');

/** Names of their own: keys in quotes where a key could be two, `steps.` before an agent. No two places have the same. */
function exactName(place: Found): string {
  const [first, ...others] = wayTo(place) as [string, ...string[]];
  const rest = others.map(key => (key === '' || /[."]/.test(key) ? JSON.stringify(key) : key));
  if (place.origin === 'made') return [first, ...rest].join('.');
  return [...(place.origin === 'step' ? ['steps'] : []), JSON.stringify(first), ...rest].join('.');
}

/** Plain names, but where two columns would have the same. */
function namesOf(places: readonly Found[]): string[] {
  const names = places.map(plainName);
  for (;;) {
    const times = new Map<string, number>();
    for (const name of names) times.set(name, (times.get(name) ?? 0) + 1);
    if (times.size === names.length) return names;
    for (const [index, name] of names.entries()) {
      if (times.get(name) !== 1) names[index] = exactName(places[index] as Found);
    }
  }
}

/** What walks along with an item: it finds or makes the place of a key, and hears of the values. */
interface Visitor {
  /** null: nothing below is wanted */
  placeOf(above: Found | null, origin: Origin, key: string): Found | null;
  cell(place: Found, value: unknown): void;
}

/** Depth is that of a line: at most 512 levels. */
function visit(item: Item, visitor: Visitor): void {
  const { steps, ...others } = item;
  const answers = answersOf(steps);
  see(null, 'item', 'id', item.id ?? idOf(item));
  see(null, 'made', 'rung', rungOf(item));
  const failure = failureOf(item);
  if (item.failure === undefined) see(null, 'item', 'failure', failure);
  if (failure === undefined) see(null, 'made', 'answer', answerText(bodyOf(item)));
  for (const [key, value] of Object.entries(others)) if (key !== 'id') see(null, 'item', key, value);
  if (answers === null) see(null, 'item', 'steps', steps);
  else {
    for (const [name, { agent: _, ...step }] of answers) see(null, 'step', name, step);
  }

  function see(above: Found | null, origin: Origin, key: string, value: unknown): void {
    if (value === undefined) return;
    const place = visitor.placeOf(above, origin, key);
    if (place === null) return;
    const keys = !place.isWhole && isObject(value) ? Object.keys(value) : [];
    if (keys.length === 0) return visitor.cell(place, value);
    for (const below of keys) see(place, origin, below, (value as JsonObject)[below]);
    // with this key they may have become too many
    if (place.isWhole) visitor.cell(place, value);
  }
}

/** What a server answered to the request of a line; undefined where it is of another kind. */
function bodyOf(item: Item): unknown {
  if (isBatchResult(item)) return isObject(item.response) ? item.response.body : undefined;
  const [step] = isRawRequest(item.request) && Array.isArray(item.steps) ? item.steps : [];
  return step?.response?.body;
}

/** The steps by the names of their agents; an agent that answered twice is `risk` and `risk#2`. Null: they are no steps. */
function answersOf(steps: unknown): Map<string, Step> | null {
  if (!Array.isArray(steps) || steps.length === 0) return steps === undefined ? new Map() : null;
  const answers = new Map<string, Step>();
  for (const step of steps as (Step | null)[]) {
    if (typeof step !== 'object' || step === null || typeof step.agent !== 'string') return null;
    let name = step.agent;
    for (let nth = 2; answers.has(name); nth++) name = `${step.agent}#${nth}`;
    answers.set(name, step);
  }
  return answers;
}
