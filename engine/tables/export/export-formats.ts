/** The formats in which results leave. */

import type { Format } from './export-format.ts';
import { openaiBatch } from './openai-batch.ts';
import { csvRows } from './write-csv.ts';
import { parquetRows } from './write-parquet.ts';
import { tableFormat } from './write-table.ts';

export const FORMAT_NAMES = ['csv', 'parquet', 'openai-batch'] as const;
export const FORMATS: Record<(typeof FORMAT_NAMES)[number], Format> = {
  csv: tableFormat(csvRows, false),
  parquet: tableFormat(parquetRows, true),
  'openai-batch': openaiBatch,
};
