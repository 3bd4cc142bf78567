/**
 * Runs a row of stages in this process, from its inputs to one output. It knows no argv, no signals and no stderr, and
 * never ends the process, so several runs may share one. Three steps: what the run works with is prepared here, the lines
 * flow, and run-ending.ts closes what is open and says how it ended.
 */

import { inputsOf } from '../core/files/input-files.ts';
import type { Output } from '../core/files/ndjson-out.ts';
import { newAccount } from '../core/item/account.ts';
import { fatalOf } from '../core/item/failure.ts';
import { drain, join } from '../flow/join.ts';
import { refuseTables } from '../flow/looks-like.ts';
import { durationOf } from '../flow/options.ts';
import { isSource, type Tools } from '../flow/stage.ts';
import { openWritten } from '../flow/written.ts';
import { Asking } from './asking.ts';
import { makeFolders, sideFilesOf, withReaders } from './named-files.ts';
import { end, type Running } from './run-ending.ts';
import type { Ended, Run } from './run-options.ts';
import { createStopping } from './stopping.ts';

/** Resolves once the last line was taken and the ledger is closed, having said what there was to say; rejects with a bug. */
export async function run(run: Run): Promise<Ended> {
  const running = prepare(run);
  const { account, stopping, asking } = running;
  const unlisten = run.stoppable?.(stopping.stop) ?? (() => {});
  let letGo = () => {};
  try {
    letGo = await withReaders([...run.row.flatMap(sideFilesOf).map(({ path }) => path), run.target ?? ''], {
      say: run.say,
      signal: stopping.flight,
    });
    if (stopping.flight.aborted) return { exit: await stoppedEarly(running), account };
    await asking.serveMetrics();
    const output = run.output(stopping.breakOff, running.frame);
    const broke = await flow(running, output);
    return await end(running, output, broke);
  } finally {
    stopping.release();
    asking.close();
    letGo();
    unlisten();
  }
}

function prepare(run: Run): Running {
  const begun = performance.now();
  const account = newAccount(run.label);
  const { row, say } = run;
  const [first] = row;
  const asker = row.find(({ stage }) => stage.asks);
  const makesItems = first !== undefined && isSource(first.stage, first.options);
  if (first && !makesItems && !first.stage.positional) {
    const documents = row.some(({ stage }) => stage.documents);
    refuseTables(run.files, first.stage.name, documents);
  }
  // a source whose arguments are no lines to read opens them itself
  const inputs = makesItems && first.stage.positional ? [] : (run.inputs ?? inputsOf(run.files));
  const stopping = createStopping({
    account,
    say,
    atStop: run.atStop,
    grace: durationOf((asker?.options.grace as string | undefined) ?? '30s', '--grace'),
    takesItsOwn: () => asker?.stage.asks === 'always' || asking.made !== null || makesItems,
    readsFile: inputs[0]?.regular === true,
  });
  const asking = new Asking(run, { account, stopping, tools: () => tools });
  const tools: Tools = {
    base: run.base,
    ...(run.sets && { sets: run.sets }),
    files: run.files,
    signal: stopping.reading,
    asking: stopping.asking,
    account,
    started: new Date(),
    warn: say,
    namesEndpoint: asking.namesEndpoint,
    pool: asking.pool,
    giveUp: asking.giveUp,
  };
  const frame = row.map(({ stage, options }) => stage.frame?.(options)).find(Boolean);
  return { run, begun, account, inputs, tools, stopping, asking, frame };
}

/** Stopped while it waited for readers, before anything was opened. Resolves to the exit code. */
async function stoppedEarly({ run, stopping }: Running): Promise<number> {
  const { message, exit } = fatalOf(await stopping.broken.catch(error => error));
  run.say(message);
  return exit;
}

/** Opens the stages and sends the lines through them; resolves at the end of the last one, to what broke the run off. */
async function flow({ run, inputs, tools, account, stopping, asking }: Running, output: Output) {
  const opened = async (): Promise<void> => {
    // folders are made with the stages open: what ends before that is a mistake in the command, and costs nobody a file
    const row = run.row.map(placed => ({ ...placed, tools }));
    const written = output.pass ? await openWritten(row) : null;
    if (written !== null) {
      makeFolders(run.row);
      return written(inputs, output as Required<Output>);
    }
    const items = await join(row, inputs);
    asking.linesFlow();
    makeFolders(run.row);
    await drain(items, output, account);
  };
  try {
    await Promise.race([opened(), stopping.broken]);
    return undefined;
  } catch (error) {
    return fatalOf(error);
  }
}
