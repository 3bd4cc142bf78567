/**
 * Runs a row of stages in this process, from its inputs to one output: tools, stopping, the account, the ending. It knows
 * no argv, no signals and no stderr, and never ends the process, so several runs may go on side by side.
 */

import { inputsOf } from '../files/input.ts';
import type { Frame, OnBroken, Output } from '../files/output.ts';
import { drain, join } from '../flow/join.ts';
import { refuseTables } from '../flow/looks-like.ts';
import { durationOf, type Values } from '../flow/options.ts';
import { isSource, type Stage, type Tools } from '../flow/stage.ts';
import { openWritten } from '../flow/written.ts';
import { type Account, addsUp, describeAccount, leftIn, newAccount } from '../item/account.ts';
import type { AsksWith } from '../item/call.ts';
import { EXIT, Fatal, ItemFailure } from '../item/failure.ts';
import { fatalOf } from '../item/fatal.ts';
import { incompleteLine } from '../item/item.ts';
import type { EndpointPool } from '../pool/pool.ts';
import type { PoolFile } from '../pool/settings.ts';
import type { Metrics } from '../watch/metrics.ts';
import type { Progress, Watched } from '../watch/progress.ts';
import { makeFolders, sideFilesOf, withReaders } from './named-files.ts';
import { askedOf, makePool, namesEndpoint } from './open-pool.ts';
import { type Stopper, stopping } from './stopping.ts';

export interface Run {
  /** what messages begin with: the verb, or the pipeline file */
  label: string;
  row: readonly { stage: Stage; options: Values }[];
  files: readonly string[];
  base: string;
  /** of a pipeline file: what --set says instead of it */
  sets?: readonly string[];
  /** the output may be the input of another stage, which is to be told if this run ends early */
  toNext: boolean;
  /** the path that the output is written to; absent for standard output */
  target?: string;
  /** the `pool:` and the `ledger:` of a pipeline file */
  pool?: PoolFile;
  ledger?: string | false;
  output(onBroken: OnBroken, frame: Frame | undefined): Output;
  /** hears what there is to say while it runs and at the end, a message a call, without the label */
  say(message: string): void;
  /** shows how it goes, once models are asked */
  progress?(watched: Watched): Promise<Progress>;
  /** is handed what stops the run, and returns what is to be called when it has ended */
  stoppable?(stop: (by: Stopper) => void): () => void;
}

export interface Ended {
  /** as in EXIT, or that of who stopped the run */
  exit: number;
  account: Account;
}

