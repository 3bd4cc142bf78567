/** One bucket of S3, or of what speaks like it: signed requests, and what its errors mean in words. */
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { AwsV4Signer } from 'aws4fetch';
import { dataError, type Fatal } from '../item/failure.ts';
import { visible } from '../json/visible.ts';
import { inQuery, inUrl } from './address.ts';
import { type AwsSettings, awsSettings } from './aws-settings.ts';
import { type Asking, exchange, expectPassed, Passing, patiently, type Request, textOf } from './exchange.ts';

export interface S3Request {
  method: Request['method'];
  /** none: of the bucket */
  key?: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: Buffer;
  /** bytes that the store copies before it answers */
  copied?: number;
}

/**
 * Bytes a second that a store copies at least. Amazon sends spaces while it copies; others are silent to the end, and one that
 * writes the copy to a busy disk, or fetches it from another host, has no more than a part of the 50 to 100 MB/s of a disk: 2 GB
 * on Alibaba's took longer than a minute (milvus-io/milvus#53786). Whoever gives up sooner asks for the whole copy again.
 */
const COPIED_A_SECOND = 10e6;

/** Bytes of a list of a thousand keys, and more. */
const MOST_LIST = 16 * 1024 * 1024;
const MOST_KEYS = 100_000;

export class Bucket {
  readonly name: string;
  readonly asking: Asking;
  #settings: AwsSettings;
  /** the region that the bucket said it is in, where that is not the one of the settings */
  #region: string | null = null;

  /** Exit 64 where the settings cannot be used. */
  constructor(name: string, asking: Asking) {
    this.name = name;
    this.asking = asking;
    this.#settings = awsSettings(asking.env);
  }

  /** One try; resolves whatever the status. Rejects with Passing. */
  async ask(request: S3Request): Promise<IncomingMessage> {
    const { method, key, query = {}, headers = {}, body } = request;
    const patience = this.#patienceFor(request);
    const url = this.#urlOf(key, query);
    const { keys } = this.#settings;
    const region = this.#region ?? this.#settings.region;
    if (keys === null) return exchange({ method, url, headers, ...(body && { body }) }, patience);
    const hash = createHash('sha256')
      .update(body ?? '')
      .digest('hex');
    const signer = new AwsV4Signer({
      ...{ method, url: url.href, region, service: 's3', ...keys },
      headers: { ...headers, 'x-amz-content-sha256': hash },
    });
    const signed = await signer.sign();
    const all = Object.fromEntries(signed.headers as Iterable<[string, string]>);
    return exchange({ method, url: signed.url, headers: all, ...(body && { body }) }, patience);
  }

