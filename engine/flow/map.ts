/**
 * The bounded map of the asking stages: at most `limit` items are past the entry and not yet taken by the reader, so a
 * slow reader stops the asking. Results leave as they finish; with `ordered`, in the order of the input, within the
 * same bound. O(1) an item.
 */
import _ from 'highland';

export interface MapOptions {
  /** asked at every entry, since a pool that is only made when needed is not known from the start */
  limit(): number;
  /** is given what to call when the limit has grown: nothing else would ask for it before an item has finished */
  onRoom?(more: () => void): void;
  ordered?: boolean;
  /** aborted, now or before the first item: take nothing new, hand on what is in flight */
  signal: AbortSignal;
  /** told of each item, in ms, how long it was in here, and how much of that it was finished already */
  onLeft?(inside: number, finished: number): void;
}

/** `work` must not reject: what it throws ends the stream with that error. */
export function boundedMap<A, B>(
  items: Highland.Stream<A>,
  work: (item: A) => Promise<B>,
  options: MapOptions,
): Highland.Stream<B> {
  const map = new BoundedMap(items, work, options);
  return _<B>((push, next) => map.hand(push, next));
}

type Push<B> = (error: Error | null, value?: B | Highland.Nil) => void;

class BoundedMap<A, B> {
  readonly #work: (item: A) => Promise<B>;
  readonly #options: MapOptions;
  readonly #entry: Highland.Stream<never>;
  /** past the entry, not yet handed on */
  #taken = 0;
  #isOpen = false;
  /** the source waits */
  #more: (() => void) | null = null;
  #ended = false;
  #failure: unknown;
  /** the reader waits */
  #wanted: (() => void) | null = null;
  /** finished (or, when ordered, started) and not yet handed on */
  readonly #done: Slot<B>[] = [];
  /** index of the oldest in `#done`; the array is cut now and then, so a shift costs nothing */
  #first = 0;

  constructor(items: Highland.Stream<A>, work: (item: A) => Promise<B>, options: MapOptions) {
    this.#work = work;
    this.#options = options;
    const { limit, signal } = options;
    this.#entry = items.consume<never>((error, item, _push, next) => {
      if (error) return this.#fail(error);
      if (_.isNil(item)) return this.#end();
      if (this.#ended) return; // stopped: this one and what follows is what `input-incomplete` speaks of
      this.#start(item);
      if (this.#taken < limit() && !signal.aborted) next();
      else this.#more = next;
    });
    // one that is aborted already tells nobody again
    if (signal.aborted) this.#ended = true;
    else signal.addEventListener('abort', this.#end, { once: true });
    options.onRoom?.(() => {
      if (this.#isOpen) this.#pull();
    });
  }

  /** Gives the reader the next value, or the end; waits where there is neither. */
  hand(push: Push<B>, next: () => void): void {
    this.#wanted = null;
    if (this.#failure !== undefined) {
      push(this.#failure as Error);
      return this.#close(push);
    }
    const slot = this.#done[this.#first];
    if (slot?.finished) {
      this.#leave(slot);
      this.#pull();
      push(null, slot.value as B);
      return next();
    }
    if (this.#ended && this.#taken === 0) return this.#close(push);
    this.#wanted = () => this.hand(push, next);
    this.#pull();
  }

  #leave({ entered, finishedAt }: Slot<B>): void {
    this.#first += 1;
    if (this.#first === 1024) {
      this.#done.splice(0, this.#first);
      this.#first = 0;
    }
    this.#taken -= 1;
    const now = performance.now();
    this.#options.onLeft?.(now - entered, now - finishedAt);
  }

  #close(push: Push<B>): void {
    this.#options.signal.removeEventListener('abort', this.#end);
    push(null, _.nil);
  }

  #pull(): void {
    if (this.#ended || this.#taken >= this.#options.limit()) return;
    if (!this.#isOpen) {
      this.#isOpen = true;
      this.#entry.resume();
    } else if (this.#more !== null) {
      const next = this.#more;
      this.#more = null;
      next();
    }
  }

  #start(item: A): void {
    this.#taken += 1;
    const slot: Slot<B> = { finished: false, value: undefined, entered: performance.now(), finishedAt: 0 };
    const { ordered } = this.#options;
    if (ordered) this.#done.push(slot);
    this.#work(item).then(value => {
      slot.finished = true;
      slot.value = value;
      slot.finishedAt = performance.now();
      if (!ordered) this.#done.push(slot);
      this.#wanted?.();
    }, this.#fail);
  }

  readonly #end = (): void => {
    this.#ended = true;
    this.#wanted?.();
  };

  readonly #fail = (error: unknown): void => {
    this.#failure ??= error;
    this.#wanted?.();
  };
}

interface Slot<B> {
  finished: boolean;
  value: B | undefined;
  entered: number;
  finishedAt: number;
}
