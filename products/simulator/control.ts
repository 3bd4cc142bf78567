/**
 * What can be changed while a server runs: by POST /admin/config, and by a schedule. A change is checked as a whole and
 * takes effect as a whole; requests that are in flight keep what they have drawn.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import schedule from '../../schemas/schedule.schema.json' with { type: 'json' };
import { durationFrom, type Latency, latencyFrom } from './durations.ts';
import { FAULTS, faultsFrom, type Shares } from './faults.ts';
import type { Clock } from './server-clock.ts';

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

const ajv = new Ajv2020({ allowUnionTypes: true });
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

export interface Controls {
  readonly now: Readonly<Control>;
  /** @throws RangeError where the change is none; nothing is changed then */
  change(change: unknown): void;
  /** Runs the entries from now on. */
  follow(entries: readonly Entry[]): void;
  /** Calls off what is still to come. */
  close(): void;
}

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

/** `changed` is called after each change, with what was before. */
export function controlsOf(
  first: Control,
  clock: Clock,
  changed: (now: Control, before: Control) => void,
): Controls {
  let now = first;
  // what holds until it is changed, and over it what holds for a time, the latest last
  let lasting = first;
  let spells: Spell[] = [];
  const waiting = new Set<() => void>();

  function after(ms: number, run: () => void): () => void {
    const callOff = clock.after(ms, () => {
      waiting.delete(callOff);
      run();
    });
    waiting.add(callOff);
    return () => {
      waiting.delete(callOff);
      callOff();
    };
  }

  function settle(): void {
    const before = now;
    now = Object.assign({}, lasting, ...spells.map(({ part }) => part));
    changed(now, before);
  }

  /** `change` again, while it still holds, begins its time anew. */
  function apply(change: Change): void {
    const part = controlFrom(change, first);
    if (change.for === undefined) {
      lasting = { ...lasting, ...part };
      // what is said now counts now
      for (const spell of spells) spell.part = without(spell.part, part);
      return settle();
    }
    const time = durationFrom(change.for);
    const again = spells.find(spell => spell.change === change);
    again?.callOff();
    const spell: Spell = { change, part, callOff: () => {} };
    spells = [...spells.filter(one => one !== again), spell];
    settle();
    spell.callOff = after(time, () => {
      spells = spells.filter(one => one !== spell);
      settle();
    });
  }

  return {
    get now() {
      return now;
    },
    change(change) {
      if (!isChange(change)) throw new RangeError(`expected settings, found: ${wordsOf(isChange.errors)}`);
      if (change.health === 'down' && change.for === undefined) {
        throw new RangeError(
          'expected `for` with health down, such as "5s": nobody could reach this server to end it',
        );
      }
      if (change.for !== undefined && spells.length >= MOST_SPELLS)
        throw new RangeError(`expected at most ${MOST_SPELLS} changes that hold for a time, found one more`);
      apply(change);
    },
    follow(entries) {
      const started = clock.now();
      for (const { at, every, ...change } of entries) {
        const distance = every === undefined ? undefined : durationFrom(every);
        // from the start and not from the last time, so that what is late once is not late for good
        const plan = (time: number) =>
          after(Math.max(0, started + time - clock.now()), () => {
            apply(change);
            if (distance !== undefined) plan(time + distance);
          });
        plan(durationFrom(at));
      }
    },
    close() {
      for (const callOff of waiting) callOff();
      waiting.clear();
    },
  };
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
