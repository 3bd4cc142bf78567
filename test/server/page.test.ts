/** The page: what it shows, to whom, and that nothing on it runs or leaves it that is not its own. */
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { PAGE_HEADERS } from '../../products/kit/page.ts';
import { readKeys, writeKeys } from '../../products/serve/api-keys.ts';
import { folder } from '../fw.ts';
import { begin, ENDPOINT, lineOf, linesOf, reached } from './batching.ts';
import { answering, HOSTILE, reachedOn, type Visitor, visitor } from './pages.ts';
import { keyOf, type Served, served } from './serving.ts';

const START = { endpoint: ENDPOINT, window: '24h' };

async function withKeys(options: Parameters<typeof served>[0] = {}) {
  const data = folder();
  const keys = {
    ann: keyOf(data, 'ann'),
    bob: keyOf(data, 'bob'),
    root: keyOf(data, 'root', ['admin', 'batch']),
  };
  const server = await served({ data, ...options });
  return { server, keys, data };
}

async function logged(server: Served, key: string): Promise<Visitor> {
  const at = visitor(server.url);
  const { status, headers } = await at.login(key);
  expect([status, headers.get('location')]).toEqual([303, '/ui/']);
  return at;
}

test('without keys nobody logs in: a file is uploaded, its batch runs, its answers are looked through', async () => {
  const { url } = await served();
  const at = visitor(url);
  expect((await at.get('/')).headers.get('location')).toBe('/ui/');
  const none = await at.get('/ui/');
  expect(none.text).toContain('No batch is here.');
  expect(none.text).not.toContain('Log out');
  const form = { purpose: 'batch', name: 'of today', ...START };
  const { status, headers } = await at.upload(linesOf(45), form);
  const path = headers.get('location') as string;
  expect([status, path]).toEqual([303, expect.stringMatching(/^\/ui\/batches\/batch_[0-9a-f]{32}$/)]);
  const one = await reachedOn(at, path, /data-is="completed"/);
  expect(one.text).toContain('<h1>of today</h1>');
  const all = await at.get('/ui/');
  expect(all.text).toContain('<span data-text="completed">45</span> of <span data-text="total">45</span>');
  const first = await at.get(`${path}/results`);
  expect(first.text.match(/class="answer"/g)).toHaveLength(20);
  expect(first.text).toContain('<h2>r-0</h2>');
  expect(first.text).toContain('as the model said it');
  const next = /href="([^"]+)" rel="next"/.exec(first.text)?.[1]?.replace('&amp;', '&') as string;
  const second = await at.get(next);
  expect(second.text).toContain('<h2>r-20</h2>');
  const third = await at.get(/href="([^"]+)" rel="next"/.exec(second.text)?.[1] as string);
  expect(third.text.match(/class="answer"/g)).toHaveLength(5);
  expect(third.text).not.toContain('rel="next"');
  const before = await at.get(/href="([^"]+)" rel="prev"/.exec(third.text)?.[1] as string);
  expect(before.text).toBe(second.text);
  const output = await at.get(`${path}/output`);
  expect(output.text.trimEnd().split('\n')).toHaveLength(45);
  expect(output.headers.get('content-disposition')).toMatch(/^attachment; /);
  for (const bad of ['?at=1', '?at=99999999', '?at=-1', '?at=x', '?of=errors'])
    expect((await at.get(`${path}/results${bad}`)).status).toBe(404);
});

test('a file that is here can be started again; a form that is sent twice makes one batch', async () => {
  const { url } = await served();
  const at = visitor(url);
  await at.upload(linesOf(2), { purpose: 'batch', ...START });
  const page = (await at.get('/ui/new')).text;
  const input_file_id = /<option value="(file-[0-9A-Za-z]+)"/.exec(page)?.[1] as string;
  const once = /name="once" value="([0-9a-f]+)"/.exec(page)?.[1] as string;
  const fields = { input_file_id, once, ...START };
  const places = [await at.post('/ui/start', fields), await at.post('/ui/start', fields)].map(reply =>
    reply.headers.get('location'),
  );
  expect(places[0]).toBe(places[1]);
  const other = await at.post('/ui/start', { ...fields, window: '12h' });
  expect(other.headers.get('location')).not.toBe(places[0]);
  const wrong = await at.post('/ui/start', { ...fields, window: 'soon' });
  expect([wrong.status, wrong.text]).toEqual([400, expect.stringContaining('completion_window')]);
  const kept = await at.upload(linesOf(1), { purpose: 'batch', endpoint: ENDPOINT, window: 'soon' });
  expect([kept.status, kept.text]).toEqual([400, expect.stringContaining('/ui/new?file=file-')]);
});

