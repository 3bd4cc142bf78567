/**
 * What fw asks of a store of S3, against a real one (stores.sh says which). Each line is a check; the exit code is 1 where one fails.
 * Needs AWS_ENDPOINT_URL, keys, and a bucket that may be filled (BUCKET, by default `try`; it is made where there is none).
 */
import { createHash, randomBytes } from 'node:crypto';
import { AwsV4Signer } from 'aws4fetch';
import { newAsking } from '../../engine/core/remote/exchange.ts';
import { expandRemote } from '../../engine/core/remote/listing.ts';
import { openRemote } from '../../engine/core/remote/reading.ts';
import { Bucket } from '../../engine/core/remote/s3.ts';
import { beginUpload } from '../../engine/core/remote/upload.ts';

const MIB = 1024 * 1024;
const NAME = process.env.BUCKET ?? 'try';
const ROOM = `fw-${randomBytes(4).toString('hex')}`;
const KEYS = [
  'plain',
  'with space',
  'a+b',
  '100%',
  '%2F%20',
  'ümläut/日本語/🙂',
  "!*'()~-_.&=?#:@,;$",
  '<Key>&amp;"',
  'double//slash',
  'ends.',
  '..hidden',
  'back\\slash',
  'x'.repeat(200),
];
const bucket = new Bucket(NAME, newAsking());
let failed = 0;

async function check(what: string, act: () => Promise<unknown>): Promise<void> {
  try {
    const said = await act();
    console.log(`ok    ${what}${said === undefined ? '' : `: ${said}`}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${what}: ${(error as Error).message}`);
  }
}

function expectEqual(found: unknown, expected: unknown): void {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
  if (a !== b) throw new Error(`expected ${b?.slice(0, 300)}, found ${a?.slice(0, 300)}`);
}

const sha = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const at = (key: string): string => `s3://${NAME}/${ROOM}/${key}`;

async function write(key: string, ...pieces: Buffer[]): Promise<string[]> {
  const upload = await beginUpload(at(key));
  for (const piece of pieces) {
    if (!upload.put(piece)) await new Promise<void>(resolve => upload.ready(resolve));
  }
  return upload.complete();
}

async function whole(address: string, env?: NodeJS.ProcessEnv): Promise<Buffer> {
  const flow = openRemote(address, newAsking(env)).flow();
  const pieces: Buffer[] = [];
  for (let block = await flow.block(null); block !== null; block = await flow.block(null)) pieces.push(block);
  return Buffer.concat(pieces);
}

/** The message of a refusal. */
async function refused(address: string, env: NodeJS.ProcessEnv = {}, wanted?: RegExp): Promise<string> {
  const message = await whole(address, { ...process.env, ...env }).then(
    () => 'it was NOT refused',
    (error: Error) => error.message,
  );
  if (wanted && !wanted.test(message)) throw new Error(message);
  return message.slice(message.indexOf('expected'));
}

async function unfinished(): Promise<number> {
  const { text } = await bucket.text('a list of uploads', {
    method: 'GET',
    query: { uploads: '', prefix: `${ROOM}/` },
  });
  return text.split('<Upload>').length - 1;
}

const made = await bucket.ask({ method: 'PUT' });
made.resume();

for (const key of KEYS)
  await check(`the key ${key.slice(0, 40)}: written, read, a range, listed`, async () => {
    const bytes = Buffer.from(`content of ${key}`);
    await write(`keys/${key}`, bytes);
    expectEqual((await whole(at(`keys/${key}`))).toString(), bytes.toString());
    expectEqual((await openRemote(at(`keys/${key}`)).part(3, 9)).toString(), bytes.subarray(3, 9).toString());
  });
