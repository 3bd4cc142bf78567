/**
 * Where the lines of a log go. They are written whole, several at a time where many come, and in pieces that a pipe takes
 * at once, so that those of several processes do not mix. A reader that is slow or stands still holds up nobody: beyond a
 * bound lines are dropped, counted, and the count is a line once there is room again.
 */

/** A pipe or a socket, as process.stderr is one; a file or a terminal takes what it is given at once. */
export interface Out {
  write(text: string, done?: () => void): unknown;
  readonly writableLength: number;
  readonly writable: boolean;
}

/** PIPE_BUF of Linux: what is no longer is written at once or not at all */
const TOGETHER = 4_096;
/** bytes that may wait for the reader, and those at which lines are taken again */
const MOST_WAITING = 1024 * 1024;
const ROOM = MOST_WAITING / 2;
/** ms that a line may wait for others */
const SOON = 10;
/** ms that the last lines have at the end */
const LAST = 1_000;

export class LineSink {
  readonly #out: Out;
  readonly #droppedLine: (count: number) => string;
  #held = '';
  #lines = 0;
  #timer: NodeJS.Timeout | null = null;
  #dropped = 0;
  #total = 0;
  #isFull = false;

  /** `droppedLine`: the line that says how many were dropped. */
  constructor(out: Out, droppedLine: (count: number) => string) {
    this.#out = out;
    this.#droppedLine = droppedLine;
  }

  /** lines that nobody will read */
  get dropped(): number {
    return this.#total;
  }

  /** A line with its newline. One that `isUrgent` is written now, with those before it. */
  write(line: string, isUrgent: boolean): void {
    if (this.#lines > 0 && this.#held.length + line.length > TOGETHER) this.flush();
    this.#held += line;
    this.#lines += 1;
    if (isUrgent) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), SOON).unref();
  }

  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const [held, lines] = [this.#held, this.#lines];
    this.#held = '';
    this.#lines = 0;
    if (lines === 0) return;
    const waiting = this.#out.writableLength;
    this.#isFull = !this.#out.writable || waiting > (this.#isFull ? ROOM : MOST_WAITING);
    if (this.#isFull) {
      this.#dropped += lines;
      this.#total += lines;
      return;
    }
    if (this.#dropped > 0) this.#out.write(this.#droppedLine(this.#dropped));
    this.#dropped = 0;
    this.#out.write(held);
  }

  /** Resolves when all is written, or the reader has had a second for it. */
  async close(): Promise<void> {
    this.flush();
    if (!this.#out.writable) return;
    await new Promise<void>(resolve => {
      const late = setTimeout(resolve, LAST);
      this.#out.write('', () => {
        clearTimeout(late);
        resolve();
      });
    });
  }
}
