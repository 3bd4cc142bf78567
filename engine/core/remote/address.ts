/**
 * Addresses of files that are on no disk of this machine: objects of S3, files of data sets on the Hugging Face hub, and what the
 * web gives. What an address says is taken as it is: a key has no escapes.
 */
import { usageError } from '../item/failure.ts';
import { cut } from '../item/wording.ts';
import { visible } from '../json/visible.ts';

export interface S3Address {
  kind: 's3';
  bucket: string;
  key: string;
}

export interface HubAddress {
  kind: 'hub';
  /** OWNER/NAME */
  dataset: string;
  revision: string;
  path: string;
}

export interface WebAddress {
  kind: 'web';
  url: URL;
}

export type Address = S3Address | HubAddress | WebAddress;

/** Bytes of a key or a path; S3 allows no more. */
const MOST_BYTES = 1024;

/** Exit 64 where it is none, or names a folder. */
export function addressOf(text: string): Address {
  const scheme = text.slice(0, text.indexOf(':')).toLowerCase();
  if (scheme === 's3') return s3Address(text);
  return scheme === 'hf' ? hubAddress(text) : webAddress(text);
}

/** `s3://BUCKET/KEY`. Exit 64 where it is none. */
export function s3Address(text: string): S3Address {
  const [, bucket, key] = /^s3:\/\/([a-z0-9][a-z0-9._-]{1,254})\/(.*)$/is.exec(text) ?? [];
  if (bucket === undefined || key === undefined) throw noAddress(text, 's3://BUCKET/KEY');
  expectFile(text, key);
  return { kind: 's3', bucket, key };
}

/**
 * `@REVISION` behind the name is a branch, a tag or a commit; a slash in it is %2F. The two kinds of names that the hub itself
 * gives have theirs as they are, as in its own client; `~parquet` is DuckDB's word for one of them.
 */
function hubAddress(text: string): HubAddress {
  const [, dataset, revision = 'main', path] =
    /^hf:\/\/datasets\/([\w.-]{1,96}\/[\w.-]{1,96})(?:@(refs\/(?:convert\/[\w.-]{1,100}|pr\/\d{1,9})|~parquet|[\w.%-]{1,200}))?\/(.*)$/is.exec(
      text,
    ) ?? [];
  if (dataset === undefined || path === undefined) throw noAddress(text, 'hf://datasets/OWNER/NAME/PATH');
  expectFile(text, path);
  return { kind: 'hub', dataset, revision: revisionOf(revision), path };
}

const revisionOf = (text: string): string =>
  text === '~parquet' ? 'refs/convert/parquet' : text.replaceAll(/%2f/gi, '/');

function webAddress(text: string): WebAddress {
  if (!URL.canParse(text)) throw noAddress(text, 'https://HOST/PATH');
  return { kind: 'web', url: new URL(text) };
}

function noAddress(text: string, form: string): Error {
  return usageError(`expected ${form}, found ${visible(cut(text, 200))}`);
}

/** A path with `.` or `..` would be another one to every server on the way. */
function expectFile(text: string, path: string): void {
  const shown = visible(cut(text, 200));
  if (path === '' || path.endsWith('/'))
    throw usageError(`expected a file, found a folder: ${shown}; name its files: '${shown}*.parquet'`);
  if (Buffer.byteLength(path) > MOST_BYTES)
    throw usageError(`expected a name of at most ${MOST_BYTES} bytes, found more: ${shown}`);
  if (path.split('/').some(part => part === '.' || part === '..'))
    throw usageError(`expected a name without . and .. in it, found ${shown}`);
}

/** A path as a part of a URL. `encodeURIComponent` leaves five characters that signatures do not. */
export const inUrl = (path: string): string => path.split('/').map(inQuery).join('/');

export const inQuery = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, one => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
