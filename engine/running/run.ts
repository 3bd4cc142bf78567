/**
 * Runs a row of stages in this process, from its inputs to one output. It knows no argv, no signals and no stderr, and
 * never ends the process, so several runs may share one. Three steps: what the run works with is prepared, the lines flow,
 * and at the end what is open is closed and it is said how it ended.
 */
import { type ByteInput, inputsOf } from '../core/files/input-files.ts';
import type { Frame, OnBroken, Output } from '../core/files/ndjson-out.ts';
import { type Account, addsUp, describeAccount, leftIn, newAccount } from '../core/item/account.ts';
import { EXIT, type Fatal, fatalOf } from '../core/item/failure.ts';
import { incompleteLine } from '../core/item/item.ts';
import { counted, shellWord } from '../core/item/wording.ts';
import { drain, join } from '../flow/join.ts';
import { refuseTables } from '../flow/looks-like.ts';
import { durationOf } from '../flow/options.ts';
import { isSource, type Tools } from '../flow/stage.ts';
import { openWritten } from '../flow/written.ts';
import { Asking, type Asks } from './asking.ts';
import { askedOf } from './open-pool.ts';
import { makeFolders, sideFilesOf, withReaders } from './stage-options.ts';
import { lastWords, type Stopper, Stopping } from './stopping.ts';
import type { Progress, Watched } from './watch/run-facts.ts';

export type { PoolAsked } from './asking.ts';
export type { Stopper };

export interface Run extends Asks {
  /** what is read in place of the files */
  inputs?: readonly ByteInput[];
  base: string;
  /** of a pipeline file: what --set says instead of it */
  sets?: readonly string[];
  /** the output may be the input of another stage, which is to be told if this run ends early */
  toNext: boolean;
  output(onBroken: OnBroken, frame: Frame | undefined): Output;
  /** what becomes of what is in flight when it is stopped, in words; the grace of the calls unless given */
  atStop?: string;
  /** is handed what stops the run, and returns what is to be called when it has ended */
  stoppable?(stop: (by: Stopper) => void): () => void;
}

export interface Ended {
  /** as in EXIT, or that of who stopped the run */
  exit: number;
  /** why it ended early, unless it was stopped in order */
  fatal?: Fatal;
  account: Account;
}

/** The progress of a run at a terminal, or in a log. */
export async function showProgress(watched: Watched): Promise<Progress> {
  const { startProgress } = await import('./watch/progress.ts');
  return startProgress(watched);
}

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

