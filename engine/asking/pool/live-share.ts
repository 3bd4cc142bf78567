/**
 * How many calls of batches an endpoint gets while live calls are streamed from there. What holds a first token up is the
 * prompts of others: a step of the server reads the prompts that came since the last one together. So batches have
 * places by how the first tokens of live calls come, and begin one call at a time:
 *
 *   nobody asks ──(a stream is asked for)──> shared: the places that went well last time, at first the fewest
 *        ^                                     │ a first token is late: a twentieth fewer; it is not: a little more, so that
 *        │                                     │ 5 of 100 are late; all come early: more
 *        └──(for 5 s nobody has; then twice as many each second)
 *
 * It is kept apart from what is learned of the server (limit.ts): a limit of which less is used stands still.
 */
import type { Clock } from '../endpoints/pool-clock.ts';
import { Alone } from './alone.ts';
import type { BatchShare, BatchShareState, Ticket } from './pool-state.ts';

/** Batches always have this share of the limit, and a place. */
const LEAST_SHARE = 1 / 16;
/** A first token that is late takes so much of the places; those that are not late give it back where 5 of 100 are late. */
const CUT = 0.05;
const LATE_SHARE = 0.05;
const GROWTH = (CUT * LATE_SHARE) / (1 - LATE_SHARE);
/** So many in a row, each within this share of what it may take, and there is room for more. */
const EARLY = 0.75;
const EARLY_RUN = 8;
const GROWTH_EARLY = 0.03;
/** … for each so many ms since the one before, up to MOST_TURNS of them: where few ask there are few first tokens to go by */
const TURN_MS = 200;
const MOST_TURNS = 5;
/** Places that are not used do not become more. */
const USED = 0.7;
/** ms without a stream after which nobody asks; then the places double in a second. */
const QUIET_MS = 5_000;
const DOUBLES_MS = 1_000;
/** ms that the next call of a batch waits for its turn before the first answer to one, and at most. */
const FIRST_GAP = 50;
const LONGEST_GAP = 5_000;
/** While a live call has no first token no other prompt is sent, for at most so many gaps, or ms. */
const GATE_GAPS = 4;
const LONGEST_GATE = 1_000;
/** With the fewest places so many first tokens, a quarter of them late: it is not the batches. */
const VAIN_RUN = 20;
const VAIN_SHARE = 0.25;
/** How much of the mean latency a further answer is. */
const NEWS = 0.05;

/** A stream without its first token. */
interface Young {
  /** calls of batches there when it was sent */
  batches: number;
  /** it is late, and counted */
  isLate: boolean;
}

export interface LiveShareOptions {
  clock: Clock;
  /** ms to the first token; null: by what live calls have alone */
  objective: number | null;
  /** of the endpoint */
  limit: () => number;
  /** Batches may begin a call here again. */
  onRoom: () => void;
  /** Whether a time of so many ms, up to now, says more of this process. */
  isOurs: (ticket: Ticket, ms: number) => boolean;
}

export class LiveShare implements BatchShare {
  readonly #options: LiveShareOptions;
  readonly #alone: Alone;
  readonly #young = new Map<Ticket, Young>();
  #places = Number.POSITIVE_INFINITY;
  /** where the last time ended; null before the first */
  #kept: number | null = null;
  #askedAt = Number.NEGATIVE_INFINITY;
  #sweptAt = 0;
  #live = 0;
  #batches = 0;
  /** ms of a call of a batch */
  #latency = Number.NaN;
  #early = 0;
  #judgedAt = 0;
  #atLeast = { seen: 0, late: 0 };
  #aim: number | null = null;
  // the turn of the next call
  #isHeld = false;
  #isGated = false;
  #callOff = (): void => {};

  constructor(options: LiveShareOptions) {
    this.#options = options;
    this.#alone = new Alone(options.objective);
  }

  /** From now on it is to be so many ms to the first token; null: by what live calls have alone. */
  aimAt(objective: number | null): void {
    this.#alone.objective = objective;
  }

