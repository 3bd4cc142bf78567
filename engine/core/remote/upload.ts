/**
 * An object of S3 while it is written: in parts, which nobody sees before all of them are there and the upload is completed. What
 * is killed in between leaves no object, and the old one as it was.
 */
import { randomBytes } from 'node:crypto';
import { type Fatal, fatalOf, ioError } from '../item/failure.ts';
import { counted, number } from '../item/wording.ts';
import { visible } from '../json/visible.ts';
import { s3Address } from './address.ts';
import { type Asking, newAsking } from './exchange.ts';
import { keepLonger, leftovers, partsXml } from './old-object.ts';
import { Bucket, between } from './s3.ts';

const MIB = 1024 * 1024;
const PART = 8 * MIB;
/** S3 takes no more of them. */
const MOST_PARTS = 10_000;
/** Parts on their way at once, beside the one that is filled. */
const ON_THE_WAY = 2;
/** The mark by which a completed upload is known again where the answer to that was lost. */
const MARK = 'x-amz-meta-fw-upload';

/** Cloudflare's R2 completes an upload only of parts that are equal but for the last: 10,000 of these hold 335 GB. */
const EQUAL_PART = 32 * MIB;

/** 8 MiB up to 16 GB; then each further thousand is twice as large, so that ten thousand hold 4 TB. */
export const sizeOfPart = (part: number, areEqual = false): number =>
  areEqual ? EQUAL_PART : PART * 2 ** Math.max(0, Math.floor((part - 1) / 1000) - 1);

/** Begins to write an object, of which nothing is there until `complete`. Rejects with 64, 65 and 74 where it may not be written. */
export async function beginUpload(address: string, asking?: Asking): Promise<Upload> {
  const upload = openUpload(address, asking);
  await upload.begun;
  return upload;
}

/** The same, which is told later where it may not be written (`onBroken`). Exit 64. */
export function openUpload(address: string, asking: Asking = newAsking()): Upload {
  const { bucket, key } = s3Address(address);
  return new Upload(bucket, key, asking);
}

export class Upload {
  readonly name: string;
  /** put() copies what it is given */
  readonly keeps = false;
  /** told once, where a part cannot be sent */
  onBroken: (error: Fatal) => void = () => {};
  readonly begun: Promise<string>;
  readonly #bucket: Bucket;
  readonly #key: string;
  readonly #mark = randomBytes(8).toString('hex');
  /** of each part that was sent, from the first on */
  readonly #etags: string[] = [];
  readonly #sending = new Set<Promise<void>>();
  readonly #free: Buffer[] = [];
  #part: Buffer | null = null;
  #filled = 0;
  #bytes = 0;
  #broken: Fatal | null = null;
  #waiting: (() => void)[] = [];
  #endWaits: () => void = () => {};

