/**
 * What keys have used of what they may: requests and tokens a minute, tokens a day (UTC), calls at a time. A call takes a
 * place first, for as many tokens as it may need, and gives it back once it has ended; its real tokens are charged as its
 * answer goes on record. Somebody is let in while anything is left, so a budget is exceeded at most by what was in flight.
 */
import type { ApiError } from './errors.ts';
import { type Bucket, filledBy, MINUTE, timeText, tooMany, tooManyRequests } from './rate-limits.ts';

/** Of a key: none of them is there where nothing is limited. */
export interface KeyLimits {
  /** requests and tokens a minute */
  rpm?: number | undefined;
  tpm?: number | undefined;
  /** UTC */
  tokens_per_day?: number | undefined;
  /** live calls at a time */
  parallel?: number | undefined;
  /** bytes of files and batches of its owner, and batches of its owner that have not ended */
  storage?: number | undefined;
  batches?: number | undefined;
}

/** What is kept of a key. */
export interface Account {
  /** days since 1970, and tokens of that day */
  day: number;
  used: number;
  requests: Bucket | null;
  tokens: Bucket | null;
}

interface Live extends Account {
  /** tokens that calls in flight may need, and live calls among them */
  reserved: number;
  inFlight: number;
}

/** What stands in the way of a call. */
export interface Refusal {
  /** no wait of a minute helps: the day is used up */
  isSpent: boolean;
  error: ApiError;
}

const DAY = 24 * 60 * MINUTE;
/** Who asks for nothing longer waits so many seconds: calls in flight may end any time. */
const SOON = 1;
/** Lines of a batch leave so many requests of the minute to whoever asks how it goes. */
const LEFT_TO_LIVE = 1;

export class Budgets {
  readonly #now: () => number;
  readonly #accounts = new Map<string, Live>();
  /** keys that have changed since the last `changes`, and tokens that were charged, by batch */
  readonly #dirty = new Set<string>();
  readonly #dirtyBatches = new Set<string>();
  readonly #batches = new Map<string, number>();
  #waiting: (() => void)[] = [];

  constructor(now: () => number) {
    this.#now = now;
  }

  /** A request of any kind. Throws 429. */
  request(key: string, limits: KeyLimits): void {
    const { rpm } = limits;
    if (rpm === undefined) return;
    const bucket = this.#requests(key, rpm);
    if (bucket.left < 1) throw tooManyRequests(rpm, bucket.left, this.headers(key, limits));
    bucket.left -= 1;
  }

  /**
   * A live call that may need `bound` tokens; its request is counted already. Throws 429. What it returns gives its place
   * back: once.
   */
  begin(key: string | null, limits: KeyLimits, bound: number): () => void {
    if (key === null) return nothing;
    const { parallel, tpm, tokens_per_day } = limits;
    if (parallel === undefined && tpm === undefined && tokens_per_day === undefined) return nothing;
    const account = this.#of(key);
    if (parallel !== undefined && account.inFlight >= parallel)
      throw tooMany(`this key may have ${parallel} requests at a time`, 'requests', SOON);
    const refusal = this.#refusal(key, limits);
    if (refusal !== null) throw refusal.error;
    return this.#hold(key, limits, bound, 1);
  }

  /** The same for a line of a batch, which waits where a minute is used up. Null: it has a place of no need. */
  beginLine(key: string, limits: KeyLimits, bound: number): (() => void) | Refusal {
    const { rpm } = limits;
    const refusal = this.#refusal(key, limits);
    if (refusal !== null) return refusal;
    if (rpm !== undefined) {
      const bucket = this.#requests(key, rpm);
      const need = Math.min(rpm, 1 + LEFT_TO_LIVE);
      if (bucket.left < need) return { isSpent: false, error: tooManyRequests(rpm, bucket.left) };
      bucket.left -= 1;
    }
    return this.#hold(key, limits, bound, 0);
  }

