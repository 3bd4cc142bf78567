/**
 * fairwatch/answers: a model's text and a JSON Schema in, a checked value out, with the record of how it came to be.
 * Nothing is asked, and nothing waits.
 *
 *   const answer = readAnswer('Sure: {"rate": "8.5%"}', { properties: { rate: { type: 'number' } } });
 */
import { readAnswer as read } from './engine/answers/read-answer.ts';
import { compileSchema } from './engine/answers/schema.ts';
import type { Check } from './engine/answers/schema-check.ts';
import type { Code } from './engine/core/item/codes.ts';
import type { Repair, Rung } from './engine/core/item/item.ts';
import type { JsonObject } from './engine/core/json/pointer.ts';
import { rethrow } from './errors.ts';

export { type ErrorCode, FairwatchError } from './errors.ts';
export type { Code, Repair, Rung };

/** How far the value is from the words of the model: `clean` as they were, `repaired` in syntax alone, `coerced` in type. */
export type Answer =
  | { rung: Exclude<Rung, 'failed'>; value: unknown; problem?: undefined; repairs: Repair[] }
  | { rung: 'failed'; value?: undefined; problem: { code: Code; message: string }; repairs: Repair[] };

export interface ReadingOptions {
  /** finish_reason of the server; anything but `stop` is `truncated`. Default: `stop` */
  finish?: string;
}

/**
 * The last answer in `text`, where it fits the schema, mended and coerced by rules that guess nothing. A schema is compiled
 * once. Throws FairwatchError, with the code `data`, where it is none; never for what the text is.
 */
export function readAnswer(
  text: string,
  schema: JsonObject | boolean,
  { finish = 'stop' }: ReadingOptions = {},
): Answer {
  const { rung, output, repairs, problem } = read(text, checkOf(schema), { finish });
  if (rung !== 'failed') return { rung, value: output, repairs };
  return { rung, problem: problem as { code: Code; message: string }, repairs };
}

function checkOf(schema: JsonObject | boolean): Check {
  try {
    return compileSchema(schema, 'schema');
  } catch (error) {
    return rethrow(error);
  }
}
