/** What a run is given, and what comes of it. */

import type { PoolFile } from '../asking/endpoints/settings.ts';
import type { EndpointPool } from '../asking/pool/part.ts';
import type { ByteInput } from '../core/files/input-files.ts';
import type { Frame, OnBroken, Output } from '../core/files/ndjson-out.ts';
import type { Account } from '../core/item/account.ts';
import type { AsksWith } from '../core/item/call.ts';
import type { Fatal } from '../core/item/failure.ts';
import type { Values } from '../flow/options.ts';
import type { Stage } from '../flow/stage.ts';
import type { Stopper } from './stopping.ts';
import type { Progress, Watched } from './watch/progress.ts';

export interface Run {
  /** what messages begin with: the verb, or the pipeline file */
  label: string;
  row: readonly { stage: Stage; options: Values }[];
  files: readonly string[];
  /** what is read in place of the files */
  inputs?: readonly ByteInput[];
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
  /** For who has a pool already: whom the stages ask, in place of the endpoints that options name. The run closes it. */
  openPool?(asked: PoolAsked): Promise<EndpointPool>;
  output(onBroken: OnBroken, frame: Frame | undefined): Output;
  /** hears what there is to say while it runs and at the end, a message a call, without the label */
  say(message: string): void;
  /** what becomes of what is in flight when it is stopped, in words; the grace of the calls unless given */
  atStop?: string;
  /** shows how it goes, once models are asked */
  progress?(watched: Watched): Promise<Progress>;
  /** is handed what stops the run, and returns what is to be called when it has ended */
  stoppable?(stop: (by: Stopper) => void): () => void;
}

export interface PoolAsked {
  /** what the first stage that asks asks with */
  asksWith: AsksWith;
  /** called once when the pool gives up in the middle of the run */
  onGivenUp(): void;
  /** aborted: stop waiting for endpoints */
  signal: AbortSignal;
}

export interface Ended {
  /** as in EXIT, or that of who stopped the run */
  exit: number;
  /** why it ended early, unless it was stopped in order */
  fatal?: Fatal;
  account: Account;
}
