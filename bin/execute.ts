/**
 * Runs a row of stages from its inputs to one output: signals, tools, progress, the account, the exit code.
 */
import { fstatSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { type Account, describeAccount, newAccount } from '../engine/flow/account.ts';
import { EXIT, Fatal, ItemFailure, usageError } from '../engine/flow/failure.ts';
import { inputsOf } from '../engine/flow/input.ts';
import type { Item } from '../engine/flow/item.ts';
import { drain, join } from '../engine/flow/join.ts';
import { durationOf, type Values } from '../engine/flow/options.ts';
import type { Frame, OnBroken, Output } from '../engine/flow/output.ts';
import type { Stage, Tools } from '../engine/flow/stage.ts';
import type { EndpointPool } from '../engine/pool/pool.ts';
import type { PoolFile } from '../engine/pool/poolfile.ts';
import { fatalOf } from './fatal.ts';
import { askedOf, makePool } from './pool.ts';
import { type Progress, startProgress } from './progress.ts';

export interface Run {
  /** what messages begin with: the verb, or the pipeline file */
  label: string;
  row: readonly { stage: Stage; options: Values }[];
  files: readonly string[];
  base: string;
  /** the output may be the input of another stage, which is to be told if this run ends early */
  toNext: boolean;
  /** the `pool:` of a pipeline file */
  pool?: PoolFile;
  output(onBroken: OnBroken, frame: Frame | undefined): Output;
}

/** Resolves to the exit code, having said what there was to say; rejects with a bug. */
export async function execute(run: Run): Promise<number> {
  const begun = performance.now();
  const account = newAccount(run.label);
  const say = (message: string): void => {
    process.stderr.write(`${run.label}: ${message}\n`);
  };
  const asker = run.row.find(placed => placed.stage.asks);
  const stop = new AbortController(); // leave files unread
  const halt = new AbortController(); // take no further item to ask about
  const quit = new AbortController(); // abandon what is in flight
  let breakOff: (error: Fatal) => void = () => {};
  const broken = new Promise<never>((_resolve, reject) => {
    breakOff = reject;
  });
  broken.catch(() => {}); // it is raced below; what breaks later has nobody left to tell

  let pool: EndpointPool | null = null;
  let progress: Progress | null = null;
  let making: Promise<EndpointPool> | null = null;
  const makeOnce = async (): Promise<EndpointPool> => {
    const made = await makePool(asker?.options ?? {}, { file: run.pool, warn: say, signal: quit.signal });
    pool = made;
    progress = startProgress(run.label, account, () => askedOf(made));
    return made;
  };
  const inputs = run.row[0]?.stage.positional ? [] : inputsOf(run.files);
  const tools: Tools = {
    base: run.base,
    files: run.files,
    signal: stop.signal,
    asking: halt.signal,
    account,
    started: new Date(),
    warn: say,
    pool: () => {
      if (stop.signal.aborted && !making)
        throw new ItemFailure('interrupted', 'The run was stopped before this was asked.');
      making ??= makeOnce();
      return making;
    },
  };
  if (asker) {
    // thousands of items in flight outlive the young generation, and V8 lets the old one grow to four times what lives;
    // at twice it takes three quarters of the memory for a tenth more CPU
    setFlagsFromString('--heap-growing-percent=100');
  }
  const signals = listen({
    stop,
    halt: () => {
      if (asker?.stage.asks === 'always' || pool !== null || run.row[0]?.stage.source) halt.abort();
      return halt.signal.aborted || inputs[0]?.regular === true;
    },
    quit,
    say,
    breakOff,
    grace: graceOf(asker?.options),
    idle: () => account.read === 0,
  });
  quit.signal.addEventListener('abort', () => pool?.abort());
  refuseOverwriting(run);
  const frame = run.row.map(({ stage, options }) => stage.frame?.(options as never)).find(Boolean);
  const output = run.output(breakOff, frame);
  let fatal: Fatal | undefined;
  try {
    const row = run.row.map(placed => ({ ...placed, tools }));
    const items = await Promise.race([join(row, inputs), broken]);
    await Promise.race([drain(items, output, account), broken]);
  } catch (error) {
    fatal = fatalOf(error);
  }
  stop.abort();
  halt.abort();
  quit.abort();
  (progress as Progress | null)?.stop();
  signals.release();
  const made = pool as EndpointPool | null;
  if (made) account.asked = askedOf(made);
  fatal ??= made?.verdict();
  await made?.close();

  const ended = fatal && `ended with ${fatal.exit}: ${fatal.message}`;
  const incomplete = ended ?? (signals.received && `stopped by ${signals.received}`);
  try {
    if (incomplete && !frame && run.toNext) output.write(incompleteLine(run.label, incomplete));
    const whole = !incomplete && account.rungs.failed === 0 && account.findings === 0;
    await Promise.race([output.end(whole), broken]);
  } catch (error) {
    fatal ??= fatalOf(error);
  }
  if (fatal?.exit === EXIT.pipe) return fatal.exit;
  if (fatal === undefined || account.read > 0) {
    for (const line of describeAccount(account, (performance.now() - begun) / 1000)) say(line);
  }
  if (fatal === undefined) return ending(run.row, account, signals.received, say);
  say(fatal.message);
  return fatal.exit;
}

/** Tells the next stage that this one ended early, so that it does not take the end of the stream for success. */
export function incompleteLine(stage: string, message: string): Item {
  return {
    id: null,
    failure: { stage, code: 'input-incomplete', message },
  };
}

/** A side file that is also an input would be emptied before it was read. */
function refuseOverwriting({ row, files }: Run): void {
  const inputs = [0, ...files.filter(path => path !== '-')].map(identityOf).filter(Boolean);
  for (const { options } of row) {
    const path = options.failures as string | undefined;
    if (path !== undefined && inputs.includes(identityOf(path))) {
      throw usageError(`--failures ${path}: expected another file than the input, which it would empty`);
    }
  }
}

/** Device and inode of a regular file; undefined for anything else. */
function identityOf(file: string | number): string | undefined {
  try {
    const stat = typeof file === 'number' ? fstatSync(file) : statSync(file);
    return stat.isFile() ? `${stat.dev}:${stat.ino}` : undefined;
  } catch {
    return undefined; // not there yet
  }
}

function ending(
  row: Run['row'],
  account: Account,
  signal: Signal | null,
  say: (message: string) => void,
): number {
  if (signal !== null) {
    say(`stopped by ${signal}; the README says how to go on (Going on after a stop)`);
    return 128 + constants.signals[signal];
  }
  const out = Object.values(account.rungs).reduce((sum, rung) => sum + rung, 0);
  if (account.read !== out + account.aside) {
    throw new Error(
      `the account does not add up: ${account.read} came in, ${out} went out, ${account.aside} were left out`,
    );
  }
  const judged = row.some(({ stage }) => stage.asks || stage.dropsFailures || stage.judges);
  return judged && (account.rungs.failed > 0 || account.findings > 0) ? EXIT.failed : EXIT.ok;
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
type Signal = (typeof SIGNALS)[number];

interface Listening {
  stop: AbortController;
  /** Takes no further item to ask about; false where nothing is asked and what comes through a pipe is drained. */
  halt(): boolean;
  quit: AbortController;
  say(message: string): void;
  breakOff(error: Fatal): void;
  /** ms */
  grace: number;
  /** nothing was taken yet, so nothing can finish */
  idle(): boolean;
}

/** The first signal stops the taking, and after `grace` what is in flight is abandoned; a second one ends at once. */
function listen(listening: Listening): { readonly received: Signal | null; release(): void } {
  const { stop, halt, quit, say, breakOff, grace, idle } = listening;
  let seen = false;
  let received: Signal | null = null; // the one that ends the run before its input does
  let timer: NodeJS.Timeout | undefined;
  const hasTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
  const onSignal = (signal: Signal): void => {
    if (signal === 'SIGHUP' && !hasTerminal) return;
    const again = seen;
    seen = true;
    if (!again && !halt()) {
      stop.abort();
      return say(`${signal}: draining what still comes (again: stop at once)`);
    }
    received = signal;
    if (again || idle()) {
      quit.abort();
      return breakOff(new Fatal(128 + constants.signals[signal], `stopped by ${signal}`));
    }
    stop.abort();
    say(`${signal}: taking nothing new; what is in flight has ${grace / 1000} s (again: stop at once)`);
    timer = setTimeout(() => quit.abort(), grace);
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return {
    get received() {
      return received;
    },
    release() {
      clearTimeout(timer);
      for (const signal of SIGNALS) process.off(signal, onSignal);
    },
  };
}

function graceOf(options: Values | undefined): number {
  const text = (options?.grace as string | undefined) ?? '30s';
  const grace = durationOf(text);
  if (grace === null) throw usageError(`--grace: expected a duration such as 30s, found '${text}'`);
  return grace;
}
