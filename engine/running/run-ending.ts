/** How a run ends: the ledger is closed, the last line leaves, and the account is said. */
import type { ByteInput } from '../core/files/input-files.ts';
import type { Frame, Output } from '../core/files/ndjson-out.ts';
import { type Account, addsUp, describeAccount, leftIn } from '../core/item/account.ts';
import { EXIT, type Fatal, fatalOf } from '../core/item/failure.ts';
import { incompleteLine } from '../core/item/item.ts';
import { counted } from '../core/item/wording.ts';
import type { Tools } from '../flow/stage.ts';
import type { Asking } from './asking.ts';
import { askedOf } from './open-pool.ts';
import type { Ended, Run } from './run-options.ts';
import { lastWords, type Stopper, type Stopping } from './stopping.ts';

/** What a run works with, from before its first line to its last word. */
export interface Running {
  run: Run;
  /** as performance.now() */
  begun: number;
  account: Account;
  inputs: readonly ByteInput[];
  tools: Tools;
  stopping: Stopping;
  asking: Asking;
  /** of the stage that writes something else than lines */
  frame: Frame | undefined;
}

/** `broke` is what broke the flow off, if anything did. */
export async function end(running: Running, output: Output, broke: Fatal | undefined): Promise<Ended> {
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
    for (const line of [...describeAccount(account, (performance.now() - begun) / 1000), ...told]) say(line);
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
