/** Files of a store, read: what is cut is taken up where it stopped, what has changed is noticed, what is refused is said. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { awsSettings } from '../../engine/core/remote/aws-settings.ts';
import { newAsking } from '../../engine/core/remote/exchange.ts';
import { expandRemote, fits } from '../../engine/core/remote/listing.ts';
import { openRemote } from '../../engine/core/remote/reading.ts';
import { sizeOfPart } from '../../engine/core/remote/upload.ts';
import { folder } from '../fw.ts';
import { KEYS, REGION, type Stub, signatureOf, stubS3 } from './stub-s3.ts';

let stub: Stub;
beforeAll(async () => {
  stub = await stubS3();
});
afterAll(() => stub.close());
beforeEach(() => {
  stub.objects.clear();
  stub.asked.length = 0;
  stub.fault = () => null;
  stub.onDone = () => {};
});

const waits: number[] = [];
beforeEach(() => void waits.splice(0));

/** Waits are counted and not waited for. */
function asking(env: Record<string, string | undefined> = {}) {
  const wait = async (ms: number): Promise<void> => void waits.push(ms);
  return { ...newAsking({ HOME: '/nowhere', ...stub.env, ...env } as NodeJS.ProcessEnv), wait };
}

async function whole(
  path: string,
  env?: Record<string, string | undefined>,
  more: { stall?: number } = {},
): Promise<Buffer> {
  const flow = openRemote(path, { ...asking(env), ...more }).flow();
  const pieces: Buffer[] = [];
  for (let block = await flow.block(null); block !== null; block = await flow.block(null)) pieces.push(block);
  return Buffer.concat(pieces);
}

