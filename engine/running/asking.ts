/**
 * Whom a run asks: the pool, which the first stage that needs one makes, with the progress that is shown from then on, and
 * the metrics, which are there from the start.
 */

import type { EndpointPool } from '../asking/pool/part.ts';
import type { Account } from '../core/item/account.ts';
import type { AsksWith } from '../core/item/call.ts';
import { Fatal, ItemFailure } from '../core/item/failure.ts';
import type { Tools } from '../flow/stage.ts';
import { makePool, namesEndpoint } from './open-pool.ts';
import type { Run } from './run-options.ts';
import type { Stopping } from './stopping.ts';
import type { Progress } from './watch/progress.ts';
import type { Metrics } from './watch/run-metrics.ts';

export interface Asking {
  /** for the tools of the stages */
  pool: Tools['pool'];
  namesEndpoint(): Promise<boolean>;
  /** The run ends with `fatal`, which is about items: what they lack can be asked by the same command once that is mended. */
  giveUp(fatal: Fatal): void;
  /** Serves /metrics where an option says so. */
  serveMetrics(): Promise<void>;
  /** Lines flow from here on: where no pool can be made, the items in hand leave before the run ends. */
  linesFlow(): void;
  /** null where nothing was asked */
  readonly made: EndpointPool | null;
  readonly progress: Progress | null;
  /** why no pool could be made when lines flowed already */
  readonly refused: Fatal | undefined;
  /** Closes /metrics. */
  close(): void;
}

/** `tools` are those of the stages, for the progress. */
export function createAsking(
  run: Run,
  { account, stopping, tools }: { account: Account; stopping: Stopping; tools(): Tools },
): Asking {
  const { label, files, row, say, target } = run;
  const options = row.find(({ stage }) => stage.asks)?.options ?? {};
  let making: Promise<EndpointPool> | null = null;
  let made: EndpointPool | null = null;
  let progress: Progress | null = null;
  let metrics: Metrics | null = null;
  let flows = false;
  let refused: Fatal | undefined;
  stopping.flight.addEventListener('abort', () => made?.abort());

  const make = async (asksWith: AsksWith): Promise<EndpointPool> => {
    const asked = { asksWith, onGivenUp: stopping.giveUp, signal: stopping.flight };
    const pool = run.openPool
      ? await run.openPool(asked)
      : await makePool(options, {
          ...asked,
          label,
          files,
          file: run.pool,
          ledger: run.ledger,
          warn: say,
          onAnswer: metrics?.onAnswer,
        });
    made = pool;
    const toStdout = target === undefined;
    progress = (await run.progress?.({ label, account, pool, row, tools: tools(), toStdout, say })) ?? null;
    return pool;
  };
  return {
    async pool(asksWith) {
      if (making !== null) {
        const pool = await making;
        if (asksWith) pool.asksWith(asksWith);
        return pool;
      }
      if (stopping.reading.aborted) throw notAsked();
      if (asksWith === undefined) throw new Error('who asks first says with what');
      making = make(asksWith).catch(error => {
        if (!flows || !(error instanceof Fatal)) throw error;
        // as where a pool gives up: what is in hand leaves with what it has, and then the run ends
        refused = error;
        stopping.giveUp();
        throw notAsked();
      });
      return making;
    },
    giveUp({ exit, message }) {
      const how =
        made?.stats().replayed === null
          ? 'there is no --ledger, so what was answered is in the output alone'
          : 'give the same command again: answers in the ledger are not asked again';
      const why = new Fatal(
        exit,
        `${message}\nmend the cause, then ${how}. To go on whatever fails: --max-failed none`,
      );
      if (made !== null) return made.giveUp(why, 'too many items had failed');
      refused = why;
      stopping.giveUp();
    },
    namesEndpoint: async () => run.openPool !== undefined || namesEndpoint(options, run.pool),
    async serveMetrics() {
      const address = options.metrics as string | undefined;
      if (address === undefined) return;
      const { serveMetrics } = await import('./watch/run-metrics.ts');
      metrics = await serveMetrics(address, {
        account,
        stats: () => made?.stats() ?? null,
        facts: () => progress?.facts ?? null,
      });
      say(`metrics at ${metrics.url}`);
    },
    linesFlow() {
      flows = true;
    },
    get made() {
      return made;
    },
    get progress() {
      return progress;
    },
    get refused() {
      return refused;
    },
    close: () => metrics?.close(),
  };
}

const notAsked = (): ItemFailure =>
  new ItemFailure('interrupted', 'The run was stopped before this was asked.');
