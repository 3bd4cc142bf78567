/**
 * One batch, as fw batch runs it: ingest, and behind it who answers. It ends with all of its lines written, or before that:
 * paused by a stop of the server, or broken by its disk.
 */
import { join } from 'node:path';
import { EXIT, fatalOf } from '../../../engine/core/item/failure.ts';
import { run, type Stopper } from '../../../engine/running/run.ts';
import { placed } from '../../../engine/running/stage-options.ts';
import ingest from '../../../stages/ingest.ts';
import type { Answering, AnsweringOptions } from './answerer.ts';
import { type Ending, linesInto, newTally, type Tally } from './batch-output.ts';

export interface BatchRunOptions extends Omit<AnsweringOptions, 'ending'> {
  input: string;
  /** the rest of it is not asked, from the beginning */
  ending: Ending | null;
  /** bytes of a line; ms for calls in flight at a stop */
  maxLine: number;
  grace: number;
  answeredBy(options: AnsweringOptions): Answering;
}

export type Outcome = 'whole' | 'paused' | { broken: string };

export interface BatchRun {
  /** what has come back so far */
  readonly tally: Tally;
  readonly ending: Ending | null;
  /** Asks nothing more; what has no answer yet gets the error of `why`. What is under way has the grace. */
  end(why: Ending): void;
  /** Stops where it is, to be run again. */
  pause(): void;
  ended: Promise<Outcome>;
}

export const pathsIn = (folder: string): { output: string; error: string } => ({
  output: join(folder, 'output.jsonl'),
  error: join(folder, 'error.jsonl'),
});

const PAUSED: Stopper = { name: 'a stop of the server', exit: 143 };

export function startRun(options: BatchRunOptions): BatchRun {
  const { record, input, folder, maxLine, grace, onTokens } = options;
  const tally = newTally();
  let { ending } = options;
  let stop: ((by: Stopper) => void) | undefined;
  let late: NodeJS.Timeout | undefined;
  let isPaused = false;
  let said = '';
  const answering = options.answeredBy({ record, folder, ending: () => ending, onTokens });

  const ended = run({
    label: record.id,
    row: [
      // its lines were looked at before, when it was validated
      placed(ingest, { format: 'openai-batch', 'skip-invalid': true, 'max-line': maxLine }),
      answering.placed,
    ],
    files: [input],
    base: folder,
    toNext: false,
    ledger: false,
    openPool: async asked => answering.openPool(asked),
    output: onBroken => linesInto(pathsIn(folder), tally, () => ending, onBroken),
    say(message) {
      said = message;
    },
    stoppable(act) {
      stop = act;
      if (isPaused) act(PAUSED);
      return () => {
        stop = undefined;
      };
    },
  }).then(
    ({ exit }): Outcome => {
      if (exit === EXIT.ok || exit === EXIT.failed) return 'whole';
      return isPaused && exit === PAUSED.exit ? 'paused' : { broken: said };
    },
    (error): Outcome => {
      const { message, exit } = fatalOf(error);
      if (exit === EXIT.bug) throw error;
      return { broken: message };
    },
  );
  return {
    tally,
    get ending() {
      return ending;
    },
    end(why) {
      if (ending !== null) return;
      ending = why;
      answering.stop();
      late = setTimeout(answering.abort, grace);
    },
    pause() {
      isPaused = true;
      stop?.(PAUSED);
    },
    ended: ended.finally(() => clearTimeout(late)),
  };
}
