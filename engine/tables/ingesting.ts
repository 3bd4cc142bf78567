/** The options of ingest, and how what they name is read: as the rows of a table, or as the requests of a batch file. */

import { encodingNamed } from '../core/files/decoded.ts';
import { usageError } from '../core/item/failure.ts';
import { COMMON } from '../flow/join.ts';
import type { OptionSchemas, OptionsOf } from '../flow/options.ts';
import type { Source, Tools } from '../flow/stage.ts';
import {
  batchesToHold,
  checkedBatches,
  delimiterOf,
  FORMATS,
  readTable,
  streamOf,
  type TableOptions,
} from './read-table.ts';
import type { RowCheck } from './row-check.ts';
import { ItemMaker, readRows, type SourceRows } from './row-items.ts';
import { countRows, selectRows } from './selection.ts';
import { promptsFrom } from './template.ts';

export const INGEST_OPTIONS = {
  format: {
    type: 'string',
    enum: [...FORMATS, 'legacy'],
    description:
      'Input format. openai-batch: requests to send unchanged; legacy: results to turn back into items. Default: by file extension, else JSON if it begins with [ or {, else CSV.',
  },
  delimiter: {
    type: 'string',
    description: "Field delimiter of CSV, one character or '\\t'. Default: a comma; for TSV a tab.",
  },
  encoding: {
    type: 'string',
    description:
      'Encoding of the text, e.g. utf-16le (Excel\'s "Unicode text") or windows-1252. Default: UTF-8.',
  },
  schema: {
    type: 'string',
    file: 'read',
    from: 'base',
    description:
      'JSON Schema that every row must fit. Text counts as a number, true, false or (if empty) null where the schema wants one.',
  },
  id: {
    type: 'string',
    description: 'Column of the id. Default: id, else prompt_id, else a hash of the row.',
  },
  prompt: { type: 'string', description: 'Column of the prompt. Default: prompt.' },
  template: {
    type: 'string',
    file: 'read',
    from: 'base',
    description: 'Liquid template of the prompt, with the columns as variables.',
  },
  'or-template': {
    type: 'string',
    file: 'read',
    from: 'base',
    description: 'Liquid template of the prompt, used only if the table has no --prompt column.',
  },
  messages: {
    type: 'string',
    description: 'Column of chat messages (a JSON list) to ask instead of a prompt.',
  },
  'messages-template': {
    type: 'string',
    file: 'read',
    from: 'base',
    description: 'Liquid template that renders the chat messages, as a JSON list.',
  },
  'skip-invalid': {
    type: 'boolean',
    description:
      'With --format openai-batch: turn a line that is not a request into a failed item instead of ending the run.',
  },
  offset: { type: 'integer', minimum: 0, default: 0, description: 'Rows to skip at the beginning.' },
  limit: { type: 'integer', minimum: 1, description: 'Maximum rows to take after --offset. Default: all.' },
  shard: { type: 'string', description: 'Take every n-th row, starting with the i-th: i/n, e.g. 1/8.' },
  source: {
    type: 'string',
    file: 'read',
    description: 'With --format legacy: the original table, for ids, columns and prompts, matched by row.',
  },
  provenance: {
    type: 'string',
    file: 'read',
    description:
      'With --format legacy: the file written by legacy-convert --provenance, for rungs and changes. Default: the one beside the results.',
  },
  orderings: {
    type: 'array',
    items: { type: 'string' },
    description:
      'Orderings of agents, with one item per row and ordering: risk,data,…, the name of a list in orderings.yaml, or all.',
  },
  samples: {
    type: 'integer',
    minimum: 1,
    maximum: 10_000,
    description: 'Items per row and ordering, each asked with its own seed; their ids end in #1, #2, …',
  },
} as const satisfies OptionSchemas;

export type IngestOptions = OptionsOf<typeof INGEST_OPTIONS>;
/** The orderings of --orderings, each with what stands for it in ids; null without it. */
export type Orderings = () => { keys: string[]; label: string }[] | null;

/** How the rows of a table become items: what readTable is told, and what writes lines. */
export async function openTable(options: IngestOptions, tools: Tools, orderings: Orderings) {
  const { format, source, provenance } = options;
  if (source !== undefined || provenance !== undefined)
    throw usageError('--source and --provenance: expected --format legacy with them');
  if (options['skip-invalid'] && format !== 'openai-batch')
    throw usageError(
      '--skip-invalid: expected --format openai-batch with it; bad rows of a table become failed items anyway',
    );
  const part = selectRows(options);
  const maker = new ItemMaker({
    ...(await makingOf(options, tools)),
    orderings: orderings(),
    samples: options.samples ?? null,
  });
  const reading: TableOptions = {
    format: format === 'legacy' ? undefined : format,
    delimiter: delimiterFor(options),
    encoding: encodingOf(options),
    maxLine: maxLineOf(options),
    // an option that says where to look says that the lines are rows
    takesItems: !looksElsewhere(options),
    expect: (columns, source) => maker.expect(columns, source),
    itemsOf: row => maker.itemsOf(row, part.has(row.row)),
    lastRow: part.lastRow,
    signal: tools.signal,
    warn: tools.warn,
  };
  return { reading, shapeOf: (columns: readonly string[]) => maker.shape(columns, part.has) };
}