  constructor(bucket: string, key: string, asking: Asking) {
    const ended = new Promise<void>(resolve => {
      this.#endWaits = resolve;
    });
    const wait = async (ms: number): Promise<void> => {
      await Promise.race([asking.wait(ms), ended]); // a store may ask for minutes, in which nobody can stop the run
      if (this.#broken !== null) throw this.#broken; // what was ended is not tried again
    };
    this.#bucket = new Bucket(bucket, { ...asking, wait });
    this.#key = key;
    this.name = `s3://${bucket}/${visible(key)}`;
    this.begun = this.#begin();
    this.begun.catch(error => this.#break(error));
  }

  /** False where enough is on its way: wait for `ready`. */
  put(bytes: Buffer): boolean {
    if (this.#broken !== null) return true;
    this.#bytes += bytes.length;
    for (let at = 0; at < bytes.length; ) {
      this.#part ??= this.#room();
      const part = this.#part;
      const copied = bytes.copy(part, this.#filled, at);
      at += copied;
      this.#filled += copied;
      if (this.#filled === part.length) this.#send();
    }
    return this.#isOpen();
  }

  ready(act: () => void): void {
    if (this.#isOpen()) act();
    else this.#waiting.push(act);
  }

  /** Resolves once all parts are in the store, where nobody sees them yet. */
  async end(): Promise<void> {
    if (this.#broken === null && this.#filled > 0) this.#send();
    await Promise.all(this.#sending);
    if (this.#broken !== null) throw this.#broken;
  }

  /** The object is there, whole, in the place of an old one; resolves to what there is to say of that. Rejects with 65 and 74. */
  async complete(): Promise<string[]> {
    await this.end();
    const uploadId = await this.begun;
    try {
      const said = await this.#keepOld();
      const left = await leftovers(this.#bucket, this.#key, uploadId);
      if (left !== null) said.push(left);
      if (this.#etags.length > 0) {
        await this.#completeParts(uploadId);
        return said;
      }
      await this.#ask('to write it', { method: 'PUT', key: this.#key });
      await this.abort();
      return said;
    } catch (error) {
      await this.abort();
      throw error;
    }
  }

  async #completeParts(uploadId: string): Promise<void> {
    const body = partsXml(this.#etags);
    const headers = { 'content-type': 'application/xml' };
    const request = { method: 'POST', key: this.#key, query: { uploadId }, headers, body } as const;
    try {
      await this.#ask('to complete it', request);
    } catch (error) {
      // the answer to a first try may have been lost, behind which there is no upload any more
      const what = `${this.name}: expected to look whether it is there`;
      const there = await this.#bucket.head(what, this.#key).catch(() => null);
      if (there?.[MARK] !== this.#mark) throw error;
    }
  }

  async #keepOld(): Promise<string[]> {
    const kept = await keepLonger(this.#bucket, this.#key, this.#bytes);
    if (kept === null) return [];
    return [
      `${this.name} had ${counted(kept.bytes, 'byte')} and has ${number(this.#bytes)} now; the old one is s3://${this.#bucket.name}/${visible(kept.key)}`,
    ];
  }

  /** Nothing of it is left, and an old object stays. False where the store could not be told: it keeps the parts that it has. */
  async abort(): Promise<boolean> {
    this.#broken ??= ioError(`${this.name}: the upload was ended`);
    this.#endWaits();
    await Promise.all(this.#sending);
    try {
      const uploadId = await this.begun;
      const answer = await this.#bucket.ask({ method: 'DELETE', key: this.#key, query: { uploadId } });
      answer.resume();
      return answer.statusCode === 204 || answer.statusCode === 404;
    } catch {
      return false;
    }
  }

  async #begin(): Promise<string> {
    const { text } = await this.#ask('to begin to write it', {
      method: 'POST',
      key: this.#key,
      query: { uploads: '' },
      headers: { [MARK]: this.#mark },
    });
    const id = between(text, 'UploadId');
    if (!id || id.length > 2048)
      throw ioError(`${this.name}: expected the number of an upload, found none; is this a store of S3?`);
    return id;
  }

  #ask(what: string, request: Parameters<Bucket['text']>[1]) {
    return this.#bucket.text(`${this.name}: expected ${what}`, request);
  }

  #isOpen(): boolean {
    return this.#broken !== null || this.#sending.size < ON_THE_WAY;
  }

  #room(): Buffer {
    const size = sizeOfPart(this.#etags.length + 1, this.#bucket.wantsEqualParts);
    const free = this.#free.pop();
    return free?.length === size ? free : Buffer.allocUnsafeSlow(size);
  }

  #send(): void {
    const part = this.#part as Buffer;
    const body = part.subarray(0, this.#filled);
    this.#part = null;
    this.#filled = 0;
    const number = this.#etags.push('');
    if (number > MOST_PARTS)
      return this.#break(
        ioError(
          `${this.name}: expected at most ${counted(MOST_PARTS, 'part')}, found more; write several objects (--shard, {ordering})`,
        ),
      );
    const sent = this.#sendPart(number, body)
      .catch(error => this.#break(fatalOf(error)))
      .then(() => {
        this.#sending.delete(sent);
        this.#free.push(part);
        this.#wake();
      });
    this.#sending.add(sent);
  }

  async #sendPart(number: number, body: Buffer): Promise<void> {
    const query = { partNumber: String(number), uploadId: await this.begun };
    if (this.#broken !== null) return;
    const { answer } = await this.#ask(`to write part ${number}`, {
      method: 'PUT',
      key: this.#key,
      query,
      body,
    });
    const { etag } = answer.headers;
    if (etag === undefined) throw ioError(`${this.name}: expected the ETag of part ${number}, found none`);
    this.#etags[number - 1] = etag;
  }

  #break(error: Fatal): void {
    if (this.#broken !== null) return;
    this.#broken = error;
    this.onBroken(error);
    this.#wake();
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const act of waiting) this.ready(act);
  }
}