/** Resolves once the last line was taken and the ledger is closed, having said what there was to say; rejects with a bug. */
export async function run(run: Run): Promise<Ended> {
  const begun = performance.now();
  const account = newAccount(run.label);
  const { say } = run;
  const ended = (exit: number): Ended => ({ exit, account });
  const asker = run.row.find(placed => placed.stage.asks);
  const stop = new AbortController(); // leave files unread
  const halt = new AbortController(); // take no further item to ask about
  const quit = new AbortController(); // abandon what is in flight
  let hadAll = false; // the input was at its end when the run was stopped
  stop.signal.addEventListener('abort', () => {
    hadAll = account.endedAt !== null;
  });
  let breakOff: (error: Fatal) => void = () => {};
  const broken = new Promise<never>((_resolve, reject) => {
    breakOff = reject;
  });
  broken.catch(() => {}); // it is raced below; what breaks later has nobody left to tell

  let pool: EndpointPool | null = null;
  let progress: Progress | null = null;
  let metrics: Metrics | null = null;
  let making: Promise<EndpointPool> | null = null;
  let isOpen = false; // the stages are, and lines flow
  let refused: Fatal | undefined; // no pool could be made after that
  const onGivenUp = (): void => {
    stop.abort();
    halt.abort();
  };
  const makeOnce = async (asksWith: AsksWith): Promise<EndpointPool> => {
    const { label, files, pool: file, ledger } = run;
    const onAnswer = metrics?.onAnswer;
    const world = {
      label,
      files,
      file,
      ledger,
      asksWith,
      warn: say,
      onGivenUp,
      onAnswer,
      signal: quit.signal,
    };
    const made = await makePool(asker?.options ?? {}, world);
    pool = made;
    const toStdout = run.target === undefined;
    progress =
      (await run.progress?.({ label, account, pool: made, row: run.row, tools, toStdout, say })) ?? null;
    return made;
  };
  const [first] = run.row;
  const begins = first !== undefined && isSource(first.stage, first.options);
  // a source whose arguments are no lines to read opens them itself
  const inputs = begins && first.stage.positional ? [] : inputsOf(run.files);
  const tools: Tools = {
    base: run.base,
    ...(run.sets && { sets: run.sets }),
    files: run.files,
    signal: stop.signal,
    asking: halt.signal,
    account,
    started: new Date(),
    warn: say,
    namesEndpoint: () => namesEndpoint(asker?.options ?? {}, run.pool),
    pool: async asksWith => {
      if (making === null) {
        if (stop.signal.aborted) throw notAsked();
        if (asksWith === undefined) throw new Error('who asks first says with what');
        making = makeOnce(asksWith).catch(error => {
          if (!isOpen || !(error instanceof Fatal)) throw error;
          // as where a pool gives up: what is in hand leaves with what it has, and then the run ends
          refused = error;
          onGivenUp();
          throw notAsked();
        });
        return making;
      }
      const made = await making;
      if (asksWith) made.asksWith(asksWith);
      return made;
    },
  };
  const stops = stopping({
    stop,
    halt: () => {
      if (asker?.stage.asks === 'always' || pool !== null || begins) halt.abort();
      return halt.signal.aborted || inputs[0]?.regular === true;
    },
    quit,
    say,
    breakOff,
    grace: graceOf(asker?.options),
    idle: () => account.read === 0,
  });
  const deaf = run.stoppable?.(stops.stop) ?? (() => {});
  quit.signal.addEventListener('abort', () => pool?.abort());
  const sides = run.row.flatMap(sideFilesOf);
  if (first && !begins && !first.stage.positional) {
    const documents = run.row.some(({ stage }) => stage.documents);
    refuseTables(run.files, first.stage.name, documents);
  }
  const letGo = await withReaders([...sides.map(({ path }) => path), run.target ?? ''], {
    say,
    signal: quit.signal,
  });
  if (quit.signal.aborted) {
    const stopped = fatalOf(await broken.catch(error => error));
    stops.release();
    deaf();
    letGo();
    say(stopped.message);
    return ended(stopped.exit);
  }
  const metricsAt = asker?.options.metrics as string | undefined;
  if (metricsAt !== undefined) {
    const { serveMetrics } = await import('../watch/metrics.ts');
    metrics = await serveMetrics(metricsAt, {
      account,
      stats: () => pool?.stats() ?? null,
      facts: () => progress?.facts ?? null,
    });
    say(`metrics at ${metrics.url}`);
  }
  const frame = run.row.map(({ stage, options }) => stage.frame?.(options)).find(Boolean);
  const output = run.output(breakOff, frame);
  let fatal: Fatal | undefined;
  try {
    const flow = async (): Promise<void> => {
      // with the stages open, for what ends before that is a mistake in the command, and costs nobody a file
      const row = run.row.map(placed => ({ ...placed, tools }));
      const written = output.pass ? await openWritten(row) : null;
      if (written !== null) {
        makeFolders(run.row);
        return written(inputs, output as Required<Output>);
      }
      const items = await join(row, inputs);
      isOpen = true;
      makeFolders(run.row);
      await drain(items, output, account);
    };
    await Promise.race([flow(), broken]);
  } catch (error) {
    fatal = fatalOf(error);
  }
  const stoppedTwice = quit.signal.aborted && fatal !== undefined;
  stop.abort();
  halt.abort();
  quit.abort();
  (progress as Progress | null)?.stop();
  stops.release();
  // A signal from here on does not kill the process before its files have their names. They get LAST_WORDS.
  let hurry: (by: Stopper) => void = () => {};
  const hurried = new Promise<Stopper>(resolve => {
    hurry = resolve;
  }).then(by => after(LAST_WORDS).then(() => Promise.reject(new Fatal(by.exit, `stopped by ${by.name}`))));
  hurried.catch(() => {});
  const deafAtLast = run.stoppable?.(by => hurry(by)) ?? (() => {});
  deaf();
  const made = pool as EndpointPool | null;
  // closed first: the last sync of the ledger may fail
  const isBroken = fatal !== undefined || refused !== undefined || Boolean(made?.verdict());
  const closed = made?.close(isBroken ? 'broken off' : stops.by ? 'stopped' : 'ended');
  await Promise.race([closed, hurried]).catch(error => {
    fatal ??= fatalOf(error);
  });
  metrics?.close();
  if (made) account.asked = askedOf(made);
  fatal ??= made?.verdict() ?? refused;

  const why = fatal && `ended with ${fatal.exit}: ${fatal.message.split('\n', 1)[0]}`;
  const incomplete = why ?? (stops.by && `stopped by ${stops.by.name}`);
  try {
    // where each item came in and went out, with what stopped it, no line is missing
    const drops = account.rungs.failed > 0 && run.row.some(({ stage }) => stage.dropsFailures);
    const isMissing = !hadAll || drops || !addsUp(account);
    if (incomplete && isMissing && !frame && run.toNext) output.write(incompleteLine(run.label, incomplete));
    const whole = !incomplete && account.rungs.failed === 0 && account.findings === 0;
    // a reader that hangs must not hold up somebody who has asked twice
    const model = frame?.model ?? made?.model;
    await Promise.race([output.end(whole, model), stoppedTwice ? after(LAST_WORDS) : broken, hurried]);
    if (frame?.isDocument && model === undefined) account.notes.push(NO_MODEL);
    account.notes.push(...(frame?.notes ?? []));
  } catch (error) {
    fatal ??= fatalOf(error);
  }
  letGo();
  deafAtLast();
  if (fatal?.exit === EXIT.pipe) return ended(fatal.exit);
  if (fatal === undefined || account.read > 0) {
    const told = (progress as Progress | null)?.closing() ?? [];
    for (const line of [...describeAccount(account, (performance.now() - begun) / 1000), ...told]) say(line);
  }
  if (fatal === undefined) return ended(exitOf(run.row, account, stops.by, say));
  say(fatal.message);
  return ended(fatal.exit);
}

const notAsked = (): ItemFailure =>
  new ItemFailure('interrupted', 'The run was stopped before this was asked.');

const NO_MODEL =
  'the metadata of the document call the model "unknown", since this run asked none; name it with --model NAME';

/** ms that the last lines have to leave after a second signal */
const LAST_WORDS = 2_000;

function after(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms).unref());
}

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
        ? `stopped by ${by.name}; to resume, give the same command again: answers in the ledger are not asked again`
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

function graceOf(options: Values | undefined): number {
  return durationOf((options?.grace as string | undefined) ?? '30s', '--grace');
}