await check('all of them are found by **, as they are', async () => {
  const found = await expandRemote(at('keys/**'));
  expectEqual(found, KEYS.map(key => at(`keys/${key}`)).sort());
});
await check('a leading slash is a part of the key', async () => {
  await write('lead', Buffer.from('without'));
  const address = `s3://${NAME}//${ROOM}/lead`;
  const upload = await beginUpload(address);
  upload.put(Buffer.from('with'));
  await upload.complete();
  expectEqual((await whole(at('lead'))).toString(), 'without');
  expectEqual((await whole(address)).toString(), 'with');
});
await check('1,005 keys come over pages', async () => {
  const numbers = Array.from({ length: 1005 }, (_, number) => number);
  for (let from = 0; from < numbers.length; from += 15)
    await Promise.all(
      numbers.slice(from, from + 15).map(async number => {
        const body = Buffer.from(`${number}`);
        const answer = await bucket.ask({ method: 'PUT', key: `${ROOM}/many/${number}.csv`, body });
        answer.resume();
        expectEqual(answer.statusCode, 200);
      }),
    );
  expectEqual((await expandRemote(at('many/*.csv'))).length, 1005);
  expectEqual((await expandRemote(at('many/99*.csv'))).length, 11);
});
await check('an empty object', async () => {
  await write('empty');
  expectEqual((await whole(at('empty'))).length, 0);
});
await check('20 MiB in parts: nobody sees it before the end, an old one stays, all bytes after', async () => {
  await write('parts', Buffer.from('old'));
  const bytes = randomBytes(20 * MIB);
  const upload = await beginUpload(at('parts'));
  for (let from = 0; from < bytes.length; from += MIB) {
    if (!upload.put(bytes.subarray(from, from + MIB)))
      await new Promise<void>(resolve => upload.ready(resolve));
  }
  await upload.end();
  expectEqual((await whole(at('parts'))).toString(), 'old');
  await upload.complete();
  expectEqual(sha(await whole(at('parts'))), sha(bytes));
  const file = openRemote(at('parts'));
  expectEqual(
    sha(await file.part(8 * MIB - 5, 16 * MIB + 5)),
    sha(bytes.subarray(8 * MIB - 5, 16 * MIB + 5)),
  );
  const last = await file.part(bytes.length - 8, bytes.length);
  expectEqual(sha(last), sha(bytes.subarray(bytes.length - 8)));
});
await check('an old object that is longer is kept', async () => {
  const said = await write('parts', Buffer.from('short'));
  expectEqual((await whole(at('parts.before'))).length, 20 * MIB);
  expectEqual((await whole(at('parts'))).toString(), 'short');
  return said[0]?.slice(-60);
});
await check('an upload that is ended leaves nothing', async () => {
  const before = await unfinished();
  const upload = await beginUpload(at('ended'));
  upload.put(randomBytes(9 * MIB));
  await upload.end();
  expectEqual(await unfinished(), before + 1);
  expectEqual(await upload.abort(), true);
  expectEqual(await unfinished(), before);
  return refused(at('ended'), {}, /404/);
});
await check('uploads that a killed run leaves are named by the next one', async () => {
  await beginUpload(at('left'));
  const said = await write('left', Buffer.from('x'));
  if (!said.some(line => line.includes('unfinished upload'))) throw new Error(`it says ${said}`);
  return said.at(-1);
});
await check('an object that changes while it is read', async () => {
  await write('changing', randomBytes(4 * MIB));
  const file = openRemote(at('changing'));
  const flow = file.flow();
  await flow.begins(1);
  flow.close();
  await write('changing', randomBytes(4 * MIB));
  const error = (await file.part(MIB, 2 * MIB).catch(thrown => thrown)) as Error;
  if (!/found another in its place/.test(error.message))
    throw new Error(String(error.message ?? 'not noticed'));
});
await check('a signed link', async () => {
  const signer = new AwsV4Signer({
    ...{ url: `${process.env.AWS_ENDPOINT_URL}/${NAME}/${ROOM}/lead`, signQuery: true, service: 's3' },
    accessKeyId: process.env.AWS_ACCESS_KEY_ID as string,
    secretAccessKey: process.env.AWS_SECRET_ACCESS_KEY as string,
    region: process.env.AWS_REGION ?? 'us-east-1',
  });
  const link = (await signer.sign()).url.href;
  expectEqual((await whole(link)).toString(), 'without');
  return refused(link.replace(/Signature=..../, 'Signature=0000'));
});
await check('no such object', () => refused(at('none'), {}, /404 \(NoSuchKey\)/));
await check('no such bucket', () => refused('s3://no-such-bucket-of-fw/x', {}, /404 \(NoSuchBucket\)/));
const lead = at('lead');
await check('a wrong secret (said)', () => refused(lead, { AWS_SECRET_ACCESS_KEY: 'wrong' }));
await check('a wrong key (said)', () => refused(lead, { AWS_ACCESS_KEY_ID: 'AKIDNOBODY' }));
await check('a wrong session token (said)', () => refused(lead, { AWS_SESSION_TOKEN: 'none' }));
await check('another region (said)', () => refused(lead, { AWS_REGION: 'ap-south-2' }));
await check('nobody (said)', () =>
  refused(lead, { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '', HOME: '/nowhere' }),
);
console.log(failed === 0 ? 'all as expected' : `${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
