/**
 * What can be changed while a server runs: by POST /admin/config, and by a schedule. A change is checked as a whole and
 * takes effect as a whole; requests that are in flight keep what they have drawn.
 */
import type { Clock } from '../../engine/asking/endpoints/pool-clock.ts';
import { library } from '../../engine/core/config/package.ts';
import schedule from '../../schemas/schedule.schema.json' with { type: 'json' };
import { FAULTS, faultsFrom, type Shares } from './faults.ts';

/**
 * `starting`: every route answers 503. `dead`: the engine has died, its HTTP server has not. `down`: nothing listens, as
 * after a kill; who comes back has an empty cache and counts from zero.
 */
export type Health = 'ok' | 'starting' | 'dead' | 'down';

export interface Control {
  /** null where an engine decides */
  latency: Latency | null;
  /** how many times as long everything takes */
  slowdown: number;
  faults: Shares;
  health: Health;
  /** null: no limit */
  maxQueuedRequests: number | null;
  maxQueuedTokens: number | null;
}

/** A change as it is written. */
export interface Change {
  for?: string;
  latency?: string;
  slowdown?: number;
  faults?: string;
  health?: Health;
  max_num_queued_reqs?: number | null;
  max_num_queued_tokens?: number | null;
}

export interface Entry extends Change {
  at: string;
  every?: string;
}

const ajv = new (library('ajv').Ajv2020)({ allowUnionTypes: true, validateSchema: false });
const isSchedule = ajv.compile<Entry[]>(schedule);
const { at: _at, every: _every, ...settings } = schedule.items.properties;
const isChange = ajv.compile<Change>({
  type: 'object',
  minProperties: 1,
  additionalProperties: false,
  properties: settings,
});

/** A change, checked against what there is to change. @throws RangeError */
function controlFrom(change: Change, first: Control): Partial<Control> {
  const control: Partial<Control> = {};
  if (change.latency !== undefined) {
    if (first.latency === null)
      throw new RangeError('expected no latency where there is a preset; slowdown makes its engine slow');
    control.latency = latencyFrom(change.latency);
  }
  if (change.slowdown !== undefined) control.slowdown = change.slowdown;
  if (change.faults !== undefined) control.faults = faultsFrom(change.faults);
  if (change.health !== undefined) control.health = change.health;
  if (change.max_num_queued_reqs !== undefined) control.maxQueuedRequests = change.max_num_queued_reqs;
  if (change.max_num_queued_tokens !== undefined) control.maxQueuedTokens = change.max_num_queued_tokens;
  return control;
}

/** As POST /admin/config would take it. */
export function shown(control: Control): Change {
  const faults = FAULTS.filter(kind => control.faults[kind] > 0).map(
    kind => `${kind}=${control.faults[kind]}`,
  );
  return {
    ...(control.latency && { latency: latencyText(control.latency) }),
    slowdown: control.slowdown,
    faults: faults.join(',') || 'none',
    health: control.health,
    max_num_queued_reqs: control.maxQueuedRequests,
    max_num_queued_tokens: control.maxQueuedTokens,
  };
}

const latencyText = ({ low, high }: Latency) => (low === high ? `${low}ms` : `${low}ms-${high}ms`);

/** A change that holds for a time; when it is over, what is under it holds again, whatever ended before or since. */
interface Spell {
  readonly change: Change;
  part: Partial<Control>;
  callOff: () => void;
}

const MOST_SPELLS = 1_000;

function without(part: Partial<Control>, other: Partial<Control>): Partial<Control> {
  return Object.fromEntries(Object.entries(part).filter(([name]) => !(name in other)));
}

export class Controls {
  readonly #first: Control;
  readonly #clock: Clock;
  readonly #changed: (now: Control, before: Control) => void;
  #now: Control;
  // what holds until it is changed, and over it what holds for a time, the latest last
  #lasting: Control;
  #spells: Spell[] = [];
  readonly #waiting = new Set<() => void>();

  /** `changed` is called after each change, with what was before. */
  constructor(first: Control, clock: Clock, changed: (now: Control, before: Control) => void) {
    this.#first = first;
    this.#clock = clock;
    this.#changed = changed;
    this.#now = first;
    this.#lasting = first;
  }

  get now(): Readonly<Control> {
    return this.#now;
  }

