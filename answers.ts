/**
 * fairwatch/answers: a model's text and a JSON Schema in, a checked value out, with the record of how it came to be.
 * Nothing is asked, and nothing waits.
 *
 *   const answer = readAnswer('Sure: {"rate": "8.5%"}', { properties: { rate: { type: 'number' } } });
 */
import { readAnswer as read } from './engine/answers/read-answer.ts';
import { compileSchema } from './engine/answers/schema.ts';
import type { Code } from './engine/core/item/codes.ts';
import type { Repair, Rung } from './engine/core/item/item.ts';
import type { JsonObject } from './engine/core/json/pointer.ts';

export { Fatal, type FatalCode } from './engine/core/item/failure.ts';
export type { Code, Repair, Rung };

/** How far the value is from the words of the model: `clean` as they were, `repaired` in syntax alone, `coerced` in type. */
export type Answer =
  | { rung: Exclude<Rung, 'failed'>; value: unknown; repairs: Repair[] }
  | { rung: 'failed'; problem: { code: Code; message: string }; repairs: Repair[] };

export interface ReadingOptions {
  /** finish_reason of the server; anything but `stop` is `truncated`. Default: `stop` */
  finish?: string;
}

/**
 * The last answer in `text`, where it fits the schema, mended and coerced by rules that guess nothing. A schema is compiled
 * once. Throws Fatal, with the code `data`, where it is none; never for what the text is.
 */
export function readAnswer(
  text: string,
  schema: JsonObject | boolean,
  { finish = 'stop' }: ReadingOptions = {},
): Answer {
  const { rung, output, repairs, problem } = read(text, compileSchema(schema, 'schema'), { finish });
  if (rung !== 'failed') return { rung, value: output, repairs };
  return { rung, problem: problem as { code: Code; message: string }, repairs };
}
