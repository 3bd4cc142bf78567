/** How property tests of ingest run: the seed is printed, and SEED=… repeats a run. RUNS=100000 makes it thorough. */
import fc from 'fast-check';
import { runs as runsOf } from '../all.ts';

export const seed = Number(process.env.SEED ?? Date.now() % 0x7fffffff);
export const runs = runsOf(40, 300);
console.log(`ingest properties: SEED=${seed} RUNS=${runs}`);

export async function holds<T>(
  arbitrary: fc.Arbitrary<T>,
  predicate: (value: T) => Promise<void>,
): Promise<void> {
  await fc.assert(fc.asyncProperty(arbitrary, predicate), { seed, numRuns: runs });
}

/** Sizes of the blocks in which bytes come. */
export const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });

const field = fc.oneof(
  fc.constantFrom('', '"', '""', ',', '\n', '\r\n', '\r', ' ', '\t', 'null', '8.50', '-0', '\ufeff', "it's"),
  fc
    .array(fc.constantFrom('a', '"', ',', '\n', '\r', ' ', 'é', '漢', '😀'), { maxLength: 12 })
    .map(parts => parts.join('')),
  fc.string({ unit: 'grapheme', maxLength: 10 }),
);

export interface Table {
  columns: string[];
  rows: string[][];
}

/** Any table whose rows have an id of their own and a prompt. */
export const tables: fc.Arbitrary<Table> = fc.integer({ min: 0, max: 4 }).chain(more =>
  fc.record({
    columns: fc
      .uniqueArray(field, { minLength: more, maxLength: more })
      .filter(names => !names.includes('id') && !names.includes('prompt'))
      .map(names => ['id', 'prompt', ...names]),
    rows: fc
      .array(fc.array(field, { minLength: more, maxLength: more }), { minLength: 1, maxLength: 20 })
      .map(rows => rows.map((values, at) => [`id ${at}`, `"${at}",\nwhat?`, ...values])),
  }),
);

export interface Writing {
  delimiter: string;
  lineEnd: string;
  /** quote fields that need no quotes */
  always: boolean;
  mark: boolean;
  lastLineEnd: boolean;
}

export const writings: fc.Arbitrary<Writing> = fc.record({
  delimiter: fc.constant(','),
  lineEnd: fc.constantFrom('\n', '\r\n'),
  always: fc.boolean(),
  mark: fc.boolean(),
  lastLineEnd: fc.boolean(),
});

/** RFC 4180, section 2. */
export function written(
  { columns, rows }: Table,
  { delimiter, lineEnd, always, mark, lastLineEnd }: Writing,
): string {
  const fieldOf = (text: string): string =>
    always || /[",\t\r\n]/.test(text) || text.includes(delimiter) ? `"${text.replaceAll('"', '""')}"` : text;
  const lines = [columns, ...rows].map(row => row.map(fieldOf).join(delimiter));
  return (mark ? '\ufeff' : '') + lines.join(lineEnd) + (lastLineEnd ? lineEnd : '');
}

export function objectsOf({ columns, rows }: Table): { [column: string]: string }[] {
  return rows.map(row => Object.fromEntries(columns.map((column, at) => [column, row[at]!])));
}
