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
import type { OptionsOfStage } from '../../../engine/running/stage-options.ts';
import type { Task } from '../protocol.ts';
import type { CoordinatorClient } from './coordinator-client.ts';
import { servedBy } from './endpoints.ts';
import { readTask, rowOf } from './task.ts';
import type { WorkFolder } from './worker-folder.ts';

export interface OpenWork {
  task: Task;
  row: readonly OptionsOfStage[];
  /** where its files are */
  base: string;
  /** A part of the pool for one part of the work, which is closed with it; the ledger stays. */
  pool(asksWith: AsksWith, onGivenUp: () => void): EndpointPool;
  /** One part fewer. */
  leave(): void;
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

export class Works {
  readonly #is: WorksOptions;
  readonly #works = new Map<string, Held>();

  constructor(options: WorksOptions) {
    this.#is = options;
  }

  /** Throws what the client throws, and BadOrder. */
  async open(id: string): Promise<OpenWork> {
    const held = this.#works.get(id) ?? this.#begin(id);
    held.parts += 1;
    clearTimeout(held.timer);
    const leave = (): void => {
      held.parts -= 1;
      const { linger, onBroken } = this.#is;
      if (held.parts === 0) held.timer = setTimeout(() => void this.#end(id, held).catch(onBroken), linger);
    };
    try {
      return { ...(await held.opening), leave };
    } catch (error) {
      leave();
      void this.#end(id, held); // it may go well the next time
      throw error;
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#works].map(([id, held]) => this.#end(id, held)));
  }

  #begin(id: string): Held {
    const held: Held = {
      ...{ opening: undefined as never, ledger: null, asked: new Map(), parts: 0, timer: undefined },
    };
    this.#works.set(id, held);
    held.opening = this.#read(id, held);
    return held;
  }

  async #read(id: string, held: Held): Promise<Omit<OpenWork, 'leave'>> {
    const { client, folder, grace } = this.#is;
    const task = readTask(await client.task(id));
    const base = await folder.filesOf(task.files, () => client.files(id));
    const row = await rowOf(task, { base, grace });
    return {
      ...{ task, row, base },
      pool: (asksWith, onGivenUp) => {
        const ledger = this.#ledgerOf(id, held, task, asksWith);
        return this.#poolOf(id, held, { task, row, ledger, onGivenUp });
      },
    };
  }

  /** Of the parts of a work: each asks for the work, and what was refused is said of each line. */
  #poolOf(
    id: string,
    { asked }: Held,
    { task, row, ledger, onGivenUp }: Pick<OpenWork, 'task' | 'row'> & { ledger: Ledger; onGivenUp(): void },
  ): EndpointPool {
    const { pool, modelMap, guard } = this.#is;
    const served = servedBy(pool);
    const named = row.find(({ stage }) => stage.asks)?.options.model as string | undefined;
    const servedAs = (name: string): string => servedNameOf(name, served, modelMap) ?? name;
    const usual = served.includes(pool.model) ? pool.model : (served[0] ?? pool.model);
    const model = named === undefined ? usual : servedAs(named);
    const own = pool.part({
      ledger: Object.create(ledger, { close: { value: async () => {} } }) as Ledger,
      ...{ model, share: { owner: task.owner, batch: id, weight: task.weight }, lasts: true, onGivenUp },
    });
    const asking = new AskingOnce(asked);
    return Object.create(own, {
      model: { value: model },
      servedAs: { value: servedAs },
      call: {
        value: async (call: Call) => {
          this.#refuseOther(call);
          return asking.once(call, asked => guard(asked, task, own.call));
        },
      },
      stop: { value: () => asking.leave(own.stop) },
      abort: { value: () => asking.leave(own.abort) },
      // whether this worker is any good is for the guard to find
      verdict: { value: () => undefined },
    }) as EndpointPool;
  }

  #ledgerOf(id: string, held: Held, task: Task, asksWith: AsksWith): Ledger {
    if (held.ledger !== null) {
      held.ledger.stage(asksWith);
      return held.ledger;
    }
    held.ledger = openLedger({
      ...{ path: this.#is.folder.ledgerOf(id), fsync: 100, version: version(), label: task.label },
      ...{ files: [], asksWith, shard: undefined, warn: () => {}, onBroken: this.#is.onBroken },
    });
    const { closed } = held.ledger;
    if (closed !== null) throw closed;
    return held.ledger;
  }

  /** A coordinator does not say what becomes of the servers here: such paths are for who runs the worker to name. */
  #refuseOther({ raw, path }: Call): void {
    const { paths } = this.#is;
    if (!raw || paths.has(path)) return;
    throw new CallFailure(
      'bad-request',
      `expected a path that the worker lets through (${[...paths].join(', ')}), found ${show(path)}; another one: fw work --path PATH`,
    );
  }

  async #end(id: string, held: Held): Promise<void> {
    clearTimeout(held.timer);
    if (this.#works.get(id) === held) this.#works.delete(id);
    const { ledger } = held;
    held.ledger = null;
    await ledger?.close('ended');
  }
}

const isInterrupted = (error: unknown): boolean =>
  error instanceof CallFailure && error.code === 'interrupted';

/**
 * Two parts may have the same lines for a while, where a coordinator that was started again cut one that it did not know to
 * be held. A call that one of them has under way the other one waits for. `asked` are the calls that all of them have under
 * way, by their keys.
 */
class AskingOnce {
  readonly #asked: Map<string, Promise<Answer>>;
  readonly #left: Promise<never>;
  #go: (reason: CallFailure) => void = () => {};
  #hasLeft = false;

  constructor(asked: Map<string, Promise<Answer>>) {
    this.#asked = asked;
    this.#left = new Promise((_resolve, reject) => {
      this.#go = reject;
    });
    this.#left.catch(() => {}); // who waits for nobody does not hear of it
  }

  async once(call: Call, ask: (call: Call) => Promise<Answer>): Promise<Answer> {
    for (
      let same = this.#asked.get(call.key);
      same !== undefined && !this.#hasLeft;
      same = this.#asked.get(call.key)
    ) {
      try {
        return { ...(await Promise.race([same, this.#left])), replayed: true };
      } catch (error) {
        // with the part that had asked it: then this one asks it itself
        if (!isInterrupted(error)) throw error;
      }
    }
    if (this.#hasLeft) return ask(call);
    const answer = ask(call).finally(() => {
      if (this.#asked.get(call.key) === answer) this.#asked.delete(call.key);
    });
    this.#asked.set(call.key, answer);
    return answer;
  }

  /** This part asks nothing more: `stop` does it, and nobody is waited for. */
  leave(stop: () => void): void {
    stop();
    this.#hasLeft = true;
    this.#go(new CallFailure('interrupted', 'The part was handed back before this call was answered.'));
  }
}
