/** The formats in which results leave. */
import type { Format } from './format.ts';
import { openaiBatch } from './openai-batch.ts';

export const FORMAT_NAMES = ['openai-batch'] as const;
export const FORMATS: Record<(typeof FORMAT_NAMES)[number], Format> = { 'openai-batch': openaiBatch };