  #patienceFor({ copied = 0 }: S3Request): Pick<Asking, 'stall'> {
    return { stall: this.asking.stall + Math.ceil((copied / COPIED_A_SECOND) * 1000) };
  }

  /**
   * The headers of an object; null where there is none, or nobody may look. Tried again while that may help; rejects with 65 where
   * the answer says neither, since an object may be there, and with 74.
   */
  async head(what: string, key: string): Promise<IncomingHttpHeaders | null> {
    return patiently(what, this.asking, async () => {
      const answer = await this.ask({ method: 'HEAD', key });
      answer.resume();
      if (answer.statusCode === 200) return answer.headers;
      if (this.movesTo(answer)) throw new Passing('another region');
      expectPassed(answer);
      const { statusCode = 0 } = answer;
      if ([401, 403, 404, 405, 501].includes(statusCode)) return null;
      // an answer to HEAD has no code; 400 is also what a session gets that has ended
      if (statusCode === 400 && this.#hasNewKeys()) throw new Passing('status 400');
      throw this.meaning(answer, what, { code: '', region: null });
    });
  }

  /** The text of an answer with status 200; tried again while that may help. Rejects with 65 where it is refused, and 74. */
  async text(
    what: string,
    request: S3Request,
    most?: number,
  ): Promise<{ text: string; answer: IncomingMessage }> {
    return patiently(what, this.asking, async () => {
      const answer = await this.ask(request);
      if ((answer.statusCode ?? 0) >= 300) return this.refuse(answer, what);
      const text = await textOf(answer, this.#patienceFor(request), most);
      // a long request may begin to be answered before it has failed
      const code = between(text, 'Error') && between(text, 'Code');
      if (code) throw new Passing(`status 200 with the error ${visible(code.slice(0, 60))}`);
      return { text, answer };
    });
  }

  /** Throws what an answer means that is none of what was asked for: Passing, or 65. `what` was expected. */
  async refuse(answer: IncomingMessage, what: string): Promise<never> {
    const text = await textOf(answer, this.asking).catch(() => '');
    const code = visible((between(text, 'Code') ?? '').slice(0, 60));
    if (this.movesTo(answer, between(text, 'Region'))) throw new Passing(`another region (${code})`);
    expectPassed(answer, code);
    if (code === 'ExpiredToken' && this.#hasNewKeys()) throw new Passing(code);
    if (code === 'RequestTimeout' || code === 'SlowDown') throw new Passing(code);
    throw this.meaning(answer, what, { code, region: between(text, 'Region') });
  }

  meaning(
    answer: IncomingMessage,
    what: string,
    { code, region }: { code: string; region: string | null },
  ): Fatal {
    const { statusCode = 0, headers } = answer;
    const { from, keys } = this.#settings;
    const other = headers['x-amz-bucket-region'] ?? region;
    const found = `${what}, found status ${statusCode}${code && ` (${code})`}`;
    if (other && (statusCode === 301 || statusCode === 400))
      return dataError(
        `${found}: the bucket is in another region; set AWS_REGION=${visible(String(other).slice(0, 40))}`,
      );
    const why =
      MEANINGS[code] ?? (statusCode === 404 ? 'nothing is there; look at the bucket and the key' : undefined);
    if (why !== undefined) return dataError(`${found}: ${why.replace('FROM', from)}`);
    if (statusCode !== 403 && statusCode !== 401) return dataError(found);
    if (keys === null)
      return dataError(
        `${found}: no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile of ~/.aws/credentials`,
      );
    return dataError(
      `${found}: the credentials of ${from} may not do it; S3 says this too of what is not there, to those who may not list the bucket`,
    );
  }

  /**
   * Whether the answer says in which region the bucket is; the next request goes there. Buckets of two regions in one run have
   * no setting that fits both. Believed once: a store that says one thing and then another would be followed for ever.
   */
  movesTo({ statusCode = 0, headers }: IncomingMessage, named: string | null = null): boolean {
    const region = headers['x-amz-bucket-region'] ?? named;
    if (![301, 307, 400, 403].includes(statusCode) || this.#region !== null) return false;
    if (typeof region !== 'string' || !/^[a-z0-9-]{1,40}$/.test(region)) return false;
    if (region === this.#settings.region) return false;
    this.#region = region;
    return true;
  }

  /** A session that has ended may have been renewed in the files meanwhile. */
  #hasNewKeys(): boolean {
    const before = this.#settings.keys?.sessionToken;
    this.#settings = awsSettings(this.asking.env);
    return this.#settings.keys?.sessionToken !== before;
  }

  /** The keys that begin with `prefix`, in order. Exit 65 where they may not be listed. */
  async keys(prefix: string): Promise<string[]> {
    const keys: string[] = [];
    const what = `s3://${this.name}/${visible(prefix)}*: expected a list of keys`;
    const query: Record<string, string> = { 'list-type': '2', 'encoding-type': 'url', prefix };
    for (let pages = 0; ; pages++) {
      const { text } = await this.text(what, { method: 'GET', query }, MOST_LIST);
      const isEncoded = between(text, 'EncodingType') === 'url';
      for (const block of blocks(text, 'Contents')) {
        const key = between(block, 'Key');
        if (key !== null) keys.push(isEncoded ? keyIn(key) : key);
      }
      const next = between(text, 'IsTruncated') === 'true' ? between(text, 'NextContinuationToken') : null;
      if (next === null) break;
      if (keys.length > MOST_KEYS || pages > MOST_KEYS / 100)
        throw dataError(`${what}, found more than ${MOST_KEYS}; name a longer beginning before the *`);
      query['continuation-token'] = next;
    }
    return keys.sort();
  }

  get wantsEqualParts(): boolean {
    return /\.r2\.cloudflarestorage\.com$/i.test(this.#settings.endpoint?.hostname ?? '');
  }

  /** Amazon has a host for each bucket; others have all below one. */
  #urlOf(key: string | undefined, query: Record<string, string>): URL {
    const { endpoint } = this.#settings;
    const region = this.#region ?? this.#settings.region;
    const hasHost = endpoint === null && !this.name.includes('.');
    const host =
      endpoint?.href.replace(/\/+$/, '') ??
      `https://${hasHost ? `${this.name}.` : ''}s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;
    const url = new URL(`${host}${hasHost ? '' : `/${this.name}`}/${inUrl(key ?? '')}`);
    url.search = Object.entries(query)
      .map(([name, value]) => `${inQuery(name)}=${inQuery(value)}`)
      .join('&');
    return url;
  }
}

/** As lists give it with encoding-type=url. */
function keyIn(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return text; // of a store that does not encode it
  }
}

/** What the codes of S3 mean to who runs fw. */
const MEANINGS: Readonly<Record<string, string>> = {
  InvalidAccessKeyId: 'nobody there knows the key of FROM; look at it and at AWS_ENDPOINT_URL',
  SignatureDoesNotMatch: 'the secret key of FROM is not the one that belongs to its key; set it again',
  ExpiredToken: 'the session of FROM has ended; fetch new credentials, and run the same command again',
  InvalidToken: 'the session token of FROM is not known there; fetch new credentials',
  RequestTimeTooSkewed: 'the clock of this machine differs from that of the store; set it',
  NoSuchBucket: 'there is no such bucket; look at its name and at AWS_ENDPOINT_URL',
  NoSuchKey: 'there is no such object; look at the key',
  NoSuchUpload:
    'the store has ended the unfinished upload (a rule of the bucket?); run the same command again: the answers are in the ledger',
  InvalidObjectState: 'the object is in an archive; restore it first',
  EntityTooLarge: 'the object is larger than the store takes',
};

/** The text of the first element with that name. */
export function between(xml: string, name: string): string | null {
  const at = xml.indexOf(`<${name}>`);
  const from = at + name.length + 2;
  const to = at < 0 ? -1 : xml.indexOf(`</${name}>`, from);
  return to < 0 ? null : unescaped(xml.slice(from, to));
}

export function* blocks(xml: string, name: string): Generator<string> {
  for (let at = xml.indexOf(`<${name}>`); at >= 0; at = xml.indexOf(`<${name}>`, at)) {
    const to = xml.indexOf(`</${name}>`, at);
    if (to < 0) return;
    yield xml.slice(at, to);
    at = to;
  }
}

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

const unescaped = (text: string): string =>
  text.replace(/&(lt|gt|amp|quot|apos|#\d{1,7}|#x[\da-f]{1,6});/gi, (entity, name: string) =>
    name.startsWith('#')
      ? String.fromCodePoint(Math.min(0x10ffff, Number(name.slice(1).replace(/^x/i, '0x'))))
      : (ENTITIES[name] ?? entity),
  );

export const escaped = (text: string): string => text.replace(/[<>&"']/g, one => `&#${one.charCodeAt(0)};`);
