/**
 * fw keys: who may ask a server. A key is shown once; DIR/keys.json has its SHA-256. A running server reads the file again.
 *
 *   fw keys add alice --data serve
 */
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { didYouMean } from '../../engine/core/item/wording.ts';
import { command } from '../../engine/flow/command.ts';
import { namesIn } from '../../engine/flow/options.ts';
import { type KeyRecord, makeKey, readKeys, SCOPES, type Scope } from './api-keys.ts';
import { bytesOf } from './keep/keep-settings.ts';
import { changeKeys, expiryOf, OWNER } from './key-changes.ts';

const NAME = 'keys';
const DATA = {
  type: 'string',
  file: 'write-folder',
  description: 'Data folder of the server (its --data).',
} as const;
/** Scopes of those who send batches and ask models. */
const USUAL: readonly Scope[] = ['batch', 'chat'];

const add = command({
  name: `${NAME} add`,
  summary: 'Create a key and show it, only this once. Keys with the same NAME share files and batches.',
  positional: 'NAME',
  examples: ['fw keys add alice --data serve', 'fw keys add grafana --data serve --scope metrics'],
  options: {
    data: DATA,
    scope: {
      type: 'array',
      items: { type: 'string' },
      description: `What the key may do, comma-separated: ${SCOPES.join(', ')}. Default: ${USUAL.join(',')}.`,
    },
    rpm: { type: 'integer', minimum: 1, description: 'Maximum requests per minute. Default: no limit.' },
    tpm: { type: 'integer', minimum: 1, description: 'Maximum tokens per minute. Default: no limit.' },
    'tokens-per-day': {
      type: 'integer',
      minimum: 1,
      description: 'Maximum tokens per day (UTC). Default: no limit.',
    },
    parallel: {
      type: 'integer',
      minimum: 1,
      description: 'Maximum interactive requests at a time. Default: no limit.',
    },
    storage: {
      type: 'string',
      description: 'Maximum bytes of files and batches of NAME, e.g. 10GB. Default: no limit.',
    },
    batches: {
      type: 'integer',
      minimum: 1,
      description: 'Maximum batches of NAME that have not ended. Default: no limit.',
    },
    models: {
      type: 'array',
      items: { type: 'string' },
      description: 'Models or aliases that requests may name, comma-separated. Default: all.',
    },
    expires: {
      type: 'string',
      description:
        'When the key stops being valid: a time from now, e.g. 30d, or a day (UTC), e.g. 2027-01-31.',
    },
  },
  async run(flags, [name, ...more]) {
    const { data, scope = [...USUAL], rpm, tpm, parallel, storage, batches, models, expires } = flags;
    const perDay = flags['tokens-per-day'];
    if (name === undefined || more.length > 0)
      throw usageError('expected one NAME: fw keys add NAME --data DIR');
    if (!OWNER.test(name))
      throw usageError(
        `expected a name of letters, digits and . _ @ -, at most 64, found ${JSON.stringify(name.slice(0, 100))}`,
      );
    const scopes = namesIn(scope);
    const unknown = scopes.find(one => !SCOPES.includes(one as Scope));
    if (unknown !== undefined)
      throw usageError(`--scope: expected some of ${SCOPES.join(', ')}, found '${unknown}'`);
    const limits = {
      ...(rpm !== undefined && { rpm }),
      ...(tpm !== undefined && { tpm }),
      ...(perDay !== undefined && { tokens_per_day: perDay }),
      ...(parallel !== undefined && { parallel }),
      ...(storage !== undefined && { storage: bytesOf(storage, '--storage') }),
      ...(batches !== undefined && { batches }),
      ...(models !== undefined && { models: namesIn(models) }),
      ...(expires !== undefined && { expires: expiryOf(expires, Date.now(), '--expires') }),
    };
    const { key, record } = makeKey(name, scopes as Scope[], limits, Date.now());
    await changeKeys(folderOf(data), keys => [...keys, record]);
    process.stdout.write(`${key}\n`);
    process.stderr.write(
      `fw keys: ${record.id} of ${name}, for ${scopes.join(', ')}. It is shown this once: only its hash is kept.\n`,
    );
    return EXIT.ok;
  },
});

const ls = command({
  name: `${NAME} ls`,
  summary: 'List the keys, one line of JSON each, without the secrets.',
  examples: ['fw keys ls --data serve'],
  options: { data: DATA },
  async run({ data }, positionals) {
    if (positionals.length > 0) throw usageError(`expected options only, found "${positionals[0]}"`);
    const lines = (readKeys(folderOf(data)) ?? []).map(
      ({ sha256: _hash, ...shown }) => `${JSON.stringify(shown)}\n`,
    );
    process.stdout.write(lines.join(''));
    return EXIT.ok;
  },
});

const revoke = command({
  name: `${NAME} revoke`,
  summary: 'Revoke a key by its id, or all keys of a NAME. A running server refuses them from then on.',
  positional: 'ID|NAME',
  examples: ['fw keys revoke key_5f1d2c3b4a59 --data serve'],
  options: { data: DATA },
  async run({ data }, [which, ...more]) {
    if (which === undefined || more.length > 0)
      throw usageError('expected one key id or NAME: fw keys revoke ID --data DIR');
    const isMeant = ({ id, name, revoked }: KeyRecord): boolean =>
      (id === which || name === which) && revoked === undefined;
    const revoked = Math.floor(Date.now() / 1000);
    let ids: string[] = [];
    const revoking = (keys: KeyRecord[]): KeyRecord[] => {
      ids = keys.filter(isMeant).map(({ id }) => id);
      if (ids.length === 0)
        throw usageError(
          `expected a key or a name that is in use, found ${JSON.stringify(which.slice(0, 100))}`,
        );
      return keys.map(one => (isMeant(one) ? { ...one, revoked } : one));
    };
    await changeKeys(folderOf(data), revoking, { isUrgent: true });
    process.stderr.write(`fw keys: revoked ${ids.join(', ')}\n`);
    return EXIT.ok;
  },
});

const verbs = { add, ls, revoke };

export default command({
  name: NAME,
  summary: 'Create, list and revoke API keys for fw serve.',
  positional: 'add|ls|revoke',
  examples: [
    'fw keys add alice --data serve',
    'fw keys ls --data serve',
    'fw keys revoke alice --data serve',
  ],
  options: {},
  verbs,
  async run(_options, [verb]) {
    const names = Object.keys(verbs);
    const found = verb === undefined ? 'none' : `'${verb.slice(0, 60)}'${didYouMean(verb, names)}`;
    throw usageError(
      `expected one of ${names.join(', ')}, found ${found}; fw keys VERB --help shows its options`,
    );
  },
});

function folderOf(data: string | undefined): string {
  if (data === undefined) throw usageError('expected the folder of the server, found none: --data DIR');
  return data;
}
