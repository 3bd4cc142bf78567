/**
 * The keys of a server: DIR/keys.json, which has their SHA-256 and never a key. A key is 256 random bits, so a slow hash
 * would buy nothing (2^256 guesses are out of reach at any price of one). The file is read again when it has changed.
 */
import { hash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { readKept, replaceFile } from '../../engine/core/files/durable.ts';
import { dataError } from '../../engine/core/item/failure.ts';
import type { About, Say } from '../../engine/core/item/say.ts';
import type { KeyLimits } from './budgets.ts';
import { stateOfFile } from './small-files.ts';

/** batch: files and batches; chat: the gateway; admin: LoRA, all owners; metrics: /metrics; worker: workers of a queue */
export const SCOPES = ['batch', 'chat', 'admin', 'metrics', 'worker'] as const;
export type Scope = (typeof SCOPES)[number];

export interface KeyRecord extends KeyLimits {
  /** names the key where it is listed and revoked */
  id: string;
  /** the owner of what is made with it; an owner may have several keys */
  name: string;
  sha256: string;
  scopes: Scope[];
  /** Unix seconds */
  created: number;
  revoked?: number;
  expires?: number;
  /** what requests may name, an alias or a model; absent: all */
  models?: string[];
}

/** What a key may be limited to. */
export type KeyRules = KeyLimits & Pick<KeyRecord, 'expires' | 'models'>;

export const keysPath = (data: string): string => join(data, 'keys.json');

/** 43 characters of base64url are 256 bits. */
const PREFIX = 'fw_';

export const hashOf = (key: string): string => hash('sha256', key);

/** A new key, to be shown once, and what is kept of it. */
export function makeKey(
  name: string,
  scopes: readonly Scope[],
  limits: KeyRules,
  now: number,
): { key: string; record: KeyRecord } {
  const key = PREFIX + randomBytes(32).toString('base64url');
  const id = `key_${randomBytes(6).toString('hex')}`;
  const created = Math.floor(now / 1000);
  return {
    key,
    record: { id, name, sha256: hashOf(key), scopes: [...scopes], created, ...limits },
  };
}

/** Null where there is no key file. Exit 65 where it is none that fw wrote. */
export function readKeys(data: string): KeyRecord[] | null {
  const path = keysPath(data);
  let text: string;
  try {
    text = readKept(path).toString();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw dataError(`${path}: expected the keys of fw keys, found ${(error as NodeJS.ErrnoException).code}`);
  }
  const keys = keysIn(text);
  if (keys === null)
    throw dataError(`${path}: expected {"keys": […]} as fw keys writes it, found something else`);
  for (const one of keys) {
    const strange = Object.keys(one).find(field => !FIELDS.has(field));
    if (strange !== undefined && one.revoked === undefined)
      throw dataError(
        `${path}: expected what this version knows of keys, found ${JSON.stringify(strange.slice(0, 40))} at ${one.id} of ${one.name}, ` +
          'which a newer one may have written: serve this folder with that one, or revoke that key with it',
      );
  }
  return keys;
}

/** A limit that is not known would hold no more: a key that has one is not read as if it had none. */
const FIELDS: ReadonlySet<string> = new Set(
  Object.keys({
    ...{ id: 0, name: 0, sha256: 0, scopes: 0, created: 0, revoked: 0, expires: 0, models: 0 },
    ...{ parallel: 0, rpm: 0, tpm: 0, tokens_per_day: 0, storage: 0, batches: 0 },
  } satisfies Record<keyof KeyRecord, 0>),
);

/** Null where it is none that fw wrote. */
function keysIn(text: string): KeyRecord[] | null {
  try {
    const { keys } = JSON.parse(text) as { keys: KeyRecord[] };
    return Array.isArray(keys) && keys.every(isKey) ? keys : null;
  } catch {
    return null;
  }
}

function isKey(one: Partial<KeyRecord> | null): boolean {
  return (
    typeof one === 'object' &&
    one !== null &&
    [one.id, one.name, one.sha256].every(text => typeof text === 'string') &&
    /^[0-9a-f]{64}$/.test(one.sha256 as string) &&
    Array.isArray(one.scopes) &&
    one.scopes.every(scope => SCOPES.includes(scope))
  );
}

export function writeKeys(data: string, keys: readonly KeyRecord[]): void {
  replaceFile(keysPath(data), `${JSON.stringify({ keys }, null, 1)}\n`);
}

export interface KeyRing {
  /** whether there is a key file: without one everybody on this machine is let in */
  readonly isThere: boolean;
  /**
   * The key that was shown, if it is one of ours and not revoked. It is looked up by its hash, as each request has to be:
   * how long that takes tells of a hash alone, from which nobody finds a key.
   */
  find(key: string): KeyRecord | null;
  /** The key with this id, if it is not revoked: for who has shown it before. */
  withId(id: string): KeyRecord | null;
  /** The key with this id as it was last read, valid or not: what it was limited to holds while the file cannot be read. */
  lastKnown(id: string): KeyRecord | null;
  /**
   * Why nobody knows what the key with this id may do: the file was never read, or has no such key, or is not there. Null
   * where it is known.
   */
  unknown(id: string): string | null;
  /** Since when it is valid no more, in Unix seconds: revoked, or expired. Null where it is, and where nobody knows. */
  endOf(id: string): number | null;
}

/**
 * Follows the key file. Where it cannot be read any more, or is gone, `warn` is told and no key is valid: a server that
 * had keys never lets everybody in.
 */
export function openKeys(data: string, warn: Say): KeyRing {
  let seen = '';
  /** those that are not revoked, by hash and by id */
  let keys: Map<string, KeyRecord> | null = null;
  /** by id, as the file had them when it was last read; null before that */
  let known: Map<string, string> | null = null;
  const last = new Map<string, KeyRecord>();
  /** by id, of those whose end is known */
  let ends = new Map<string, number>();
  /** The file is looked at once in a turn of the loop: a look is 6 % of what a chat call costs, and 32 calls may share it. */
  let isLookedAt = false;

  function follow(): void {
    if (isLookedAt) return;
    isLookedAt = true;
    setImmediate(() => {
      isLookedAt = false;
    });
    const now = stateOfFile(keysPath(data));
    if (now === seen) return;
    seen = now;
    try {
      const read = readKeys(data);
      if (read === null && keys !== null)
        throw dataError(`${keysPath(data)}: expected the keys of fw keys, found no file`);
      if (known !== null) for (const [words, about] of changesOf(known, read ?? [])) warn(words, about);
      for (const one of read ?? []) last.set(one.id, one);
      // one that is in the file no more was taken out by hand
      const gone = read === null ? [] : [...last.keys()].filter(id => !read.some(one => one.id === id));
      known = new Map(read?.map(one => [one.id, JSON.stringify(one)]));
      const valid = read?.filter(({ revoked }) => revoked === undefined);
      keys = valid
        ? new Map(valid.flatMap(one => [[one.sha256, one] as const, [one.id, one] as const]))
        : null;
      ends = new Map([
        ...gone.map(id => [id, 0] as const),
        ...(read ?? []).flatMap(({ id, revoked = Infinity, expires = Infinity }) => {
          const end = Math.min(revoked, expires);
          return end === Infinity ? [] : [[id, end] as const];
        }),
      ]);
    } catch (error) {
      keys = new Map();
      const batches = known === null ? ', and batches that were made with keys wait,' : '';
      warn(`${(error as Error).message}; no key is valid${batches} until that is fixed`, {
        ...{ event: 'keys-unreadable', level: 'error' },
      });
    }
  }

  return {
    get isThere() {
      follow();
      return keys !== null;
    },
    find(key) {
      follow();
      return keys?.get(hashOf(key)) ?? null;
    },
    withId(id) {
      follow();
      return keys?.get(id) ?? null;
    },
    lastKnown(id) {
      follow();
      return last.get(id) ?? null;
    },
    unknown(id) {
      follow();
      if (known === null) return 'keys.json cannot be read';
      if (last.has(id)) return null;
      return keys === null ? 'keys.json is not there' : `${id} is not in keys.json`;
    },
    endOf(id) {
      follow();
      return ends.get(id) ?? null;
    },
  };
}

/** What is to be told of a key file that has changed: of each key, and never its hash. */
function* changesOf(
  before: ReadonlyMap<string, string>,
  keys: readonly KeyRecord[],
): Generator<[words: string, about: About]> {
  for (const one of keys) {
    const was = before.get(one.id);
    if (was === JSON.stringify(one)) continue;
    const what = one.revoked !== undefined ? 'revoked' : was === undefined ? 'added' : 'changed';
    yield [`key ${one.id} of ${one.name} is ${what}`, { event: `key-${what}`, key: one.id, owner: one.name }];
  }
  const left = new Set(keys.map(({ id }) => id));
  for (const id of before.keys())
    if (!left.has(id)) yield [`key ${id} is no longer in the file`, { event: 'key-removed', key: id }];
}