  /** Why a line would wait now, in words; null where it would not. */
  waits(key: string | null, limits: KeyLimits): string | null {
    if (key === null) return null;
    const { rpm } = limits;
    const refusal = this.#refusal(key, limits);
    if (refusal !== null) return refusal.error.message;
    if (rpm === undefined || this.#requests(key, rpm).left >= Math.min(rpm, 1 + LEFT_TO_LIVE)) return null;
    return tooManyRequests(rpm, 0).message;
  }

  /** Resolves when something may have changed. */
  changed(): Promise<void> {
    return new Promise(resolve => this.#waiting.push(resolve));
  }

  /** Whoever waits looks again; to be called now and then, since time fills buckets. */
  look(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }

  /** Throws 429 where the tokens of the day are spent: for what is going to use some later. */
  refuseSpent(key: string | null, limits: KeyLimits): void {
    if (this.isSpent(key, limits)) throw this.#spent(Number(limits.tokens_per_day));
  }

  isSpent(key: string | null, { tokens_per_day: perDay }: KeyLimits): boolean {
    return key !== null && perDay !== undefined && this.usedToday(key) >= perDay;
  }

  /** Tokens of an answer, for the day in which it ended; `batch`: whose line it was. */
  charge(key: string | null, used: number, batch?: string, time: number = this.#now()): void {
    const name = key ?? '';
    const account = this.#of(name);
    const day = Math.min(Math.floor(time / DAY), this.#today(account));
    if (day === account.day) account.used += used;
    else if (day > account.day || account.used === 0) Object.assign(account, { day, used });
    if (account.tokens !== null) account.tokens.left -= used;
    this.#dirty.add(name);
    if (batch === undefined) return;
    this.#batches.set(batch, this.chargedOf(batch) + used);
    this.#dirtyBatches.add(batch);
  }

  usedToday(key: string | null): number {
    const account = this.#accounts.get(key ?? '');
    return account !== undefined && this.#today(account) === account.day ? account.used : 0;
  }

  /**
   * The day of now. A clock that was ahead has charged what it saw to a day that has not come: that counts today, or nothing
   * would be charged until then.
   */
  #today(account: Account): number {
    const today = Math.floor(this.#now() / DAY);
    if (account.day > today) account.day = today;
    return today;
  }

  /** What was charged for the lines of a batch. */
  chargedOf(batch: string): number {
    return this.#batches.get(batch) ?? 0;
  }

  /** All others have ended, before an earlier server could say so. */
  keepBatches(open: ReadonlySet<string>): void {
    for (const id of this.#batches.keys()) if (!open.has(id)) this.forgetBatch(id);
  }

  /** It has ended. */
  forgetBatch(batch: string): void {
    if (this.#batches.delete(batch)) this.#dirtyBatches.add(batch);
  }

  /** `x-ratelimit-…` as OpenAI says them, of the minute, or of the day where the minute has no limit. Empty without limits. */
  headers(key: string | null, { rpm, tpm, tokens_per_day: perDay }: KeyLimits): Record<string, string> {
    const headers: Record<string, string> = {};
    if (key === null) return headers;
    const say = (of: string, limit: number, left: number, reset: number): void => {
      headers[`x-ratelimit-limit-${of}`] = String(limit);
      headers[`x-ratelimit-remaining-${of}`] = String(Math.max(0, Math.floor(left)));
      headers[`x-ratelimit-reset-${of}`] = timeText(reset);
    };
    const filled = (limit: number, { left }: Bucket): number => ((limit - left) / limit) * MINUTE;
    if (rpm !== undefined) {
      const bucket = this.#requests(key, rpm);
      say('requests', rpm, bucket.left, filled(rpm, bucket));
    }
    if (tpm !== undefined) {
      const bucket = this.#tokens(key, tpm);
      say('tokens', tpm, bucket.left, filled(tpm, bucket));
    } else if (perDay !== undefined) {
      const left = perDay - this.usedToday(key) - this.#of(key).reserved;
      say('tokens', perDay, left, DAY - (this.#now() % DAY));
    }
    return headers;
  }

  /** What has changed since it was last asked, as it is now; null where nothing has. `all`: everything that still counts. */
  changes(all = false): Snapshot | null {
    const today = Math.floor(this.#now() / DAY);
    const keys = all ? [...this.#accounts.keys()] : [...this.#dirty];
    const batches = all ? [...this.#batches.keys()] : [...this.#dirtyBatches];
    this.#dirty.clear();
    this.#dirtyBatches.clear();
    if (keys.length + batches.length === 0) return null;
    const kept = keys.map(key => [key, this.#accounts.get(key) as Live] as const);
    return {
      keys: Object.fromEntries(
        kept
          .filter(([, { day }]) => day >= today)
          .map(([key, { day, used, requests, tokens, reserved }]) => [
            key,
            // whoever reads it has none in flight
            { day, used, requests, tokens: tokens && { ...tokens, left: tokens.left + reserved } },
          ]),
      ),
      batches: Object.fromEntries(batches.map(id => [id, this.#batches.get(id) ?? null])),
    };
  }

  /** Takes what `changes` said before. */
  restore({ keys, batches }: Snapshot): void {
    for (const [key, account] of Object.entries(keys)) Object.assign(this.#of(key), account);
    for (const [id, charged] of Object.entries(batches)) {
      if (charged === null) this.#batches.delete(id);
      else this.#batches.set(id, charged);
    }
  }

  #of(key: string): Live {
    let account = this.#accounts.get(key);
    if (account === undefined) {
      const day = Math.floor(this.#now() / DAY);
      account = { day, used: 0, requests: null, tokens: null, reserved: 0, inFlight: 0 };
      this.#accounts.set(key, account);
    }
    return account;
  }

  #requests(key: string, rpm: number): Bucket {
    const account = this.#of(key);
    account.requests = filledBy(account.requests, rpm, this.#now());
    this.#dirty.add(key);
    return account.requests;
  }

  #tokens(key: string, tpm: number): Bucket {
    const account = this.#of(key);
    account.tokens = filledBy(account.tokens, tpm, this.#now());
    this.#dirty.add(key);
    return account.tokens;
  }

  #refusal(key: string, { tpm, tokens_per_day: perDay }: KeyLimits): Refusal | null {
    if (perDay !== undefined) {
      const used = this.usedToday(key);
      if (used >= perDay) return { isSpent: true, error: this.#spent(perDay) };
      if (used + this.#of(key).reserved >= perDay)
        return {
          isSpent: false,
          error: tooMany(`requests in flight may need the rest of ${perDay} tokens a day`, 'tokens', SOON),
        };
    }
    if (tpm === undefined) return null;
    const { left } = this.#tokens(key, tpm);
    if (left >= 1) return null;
    const wait = Math.ceil(((1 - left) / tpm) * 60);
    return { isSpent: false, error: tooMany(`this key may use ${tpm} tokens a minute`, 'tokens', wait) };
  }

  #hold(key: string, { tpm }: KeyLimits, bound: number, live: number): () => void {
    const account = this.#of(key);
    account.reserved += bound;
    account.inFlight += live;
    if (tpm !== undefined) this.#tokens(key, tpm).left -= bound;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      account.reserved -= bound;
      account.inFlight -= live;
      if (account.tokens !== null && tpm !== undefined)
        account.tokens.left = Math.min(tpm, account.tokens.left + bound);
      this.look();
    };
  }

  #spent(perDay: number): ApiError {
    const wait = Math.ceil((DAY - (this.#now() % DAY)) / 1000);
    return tooMany(`this key may use ${perDay} tokens a day (UTC)`, 'tokens', wait);
  }
}

/** `batches`: tokens that were charged for each; null: it has ended. */
export interface Snapshot {
  keys: Record<string, Account>;
  batches: Record<string, number | null>;
}

const nothing = (): void => {};
