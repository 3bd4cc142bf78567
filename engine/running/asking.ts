/**
 * Whom a run asks: the pool, which the first stage that needs one makes, with the progress that is shown from then on, and
 * the metrics, which are there from the start.
 */

import type { PoolFile } from '../asking/endpoints/settings.ts';
import type { EndpointPool } from '../asking/pool/part.ts';
import type { Account } from '../core/item/account.ts';
import type { AsksWith } from '../core/item/call.ts';
import { Fatal, ItemFailure } from '../core/item/failure.ts';
import type { Values } from '../flow/options.ts';
import type { Tools } from '../flow/stage.ts';
import { makePool, namesEndpoint } from './open-pool.ts';
import type { OptionsOfStage } from './stage-options.ts';
import type { Stopping } from './stopping.ts';
import type { Progress, Watched } from './watch/run-facts.ts';
import type { Metrics } from './watch/run-metrics.ts';

export interface Asks {
  /** what messages begin with: the verb, or the pipeline file */
  label: string;
  row: readonly OptionsOfStage[];
  files: readonly string[];
  /** the path that the output is written to; absent for standard output */
  target?: string;
  /** the `pool:` and the `ledger:` of a pipeline file */
  pool?: PoolFile;
  ledger?: string | false;
  /** For who has a pool already: whom the stages ask, in place of the endpoints that options name. The run closes it. */
  openPool?(asked: PoolAsked): Promise<EndpointPool>;
  /** hears what there is to say while it runs and at the end, a message a call, without the label */
  say(message: string): void;
  /** shows how it goes, once models are asked */
  progress?(watched: Watched): Promise<Progress>;
}

export interface PoolAsked {
  /** what the first stage that asks asks with */
  asksWith: AsksWith;
  /** called once when the pool gives up in the middle of the run */
  onGivenUp(): void;
  /** aborted: stop waiting for endpoints */
  signal: AbortSignal;
}

interface Around {
  account: Account;
  stopping: Stopping;
  /** those of the stages, for the progress */
  tools(): Tools;
}

export class Asking {
  readonly #run: Asks;
  readonly #around: Around;
  /** of the stage that asks */
  readonly #options: Values;
  #making: Promise<EndpointPool> | null = null;
  /** null where nothing was asked */
  made: EndpointPool | null = null;
  progress: Progress | null = null;
  /** why no pool could be made when lines flowed already */
  refused: Fatal | undefined;
  #metrics: Metrics | null = null;
  #flows = false;

  constructor(run: Asks, around: Around) {
    this.#run = run;
    this.#around = around;
    this.#options = run.row.find(({ stage }) => stage.asks)?.options ?? {};
    around.stopping.flight.addEventListener('abort', () => this.made?.abort());
  }

  /** For the tools of the stages. */
  readonly pool: Tools['pool'] = async asksWith => {
    if (this.#making !== null) {
      const pool = await this.#making;
      if (asksWith) pool.asksWith(asksWith);
      return pool;
    }
    const { stopping } = this.#around;
    if (stopping.reading.aborted) throw notAsked();
    if (asksWith === undefined) throw new Error('who asks first says with what');
    this.#making = this.#make(asksWith).catch(error => {
      if (!this.#flows || !(error instanceof Fatal)) throw error;
      // as where a pool gives up: what is in hand leaves with what it has, and then the run ends
      this.refused = error;
      stopping.giveUp();
      throw notAsked();
    });
    return this.#making;
  };

  async #make(asksWith: AsksWith): Promise<EndpointPool> {
    const { label, files, row, say, target } = this.#run;
    const { account, stopping, tools } = this.#around;
    const asked = { asksWith, onGivenUp: stopping.giveUp, signal: stopping.flight };
    const pool = this.#run.openPool
      ? await this.#run.openPool(asked)
      : await makePool(this.#options, {
          ...asked,
          label,
          files,
          file: this.#run.pool,
          ledger: this.#run.ledger,
          warn: say,
          onAnswer: this.#metrics?.onAnswer,
        });
    this.made = pool;
    const watched = { label, account, pool, row, tools: tools(), toStdout: target === undefined, say };
    this.progress = (await this.#run.progress?.(watched)) ?? null;
    return pool;
  }

  /** The run ends with `fatal`, which is about items: what they lack can be asked by the same command once that is mended. */
  readonly giveUp = ({ exit, message }: Fatal): void => {
    const how =
      this.made?.stats().replayed === null
        ? 'run again; without --ledger, the answers so far are only in the output'
        : 'run the same command again: answers in the ledger are not asked for again';
    const why = new Fatal(
      exit,
      `${message}\nfix the cause, then ${how}. To continue regardless: --max-failed none`,
    );
    if (this.made !== null) return this.made.giveUp(why, 'too many items had failed');
    this.refused = why;
    this.#around.stopping.giveUp();
  };

  readonly namesEndpoint = async (): Promise<boolean> =>
    this.#run.openPool !== undefined || namesEndpoint(this.#options, this.#run.pool);

  /** Serves /metrics where an option says so. */
  async serveMetrics(): Promise<void> {
    const address = this.#options.metrics as string | undefined;
    if (address === undefined) return;
    const { serveMetrics } = await import('./watch/run-metrics.ts');
    this.#metrics = await serveMetrics(address, {
      account: this.#around.account,
      stats: () => this.made?.stats() ?? null,
      facts: () => this.progress?.facts ?? null,
    });
    this.#run.say(`metrics at ${this.#metrics.url}`);
  }

  /** Lines flow from here on: where no pool can be made, the items in hand leave before the run ends. */
  linesFlow(): void {
    this.#flows = true;
  }

  /** Closes /metrics. */
  close(): void {
    this.#metrics?.close();
  }
}

const notAsked = (): ItemFailure =>
  new ItemFailure('interrupted', 'The run was stopped before this was asked.');
