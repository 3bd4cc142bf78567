/**
 * The batches of a server, each driven through its states. Each change is on disk before anybody sees it, so that a killed
 * server finds where each batch was: it is validated again, runs again with its ledger, or has its files placed again.
 * What the disk does not take pauses a batch, which is looked at again.
 */
import { statSync } from 'node:fs';
import { Fatal, ioError } from '../../../engine/core/item/failure.ts';
import type { CallMetrics } from '../call-metrics.ts';
import { badRequest } from '../errors.ts';
import type { FileStore } from '../file-store.ts';
import { following, type Names, namesOf } from '../gateway/served-models.ts';
import type { Parts } from '../server-context.ts';
import { Answerers } from './answerers.ts';
import { tellForecast, tellResumed } from './batch-news.ts';
import { areWhole, outputsIn, placeOutputs } from './batch-output.ts';
import { type BatchRun, Shown, startRun, Turns } from './batch-run.ts';
import { type BatchRecord, expiresAt, isFinal, moved, type Outputs } from './batch-state.ts';
import type { BatchStore } from './batch-store.ts';
import { Forecasts } from './forecasts.ts';
import { Validator } from './validate-lines.ts';
import { AGAIN, Holds, type Waiting } from './waiting.ts';

type Last = 'completed' | 'failed' | 'expired' | 'cancelled';

export interface BatchesParts
  extends Pick<Parts, 'data' | 'settings' | 'pool' | 'workers' | 'now' | 'stamp' | 'say' | 'isOurs'> {
  room: Pick<Parts['room'], 'state' | 'isBack' | 'isThere' | 'why' | 'lack'>;
  access: Pick<Parts['access'], 'budgets' | 'rulesOf' | 'isEnded' | 'endOf' | 'unknown'>;
  journal: Pick<Parts['journal'], 'settleBatch' | 'settle' | 'flush'>;
  metrics: { calls: Pick<CallMetrics, 'tried' | 'tokens'> };
  webhooks: Pick<Parts['webhooks'], 'tell'>;
  files: FileStore;
  store: BatchStore;
}

/** ms between two looks at windows, models and the disk; between two savings of what has come back */
const LOOK = 250;
const SAVE = 500;

export class Batches {
  readonly #parts: BatchesParts;
  readonly #store: BatchStore;
  readonly #answerers: Answerers;
  readonly #turns: Turns;
  readonly #names: () => Names;
  readonly forecasts: Forecasts;
  readonly #holds: Holds;
  readonly #shown: Shown;
  /** by id: the step that is under way */
  readonly #driven = new Map<string, Promise<void>>();
  /** those that had begun and stand still, in this process or with the one before: that they go on is told */
  readonly #broken: Set<string>;
  readonly #closing = new AbortController();
  readonly #looking: NodeJS.Timeout;
  #savedAt = performance.now();
  readonly #validator = new Validator();