async function makingOf(options: IngestOptions, { base }: Tools) {
  const { id, schema } = options;
  const check = schema === undefined ? undefined : await rowCheck(schema, base);
  return { stage: 'ingest', id, ...(await promptsFrom(options, base)), ...(check && { check }) };
}

/** The validator is loaded where it is needed. */
async function rowCheck(path: string, base: string): Promise<RowCheck> {
  const { readRowCheck } = await import('./row-check.ts');
  return readRowCheck(path, base);
}

function looksElsewhere({ id, prompt, template, schema, messages, ...more }: IngestOptions): boolean {
  return [id, prompt, template, schema, messages, more['messages-template']].some(said => said !== undefined);
}

function maxLineOf(options: IngestOptions): number {
  return (options as { 'max-line'?: number })['max-line'] ?? COMMON['max-line'].default;
}

function encodingOf({ encoding, format }: IngestOptions): string | undefined {
  if (encoding === undefined) return undefined;
  if (format === 'openai-batch' || format === 'legacy')
    throw usageError(`--encoding: expected a table, found --format ${format}, which is UTF-8`);
  // rows that are no UTF-8 are failed rows, where it is the default
  return encodingNamed(encoding) === 'utf-8' ? undefined : encoding;
}

/** Exit 64 where the format has no fields, and so no delimiter. */
function delimiterFor({ format, delimiter, source }: IngestOptions): number | undefined {
  if (delimiter === undefined) return undefined;
  if (
    format === 'json' ||
    format === 'ndjson' ||
    format === 'openai-batch' ||
    (format === 'legacy' && source === undefined)
  )
    throw usageError('--delimiter: expected a table of CSV');
  return delimiterOf(delimiter);
}

/** How many items will come of the files; null where that cannot be known before they are read. */
export async function countItems(
  options: IngestOptions,
  tools: Tools,
  orderings: Orderings,
): Promise<number | null> {
  const { format } = options;
  if (format === 'legacy') return tools.rows ?? null;
  const { files, signal } = tools;
  const reading = {
    ...{ format, delimiter: delimiterFor(options), encoding: encodingOf(options) },
    ...{ maxLine: maxLineOf(options), signal },
  };
  const rows = tools.rows ?? (await countRows(files, reading));
  return rows && selectRows(options).of(rows) * (orderings()?.length ?? 1) * (options.samples ?? 1);
}

/**
 * The requests of a batch file: all lines are looked at before the first is passed on, and one that is no request ends the run
 * with 65, unless it is to be skipped.
 */
export async function openRequests(options: IngestOptions, tools: Tools): Promise<Source> {
  if (
    options.orderings !== undefined ||
    options.samples !== undefined ||
    options['or-template'] !== undefined ||
    looksElsewhere(options)
  )
    throw usageError(
      '--format openai-batch: expected no --id, --prompt, --template, --or-template, --messages, --messages-template, --schema, --orderings or --samples: each line already says what to ask',
    );
  const { reading } = await openTable(options, tools, () => null);
  if (options['skip-invalid']) return inputs => readTable(inputs, reading);
  if (tools.areHeld) return inputs => streamOf(batchesToHold(inputs, reading), tools.signal);
  const { reading: first } = await openTable(options, tools, () => null);
  return inputs => streamOf(checkedBatches(inputs, reading, first.itemsOf), tools.signal);
}

/** What the options say of legacy results: which of them, of which rows, in lines of which length. */
export function readSource(options: IngestOptions, tools: Tools) {
  const { orderings, source } = options;
  if (orderings !== undefined || options.samples !== undefined)
    throw usageError(
      '--orderings and --samples: expected rows of a table, found legacy results, which have their own',
    );
  if (source === undefined && looksElsewhere(options))
    throw usageError(
      '--id, --prompt, --template, --schema: expected --source with them, whose rows they describe',
    );
  const maxLine = maxLineOf(options);
  const { has: isTaken, lastRow } = selectRows(options);
  const reading = { ...tools, delimiter: delimiterFor(options), maxLine };
  const rows = async (): Promise<SourceRows | null> =>
    source === undefined ? null : readRows(source, await makingOf(options, tools), reading);
  return { maxLine, isTaken, lastRow, rows };
}
