/** What of a streamed text is kept for the record, whichever events it comes in: so much of it, its length and hash, how many events it had, and whether it runs away. */
import { createHash } from 'node:crypto';
import { repetitionIn } from '../../../engine/answers/text-faults.ts';
import type { Usage, WholeAnswer } from '../../../engine/core/item/item.ts';

/** UTF-16 units of an id, a role, the name of a tool and a reason to end: one of them may be as long as an event. */
const LONGEST_WORD = 256;
/** UTF-16 units of an answer that are kept; the rest is hashed and counted. */
const MOST_KEPT = 1024 * 1024;
/** As many characters of an end are looked at for repetition, each time that so many have come. */
const END = 8_000;
const LOOK_EVERY = 500;

export interface Runaway {
  /** the same words again and again at the end */
  repeats: boolean;
  /** so much white space in a row */
  blanks: number;
}

export class KeptText {
  /** why the stream is to be cut off; null where it is not */
  runaway: string | null = null;
  /** UTF-16 units that have come */
  units = 0;
  /** events with any content */
  events = 0;
  readonly #prompt: number;
  readonly #limits: Runaway | null;
  readonly #whole = createHash('sha256');
  #kept = 0;
  #isCut = false;
  #bytes = 0;
  /** the last that came, and the units at which it was looked at */
  #end = '';
  #looked = 0;

  /** `prompt`: its tokens where the server does not say */
  constructor(limits: Runaway | null, prompt = 0) {
    this.#limits = limits;
    this.#prompt = prompt;
  }

  /** Tokens where the server does not say: each event is taken for one. Null before any content. */
  get guess(): Usage | null {
    return this.events > 0 ? { prompt: this.#prompt, completion: this.events } : null;
  }

  /** … of an answer that has ended, also where nothing came of it. */
  get leastUsed(): Usage {
    return this.guess ?? { prompt: this.#prompt, completion: 0 };
  }

  /** Whether there is room for a piece that is no text of the answer, such as arguments of a tool. */
  takes(piece: string): boolean {
    this.units += piece.length;
    const isKept = this.holds(piece.length);
    if (!isKept) this.#isCut = true;
    return isKept;
  }

  /** … and for what was said before anything of it came. */
  holds(units: number): boolean {
    if (this.#kept + units > MOST_KEPT) return false;
    this.#kept += units;
    return true;
  }

  /** Whether a piece of the text is kept. `isAlone`: it is the only one of its answer, which may then run away. */
  text(piece: string, isAlone: boolean): boolean {
    this.#bytes += Buffer.byteLength(piece);
    this.#whole.update(piece);
    const isKept = this.takes(piece);
    if (this.#limits === null || this.runaway !== null || !isAlone) return isKept;
    this.#end = (this.#end + piece).slice(-END);
    if (this.units - this.#looked < LOOK_EVERY) return isKept;
    this.#looked = this.units;
    this.runaway = runawayIn(this.#end, this.#limits);
    return isKept;
  }

  /** Of what was too long to be kept; null where all was. */
  rest(): WholeAnswer | null {
    if (!this.#isCut) return null;
    const sha256 = this.#whole.copy().digest('hex').slice(0, 16);
    return { characters: this.units, bytes: this.#bytes, sha256 };
  }
}

export const word = (value: unknown): string | undefined =>
  typeof value === 'string' ? value.slice(0, LONGEST_WORD) : undefined;

/** Why an end like this is no answer any more; null where it is. */
function runawayIn(end: string, { repeats, blanks }: Runaway): string | null {
  const trimmed = end.trimEnd();
  if (blanks > 0 && end.length - trimmed.length >= blanks)
    return `white space without an end, ${end.length - trimmed.length} characters of it`;
  const loop = repeats ? repetitionIn(end) : null;
  return loop && `the same ${loop.unit.length} characters ${loop.times} times`;
}