/** The first example of the page "Signature Calculations for the Authorization Header" of Amazon's manual. */
test('signatures are worked out here as in the manual', () => {
  const headers = {
    host: 'examplebucket.s3.amazonaws.com',
    range: 'bytes=0-9',
    'x-amz-content-sha256': 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    'x-amz-date': '20130524T000000Z',
  };
  const how = { day: '20130524', region: 'us-east-1', signed: Object.keys(headers) };
  const secret = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
  expect(signatureOf({ method: 'GET', url: '/test.txt', headers }, { ...how, secret })).toBe(
    'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  );
});

test('an object comes as it is, whatever is in its key', async () => {
  const keys = ['plain', "a b/c+d%2F(e)!*'~.ndjson", 'ümlaut/日本/?x=1&y#z', 'double//slash'];
  for (const key of keys) {
    stub.objects.set(key, Buffer.from(`content of ${key}`));
    expect((await whole(`s3://bucket/${key}`)).toString()).toBe(`content of ${key}`);
  }
});

test('a connection that is cut is taken up where it stopped, under the condition that it is the same object', async () => {
  const bytes = randomBytes(300_000);
  stub.objects.set('k', bytes);
  let cuts = 0;
  stub.fault = () => (cuts++ < 12 ? { cutAfter: 20_000 } : null);
  expect((await whole('s3://bucket/k')).equals(bytes)).toBe(true);
  const [first, second] = stub.asked;
  expect(first?.headers.range).toBeUndefined();
  expect(second?.headers.range).toMatch(/^bytes=\d+-$/);
  expect(second?.headers['if-match']).toMatch(/^"[0-9a-f]{32}"$/);
  // each begins again with the shortest wait, since the last one went on
  expect(Math.max(...waits)).toBeLessThanOrEqual(500);
});

test('500 and 503 are tried again, each time after longer; Retry-After is kept', async () => {
  stub.objects.set('k', Buffer.from('x'));
  const faults: ReturnType<Stub['fault']>[] = [
    { status: 500, code: 'InternalError' },
    { status: 503, code: 'SlowDown', headers: { 'retry-after': '7' } },
    { status: 429 },
  ];
  stub.fault = () => faults.shift() ?? null;
  expect((await whole('s3://bucket/k')).toString()).toBe('x');
  expect(waits.map((ms, at) => ms >= 250 * 2 ** at)).toEqual([true, true, true]);
  expect(waits[1]).toBe(7000);
});

test('a store that falls silent, before its answer or within it, is asked again', async () => {
  const bytes = randomBytes(300_000);
  stub.objects.set('k', bytes);
  let asked = 0;
  stub.fault = () => {
    asked += 1;
    if (asked === 1) return 'silence';
    return asked === 2 ? { silentAfter: 20_000 } : null;
  };
  // a machine that is slow is silent more often: only what comes of it counts
  expect((await whole('s3://bucket/k', {}, { stall: 300 })).equals(bytes)).toBe(true);
  expect(waits.length).toBeGreaterThanOrEqual(2);
});

test('a store that stays down ends it, after eight tries', async () => {
  stub.fault = () => ({ status: 503, code: 'SlowDown' });
  await expect(whole('s3://bucket/k')).rejects.toThrow(
    /^s3:\/\/bucket\/k: expected to read it to its end, found status 503 \(SlowDown\), 8 times in a row; the same command again goes on$/,
  );
  expect(stub.asked).toHaveLength(8);
});

test.each([
  ['another content', (): void => void stub.objects.set('k', randomBytes(300_000))],
  ['a shorter one', (): void => void stub.objects.set('k', Buffer.from('short'))],
])('%s in the middle is noticed', async (_, change) => {
  stub.objects.set('k', randomBytes(300_000));
  stub.fault = () => (stub.asked.length === 1 ? { cutAfter: 20_000 } : null);
  stub.onDone = () => {
    if (stub.asked.length === 1) change();
  };
  await expect(whole('s3://bucket/k')).rejects.toThrow(
    'expected the file to stay as it is while it is read, found another in its place; run the same command again',
  );
  expect(waits).toHaveLength(1);
});

test('what was read once and is read again has to be the same', async () => {
  stub.objects.set('k', Buffer.from('one'));
  const file = openRemote('s3://bucket/k', asking());
  expect((await file.flow().next())?.toString()).toBe('one');
  stub.objects.set('k', Buffer.from('two'));
  await expect(file.flow().next()).rejects.toThrow('found another in its place');
});

test('refusals are said at once, with what to do, and without a secret', async () => {
  stub.objects.set('k', Buffer.from('x'));
  const cases: [string, Record<string, string | undefined>, RegExp][] = [
    ['none', {}, /status 404 \(NoSuchKey\): there is no such object; look at the key$/],
    [
      'k',
      { AWS_ACCESS_KEY_ID: 'AKIDOTHER' },
      /403 \(InvalidAccessKeyId\): nobody there knows the key of AWS_ACCESS_KEY_ID/,
    ],
    ['k', { AWS_SECRET_ACCESS_KEY: 'wrongsecret' }, /403 \(SignatureDoesNotMatch\): the secret key of/],
    [
      'k',
      { AWS_ACCESS_KEY_ID: undefined, AWS_SECRET_ACCESS_KEY: undefined },
      /403 \(AccessDenied\): no credentials were found; set AWS_ACCESS_KEY_ID/,
    ],
  ];
  for (const [key, env, message] of cases) {
    const error = (await whole(`s3://bucket/${key}`, env).catch(thrown => thrown)) as Error;
    expect(error.message).toMatch(message);
    expect(error.message).not.toMatch(/wrongsecret|secret\/of|AKID/);
  }
  await expect(whole('s3://other/k')).rejects.toThrow('(NoSuchBucket): there is no such bucket');
  stub.fault = () => ({ status: 403, code: 'AccessDenied' });
  await expect(whole('s3://bucket/k')).rejects.toThrow('the credentials of AWS_ACCESS_KEY_ID may not do it');
  expect(waits).toEqual([]);
});

test('a session that has ended goes on with the keys that the files have by then', async () => {
  stub.objects.set('k', Buffer.from('x'));
  const home = folder();
  mkdirSync(join(home, '.aws'));
  const write = (token: string): void =>
    writeFileSync(
      join(home, '.aws', 'credentials'),
      `[default]\naws_access_key_id=${KEYS.AWS_ACCESS_KEY_ID}\naws_secret_access_key=${KEYS.AWS_SECRET_ACCESS_KEY}\naws_session_token=${token}\n`,
    );
  write('old');
  const env = { HOME: home, AWS_ACCESS_KEY_ID: undefined, AWS_SECRET_ACCESS_KEY: undefined };
  stub.fault = ({ headers }) => {
    const isOld = headers['x-amz-security-token'] === 'old';
    if (isOld) write('new');
    return isOld ? { status: 400, code: 'ExpiredToken' } : null;
  };
  expect((await whole('s3://bucket/k', env)).toString()).toBe('x');
  stub.fault = () => ({ status: 400, code: 'ExpiredToken' });
  await expect(whole('s3://bucket/k', env)).rejects.toThrow('the session of the profile default has ended');
});

test('nobody at the address is said at once', async () => {
  const env = { AWS_ENDPOINT_URL: 'http://127.0.0.1:1' };
  await expect(whole('s3://bucket/k', env)).rejects.toThrow('ECONNREFUSED; look at the address');
  expect(waits).toEqual([]);
});

test('parts are those that were asked for', async () => {
  const bytes = randomBytes(100_000);
  stub.objects.set('k', bytes);
  const file = openRemote('s3://bucket/k', asking());
  stub.fault = () => (stub.asked.length % 2 === 1 ? { cutAfter: 1000 } : null);
  expect((await file.part(500, 90_000)).equals(bytes.subarray(500, 90_000))).toBe(true);
  expect(file.size).toBe(100_000);
});

test('a pattern is the keys that fit it, over pages', async () => {
  for (const key of [
    'in/b.parquet',
    'in/a.parquet',
    'in/c.csv',
    'in/deep/d.parquet',
    'in/',
    'on/e.parquet',
    'in/+ü.parquet',
  ])
    stub.objects.set(key, Buffer.from('x'));
  const found = (pattern: string) => expandRemote(`s3://bucket/${pattern}`, asking());
  expect(await found('in/*.parquet')).toEqual(
    ['in/+ü.parquet', 'in/a.parquet', 'in/b.parquet'].map(key => `s3://bucket/${key}`),
  );
  expect(await found('in/**')).toHaveLength(5);
  expect(await found('in/**/*.parquet')).toHaveLength(4);
  expect(await found('in/x*')).toEqual([]);
  expect(await found('in/?.parquet')).toEqual(['s3://bucket/in/?.parquet']); // no pattern: a key
  await expect(found('in/')).rejects.toThrow(
    "found a folder: s3://bucket/in/; name its files: 's3://bucket/in/*.parquet'",
  );
  await expect(found('a/../b')).rejects.toThrow('without . and ..');
});

test('ten thousand parts hold 4 TB, and none is larger than S3 takes', () => {
  const sizes = Array.from({ length: 10_000 }, (_, at) => sizeOfPart(at + 1));
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeGreaterThanOrEqual(4e12);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(5 * 2 ** 30);
  expect(sizes.slice(0, 2000).every(size => size === 8 * 2 ** 20)).toBe(true);
});

test('patterns fit as regular expressions do', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[ab/]{0,12}$/), fc.stringMatching(/^[ab*/]{0,8}$/), (name, pattern) => {
      fc.pre(!/\*\*/.test(pattern));
      const expected = new RegExp(`^${pattern.replaceAll('*', '[^/]*')}$`).test(name);
      expect(fits(name, pattern)).toBe(expected);
    }),
  );
});