  /** @throws RangeError where the change is none; nothing is changed then */
  change(change: unknown): void {
    if (!isChange(change)) throw new RangeError(`expected settings, found: ${wordsOf(isChange.errors)}`);
    if (change.health === 'down' && change.for === undefined) {
      throw new RangeError(
        'expected `for` with health down, such as "5s": nobody could reach this server to end it',
      );
    }
    if (change.for !== undefined && this.#spells.length >= MOST_SPELLS)
      throw new RangeError(`expected at most ${MOST_SPELLS} changes that hold for a time, found one more`);
    this.#apply(change);
  }

  /** Runs the entries from now on. */
  follow(entries: readonly Entry[]): void {
    const started = this.#clock.now();
    for (const { at, every, ...change } of entries) {
      const distance = every === undefined ? undefined : durationFrom(every);
      // from the start and not from the last time, so that what is late once is not late for good
      const plan = (time: number): void => {
        this.#after(Math.max(0, started + time - this.#clock.now()), () => {
          this.#apply(change);
          if (distance !== undefined) plan(time + distance);
        });
      };
      plan(durationFrom(at));
    }
  }

  /** Calls off what is still to come. */
  close(): void {
    for (const callOff of this.#waiting) callOff();
    this.#waiting.clear();
  }

  #after(ms: number, run: () => void): () => void {
    const callOff = this.#clock.after(ms, () => {
      this.#waiting.delete(callOff);
      run();
    });
    this.#waiting.add(callOff);
    return () => {
      this.#waiting.delete(callOff);
      callOff();
    };
  }

  #settle(): void {
    const before = this.#now;
    this.#now = Object.assign({}, this.#lasting, ...this.#spells.map(({ part }) => part));
    this.#changed(this.#now, before);
  }

  /** `change` again, while it still holds, begins its time anew. */
  #apply(change: Change): void {
    const part = controlFrom(change, this.#first);
    if (change.for === undefined) {
      this.#lasting = { ...this.#lasting, ...part };
      // what is said now counts now
      for (const spell of this.#spells) spell.part = without(spell.part, part);
      return this.#settle();
    }
    const time = durationFrom(change.for);
    const again = this.#spells.find(spell => spell.change === change);
    again?.callOff();
    const spell: Spell = { change, part, callOff: () => {} };
    this.#spells = [...this.#spells.filter(one => one !== again), spell];
    this.#settle();
    spell.callOff = this.#after(time, () => {
      this.#spells = this.#spells.filter(one => one !== spell);
      this.#settle();
    });
  }
}

/** A schedule for a server that starts with `first`, checked. @throws RangeError that says which entry is wrong, counted from 1 */
export function scheduleFrom(value: unknown, first: Control): Entry[] {
  if (!isSchedule(value))
    throw new RangeError(`--schedule: expected a schedule, found: ${wordsOf(isSchedule.errors)}`);
  value.forEach((entry, index) => {
    try {
      durationFrom(entry.at);
      if (entry.every !== undefined && !(durationFrom(entry.every) >= 1)) {
        throw new RangeError('expected `every` of at least 1ms');
      }
      if (entry.for !== undefined) durationFrom(entry.for);
      controlFrom(entry, first);
    } catch (error) {
      throw new RangeError(`--schedule, entry ${index + 1}: ${(error as Error).message}`);
    }
  });
  return value;
}

function wordsOf(errors: typeof isChange.errors): string {
  const { instancePath = '', message = '', params = {} } = errors?.[0] ?? {};
  const name = 'additionalProperty' in params ? ` (${String(params.additionalProperty)})` : '';
  return `${instancePath || 'it'} ${message}${name}`;
}

/**
 * The delay of a server without an engine, in milliseconds: the whole of a request, from its arrival to its last token. Drawn
 * anew for each request, because a server that answers everything after the same delay makes all calls of a client fall due
 * together.
 */
export interface Latency {
  low: number;
  high: number;
}

const UNITS: { [unit: string]: number } = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
/** Timers cannot be set for longer than 2^31 ms. */
const MAX_TIMER_MS = 24 * 24 * 3_600_000;

/** `250ms`, `1.5s`, `10m` or `2h` in milliseconds. @throws RangeError */
export function durationFrom(text: string): number {
  const match = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)$/.exec(text.trim());
  const duration = match ? Number(match[1]) * UNITS[match[2]!]! : Number.NaN;
  if (duration <= MAX_TIMER_MS) return duration;
  throw new RangeError(`expected a time such as 40ms, 1.5s or 10m, found "${text}"`);
}

/** Reads `40ms`, `1.5s` or `20ms-80ms`. @throws RangeError */
export function latencyFrom(text: string): Latency {
  const wrong = () =>
    new RangeError(`expected a time such as 40ms or 1.5s, or a range such as 20ms-80ms, found "${text}"`);
  const parts = text.split('-');
  if (parts.length > 2) throw wrong();
  let times: number[];
  try {
    times = parts.map(durationFrom);
  } catch {
    throw wrong();
  }
  const [low = 0, high = low] = times;
  if (high < low) throw wrong();
  return { low, high };
}
