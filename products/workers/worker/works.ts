/**
 * The works of which a worker has parts: each with its task, its files, and a ledger that all of its parts share. It stays
 * open for a while after the last part, since the next one is mostly on its way.
 */

import { type ModelMap, servedNameOf } from '../../../engine/asking/endpoints/model-names.ts';
import { type Ledger, openLedger } from '../../../engine/asking/ledger/ledger.ts';
import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import { version } from '../../../engine/core/config/package.ts';
import { type Answer, type AsksWith, type Call, CallFailure } from '../../../engine/core/item/call.ts';
import type { Fatal } from '../../../engine/core/item/failure.ts';
import { show } from '../../../engine/core/json/show.ts';
import type { Task } from '../protocol.ts';
import { askingOnce } from './asking-once.ts';
import type { CoordinatorClient } from './coordinator-client.ts';
import { servedBy } from './endpoints.ts';
import { type PlacedStage, readTask, rowOf } from './task.ts';
import type { WorkFolder } from './worker-folder.ts';

export interface OpenWork {
  task: Task;
  row: readonly PlacedStage[];
  /** where its files are */
  base: string;
  /** A part of the pool for one part of the work, which is closed with it; the ledger stays. */
  pool(asksWith: AsksWith, onGivenUp: () => void): EndpointPool;
  /** One part fewer. */
  leave(): void;
}

export interface Works {
  /** Throws what the client throws, and BadOrder. */
  open(work: string): Promise<OpenWork>;
  close(): Promise<void>;
}

export interface WorksOptions {
  client: CoordinatorClient;
  folder: WorkFolder;
  pool: EndpointPool;
  modelMap: ModelMap | undefined;
  /** of requests that lines name in full */
  paths: ReadonlySet<string>;
  /** ms for calls at servers when a part is handed back */
  grace: number;
  /** ms that a work stays open without parts */
  linger: number;
  /** a call of a part, sent by `ask` */
  guard(call: Call, task: Task, ask: (call: Call) => Promise<Answer>): Promise<Answer>;
  onBroken(error: Fatal): void;
}

interface Held {
  opening: Promise<Omit<OpenWork, 'leave'>>;
  ledger: Ledger | null;
  /** by key, the calls that its parts have under way */
  asked: Map<string, Promise<Answer>>;
  parts: number;
  timer: NodeJS.Timeout | undefined;
}

export function createWorks(options: WorksOptions): Works {
  const { client, folder, pool, modelMap, paths, grace, linger, guard, onBroken } = options;
  const works = new Map<string, Held>();

  function ledgerOf(id: string, held: Held, task: Task, asksWith: AsksWith): Ledger {
    if (held.ledger !== null) {
      held.ledger.stage(asksWith);
      return held.ledger;
    }
    held.ledger = openLedger({
      ...{ path: folder.ledgerOf(id), fsync: 100, version: version(), label: task.label },
      ...{ files: [], asksWith, shard: undefined, warn: () => {}, onBroken },
    });
    const { closed } = held.ledger;
    if (closed !== null) throw closed;
    return held.ledger;
  }

  /** A coordinator does not say what becomes of the servers here: such paths are for who runs the worker to name. */
  function refuseOther({ raw, path }: Call): void {
    if (!raw || paths.has(path)) return;
    throw new CallFailure(
      'bad-request',
      `expected a path that the worker lets through (${[...paths].join(', ')}), found ${show(path)}; another one: fw work --path PATH`,
    );
  }

  async function read(id: string, held: Held): Promise<Omit<OpenWork, 'leave'>> {
    const task = readTask(await client.task(id));
    const base = await folder.filesOf(task.files, () => client.files(id));
    const row = await rowOf(task, { base, grace });
    const asker = row.find(({ stage }) => stage.asks);
    return {
      ...{ task, row, base },
      pool(asksWith, onGivenUp) {
        const ledger = ledgerOf(id, held, task, asksWith);
        const served = servedBy(pool);
        const named = (asker?.options.model as string | undefined) ?? undefined;
        const servedAs = (name: string): string => servedNameOf(name, served, modelMap) ?? name;
        const usual = served.includes(pool.model) ? pool.model : (served[0] ?? pool.model);
        const model = named === undefined ? usual : servedAs(named);
        const own = pool.part({
          ledger: Object.create(ledger, { close: { value: async () => {} } }) as Ledger,
          ...{ model, share: { owner: task.owner, batch: id, weight: task.weight }, lasts: true, onGivenUp },
        });
        const { once, leave } = askingOnce(held.asked);
        return Object.create(own, {
          model: { value: model },
          servedAs: { value: servedAs },
          call: {
            value: async (call: Call) => {
              refuseOther(call);
              return once(call, asked => guard(asked, task, own.call));
            },
          },
          stop: { value: () => leave(own.stop) },
          abort: { value: () => leave(own.abort) },
          // what was refused is said of each line; whether this worker is any good is for the guard to find
          verdict: { value: () => undefined },
        }) as EndpointPool;
      },
    };
  }

  async function end(id: string, held: Held): Promise<void> {
    clearTimeout(held.timer);
    if (works.get(id) === held) works.delete(id);
    const { ledger } = held;
    held.ledger = null;
    await ledger?.close('ended');
  }

  return {
    async open(id) {
      const held = works.get(id) ?? {
        ...{ opening: undefined as never, ledger: null, asked: new Map(), parts: 0, timer: undefined },
      };
      if (!works.has(id)) {
        works.set(id, held);
        held.opening = read(id, held);
      }
      held.parts += 1;
      clearTimeout(held.timer);
      const leave = (): void => {
        held.parts -= 1;
        if (held.parts === 0) held.timer = setTimeout(() => void end(id, held).catch(onBroken), linger);
      };
      try {
        return { ...(await held.opening), leave };
      } catch (error) {
        leave();
        void end(id, held); // it may go well the next time
        throw error;
      }
    },
    async close() {
      await Promise.all([...works].map(([id, held]) => end(id, held)));
    },
  };
}