test('settings are those of the usual variables and files', () => {
  const home = folder();
  mkdirSync(join(home, '.aws'));
  writeFileSync(
    join(home, '.aws', 'credentials'),
    '[default]\naws_access_key_id = A\naws_secret_access_key=B=\n# c\n[p]\naws_access_key_id=C\naws_secret_access_key=D\naws_session_token=E\n',
  );
  writeFileSync(
    join(home, '.aws', 'config'),
    '[default]\nregion = r0\ns3 =\n  addressing_style = path\n[profile p]\nregion=r1\nendpoint_url = https://e.example\n[profile sso]\nsso_session = x\n',
  );
  const of = (env: Record<string, string>) => awsSettings({ HOME: home, ...env });
  expect(of({})).toMatchObject({
    keys: { accessKeyId: 'A', secretAccessKey: 'B=' },
    region: 'r0',
    endpoint: null,
  });
  expect(of({ AWS_PROFILE: 'p' })).toMatchObject({
    keys: { accessKeyId: 'C', sessionToken: 'E' },
    region: 'r1',
    endpoint: new URL('https://e.example'),
  });
  expect(of({ AWS_PROFILE: 'p', ...KEYS, AWS_REGION: REGION })).toMatchObject({
    keys: { accessKeyId: 'AKIDSTUB' },
    region: REGION,
  });
  expect(() => of({ AWS_PROFILE: 'q' })).toThrow('AWS_PROFILE: expected a profile');
  expect(() => of({ AWS_PROFILE: 'sso' })).toThrow(
    'aws configure export-credentials --profile sso --format env',
  );
  expect(() => of({ AWS_ACCESS_KEY_ID: 'x' })).toThrow('found the first alone');
});