  constructor(parts: BatchesParts) {
    const { store } = parts;
    this.#parts = parts;
    this.#store = store;
    this.#answerers = new Answerers(parts, store);
    this.#names = following(() => parts.settings.gateway.models, namesOf);
    this.forecasts = new Forecasts({
      ...{ store, now: parts.now, modelsOf: name => this.#names().modelsOf(name) },
      seen: record => this.seen(record),
      waiting: record => this.waiting(record),
      servers: () => this.#answerers.servers(),
      tell: tellForecast(parts.say),
    });
    this.#turns = new Turns(store, this.#answerers, this.forecasts);
    this.#holds = new Holds({
      ...parts,
      missing: record => this.#answerers.missing(record),
      turnOf: record => this.#turns.of(record),
    });
    this.#shown = new Shown(parts.data, store, parts.say);
    this.#broken = new Set(store.open().flatMap(({ id, times }) => (times.in_progress_at ? [id] : [])));
    this.#looking = setInterval(() => this.#look(), LOOK).unref();
    parts.access.budgets.keepBatches(new Set(store.open().map(({ id }) => id)));
    for (const record of store.open()) this.#drive(record.id);
  }

  /** how many wait for the disk */
  get paused(): number {
    return this.#holds.paused;
  }

  /** as it may be seen, with what has come back since its last change */
  seen(record: BatchRecord): BatchRecord {
    return isFinal(record.status) ? record : this.#shown.of(record);
  }

  /** … and with what nobody has seen yet */
  #now(record: BatchRecord): BatchRecord {
    const seen = this.seen(record);
    return this.#turns.running.get(record.id)?.onto(seen) ?? seen;
  }

  /** Takes a new batch, which is then on disk. */
  add(record: BatchRecord): BatchRecord {
    this.#store.create(record, this.#parts.files.pathOf(record.input_file_id));
    this.#drive(record.id);
    return record;
  }

  /** 400 where it has ended otherwise, or is ending. */
  cancel(record: BatchRecord): BatchRecord {
    const { id, status } = record;
    if (status === 'cancelling' || status === 'cancelled') return record;
    if (status !== 'validating' && status !== 'in_progress')
      throw badRequest(`Cannot cancel a batch with status '${status}'.`, null, 'invalid_status');
    if (record.outputs !== null)
      throw badRequest('Cannot cancel a batch that has expired.', null, 'invalid_status');
    this.#store.save(moved(this.#now(record), 'cancelling', this.#parts.now()));
    this.#turns.running.get(id)?.end('cancelled');
    this.#holds.resume(id);
    this.#drive(id);
    return this.#store.of(id);
  }

  /** Why one that has not ended is not asked now; null where it is. */
  waiting(record: BatchRecord): Waiting | null {
    return this.#holds.of(record);
  }

  /** Stops all of them where they are; resolves when nothing is under way. */
  async drain(): Promise<void> {
    clearInterval(this.#looking);
    this.#closing.abort();
    for (const run of this.#turns.running.values()) run.pause();
    await Promise.all(this.#driven.values());
  }

  /** Moves a batch on for as long as something can be done about it. */
  #drive(id: string): void {
    if (this.#closing.signal.aborted || this.#driven.has(id) || isFinal(this.#store.of(id).status)) return;
    // a run begins with output files in the place of those that are there
    if (!this.#parts.isOurs()) return;
    const driving = this.#step(id)
      .catch(error => {
        const { code, message, stack } = error as NodeJS.ErrnoException;
        const isExpected = error instanceof Fatal || code !== undefined;
        this.#pause(id, isExpected ? message : `a bug, please report it: ${stack}`);
        return false;
      })
      .then(goesOn => {
        this.#driven.delete(id);
        if (goesOn) this.#drive(id);
      });
    this.#driven.set(id, driving);
  }

  #pause(id: string, why: string): void {
    this.#holds.pause(this.#store.of(id), why);
    this.#broken.add(id);
  }

  /** One step of a batch; whether there may be another one at once. */
  async #step(id: string): Promise<boolean> {
    const record = this.#store.of(id);
    if (record.outputs !== null) return this.#place(record, record.outputs);
    const isInput = this.#store.hasInput(record, this.#parts.files.pathOf(record.input_file_id));
    if (!isInput && record.status !== 'cancelling')
      throw ioError(`its input is gone, and ${record.input_file_id} too: cancel it, and send it again`);
    if (this.#holds.unknown(record) !== null && !this.#isOver(record)) return false; // it is looked at again
    if (record.status === 'validating') return this.#validate(record);
    if (record.status === 'cancelling' && (record.counts.total === 0 || !isInput)) {
      this.#store.save({ ...record, outputs: { output: null, error: null } });
      return true;
    }
    return this.#run(record);
  }

  async #validate({ id, key, endpoint }: BatchRecord): Promise<boolean> {
    const { settings, access } = this.#parts;
    const { lines, line } = settings.limits;
    const { signal } = this.#closing;
    const rules = { endpoint, lines, line, signal, modelsOf: this.#names().modelsOf };
    const more = { keyRules: access.rulesOf(key), aliases: settings.gateway.models };
    const found = await this.#validator.of(this.#store.inputOf(id), { ...rules, ...more });
    if (found === null || signal.aborted) return false; // it is looked at again
    const { total, models, errors, aliases } = found;
    const record = this.#store.of(id); // it may have been cancelled meanwhile
    const counts = { total, completed: 0, failed: 0 };
    const [model = null, ...others] = models;
    const news = { counts, models, model: others.length === 0 ? model : null, aliases };
    if (record.status !== 'validating') this.#store.save({ ...record, ...(errors.length === 0 && news) });
    else if (errors.length === 0) this.#store.save(moved(record, 'in_progress', this.#parts.now(), news));
    else this.#finish(record, 'failed', { errors });
    return true;
  }

  #isOver(record: BatchRecord): boolean {
    return expiresAt(record) * 1000 <= this.#parts.now();
  }

  async #run(record: BatchRecord): Promise<boolean> {
    const { id } = record;
    const { settings, now, stamp } = this.#parts;
    const [store, turns] = [this.#store, this.#turns];
    const ending = record.status === 'cancelling' ? 'cancelled' : this.#isOver(record) ? 'expired' : null;
    if (ending === null && !(this.#answerers.mayBegin(record) && turns.hasTurn(record))) return false;
    const folder = store.folderOf(id);
    const options = {
      ...{ record: this.seen(record), folder, input: store.inputOf(id), grace: settings.grace },
      // each line was found short enough when it was validated, whatever the limit is by now
      maxLine: Math.max(
        settings.limits.line,
        statSync(store.inputOf(id), { throwIfNoEntry: false })?.size ?? 0,
      ),
      names: record.aliases === undefined ? this.#names() : namesOf(record.aliases),
      share: () => turns.shareOf(record),
      weight: () => this.forecasts.weightOf(record),
    };
    if (this.#broken.delete(id) && ending === null) tellResumed(this.#parts.say, this.seen(record));
    const run = startRun(options, this.#answerers, ending);
    turns.begin(record, run);
    try {
      const outcome = await run.ended;
      if (outcome !== 'whole') {
        this.#save(id);
        if (outcome !== 'paused') this.#pause(id, outcome.broken);
        return false;
      }
      // a batch that is whole is not run again, and so not settled after a kill
      this.#parts.journal.flush();
      const { counts, usage, failures } = run.tally;
      const last = store.of(id);
      const whole = {
        counts: { total: last.counts.total, ...counts },
        usage,
        failures,
        outputs: outputsIn(folder, stamp()),
      };
      // one whose key has nothing left has ended as it would: lines that were not asked have an error
      const isWhole = run.ending === null || run.ending === 'spent';
      if (run.ending === 'spent')
        this.#parts.say(`${id} ends: its key has used the tokens of its day`, {
          ...{ event: 'batch-over-budget', batch: id, owner: record.owner, key: record.key },
        });
      const isCompleted = last.status === 'in_progress' && isWhole;
      this.#shown.forget(id); // what is counted now is what there is
      store.save(isCompleted ? moved(last, 'finalizing', now(), whole) : { ...last, ...whole });
      this.#holds.resume(id);
      return true;
    } finally {
      // also where the disk did not take it: a run that is repeated counts from its beginning
      store.remember(this.#now(store.of(id)));
      turns.end(id);
    }
  }

  /** Gives the lines their place among the files, and then the batch its last state. */
  #place(record: BatchRecord, outputs: Outputs): boolean {
    const { files, settings, stamp } = this.#parts;
    const folder = this.#store.folderOf(record.id);
    if (!areWhole(record, outputs, folder, files)) {
      this.#store.save({ ...record, outputs: null });
      return true; // they are written again, from the ledger
    }
    placeOutputs(record, outputs, { files, folder, keep: settings.keep.files, now: stamp() });
    const { status } = record;
    const last = status === 'finalizing' ? 'completed' : status === 'cancelling' ? 'cancelled' : 'expired';
    this.#finish(record, last);
    return false;
  }

  /** Whoever is to be told of the end is noted before it is on disk: told twice is better than not at all. */
  #finish(record: BatchRecord, last: Last, more: Partial<BatchRecord> = {}): void {
    const { webhooks, now } = this.#parts;
    webhooks.tell(record.owner, `batch.${last}`, record.id);
    this.#store.save(moved(record, last, now(), more));
    this.#store.clean(record.id);
    this.#parts.access.budgets.forgetBatch(record.id);
  }

  /** Its key was revoked, or has expired, while it could still be stopped. */
  #isToStop({ status, outputs }: BatchRecord, key: string): boolean {
    if (outputs !== null || !this.#parts.access.isEnded(key)) return false;
    return status === 'validating' || status === 'in_progress';
  }

  #stopOf(record: BatchRecord, key: string): void {
    this.cancel(record);
    this.#parts.say(`${record.id} is cancelled: its key ${key} ${this.#parts.access.endOf(key)}`, {
      ...{ event: 'batch-key-ended', batch: record.id, owner: record.owner, key },
    });
  }

  /** It writes nothing more than what is under way: what room there is left is for live calls. */
  #yield(record: BatchRecord, run: BatchRun): void {
    run.hold?.(this.#parts.now() + AGAIN);
    if (!this.#holds.yieldRoom(record)) return;
    this.#broken.add(record.id);
    // workers hand in what they have: it is paid for
    if (run.hold === undefined) run.pause();
  }

  #save(id: string): void {
    const record = this.#store.of(id);
    const now = this.#now(record);
    if (this.#store.isBehind(id) || JSON.stringify(now.counts) !== JSON.stringify(record.counts))
      this.#store.save(now);
  }

  /** What only time brings. */
  #look(): void {
    const { access, room } = this.#parts;
    const time = performance.now();
    const isDue = time - this.#savedAt >= SAVE;
    if (isDue) {
      this.#savedAt = time;
      this.#shown.keep([...this.#turns.running.keys()].map(id => this.#now(this.#store.of(id))));
    }
    this.#turns.look();
    this.forecasts.look();
    for (const record of this.#store.open()) {
      const { id } = record;
      const run = this.#turns.running.get(id);
      try {
        if (run !== undefined && run.ending === null && this.#isOver(record)) run.end('expired');
        if (run !== undefined && access.budgets.isSpent(record.key, access.rulesOf(record.key)))
          run.end('spent');
        if (record.key !== null && this.#isToStop(record, record.key)) this.#stopOf(record, record.key);
        if (run !== undefined && room.state === 'full') this.#yield(record, run);
        else if (this.#holds.mayGoOn(id, time)) this.#drive(id);
      } catch (error) {
        this.#pause(id, (error as Error).message);
      }
    }
  }
}
