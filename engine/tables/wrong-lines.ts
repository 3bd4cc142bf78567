/** What is wrong with the lines of a file of requests, for the end of it. */
import { dataError } from '../core/item/failure.ts';
import type { Item } from '../core/item/item.ts';
import { counted, shown } from '../core/item/wording.ts';

/** Lines that a message names. */
const NAMED = 10;

/** They are told what each line became. */
export class Wrong {
  readonly #named: string[] = [];
  #count = 0;

  look(items: readonly Item[]): void {
    for (const { failure } of items) {
      if (failure === undefined) continue;
      this.#count += 1;
      if (this.#named.length < NAMED) this.#named.push(shown(failure.message));
    }
  }

  /** Throws where anything is. */
  end(): void {
    if (this.#count === 0) return;
    const more = this.#count > this.#named.length ? [`and ${this.#count - this.#named.length} more`] : [];
    throw dataError(
      `expected one request per line, found ${counted(this.#count, 'line')} that cannot be one; nothing was asked:\n  ` +
        `${[...this.#named, ...more].join('\n  ')}\nfix them, or turn each into a failed line with --skip-invalid`,
    );
  }
}