/** What a run works with, from before its first line to its last word. */
function prepare(run: Run) {
  const begun = performance.now();
  const account = newAccount(run.label);
  const { row, say } = run;
  const [first] = row;
  const asker = row.find(({ stage }) => stage.asks);
  const makesItems = first !== undefined && isSource(first.stage, first.options);
  if (first && !makesItems && !first.stage.positional) {
    const documents = row.some(({ stage }) => stage.documents);
    refuseTables(run.files, first.stage.name, { documents });
  }
  // a source whose arguments are no lines to read opens them itself
  const inputs = makesItems && first.stage.positional ? [] : (run.inputs ?? inputsOf(run.files));
  const stopping = new Stopping({
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
  // of the stage that writes something else than lines
  const frame = row.map(({ stage, options }) => stage.frame?.(options)).find(Boolean);
  return { run, begun, account, inputs, tools, stopping, asking, frame };
}

type Running = ReturnType<typeof prepare>;

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

/** `broke` is what broke the flow off, if anything did. */
async function end(running: Running, output: Output, broke: Fatal | undefined): Promise<Ended> {
  const { run, begun, account, stopping, asking } = running;
  const { say } = run;
  const wasStoppedTwice = stopping.flight.aborted && broke !== undefined;
  const hurried = stopping.over();
  asking.progress?.stop();
  let fatal = await closePool(running, broke, hurried);
  asking.close();
  try {
    writeIncomplete(running, output, fatal);
    const { made } = asking;
    const { frame } = running;
    const isWhole = !fatal && !stopping.by && account.rungs.failed === 0 && account.findings === 0;
    const model = frame?.model ?? made?.model;
    // a reader that hangs must not hold up somebody who has asked twice
    await Promise.race([
      output.end(isWhole, model),
      wasStoppedTwice ? lastWords() : stopping.broken,
      hurried,
    ]);
    if (frame?.isDocument && model === undefined) account.notes.push(NO_MODEL);
    account.notes.push(...(frame?.notes ?? []));
  } catch (error) {
    fatal ??= fatalOf(error);
  }
  if (fatal?.exit === EXIT.pipe) return { exit: fatal.exit, account, fatal }; // nobody listens
  if (fatal === undefined || account.read > 0) {
    const told = asking.progress?.closing() ?? [];
    const seen = fatal === undefined && !stopping.by ? lookAtFailures(run, account, running.frame) : [];
    for (const line of [...describeAccount(account, (performance.now() - begun) / 1000), ...seen, ...told])
      say(line);
  }
  if (fatal === undefined) return { exit: exitOf(run.row, account, stopping.by, say), account };
  say(fatal.message);
  return { exit: fatal.exit, account, fatal };
}

/** Closes pool and ledger before the last line leaves, since the last sync may fail; resolves to why the run ends early. */
async function closePool(
  { account, stopping, asking }: Running,
  broke: Fatal | undefined,
  hurried: Promise<never>,
): Promise<Fatal | undefined> {
  const { made, refused } = asking;
  if (made === null) return broke ?? refused;
  const isBroken = broke !== undefined || refused !== undefined || made.verdict();
  const closed = made.close(isBroken ? 'broken off' : stopping.by ? 'stopped' : 'ended');
  const unclosed = await Promise.race([closed, hurried]).then(() => undefined, fatalOf);
  account.asked = askedOf(made);
  account.notes.push(...(made.stats().spent?.told ?? []));
  const { count = 0, model = '' } = made.onRecord?.ofOthers ?? {};
  if (count > 0)
    account.notes.push(
      `${counted(count, 'request')} without a model asked again: the answers on record are of ${model}`,
    );
  return broke ?? unclosed ?? made.verdict() ?? refused;
}

/** Tells the next stage of a pipe that lines are missing; where each item came in and went out, none is. */
function writeIncomplete(
  { run, account, stopping, frame }: Running,
  output: Output,
  fatal: Fatal | undefined,
) {
  const why = fatal
    ? `ended with ${fatal.exit}: ${fatal.message.split('\n', 1)[0]}`
    : stopping.by && `stopped by ${stopping.by.name}`;
  const drops = account.rungs.failed > 0 && run.row.some(({ stage }) => stage.dropsFailures);
  const isMissing = !stopping.hadAll || drops || !addsUp(account);
  if (why && isMissing && !frame && run.toNext) output.write(incompleteLine(run.label, why));
}

/** The command that shows those that failed, where the output is a file that has them. */
function lookAtFailures({ row, target }: Run, account: Account, frame: Frame | undefined): string[] {
  const { failures, rungs } = account;
  const [first, second] = new Set([...failures.values()].map(({ code }) => code));
  const isThere = rungs.failed > 0 && !row.some(({ stage }) => stage.dropsFailures);
  if (target === undefined || frame || first === undefined || !isThere) return [];
  // a line may say any code; of several, or of one that is a text of its own, all that failed are shown
  const where = second === undefined && /^[a-z\d-]+$/.test(first) ? `failure=${first}` : 'rung=failed';
  return [`look at them: fw view ${shellWord(target.replaceAll('{ordering}', '*'))} --where ${where}`];
}

const NO_MODEL =
  'the metadata of the document call the model "unknown", since this run asked none; name it with --model NAME';

function exitOf(
  row: Run['row'],
  account: Account,
  by: Stopper | null,
  say: (message: string) => void,
): number {
  if (by !== null) {
    const isKept = typeof account.asked?.replayed === 'number';
    say(
      isKept
        ? `stopped by ${by.name}; to resume, run the same command again: answers in the ledger are not asked for again`
        : `stopped by ${by.name}; there is no --ledger. To resume from the output: fw select --no-failed OUT > ok.ndjson; fw merge ok.ndjson ITEMS | fw chain …`,
    );
    return by.exit;
  }
  if (!addsUp(account)) {
    const { read, aside } = account;
    throw new Error(
      `the account does not add up: ${read} came in, ${leftIn(account)} went out, ${aside} were left out`,
    );
  }
  const { failed } = account.rungs;
  const judged = row.some(({ stage }) => stage.asks || stage.dropsFailures || stage.judges);
  if (judged && (failed > 0 || account.findings > 0)) return EXIT.failed;
  const noneIsGood = failed > 0 && failed === account.read;
  if (!noneIsGood || !row.some(({ stage, options }) => stage.needsGood?.(options))) return EXIT.ok;
  say('expected at least one good row, found none: all of them failed');
  return EXIT.failed;
}
