/** What an upload finds in the bucket beside itself: an old object that it is to take the place of, and what killed runs have left. */
import { dataError, Fatal, ioError } from '../item/failure.ts';
import { counted } from '../item/wording.ts';
import { visible } from '../json/visible.ts';
import { inUrl } from './address.ts';
import { type Bucket, between, blocks, escaped } from './s3.ts';

/** A copy in one request has no more bytes. */
const MOST_COPIED = 5 * 2 ** 30;
/** A part of a copy may have 5 GiB; smaller ones are done sooner, and again sooner. */
const COPIED_PART = 2 ** 30;

/** The list by which the parts of an upload become an object. */
export const partsXml = (etags: readonly string[]): Buffer => {
  const parts = etags.map(
    (etag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${escaped(etag)}</ETag></Part>`,
  );
  return Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
};

/**
 * Keeps the object `key` as `KEY.before` if it has more than `bytes`, by a copy within the store, as of files on disk: a pilot of
 * three rows must not cost anybody the whole. Resolves to its size and the key that it has then; null where there was none to
 * keep. Rejects with 65 and 74: nothing may take its place then.
 */
export async function keepLonger(
  bucket: Bucket,
  key: string,
  bytes: number,
): Promise<{ bytes: number; key: string } | null> {
  const what = `s3://${bucket.name}/${visible(key)}: expected to look for an old object`;
  const old = await bucket.head(what, key);
  const size = Number(old?.['content-length'] ?? 0);
  if (size <= bytes) return null;
  const to = await placeFor(bucket, key, { size, what });
  const copy = async (condition: Record<string, string>): Promise<void> => {
    const from = { 'x-amz-copy-source': `/${bucket.name}/${inUrl(key)}`, ...condition };
    if (size > MOST_COPIED) await copyInParts(bucket, { key, to, size, from });
    else await bucket.text(copying(bucket, key), { method: 'PUT', key: to, headers: from, copied: size });
  };
  try {
    await copy(ifStill(old?.etag));
  } catch (error) {
    // Swift compares with an ETag that it shows to nobody, where the object was written in parts
    const isRefused = error instanceof Fatal && error.message.includes('status 412');
    if (!isRefused || (await bucket.head(what, key))?.etag !== old?.etag) throw error;
    await copy({});
  }
  return { bytes: size, key: to };
}

const ifStill = (etag: string | undefined): Record<string, string> =>
  etag === undefined ? {} : { 'x-amz-copy-source-if-match': etag };

const copying = (bucket: Bucket, key: string): string =>
  `s3://${bucket.name}/${visible(key)}: expected to keep the old object, which is longer, as NAME.before`;

/** The first of KEY.before, KEY.before.2 … that has nothing longer in it. */
async function placeFor(
  bucket: Bucket,
  key: string,
  { size, what }: { size: number; what: string },
): Promise<string> {
  for (let count = 1; count <= 1000; count++) {
    const place = `${key}.before${count === 1 ? '' : `.${count}`}`;
    const there = await bucket.head(what, place);
    if (there === null || Number(there['content-length']) <= size) return place;
  }
  throw dataError(`${what}, found a thousand of them that are longer; name another output`);
}

async function copyInParts(
  bucket: Bucket,
  { key, to, size, from }: { key: string; to: string; size: number; from: Record<string, string> },
): Promise<void> {
  const what = copying(bucket, key);
  const { text } = await bucket.text(what, { method: 'POST', key: to, query: { uploads: '' } });
  const uploadId = between(text, 'UploadId');
  if (!uploadId) throw ioError(`${what}, found no number of an upload`);
  try {
    const etags: string[] = [];
    const part = Math.max(COPIED_PART, Math.ceil(size / 10_000));
    for (let at = 0; at < size; at += part) {
      const end = Math.min(size, at + part);
      const range = { 'x-amz-copy-source-range': `bytes=${at}-${end - 1}` };
      const query = { partNumber: String(etags.length + 1), uploadId };
      const copied = await bucket.text(what, {
        method: 'PUT',
        key: to,
        query,
        headers: { ...from, ...range },
        copied: end - at,
      });
      etags.push(between(copied.text, 'ETag') ?? '');
    }
    const headers = { 'content-type': 'application/xml' };
    await bucket.text(what, {
      ...{ method: 'POST', key: to, query: { uploadId }, headers, body: partsXml(etags) },
    });
  } catch (error) {
    // the answer to a first try may have been lost, behind which there is no upload any more
    const isGone = error instanceof Fatal && error.message.includes('status 404');
    const there = isGone ? await bucket.head(what, to).catch(() => null) : null;
    if (Number(there?.['content-length']) === size) return;
    const ended = await bucket.ask({ method: 'DELETE', key: to, query: { uploadId } }).catch(() => null);
    ended?.resume();
    throw error;
  }
}

/**
 * Unfinished uploads of the same key, other than `own`: of runs that were killed, or that are on their way elsewhere, which is why
 * nobody but a person may remove them. Null where there are none, or nobody may look: it is not what the run was for.
 */
export async function leftovers(bucket: Bucket, key: string, own: string): Promise<string | null> {
  const what = `s3://${bucket.name}/${visible(key)}: expected a list of uploads`;
  const list = { method: 'GET', query: { uploads: '', prefix: key } } as const;
  const answer = await bucket.text(what, list, 4 * 1024 * 1024).catch(() => null);
  if (answer === null) return null;
  const begun: string[] = [];
  for (const block of blocks(answer.text, 'Upload')) {
    if (between(block, 'Key') !== key || between(block, 'UploadId') === own) continue;
    begun.push(visible((between(block, 'Initiated') ?? '').slice(0, 30)));
  }
  if (begun.length === 0) return null;
  const since = begun.filter(Boolean).sort()[0];
  return `the store has ${counted(begun.length, 'unfinished upload')} of s3://${bucket.name}/${visible(key)}${since ? `, the first begun ${since}` : ''}, of runs that were killed or are not over; "Outputs in S3" in docs/stores.md has the command that removes them`;
}