  get most(): number {
    if (this.#places === Number.POSITIVE_INFINITY) return this.#places;
    return this.#isHeld ? 0 : this.#live + Math.floor(this.#places);
  }

  state(): BatchShareState {
    const isFree = this.#places >= this.#options.limit();
    return { places: isFree ? null : Math.floor(this.#places), aim: isFree ? null : this.#aim };
  }

  sent(ticket: Ticket, now: number): void {
    const { call } = ticket;
    if (call.live === undefined) {
      this.#batches++;
      if (this.#places !== Number.POSITIVE_INFINITY) this.#hold(this.#gap());
      return;
    }
    this.#live++;
    if (call.sink === undefined) return;
    if (now - this.#askedAt > QUIET_MS) this.#places = Math.min(this.#places, this.#kept ?? this.#least());
    this.#askedAt = now;
    this.#young.set(ticket, { batches: this.#batches, isLate: false });
    if (!this.#isHeld) this.#gate();
  }

  /** Its place is free again. */
  left(ticket: Ticket, wasAnswered: boolean, now: number): void {
    if (ticket.call.live !== undefined) {
      this.#live--;
      if (this.#young.delete(ticket)) this.#ungate();
      return;
    }
    this.#batches--;
    if (!wasAnswered) return;
    const ms = now - ticket.sentAt;
    this.#latency = Number.isNaN(this.#latency) ? ms : this.#latency + NEWS * (ms - this.#latency);
  }

  firstToken(ticket: Ticket, now: number): void {
    const young = this.#young.get(ticket);
    if (young === undefined) return;
    this.#young.delete(ticket);
    this.#ungate();
    const ms = now - ticket.sentAt;
    // one that is asked again has waited for other reasons
    if (ticket.causes !== null || this.#options.isOurs(ticket, ms)) return;
    const bytes = ticket.call.body.length;
    const aim = this.#alone.aim(bytes);
    this.#learn(young.batches, bytes, ms);
    if (aim !== null && !young.isLate) this.#judge(ms, aim, now);
  }

  /** At each tick. */
  sweep(now: number): void {
    const passed = now - this.#sweptAt;
    this.#sweptAt = now;
    if (this.#places === Number.POSITIVE_INFINITY) return;
    for (const [ticket, young] of this.#young) {
      const aim = this.#alone.aim(ticket.call.body.length);
      const ms = now - ticket.sentAt;
      if (young.isLate || aim === null || ms <= aim || this.#options.isOurs(ticket, ms)) continue;
      young.isLate = true;
      this.#judge(ms, aim, now);
    }
    if (this.#young.size > 0 || now - this.#askedAt <= QUIET_MS) {
      this.#kept = this.#places;
      return;
    }
    this.#places *= 2 ** (passed / DOUBLES_MS);
    if (this.#places < this.#options.limit()) return;
    this.#places = Number.POSITIVE_INFINITY;
    this.#open();
  }

  #least(): number {
    return Math.max(1, Math.ceil(LEAST_SHARE * this.#options.limit()));
  }

  /** What it had beside the fewest calls of batches tells what it has alone only where nobody knows that, or they are not what holds it up. */
  #learn(batches: number, bytes: number, ms: number): void {
    const isAlone = batches === 0 && this.#batches === 0;
    const { seen, late } = this.#atLeast;
    const isVain = seen >= VAIN_RUN && late >= VAIN_SHARE * seen;
    const isNearly = batches <= this.#least() && (isVain || !this.#alone.knows(bytes));
    if (isAlone || isNearly) this.#alone.note(bytes, ms);
  }

  #judge(ms: number, aim: number, now: number): void {
    this.#aim = aim;
    const turns = Math.min(MOST_TURNS, Math.max(1, (now - this.#judgedAt) / TURN_MS));
    this.#judgedAt = now;
    if (this.#places === Number.POSITIVE_INFINITY) return;
    const least = this.#least();
    const isLate = ms > aim;
    this.#early = ms > EARLY * aim ? 0 : this.#early + 1;
    if (this.#places > least) this.#atLeast = { seen: 0, late: 0 };
    else this.#atLeast = { seen: this.#atLeast.seen + 1, late: this.#atLeast.late + (isLate ? 1 : 0) };
    if (isLate) this.#places *= 1 - CUT;
    else if (this.#batches >= USED * Math.floor(this.#places))
      this.#places *= 1 + (this.#early >= EARLY_RUN ? turns * GROWTH_EARLY : GROWTH);
    this.#places = Math.min(this.#options.limit(), Math.max(least, this.#places));
  }

  /** By Little's law so often a call of batches ends: one that begins then begins alone. */
  #gap(): number {
    const gap = Number.isNaN(this.#latency) ? FIRST_GAP : this.#latency / this.#places;
    return Math.min(LONGEST_GAP, gap);
  }

  #hold(ms: number): void {
    this.#callOff();
    this.#isHeld = true;
    this.#isGated = false;
    this.#callOff = this.#options.clock.after(ms, () => {
      if (this.#young.size > 0) this.#gate();
      else this.#open();
    });
  }

  #gate(): void {
    this.#callOff();
    this.#isHeld = true;
    this.#isGated = true;
    const most = Math.min(LONGEST_GATE, GATE_GAPS * this.#gap());
    this.#callOff = this.#options.clock.after(most, () => this.#open());
  }

  #ungate(): void {
    if (this.#isGated && this.#young.size === 0) this.#open();
  }

  #open(): void {
    this.#callOff();
    this.#isHeld = false;
    this.#isGated = false;
    this.#options.onRoom();
  }
}
