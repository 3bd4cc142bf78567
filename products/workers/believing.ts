/**
 * Whether a result is one of the part that it names: workers come from anywhere, and what they hand in becomes the output.
 * It has the lines that were given out, as many, each with its id, and each with an answer or a failure.
 */
import { type Item, idOf } from '../../engine/core/item/item.ts';
import { isObject } from '../../engine/core/json/pointer.ts';
import { enter, type Skim, structural } from '../../engine/core/json/span.ts';
import { type Result, type Task, WrongResult } from './protocol.ts';

const NEWLINE = 0x0a;
/**
 * Commas and brackets of a result, beyond those that its lines can have had. 250 MB of `[],` would be parsed for two minutes,
 * into 5 GB, and nobody else would be answered meanwhile. 64 MiB of log-probabilities, the densest that servers say, have half as many.
 */
const MOST_MARKS = 24_000_000;

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
  refuseDense(given, lines);
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

/** Before anything is built of them. */
function refuseDense(given: readonly Buffer[], lines: readonly Buffer[]): void {
  const most = MOST_MARKS + given.reduce((sum, { length }) => sum + length, 0);
  let marks = 0;
  for (const line of lines) {
    const skim: Skim = { at: 0, depth: 0, inString: false };
    for (let mark = structural(line, skim); mark !== undefined; mark = structural(line, skim)) {
      enter(skim, mark);
      if (++marks > most)
        throw new WrongResult(`expected lines of at most ${most} commas and brackets together, found more`);
    }
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
