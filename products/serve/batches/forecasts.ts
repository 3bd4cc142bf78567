/**
 * Whether the windows of batches can be kept, by what is open and the speed that was seen; and the part that each batch of an
 * owner has so that as many as can be are (window-plan.ts). Where nothing was seen, or nobody answers, it says so.
 */
import { timeWords } from '../../../engine/core/item/wording.ts';
import { isNotAsked } from './batch-output.ts';
import { type BatchRecord, expiresAt, isFinal, weightOf } from './batch-state.ts';
import type { BatchStore } from './batch-store.ts';
import { Groups, type Progress, Speeds } from './speeds.ts';
import { firstLines } from './validate-lines.ts';
import type { Waiting } from './waiting.ts';
import { type OpenWork, type Planned, planOf } from './window-plan.ts';

export interface Forecast {
  verdict: 'kept' | 'late' | 'unknown';
  /** Unix seconds; null where it is not known */
  end: number | null;
  window: number;
  /** s between the end and the window's: below 0 where it is late */
  slack: number | null;
  /** for a person, in UTC */
  words: string;
}

/** Why a window is out of reach: too short for these servers from the beginning, or by what else there is to do or is not there any more. */
export type LateFor = 'window' | 'load';

interface ForecastParts {
  store: Pick<BatchStore, 'open' | 'get' | 'of' | 'inputOf'>;
  /** as it is now */
  seen(record: BatchRecord): BatchRecord;
  waiting(record: BatchRecord): Waiting | null;
  /** models that one server, or one worker, has */
  servers(): readonly (readonly string[])[];
  /** the models that a name of a line may become */
  modelsOf(name: string): readonly string[];
  /** told once that a window is out of reach, and why; and once, with null, that it is in reach again */
  tell(record: BatchRecord, forecast: Forecast, why: LateFor | null): void;
  /** ms since 1970 */
  now(): number;
}

/** ms between two plans, at least */
const EVERY = 1_000;
/** s: an end beyond this is no forecast, since next to nothing comes back */
const FARTHEST = 366 * 86_400;
/** A token that is read is so much of one that is written, as patience has it (engine/asking/pool). */
const READ = 1 / 8;
/** Lines of a batch from which on their own size counts, and how far from the usual one it may be. */
const ENOUGH = 20;
const MOST_SIZE = 100;
/** So much of the time that is left has to be left over for a window that was out of reach to be in reach again: speeds change. */
const BACK = 0.1;

interface Open extends Progress {
  record: BatchRecord;
  waits: Waiting | null;
}

export class Forecasts {
  readonly #parts: ForecastParts;
  readonly #speeds = new Speeds();
  /** by id of an open batch */
  #planned = new Map<string, Planned>();
  #open = new Map<string, Open>();
  #plannedAt = 0;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** of those that are not validated yet: what the beginning of the file says */
  readonly #guessed = new Map<string, { lines: number | null; models: readonly string[] }>();
  /** whether its window was too short from the first forecast on */
  readonly #tooShort = new Map<string, boolean>();
  /** those of which it was told that their window is out of reach */
  readonly #late = new Set<string>();

  constructor(parts: ForecastParts) {
    this.#parts = parts;
  }