test('a batch is cancelled, and one that has ended is not', async () => {
  const { url, client } = await served({ endpoints: [await answering(() => 503)] });
  const at = visitor(url);
  const openai = client();
  const { id } = await begin(openai, linesOf(3));
  await reached(openai, id, ({ status }) => status === 'in_progress');
  expect((await at.get(`/ui/batches/${id}`)).text).toContain(`action="/ui/batches/${id}/cancel"`);
  expect((await at.post(`/ui/batches/${id}/cancel`)).status).toBe(303);
  const over = await reachedOn(at, `/ui/batches/${id}`, /data-is="cancelled"/);
  expect(over.text).toContain('batch_cancelled');
  expect(over.text).toContain('hidden data-action="cancel"');
  expect((await at.get(`/ui/batches/${id}/results?of=errors`)).text).toContain('was cancelled');
  // a failure leads to its lines, and to no others
  const its = /data-href="href" href="([^"]+code=[^"]+)"/.exec(over.text)?.[1]?.replaceAll('&amp;', '&');
  expect(its).toBe(`/ui/batches/${id}/results?of=errors&code=batch_cancelled`);
  expect((await at.get(its as string)).text.match(/class="answer"/g)).toHaveLength(3);
  expect((await at.get(`${its}x`)).text).toContain('No line is there yet.');
  const done = await begin(openai, '{}\n');
  await reachedOn(at, `/ui/batches/${done.id}`, /data-is="failed"/);
  expect((await at.post(`/ui/batches/${done.id}/cancel`)).status).toBe(400);
});

test('a key is shown once; the cookie is for the page alone, and ends with the key', async () => {
  const { server, keys, data } = await withKeys();
  const { url } = server;
  const stranger = visitor(url);
  for (const path of ['/ui/', '/ui/new', '/ui/batches/batch_0', '/ui/nothing']) {
    const { status, headers } = await stranger.get(path);
    expect([path, status, headers.get('location')]).toEqual([path, 303, '/ui/login']);
  }
  expect((await stranger.get('/ui/events')).status).toBe(401);
  expect((await stranger.post('/ui/start', START)).status).toBe(401);
  for (const key of ['', 'wrong', 'fw_ with blanks', 'x'.repeat(5_000)]) {
    const { status, headers, text } = await stranger.login(key);
    expect([status, headers.get('set-cookie'), text]).toEqual([
      401,
      null,
      expect.stringContaining('no key of this'),
    ]);
  }
  const chat = await stranger.login(keyOf(data, 'talker', ['chat']));
  expect([chat.status, chat.text]).toEqual([403, expect.stringContaining('scope batch or admin')]);

  const at = visitor(url);
  const { headers } = await at.login(keys.ann);
  const port = new URL(url).port;
  expect(headers.get('set-cookie')).toMatch(
    new RegExp(`^fw_session_${port}=[\\w-]{43}; Path=/ui; Max-Age=43200; HttpOnly; SameSite=Strict$`),
  );
  expect((await at.get('/ui/')).text).toContain('Log out');
  expect(at.cookie()).not.toContain(keys.ann);
  for (const path of ['/v1/files', '/v1/batches', '/v1/models', '/metrics'])
    expect((await at.get(path)).status).toBe(401);
  const kept = at.cookie();
  await at.post('/ui/logout');
  expect((await visitor(url).get('/ui/', { headers: { cookie: kept } })).status).toBe(303);

  const again = await logged(server, keys.bob);
  writeKeys(
    data,
    (readKeys(data) ?? []).map(one => (one.name === 'bob' ? { ...one, revoked: 1 } : one)),
  );
  expect((await again.get('/ui/')).status).toBe(303);
});

