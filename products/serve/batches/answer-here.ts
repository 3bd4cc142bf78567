/** A batch over its part of the pool, with a ledger of its own: killed and run again it asks only what is not on record. */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Ledger, openLedger } from '../../../engine/asking/ledger/ledger.ts';
import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import { version } from '../../../engine/core/config/package.ts';
import { type Answer, type Call, CallFailure } from '../../../engine/core/item/call.ts';
import type { PoolAsked } from '../../../engine/running/run.ts';
import { placed } from '../../../engine/running/stage-options.ts';
import request from '../../../stages/request.ts';
import { type Answering, type AnsweringOptions, withAnswer } from './answerer.ts';
import { weightOf } from './batch-turns.ts';

export interface HereOptions extends AnsweringOptions {
  input: string;
  pool: EndpointPool;
  /** bytes of a line; ms for calls in flight at a stop */
  maxLine: number;
  grace: number;
  /** the part of all places that is its own where every batch has requests: 1 of one that is alone */
  share(): number;
}

/** Items in flight of a batch, however many others there are. */
const LEAST_ITEMS = 32;

const ledgerIn = (folder: string): string => join(folder, 'ledger');

/** Whether answers to it are on record here. */
export const hasBegunHere = (folder: string): boolean => existsSync(ledgerIn(folder));

export function answeredHere(options: HereOptions): Answering {
  const { record, folder, ending, onTokens, input, pool, maxLine, grace, share } = options;
  let part: EndpointPool | undefined;

  function openPool({ asksWith, onGivenUp }: PoolAsked): EndpointPool {
    const path = ledgerIn(folder);
    // whoever held them is gone: the folder of the server is ours
    rmSync(join(path, 'locks'), { recursive: true, force: true });
    const ledger = openLedger({
      ...{ path, fsync: 100, version: version(), label: record.id, files: [input] },
      ...{ asksWith, shard: undefined, warn: () => {} },
      onBroken: error => part?.giveUp(error),
    });
    const own = pool.part({
      ledger,
      model: record.model ?? '',
      share: { owner: record.owner, batch: record.id, weight: weightOf(record) },
      lasts: true,
      onGivenUp,
    });
    part = own;
    if (ending() !== null) own.stop();
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
    const why = ending();
    if (why !== null) {
      const answer = ledger.find(asked.key);
      if (answer === null)
        throw new CallFailure('interrupted', `The batch was ${why} before this was asked.`);
      return answer;
    }
    const answer = await own.call(asked);
    if (!answer.replayed) onTokens(answer.usage.prompt + answer.usage.completion);
    return answer;
  }

  return {
    // each line of a batch gets its answer or its error, as its client is told by the API
    placed: placed(request, { 'max-line': withAnswer(maxLine), grace: `${grace}ms`, 'max-failed': 'none' }),
    openPool,
    stop: () => part?.stop(),
    abort: () => part?.abort(),
  };
}
