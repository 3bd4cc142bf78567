/**
 * A list of numbers that grows, eight or four bytes each: of a million lines there are several. It grows by pieces, so that
 * none is ever copied.
 */
export class Numbers<A extends Float64Array | Uint32Array> {
  readonly #pieces: A[] = [];
  readonly #make: (length: number) => A;
  #count = 0;

  constructor(make: (length: number) => A) {
    this.#make = make;
  }

  get count(): number {
    return this.#count;
  }

  push(value: number): void {
    const at = this.#count++ & (PIECE - 1);
    if (at === 0) this.#pieces.push(this.#make(PIECE));
    (this.#pieces[this.#pieces.length - 1] as A)[at] = value;
  }

  at(index: number): number {
    return (this.#pieces[index >>> BITS] as A)[index & (PIECE - 1)] as number;
  }
}

const BITS = 14;
const PIECE = 1 << BITS;

export const exact = (): Numbers<Float64Array> => new Numbers(length => new Float64Array(length));
/** whole numbers below 2^32 */
export const small = (): Numbers<Uint32Array> => new Numbers(length => new Uint32Array(length));
