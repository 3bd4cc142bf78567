/** Whole numbers as Parquet packs them: runs of levels and of places in a dictionary, and differences. */

/** Bits from the lowest on, byte by byte. */
class Bits {
  readonly bytes: Uint8Array;
  at: number;
  readonly end: number;
  #held = 0;
  #count = 0;

  constructor(bytes: Uint8Array, at: number, end: number) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }

  /** At most 24. */
  take(width: number): number {
    while (this.#count < width) {
      if (this.at >= this.end) throw new Error('the end of packed numbers too early');
      this.#held |= this.bytes[this.at++]! << this.#count;
      this.#count += 8;
    }
    const value = this.#held & ((1 << width) - 1);
    this.#held >>>= width;
    this.#count -= width;
    return value;
  }

  /** At most 48. */
  wide(width: number): number {
    return width <= 24 ? this.take(width) : this.take(24) + this.take(width - 24) * 0x1000000;
  }

  /** What is left of the byte is passed over. */
  align(): void {
    this.#held = 0;
    this.#count = 0;
  }

  unsigned(): number {
    let value = 0;
    for (let scale = 1, count = 0; count < 5; count++, scale *= 128) {
      if (this.at >= this.end) throw new Error('the end of packed numbers too early');
      const byte = this.bytes[this.at++]!;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    throw new Error('a packed number of more than 32 bits');
  }

  /** Of 64 bits; a bigint where a double does not hold it. */
  signed(): number | bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (this.at >= this.end) throw new Error('the end of packed numbers too early');
      const byte = this.bytes[this.at++]!;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return narrow(BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n)));
    }
    throw new Error('a packed number of more than 64 bits');
  }
}

const narrow = (value: bigint): number | bigint =>
  value >= -9007199254740991n && value <= 9007199254740991n ? Number(value) : value;

/** Runs of one number, and numbers packed by eight ("RLE/bit-packing hybrid"), one after the other. */
export class Runs {
  readonly #bits: Bits;
  readonly #width: number;
  #left: number;
  #value = 0;
  #isPacked = false;

  /** Of `width` bits each, in the bytes from `at` to `end`. */
  constructor(bytes: Uint8Array, at: number, end: number, width: number) {
    this.#bits = new Bits(bytes, at, end);
    this.#width = width;
    // nothing needs to be written where there is one number alone
    this.#left = width === 0 ? Number.POSITIVE_INFINITY : 0;
  }

  next(): number {
    if (this.#left === 0) this.#run();
    this.#left -= 1;
    return this.#isPacked ? this.#bits.wide(this.#width) : this.#value;
  }

  /** How many of the next `count` are 0; they are taken. */
  zeros(count: number): number {
    let zeros = 0;
    for (let left = count; left > 0; ) {
      if (this.#left === 0) this.#run();
      if (this.#isPacked) {
        left -= 1;
        if (this.next() === 0) zeros += 1;
        continue;
      }
      const some = Math.min(left, this.#left);
      if (this.#value === 0) zeros += some;
      this.#left -= some;
      left -= some;
    }
    return zeros;
  }

  #run(): void {
    const bits = this.#bits;
    for (;;) {
      bits.align();
      const head = bits.unsigned();
      this.#isPacked = head % 2 === 1;
      if (this.#isPacked) this.#left = ((head - 1) / 2) * 8;
      else {
        this.#left = head / 2;
        this.#value = 0;
        for (let byte = 0, scale = 1; byte < Math.ceil(this.#width / 8); byte++, scale *= 256)
          this.#value += bits.take(8) * scale;
      }
      if (this.#left > 0) return;
    }
  }
}

/** Numbers as differences from the one before, in blocks that say how many bits each takes ("DELTA_BINARY_PACKED"). */
export class Deltas {
  /** how many there are */
  readonly count: number;
  readonly #bits: Bits;
  readonly #isLong: boolean;
  readonly #perBlock: number;
  readonly #perPart: number;
  #value: number | bigint;
  #taken = 0;
  #least: number | bigint = 0;
  #widths: Uint8Array = new Uint8Array(0);
  #part = 0;
  #leftOfPart = 0;
  #width = 0;

  /** `isLong`: of 64 bits. */
  constructor(bytes: Uint8Array, at: number, end: number, isLong: boolean) {
    const bits = new Bits(bytes, at, end);
    const block = bits.unsigned();
    this.#perBlock = bits.unsigned();
    this.#perPart = block / this.#perBlock;
    this.count = bits.unsigned();
    if (!(this.#perPart > 0 && this.#perPart % 8 === 0)) throw new Error('differences in impossible blocks');
    this.#value = bits.signed();
    this.#bits = bits;
    this.#isLong = isLong;
  }

  next(): number | bigint {
    if (++this.#taken > this.count) throw new Error('fewer differences than values');
    if (this.#taken === 1) return this.#value;
    if (this.#leftOfPart === 0) this.#nextPart();
    this.#leftOfPart -= 1;
    const width = this.#width;
    const before = this.#value;
    if (width <= 48 && typeof before === 'number' && typeof this.#least === 'number') {
      const rest = this.#bits.wide(width);
      const delta = this.#least + rest;
      const sum = before + delta;
      if (!this.#isLong) this.#value = sum | 0;
      else if (Number.isSafeInteger(delta) && Number.isSafeInteger(sum)) this.#value = sum;
      else this.#value = long(BigInt(before), BigInt(this.#least), BigInt(rest));
      return this.#value;
    }
    const rest = width <= 48 ? BigInt(this.#bits.wide(width)) : this.#widest(width);
    const sum = long(BigInt(before), BigInt(this.#least), rest);
    this.#value = this.#isLong ? sum : Number(BigInt.asIntN(32, BigInt(sum)));
    return this.#value;
  }

  #widest(width: number): bigint {
    const low = BigInt(this.#bits.wide(48));
    return low | (BigInt(this.#bits.take(width - 48)) << 48n);
  }

  /** Where the bytes are that follow all of them; nothing may have been taken. */
  endOf(): number {
    const bits = this.#bits;
    const { at } = bits;
    for (let left = this.count - 1; left > 0; ) {
      bits.signed();
      const widths = this.#widthsHere();
      for (let part = 0; part < widths.length && left > 0; part++, left -= this.#perPart)
        bits.at += (this.#perPart / 8) * widths[part]!;
    }
    const end = bits.at;
    bits.at = at;
    if (end > bits.end) throw new Error('the end of packed numbers too early');
    return end;
  }

  #nextPart(): void {
    this.#bits.align();
    if (this.#part === this.#widths.length) {
      this.#least = this.#bits.signed();
      this.#widths = this.#widthsHere();
      this.#part = 0;
    }
    this.#width = this.#widths[this.#part++]!;
    if (this.#width > 64) throw new Error('differences of more than 64 bits');
    this.#leftOfPart = this.#perPart;
  }

  #widthsHere(): Uint8Array {
    const { bytes, at, end } = this.#bits;
    if (this.#perBlock > end - at) throw new Error('the end of packed numbers too early');
    this.#bits.at += this.#perBlock;
    return bytes.subarray(at, at + this.#perBlock);
  }
}

/** It goes round at 64 bits, as the writer's did. */
const long = (before: bigint, least: bigint, rest: bigint): number | bigint =>
  narrow(BigInt.asIntN(64, before + least + rest));
