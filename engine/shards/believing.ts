/**
 * Whether a result is one of the part that it names: workers come from anywhere, and what they hand in becomes the output.
 * It has the lines that were given out, as many, each with its id, and each with an answer or a failure.
 */
import { type Item, idOf } from '../item/item.ts';
import { isObject } from '../json/pointer.ts';
import type { Result, Task } from './protocol.ts';

/** It is no answer to the part that it names. */
export class WrongResult extends Error {}

const NEWLINE = 0x0a;

/** Throws WrongResult. */
export function believe(
  given: readonly Buffer[],
  { answered }: Pick<Result, 'answered'>,
  lines: readonly Buffer[],
  { row }: Task,
): void {
  if (answered.length !== lines.length)
    throw new WrongResult(`expected ${answered.length} lines, found ${lines.length}`);
  const isRaw = row.at(-1)?.stage === 'request';
  let last = -1;
  for (const [at, index] of answered.entries()) {
    const line = given[index];
    if (!Number.isSafeInteger(index) || index <= last || line === undefined)
      throw new WrongResult(`expected ascending numbers of lines below ${given.length}, found ${index}`);
    last = index;
    const bytes = lines[at] as Buffer;
    if (bytes.at(-1) !== NEWLINE)
      throw new WrongResult(`line ${at + 1}: expected a newline at its end, found none`);
    const found = itemIn(bytes);
    const [expected, got] = [itemIn(line), found].map(item => JSON.stringify(idOf(item)));
    if (got !== expected) throw new WrongResult(`line ${at + 1}: expected the id ${expected}, found ${got}`);
    // without a stage there is nothing to answer
    if (row.length > 0 && !isAnswered(found, isRaw))
      throw new WrongResult(`line ${at + 1}: expected an answer or a failure, found neither`);
  }
}

/** A line that only comes back would be an answer of nothing. */
function isAnswered({ failure, steps, decision }: Item, isRaw: boolean): boolean {
  if (failure !== undefined) return true;
  const last: unknown = Array.isArray(steps) ? steps.at(-1) : undefined;
  const response = isObject(last) ? last.response : undefined;
  const status = isObject(response) ? response.status_code : undefined;
  return isRaw ? Number.isSafeInteger(status) : isObject(last) || decision !== undefined;
}

function itemIn(line: Buffer): Item {
  try {
    const value = JSON.parse(line.toString());
    if (isObject(value)) return value as unknown as Item;
  } catch {
    // told below
  }
  throw new WrongResult('expected lines of JSON, found others');
}
