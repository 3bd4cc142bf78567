/** The formats in which results leave. */
import { csvRows } from './csv.ts';
import type { Format } from './format.ts';
import { openaiBatch } from './openai-batch.ts';
import { parquetRows } from './parquet.ts';
import { tableFormat } from './table.ts';

export const FORMAT_NAMES = ['csv', 'parquet', 'openai-batch'] as const;
export const FORMATS: Record<(typeof FORMAT_NAMES)[number], Format> = {
  csv: tableFormat(csvRows, false),
  parquet: tableFormat(parquetRows, true),
  'openai-batch': openaiBatch,
};
