/** Webhooks: signed so that the official client believes them, told once they arrive, over failures and restarts. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import OpenAI from 'openai';
import { expect, onTestFinished, test } from 'vitest';
import { secretIn, signatureOf, type WebhookOptions, Webhooks } from '../../products/serve/webhooks.ts';
import { folder } from '../fw.ts';
import { until } from '../pool/serving.ts';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

interface Got {
  headers: IncomingHttpHeaders;
  body: string;
}

/** A receiver that answers with `statuses` in turn, and with 200 after that. */
async function receiver(statuses: number[] = [], headers: Record<string, string> = {}) {
  const got: Got[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      got.push({ headers: request.headers, body });
      response.writeHead(statuses.shift() ?? 200, headers).end();
    });
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return { got, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` };
}

function hooks(url: string, more: Partial<WebhookOptions> = {}) {
  const said: string[] = [];
  const options: WebhookOptions = {
    folder: join(folder(), 'webhooks'),
    targets: [{ owner: 'ann', url, secret_env: 'HOOK' }],
    env: { HOOK: SECRET },
    now: Date.now,
    say: message => void said.push(message),
    random: () => 0,
    waits: [0, 1, 1],
    ...more,
  };
  const made = new Webhooks(options);
  const stop = (): void => made.stop();
  onTestFinished(stop);
  return {
    ...{ said, folder: options.folder, stop, counts: () => made.counts() },
    tell: (...event: Parameters<Webhooks['tell']>) => made.tell(...event),
    files: () => readdirSync(options.folder),
  };
}

test('the vector of Standard Webhooks', () => {
  const secret = secretIn('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'HOOK');
  expect(signatureOf([secret], 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1614265330, '{"test": 2432232314}')).toBe(
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  );
});

test('the official client believes it, and nobody hears of batches of others', async () => {
  const { got, url } = await receiver();
  const { tell, counts, files } = hooks(url);
  tell('bob', 'batch.completed', 'batch_2');
  tell('ann', 'batch.completed', 'batch_1');
  await until(() => counts().delivered === 1);
  const { headers, body } = got[0] as Got;
  const openai = new OpenAI({ apiKey: 'none', webhookSecret: SECRET });
  const event = await openai.webhooks.unwrap(body, headers as Record<string, string>);
  expect(event).toMatchObject({
    type: 'batch.completed',
    data: { id: 'batch_1' },
    id: headers['webhook-id'],
  });
  expect([got.length, files()]).toEqual([1, []]);
});

test('while a secret takes the place of another, both have signed', async () => {
  const { got, url } = await receiver();
  const { tell, counts } = hooks(url, {
    targets: [{ owner: 'ann', url, secret_env: ['NEW', 'HOOK'] }],
    env: { HOOK: SECRET, NEW: `whsec_${Buffer.alloc(24, 9).toString('base64')}` },
  });
  tell('ann', 'batch.failed', 'batch_1');
  await until(() => counts().delivered === 1);
  const { headers, body } = got[0] as Got;
  expect(String(headers['webhook-signature']).split(' ')).toHaveLength(2);
  const openai = new OpenAI({ apiKey: 'none', webhookSecret: SECRET });
  await openai.webhooks.unwrap(body, headers as Record<string, string>);
});

test('it is tried again with the same id until it arrives, and a redirect is no arrival', async () => {
  const { got, url } = await receiver([500, 302], { location: 'http://127.0.0.1:1/' });
  const { tell, counts } = hooks(url);
  tell('ann', 'batch.expired', 'batch_1');
  await until(() => counts().delivered === 1);
  expect(new Set(got.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
  expect(got).toHaveLength(3);
});

test('given up after its last try, and at once where the receiver wants no more', async () => {
  const failing = await receiver([500, 500, 500, 500]);
  const one = hooks(failing.url);
  one.tell('ann', 'batch.completed', 'batch_1');
  await until(() => one.counts().givenUp === 1);
  expect([failing.got.length, one.files()]).toEqual([3, []]);
  expect(one.said.join('\n')).toContain('HTTP 500, after 3 tries');
  expect(one.said.join('\n')).not.toContain('/hook');

  const gone = await receiver([410]);
  const other = hooks(gone.url);
  other.tell('ann', 'batch.completed', 'batch_1');
  await until(() => other.counts().givenUp === 1);
  other.tell('ann', 'batch.completed', 'batch_2');
  await until(() => other.counts().givenUp === 2);
  expect(gone.got).toHaveLength(1);
});

test('what had not arrived is told after a restart; an address that left the config is told nothing', async () => {
  const { got, url } = await receiver();
  const path = join(folder(), 'webhooks');
  const first = hooks(url, { folder: path });
  first.tell('ann', 'batch.completed', 'batch_1');
  first.stop();
  expect(first.files()).toHaveLength(1);
  const second = hooks(url, { folder: path, targets: [] });
  await until(() => second.counts().givenUp === 1);
  expect([got.length, second.files()]).toEqual([0, []]);

  const again = hooks(url, { folder: path });
  again.tell('ann', 'batch.completed', 'batch_1');
  again.stop();
  const third = hooks(url, { folder: path });
  await until(() => third.counts().delivered === 1);
  expect(got).toHaveLength(1);
});

test('a file that is no delivery is left as it is, and said; a bug in one ends nothing, and leaves it too', async () => {
  const { got, url } = await receiver();
  const path = join(folder(), 'webhooks');
  const first = hooks(url, { folder: path });
  first.tell('ann', 'batch.completed', 'batch_1');
  first.stop();
  const [name = ''] = first.files();
  const good = JSON.parse(readFileSync(join(path, name), 'utf8'));
  const idOf = (n: number): string => `evt_${String(n).repeat(32)}`;
  const wrong = [
    ...['', '{"id":', 'null', '[]', '7', JSON.stringify(good), JSON.stringify({ ...good, id: '../x' })],
    ...[{ url: 'none' }, { owner: 1 }, { body: null }, { tries: -1 }, { next: 'x' }].map((more, n) =>
      JSON.stringify({ ...good, ...more, id: idOf(n) }),
    ),
  ];
  wrong.forEach((text, n) => {
    writeFileSync(join(path, text.includes(idOf(n - 7)) ? `${idOf(n - 7)}.json` : `bad-${n}.json`), text);
  });
  const second = hooks(url, { folder: path });
  await until(() => second.counts().delivered === 1);
  expect([got.length, second.files().length]).toEqual([1, wrong.length]);
  expect(second.said.filter(line => line.includes('expected a delivery of this server'))).toHaveLength(
    wrong.length,
  );

  let isBroken = false;
  const now = (): number => {
    if (isBroken) throw new Error('no clock');
    return Date.now();
  };
  const third = hooks(url, { now });
  third.tell('ann', 'batch.completed', 'batch_2');
  isBroken = true;
  await until(() => third.said.length === 1);
  expect(third.said[0]).toContain('waits for the next start, a bug, please report it: Error: no clock');
  expect([third.files().length, third.counts().waiting]).toEqual([1, 0]);
});

test('a secret of another form is refused, and is in no message', () => {
  for (const secret of [undefined, 'topsecret', `whsec_${Buffer.alloc(8).toString('base64')}`]) {
    expect(() => secretIn(secret, 'HOOK')).toThrow('in HOOK, found');
    expect(() => secretIn(secret, 'HOOK')).not.toThrow('topsecret');
  }
});

test('a disk that takes nothing more stops no delivery', async () => {
  const { got, url } = await receiver([500]);
  const { tell, counts, said, folder: path } = hooks(url, { waits: [20, 1, 1] });
  tell('ann', 'batch.completed', 'batch_1');
  rmSync(path, { recursive: true }); // whatever is written or removed there fails
  await until(() => counts().delivered === 1);
  expect(got).toHaveLength(2);
  expect(said.join()).toContain('expected to write to');
});