test('an owner sees its own; the scope admin sees all, and may start nothing without batch', async () => {
  const { server, keys, data } = await withKeys();
  const ann = await logged(server, keys.ann);
  const started = await ann.upload(linesOf(2), { purpose: 'batch', name: 'secret of ann', ...START });
  const path = started.headers.get('location') as string;
  await reachedOn(ann, path, /data-is="completed"/);
  const bob = await logged(server, keys.bob);
  expect((await bob.get('/ui/')).text).not.toContain('secret of ann');
  const asks = [
    path,
    `${path}/results`,
    `${path}/output`,
    `${path}/errors`,
    `/ui/events?batch=${path.slice(12)}`,
  ];
  for (const ask of asks) expect([ask, (await bob.get(ask)).status]).toEqual([ask, 404]);
  expect((await bob.post(`${path}/cancel`)).status).toBe(404);
  const file = /<option value="(file-[0-9A-Za-z]+)"/.exec((await ann.get('/ui/new')).text)?.[1] as string;
  expect((await bob.get(`/ui/new?file=${file}`)).text).not.toContain(file);
  expect((await bob.post('/ui/start', { input_file_id: file, ...START })).status).toBe(404);
  expect((await bob.get('/ui/')).text).not.toContain('<h2>Endpoints</h2>');

  const root = await logged(server, keys.root);
  expect((await root.get('/ui/')).text).toContain('secret of ann');
  expect((await root.get('/ui/')).text).toContain('<h2>Endpoints</h2>');
  expect((await root.get(`${path}/output`)).status).toBe(200);
  const boss = await logged(server, keyOf(data, 'boss', ['admin']));
  expect((await boss.get(path)).status).toBe(200);
  expect((await boss.upload(linesOf(1), { purpose: 'batch', ...START })).status).toBe(403);
});

