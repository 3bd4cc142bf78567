/** Keys of a server, as admins change them while it runs: made, limited, revoked. Shared by the API and the page. */
import { Fatal } from '../../../engine/core/item/failure.ts';
import type { JsonObject } from '../../../engine/core/json/pointer.ts';
import { type KeyRecord, type KeyRules, makeKey, readKeys, SCOPES, type Scope } from '../api-keys.ts';
import { ApiError, invalid, notFound } from '../errors.ts';
import { bytesOf } from '../keep/keep-settings.ts';
import { changeKeys, expiryOf, LAST_EXPIRY, OWNER } from '../key-changes.ts';
import type { Parts } from '../server-context.ts';
import type { Actor } from './acts.ts';

/** Whole numbers, and what each limits. */
export const COUNTS = ['rpm', 'tpm', 'tokens_per_day', 'parallel', 'batches'] as const;
const FIELDS: readonly string[] = [...COUNTS, 'storage', 'models', 'expires'];
const MOST_KEYS = 10_000;
const MOST_MODELS = 1_000;

export type KeyChanges = { [Name in keyof KeyRules]?: KeyRules[Name] | null };

/** As it is shown: without its hash. */
export type KeyShown = Omit<KeyRecord, 'sha256'>;
export const keyShown = ({ sha256: _hash, ...shown }: KeyRecord): KeyShown => shown;

type KeyParts = Pick<Parts, 'data' | 'acts' | 'now'>;

export const keysOf = ({ data }: Pick<Parts, 'data'>): KeyRecord[] => readKeys(data) ?? [];

/** `said`: name, scopes and limits. Throws 400 where they do not fit. */
export async function addKey(parts: KeyParts, actor: Actor, said: JsonObject) {
  const { name, scopes: some = ['batch', 'chat'], ...more } = said;
  if (typeof name !== 'string' || !OWNER.test(name))
    throw invalid('name', 'expected letters, digits and . _ @ -, at most 64');
  const scopes = scopesIn(some);
  const changes = changesIn(more, parts.now());
  const limits = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== null));
  const { key, record } = makeKey(name, scopes, limits, parts.now());
  await changed(parts, keys => {
    if (keys.length >= MOST_KEYS)
      throw invalid('name', `this server has ${keys.length} keys, and takes no more`);
    if (keys.length === 0 && !scopes.includes('admin'))
      throw invalid(
        'scopes',
        'the first key needs the scope admin: with it, nobody gets in here without one',
      );
    return [...keys, record];
  });
  const detail = { target: record.id, owner: name, scopes, limits: JSON.stringify(limits) };
  parts.acts.note(actor, 'key.made', `made ${record.id} of ${name}, for ${scopes.join(', ')}`, detail);
  return { key, record };
}

/** Null takes a limit away. Throws 404 where there is no such key, or it was revoked. */
export async function limitKey(
  parts: KeyParts,
  actor: Actor,
  id: string,
  said: JsonObject,
): Promise<KeyRecord> {
  const changes = changesIn(said, parts.now());
  if (Object.keys(changes).length === 0) throw invalid('body', `expected some of ${FIELDS.join(', ')}`);
  let limited: KeyRecord | undefined;
  await changed(parts, keys =>
    keys.map(one => {
      if (one.id !== id || one.revoked !== undefined) return one;
      const all = Object.entries({ ...one, ...changes }).filter(([, value]) => value !== null);
      limited = Object.fromEntries(all) as unknown as KeyRecord;
      return limited;
    }),
  );
  if (limited === undefined) throw noKey(id);
  const words = JSON.stringify(changes);
  const detail = { target: id, owner: limited.name, limits: words };
  parts.acts.note(actor, 'key.limited', `changed ${id} of ${limited.name}: ${words}`, detail);
  return limited;
}

/** Throws 404 where there is no such key, or it was revoked. */
export async function revokeKey(parts: KeyParts, actor: Actor, id: string): Promise<KeyRecord> {
  const revoked = Math.floor(parts.now() / 1000);
  let out: KeyRecord | undefined;
  const revoking = (keys: KeyRecord[]): KeyRecord[] =>
    keys.map(one => {
      if (one.id !== id || one.revoked !== undefined) return one;
      out = { ...one, revoked };
      return out;
    });
  await changed(parts, revoking, { isUrgent: true });
  if (out === undefined) throw noKey(id);
  const detail = { target: id, owner: out.name };
  parts.acts.note(actor, 'key.revoked', `revoked ${id} of ${out.name}`, detail);
  return out;
}

const noKey = (id: string): ApiError => notFound(`No key in use has the id '${id.slice(0, 100)}'.`);

/** A key file that is none, or that cannot be written, is the operator's, and is told in full. */
async function changed(
  { data }: KeyParts,
  act: (keys: KeyRecord[]) => KeyRecord[],
  how: Parameters<typeof changeKeys>[2] = {},
): Promise<void> {
  try {
    await changeKeys(data, act, how);
  } catch (error) {
    if (error instanceof ApiError) throw error;
    if (!(error instanceof Fatal)) throw error;
    const [why = ''] = error.message.split('\n', 1);
    throw new ApiError(503, `The keys could not be changed: ${why}.`, { code: 'keys_not_changed' });
  }
}

function scopesIn(value: unknown): Scope[] {
  const all = Array.isArray(value) ? [...new Set(value)] : [];
  if (all.length > 0 && all.every(one => SCOPES.includes(one))) return all as Scope[];
  throw invalid('scopes', `expected some of ${SCOPES.join(', ')}`);
}

function changesIn(said: JsonObject, now: number): KeyChanges {
  const changes: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(said)) {
    if (!FIELDS.includes(field)) throw invalid(field.slice(0, 60), `expected some of ${FIELDS.join(', ')}`);
    changes[field] = value === null ? null : limitIn(field, value, now);
  }
  return changes as KeyChanges;
}

function limitIn(field: string, value: unknown, now: number): unknown {
  if (field === 'models') return modelsIn(value);
  if (field === 'storage' && typeof value === 'string') return told(field, () => bytesOf(value, 'storage'));
  if (field === 'expires') {
    if (typeof value === 'string') return told(field, () => expiryOf(value, now, 'expires'));
    if (Number.isSafeInteger(value) && (value as number) * 1000 > now && (value as number) <= LAST_EXPIRY)
      return value;
    throw invalid(
      field,
      'expected a time to come, until the year 9999: Unix seconds, or such as 30d or 2027-01-31',
    );
  }
  if (Number.isSafeInteger(value) && (value as number) >= 1) return value;
  throw invalid(field, 'expected a whole number from 1, or null for none');
}

function modelsIn(value: unknown): string[] {
  const isName = (one: unknown): boolean =>
    typeof one === 'string' && one.length >= 1 && one.length <= 300 && !/\p{Cc}/u.test(one);
  if (Array.isArray(value) && value.length >= 1 && value.length <= MOST_MODELS && value.every(isName))
    return [...new Set(value as string[])];
  throw invalid('models', `expected 1 to ${MOST_MODELS} names of models`);
}

/** What a flag is told is told here of a field. */
function told<T>(field: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw invalid(field, (error as Error).message.replace(/^[a-z]{1,20}: /, ''));
  }
}
