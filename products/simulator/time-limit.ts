/**
 * A limit in time for what a stranger's schema makes this process do: patterns backtrack, references multiply, and
 * neither can be seen before. One request must not keep all others waiting.
 */
import { createContext, Script } from 'node:vm';
import { SchemaError } from './node.ts';

/** ms; what is asked in earnest takes less than one */
const LIMIT_MS = 1_000;
/** Times that a limit is set anew for work that did not get to run: on a machine with other work to do. */
const TRIES = 8;

const box: { run: () => unknown } = { run: () => undefined };
const context = createContext(box);
const script = new Script('run()');

/** What `run` returns. @throws SchemaError where that takes too long, or more stack or pattern than there may be */
export function within<T>(run: () => T): T {
  box.run = run;
  try {
    for (let tries = 1; ; tries++) {
      const { user, system } = process.cpuUsage();
      try {
        return script.runInContext(context, { timeout: LIMIT_MS }) as T;
      } catch (error) {
        // the limit is of the clock, the work is of the processor: only what ran for most of the time has had it
        const spent = process.cpuUsage({ user, system });
        const ran = (spent.user + spent.system) / 1_000 > LIMIT_MS / 2;
        if (ran || tries === TRIES || !isTimeout(error)) throw toldOf(error);
      }
    }
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
  const { message } = error as Error;
  if (isTimeout(error)) return new SchemaError(`The schema takes more than ${LIMIT_MS} ms to answer.`);
  if (error instanceof RangeError || error instanceof SyntaxError)
    return new SchemaError(`The schema cannot be used: ${message.slice(-200)}.`);
  return error;
}

function isTimeout(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
}