test('what is sent from another site is refused, and so is a foreign Host without keys', async () => {
  const { server, keys } = await withKeys();
  const at = await logged(server, keys.ann);
  for (const origin of ['https://evil.example', 'null', `${server.url}.evil.example`, null]) {
    const sent = [
      await at.post('/ui/start', START, origin),
      await at.post('/ui/logout', {}, origin),
      await at.post('/ui/login', { key: keys.ann }, origin),
    ];
    expect(sent.map(({ status }) => status)).toEqual([403, 403, 403]);
  }
  const upload = await at.upload(
    linesOf(1),
    { purpose: 'batch', ...START },
    'in.jsonl',
    'http://evil.example',
  );
  expect(upload.status).toBe(403);
  expect((await at.get('/ui/')).text).toContain('No batch is here.');

  const open = new URL((await served()).url);
  const statusAs = (host: string, path: string): Promise<string> =>
    new Promise(resolve => {
      const socket = connect(Number(open.port), open.hostname);
      let text = '';
      socket.on('data', chunk => {
        text += chunk;
      });
      socket.on('close', () => resolve(text.slice(9, 12)));
      socket.write(`GET ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
    });
  for (const path of ['/ui/', '/ui/login', '/ui/new', '/ui/events'])
    expect([path, await statusAs('evil.example', path)]).toEqual([path, '403']);
  expect(await statusAs('localhost', '/ui/')).toBe('200');
});

test('texts of models, files, metadata and errors are text on every view', async () => {
  const endpoint = await answering(body => (body.includes('refuse') ? 400 : HOSTILE));
  const { server, keys } = await withKeys({ endpoints: [endpoint] });
  const at = await logged(server, keys.root);
  const metadata = { name: HOSTILE, [`${HOSTILE.slice(0, 50)}`]: HOSTILE };
  const lines = [lineOf(HOSTILE), lineOf(`refuse ${HOSTILE}`)].join('\n');
  const batch = await begin(server.client(keys.ann), lines, { metadata });
  await reached(server.client(keys.ann), batch.id);
  const file = await at.upload(
    `{"custom_id": ${JSON.stringify(HOSTILE)}}\n{"method": ${JSON.stringify(HOSTILE)}}\n`,
    { purpose: 'batch', name: HOSTILE, ...START },
    `${HOSTILE}.jsonl`,
  );
  const bad = file.headers.get('location') as string;
  await reachedOn(at, bad, /data-is="failed"/);
  const path = `/ui/batches/${batch.id}`;
  const texts = new Map<string, string>();
  for (const view of [
    '/ui/',
    path,
    bad,
    `${path}/results`,
    `${path}/results?of=errors`,
    '/ui/new',
    '/ui/batches/<script>',
    '/ui/?after=<script>',
    '/ui/<script>',
  ]) {
    const { text, headers } = await at.get(view);
    texts.set(view, text);
    expect([view, headers.get('content-type')]).toEqual([view, 'text/html; charset=utf-8']);
    for (const [name, value] of Object.entries(PAGE_HEADERS))
      expect([view, name, headers.get(name)]).toEqual([view, name, value]);
    // no tag and no attribute but those of the templates, and nothing that turns the direction of a line
    expect(text.match(/<script[^>]*>/g)).toEqual([
      expect.stringMatching(/^<script src="\/ui\/page\.js\?[0-9a-f]{16}" defer>$/),
    ]);
    expect(text).not.toMatch(/<img|\u202e|<[a-z]+[^>]* (on\w+|style)=/i);
  }
  const escaped =
    '&lt;script&gt;top.ran=1&lt;/script&gt;&quot;&gt;&lt;img src=x onerror=&quot;top.ran=1&quot;&gt;&#39;';
  for (const view of ['/ui/', path, bad, `${path}/results`, `${path}/results?of=errors`])
    expect([view, texts.get(view)?.includes(escaped)]).toEqual([view, true]);
  // a name of a file is what is behind its last slash
  expect(texts.get('/ui/new')).toContain('textarea&gt;&lt;U+202E&gt;.jsonl · ');
  expect(texts.get(`${path}/results`)).toContain(`<pre class="answer" tabindex="0">${escaped}`);
});

test('one snapshot a second goes to all who look; it is as the page, ends with the log-in and with the server', async () => {
  const { server, keys } = await withKeys();
  const { client, url } = server;
  await begin(client(keys.ann), linesOf(1), { metadata: { name: HOSTILE } });
  const at = await logged(server, keys.ann);
  const open = async () => {
    const reply = await fetch(`${url}/ui/events`, { headers: { cookie: at.cookie() } });
    const reader = (reply.body as ReadableStream<Uint8Array>).getReader();
    let text = '';
    return {
      reply,
      async until(found: RegExp): Promise<string> {
        while (!found.test(text)) {
          const { value, done } = await reader.read();
          if (done) return `${text}<end>`;
          text += Buffer.from(value).toString();
        }
        return text;
      },
    };
  };
  const [one, other] = [await open(), await open()];
  expect(one.reply.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  expect(one.reply.headers.get('cache-control')).toBe('no-store');
  const frames = [
    await one.until(/data: .*"status":"completed".*\n\n/),
    await other.until(/data: .*"status":"completed".*\n\n/),
  ];
  expect(frames[0]).toMatch(/^retry: 2000\n\nid: \d+\ndata: \{/);
  const values = JSON.parse(/data: (.*"status":"completed".*)/.exec(frames[0] as string)?.[1] as string);
  expect(values.batches).toMatchObject([{ completed: '1', failed: '0', total: '1' }]);
  expect(values.endpoints).toEqual([]);
  expect(frames.join('')).not.toContain('\u202e');
  await at.post('/ui/logout');
  expect(await one.until(/never/)).toContain('<end>');
  const root = await logged(server, keys.root);
  const reply = await fetch(`${url}/ui/events`, { headers: { cookie: root.cookie() } });
  await server.stop();
  expect(await reply.text()).toContain('"endpoints":[{');
});
