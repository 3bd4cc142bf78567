/**
 * One batch, as fw batch runs it: ingest | request over its part of the pool, with a ledger of its own. Killed and run again
 * it asks only what is not on record. It ends with all of its lines written, or before that: paused by a stop of the server,
 * or broken by its disk.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import ingest from '../../../stages/ingest.ts';
import request from '../../../stages/request.ts';
import { version } from '../../config/version.ts';
import { resolveOptions, type Values } from '../../flow/options.ts';
import type { Stage } from '../../flow/stage.ts';
import { type Answer, type Call, CallFailure } from '../../item/call.ts';
import { EXIT, usageError } from '../../item/failure.ts';
import { fatalOf } from '../../item/fatal.ts';
import { type Ledger, openLedger } from '../../ledger/ledger.ts';
import type { EndpointPool } from '../../pool/part.ts';
import { optionsOf } from '../../run/options.ts';
import { run } from '../../run/run.ts';
import type { PoolAsked } from '../../run/run-options.ts';
import type { Stopper } from '../../run/stopping.ts';
import { type Ending, linesInto, newTally, type Tally } from './output.ts';
import type { BatchRecord } from './state.ts';

export interface BatchRunOptions {
  record: BatchRecord;
  input: string;
  /** of the batch: its ledger is in it */
  folder: string;
  /** the rest of it is not asked, from the beginning */
  ending: Ending | null;
  pool: EndpointPool;
  /** bytes of a line; ms for calls in flight at a stop */
  maxLine: number;
  grace: number;
  /** the part of all places that is its own where every batch has requests: 1 of one that is alone */
  share(): number;
  /** told the tokens of an answer that was asked for now */
  onTokens(tokens: number): void;
}

export type Outcome = 'whole' | 'paused' | { broken: string };

export interface BatchRun {
  /** what has come back so far */
  readonly tally: Tally;
  readonly ending: Ending | null;
  /** Asks nothing more; what has no answer yet gets the error of `why`. Calls in flight have the grace. */
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
/** bytes that an answer may have on the wire at most, and of an item beside its request and its answer */
const MOST_ANSWER = 16 * 1024 * 1024;
const ROOM = 64 * 1024;
/** Items in flight of a batch, however many others there are. */
const LEAST_ITEMS = 32;

export function startRun(options: BatchRunOptions): BatchRun {
  const { record, input, folder, pool, maxLine, grace, share, onTokens } = options;
  const tally = newTally();
  let { ending } = options;
  let part: EndpointPool | undefined;
  let stop: ((by: Stopper) => void) | undefined;
  let late: NodeJS.Timeout | undefined;
  let isPaused = false;
  let said = '';

  function openPool({ asksWith, onGivenUp }: PoolAsked): EndpointPool {
    const path = join(folder, 'ledger');
    // whoever held them is gone: the folder of the server is ours
    rmSync(join(path, 'locks'), { recursive: true, force: true });
    const ledger = openLedger({
      ...{
        path,
        fsync: 100,
        version: version(),
        label: record.id,
        files: [input],
        asksWith,
        shard: undefined,
      },
      warn: () => {},
      onBroken: error => part?.giveUp(error),
    });
    const own = pool.part({
      ledger,
      model: record.model ?? '',
      share: { owner: record.owner, batch: record.id },
      lasts: true,
      onGivenUp,
    });
    part = own;
    if (ending !== null) own.stop();
    // all else is the part's
    return Object.create(own, {
      call: { value: (asked: Call) => call(own, ledger, asked) },
      // many batches at once share the memory, too
      itemsInFlight: {
        get() {
          const all = own.itemsInFlight;
          return Math.max(Math.min(all, LEAST_ITEMS), Math.ceil(all * share()));
        },
      },
    }) as EndpointPool;
  }

  async function call(own: EndpointPool, ledger: Ledger, asked: Call): Promise<Answer> {
    if (ending !== null) {
      const answer = ledger.find(asked.key);
      if (answer === null)
        throw new CallFailure('interrupted', `The batch was ${ending} before this was asked.`);
      return answer;
    }
    const answer = await own.call(asked);
    if (!answer.replayed) onTokens(answer.usage.prompt + answer.usage.completion);
    return answer;
  }

  const ended = run({
    label: record.id,
    row: [
      // its lines were looked at before, when it was validated
      placed(ingest, { format: 'openai-batch', 'skip-invalid': true, 'max-line': maxLine }),
      placed(request, { 'max-line': maxLine + MOST_ANSWER + ROOM, grace: `${grace}ms` }),
    ],
    files: [input],
    base: folder,
    toNext: false,
    ledger: false,
    openPool: async asked => openPool(asked),
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
      part?.stop();
      late = setTimeout(() => part?.abort(), grace);
    },
    pause() {
      isPaused = true;
      stop?.(PAUSED);
    },
    ended: ended.finally(() => clearTimeout(late)),
  };
}

function placed(stage: Stage, given: Values): { stage: Stage; options: Values } {
  const options = resolveOptions(optionsOf(stage), given, (name, message) => {
    throw usageError(`--${name}: ${message}`);
  });
  return { stage, options };
}
