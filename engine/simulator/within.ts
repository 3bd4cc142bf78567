/**
 * A limit in time for what a stranger's schema makes this process do: patterns backtrack, references multiply, and
 * neither can be seen before. One request must not keep all others waiting.
 */
import { createContext, Script } from 'node:vm';
import { SchemaError } from './node.ts';

/** ms; what is asked in earnest takes less than one */
const MOST = 1_000;

const box: { run: () => unknown } = { run: () => undefined };
const context = createContext(box);
const script = new Script('run()');

/** What `run` returns. @throws SchemaError where that takes too long, or more stack or pattern than there may be */
export function within<T>(run: () => T): T {
  box.run = run;
  try {
    return script.runInContext(context, { timeout: MOST }) as T;
  } catch (error) {
    throw toldOf(error);
  } finally {
    box.run = () => undefined;
  }
}

/** The same for what cannot take long. */
export function unlimited<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw toldOf(error);
  }
}

/** As an error of the schema, where it is one. */
function toldOf(error: unknown): unknown {
  if (error instanceof SchemaError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
    return new SchemaError(`The schema takes more than ${MOST} ms to answer.`);
  if (error instanceof RangeError || error instanceof SyntaxError)
    return new SchemaError(`The schema cannot be used: ${message.slice(-200)}.`);
  return error;
}