  /** To be called often. */
  look(): void {
    const now = this.#parts.now();
    if (Math.abs(now - this.#lookedAt) < EVERY) return;
    const ended = [...this.#open.values()].flatMap(({ record, waits }) => {
      const last = this.#parts.store.get(record.owner, record.id);
      return last !== null && isFinal(last.status) ? this.#openOf(last, waits) : [];
    });
    const groups = this.#plan(now);
    this.#speeds.look([...this.#open.values(), ...ended], groups, now);
    this.#lookedAt = now;
    for (const { record } of this.#open.values()) this.#tell(record, now / 1000);
  }

  #tell(record: BatchRecord, now: number): void {
    const { id } = record;
    const forecast = this.of(record);
    if (forecast === null || forecast.slack === null) return;
    const { slack, window } = forecast;
    const isLate = this.#late.has(id) ? slack < BACK * (window - now) : slack < 0;
    if (isLate === this.#late.has(id)) return;
    if (isLate) this.#late.add(id);
    else this.#late.delete(id);
    this.#parts.tell(record, forecast, isLate ? this.#whyLate(id) : null);
  }

  #whyLate(id: string): LateFor {
    return this.#tooShort.get(id) === true ? 'window' : 'load';
  }

  /** null where there is nothing to tell: it has ended, or is ending. */
  of(record: BatchRecord): Forecast | null {
    if (!isAwaited(record)) return null;
    if (!this.#open.has(record.id)) this.#plan(this.#parts.now());
    const window = expiresAt(record);
    const why = this.#unknown(record);
    if (why !== null) {
      const words = `not known, window until ${moment(window, this.#parts.now())}: ${why}`;
      return { verdict: 'unknown', end: null, window, slack: null, words };
    }
    const now = this.#parts.now() / 1000;
    const planned = this.#planned.get(record.id) as Planned;
    const end = Math.ceil(Math.max(now, this.#plannedAt / 1000 + planned.end));
    const slack = window - end;
    const verdict = slack >= 0 ? 'kept' : 'late';
    const is = slack >= 0 ? 'kept' : `late by ${timeWords(-slack * 1000)}`;
    const words = `ends about ${moment(end, now * 1000)}, window until ${moment(window, now * 1000)}: ${is}`;
    return { verdict, end, window, slack, words };
  }

  /** Its part beside others of its owner, as the last plan has it. */
  weightOf(record: BatchRecord): number {
    return this.#planned.get(record.id)?.weight ?? weightOf(record);
  }

  /** Whether slack has it go before all others of its owner. */
  isFirst(record: BatchRecord): boolean {
    return this.#planned.get(record.id)?.isFirst === true;
  }

  /** Whether it stands still, or will be late, by what its user did: asked for too little time, for a model that nobody has, or beyond his budget. */
  isUsers({ id }: BatchRecord): boolean {
    const reason = this.#open.get(id)?.waits?.reason;
    return reason === 'model' || reason === 'budget' || this.#tooShort.get(id) === true;
  }

  /** Over all that are open: windows that cannot be kept, by why; and s of the least slack of those that are nobody's fault, null where none is known. */
  sums(): { late: Map<LateFor, number>; leastSlack: number | null } {
    const late = new Map<LateFor, number>([
      ['window', 0],
      ['load', 0],
    ]);
    let leastSlack: number | null = null;
    for (const { record } of this.#open.values()) {
      const { slack = null } = this.of(record) ?? {};
      if (slack === null) continue;
      if (!this.isUsers(record)) leastSlack = Math.min(leastSlack ?? slack, slack);
      const why = this.#whyLate(record.id);
      if (slack < 0) late.set(why, (late.get(why) ?? 0) + 1);
    }
    return { late, leastSlack };
  }

  #unknown(record: BatchRecord): string | null {
    const { id } = record;
    const { waits = null, models = [], left = 0 } = this.#open.get(id) ?? {};
    if (waits !== null && waits.reason !== 'turn') return waits.words;
    if (models.length === 0 || !Number.isFinite(left)) return 'its lines are not counted yet';
    const planned = this.#planned.get(id);
    if (planned !== undefined) return planned.end < FARTHEST ? null : 'next to nothing comes back';
    return this.#speeds.hasSeen(models)
      ? 'too few lines have come back to tell a speed'
      : `no line of ${models[0]} has come back since this server started`;
  }

  #plan(now: number): Groups {
    const { store, seen, waiting, servers } = this.#parts;
    const open = store.open().map(record => this.#openOf(seen(record), waiting(record)));
    this.#open = new Map(open.map(one => [one.id, one]));
    for (const known of [this.#guessed, this.#tooShort])
      for (const id of known.keys()) if (!this.#open.has(id)) known.delete(id);
    for (const id of this.#late) if (!this.#open.has(id)) this.#late.delete(id);
    const groups = new Groups([...servers(), ...open.map(({ models }) => models)]);
    const works = new Map<string, Open[]>();
    for (const one of open) {
      const { models, record, waits, left } = one;
      const isPlanned = waits === null || waits.reason === 'turn';
      if (!isPlanned || models.length === 0 || !Number.isFinite(left) || !isAwaited(record)) continue;
      const group = groups.of(models);
      works.set(group, [...(works.get(group) ?? []), one]);
    }
    this.#planned = new Map();
    this.#plannedAt = now;
    for (const [group, all] of works) {
      const models = groups.in(group);
      const speed = this.#speeds.of(models);
      if (speed === null || speed <= 0) continue;
      const usual = this.#speeds.tokensOf(models);
      const planned = planOf(
        all.map(one => workOf(one, usual, now)),
        speed,
      );
      for (const one of all) this.#noteShort(one, usual, speed, now);
      for (const [id, each] of planned) this.#planned.set(id, each);
    }
    return groups;
  }

  /** At its first forecast: could the servers do it in time if there were nothing else? */
  #noteShort(one: Open, usual: number | null, speed: number, now: number): void {
    const { id } = one;
    if (this.#tooShort.has(id)) return;
    const { left, deadline } = workOf(one, usual, now);
    this.#tooShort.set(id, left > speed * deadline);
  }

  #openOf(record: BatchRecord, waits: Waiting | null): Open {
    const { id, counts, usage, failures, models } = record;
    const unasked = failures.reduce((sum, { code, count }) => sum + (isNotAsked(code) ? count : 0), 0);
    const done = counts.completed + counts.failed;
    const guessed = counts.total > 0 ? { lines: counts.total, models } : this.#guess(record);
    return {
      ...{ id, record, waits, models: guessed.models, done: done - unasked },
      tokens: usage.output + READ * usage.input,
      left: (guessed.lines ?? Number.POSITIVE_INFINITY) - done,
      isAsked: record.status === 'in_progress' && waits === null,
    };
  }

  #guess({ id, status }: BatchRecord): { lines: number | null; models: readonly string[] } {
    const known = this.#guessed.get(id);
    if (known !== undefined) return known;
    if (status !== 'validating') return { lines: null, models: [] };
    const { lines, model } = firstLines(this.#parts.store.inputOf(id));
    const guessed = { lines, models: model === null ? [] : this.#parts.modelsOf(model) };
    this.#guessed.set(id, guessed);
    return guessed;
  }
}

/** Its lines are still to come back. */
const isAwaited = ({ status, outputs }: BatchRecord): boolean =>
  (status === 'validating' || status === 'in_progress') && outputs === null;

function workOf({ record, left, done, tokens }: Open, usual: number | null, now: number): OpenWork {
  const own = done >= ENOUGH && tokens > 0 && usual !== null ? tokens / done / usual : 1;
  const size = Math.min(MOST_SIZE, Math.max(1 / MOST_SIZE, own));
  return {
    ...{ id: record.id, owner: record.owner, weight: weightOf(record), left: left * size },
    deadline: expiresAt(record) - now / 1000,
  };
}

/** `04:10 UTC`, with the day where it is another one. Unix seconds, and ms. */
function moment(seconds: number, now: number): string {
  const text = new Date(seconds * 1000).toISOString();
  const isToday = text.slice(0, 10) === new Date(now).toISOString().slice(0, 10);
  return `${isToday ? '' : `${text.slice(0, 10)} `}${text.slice(11, 16)} UTC`;
}

/** `x-fw-forecast`, in the form of RFC 8941; times are Unix seconds. */
export function forecastHeader({ verdict, end, window, slack }: Forecast): string {
  const known = end === null ? '' : `;end=${end};slack=${slack}`;
  return `${verdict}${known};window=${window}`;
}
