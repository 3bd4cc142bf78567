/**
 * What a hostile server of a model may do to the gateway and to its clients. Each attack is a row with what its client must
 * get: a status, whether a stream ends as a whole or with one error, and never more headers than ours. After each of them
 * the next request gets its own answer.
 */
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import type { LiveLimits } from '../../engine/core/item/call.ts';
import { BlocksStream } from '../../products/serve/gateway/blocks-stream.ts';
import { ItemsStream } from '../../products/serve/gateway/items-stream.ts';
import { KeptText } from '../../products/serve/gateway/kept-text.ts';
import { StreamRecord } from '../../products/serve/gateway/stream-record.ts';
import { every } from '../all.ts';
import { served } from './serving.ts';

const LIMITS: LiveLimits = { place: 2_000, firstByte: 1_000, answer: 3_000, stream: 500, tries: 1 };
const KiB64 = 64 * 1024;

const head = (...fields: string[]): string => ['HTTP/1.1 200 OK', ...fields, '', ''].join('\r\n');
const CHUNKED = ['content-type: application/json', 'transfer-encoding: chunked'];
const STREAM = ['content-type: text/event-stream', 'transfer-encoding: chunked'];
const chunk = (bytes: string | Buffer): Buffer =>
  Buffer.concat([
    Buffer.from(`${Buffer.byteLength(bytes).toString(16)}\r\n`),
    Buffer.from(bytes),
    Buffer.from('\r\n'),
  ]);
const event = (content: string, finish: string | null = null): string =>
  `data: ${JSON.stringify({ id: 'c', model: 'm', choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`;
const WHOLE = `${event('x', 'stop')}data: [DONE]\n\n`;
const ANSWER = '{"choices":[{"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}';

/** The same bytes again and again, as fast as they are taken. */
const endless =
  (first: string, piece: string | Buffer) =>
  (socket: Socket): void => {
    const more = (): void => {
      while (!socket.destroyed && socket.write(piece)) {}
    };
    socket.on('drain', more);
    socket.write(first);
    more();
  };
const bytes =
  (...pieces: (string | Buffer)[]) =>
  (socket: Socket): void => {
    for (const piece of pieces) socket.write(piece);
  };
const closing =
  (...pieces: (string | Buffer)[]) =>
  (socket: Socket): void => {
    bytes(...pieces)(socket);
    socket.end();
  };
const sending = (status: string, body: string | Buffer, ...fields: string[]) =>
  bytes(
    `HTTP/1.1 ${[status, ...fields, `content-length: ${Buffer.byteLength(body)}`].join('\r\n')}\r\n\r\n`,
    body,
  );
const END = '0\r\n\r\n';

type Ends = 'whole' | 'error' | 'refused';

/** Asked as a stream: what the server does, and how it ends for the client. */
const STREAMS: [string, (socket: Socket) => void, Ends][] = [
  ['events without an end', endless(head(...STREAM), chunk(event('x'))), 'error'],
  ['comments without an end', endless(head(...STREAM), chunk(': x\n\n'.repeat(1000))), 'error'],
  ['a line without an end', endless(head(...STREAM), chunk('a'.repeat(KiB64))), 'error'],
  ['one byte a chunk without an end', endless(head(...STREAM), '1\r\na\r\n'.repeat(1000)), 'error'],
  ['an event without an end', endless(head(...STREAM), chunk(`data: ${'a'.repeat(1000)}\n`)), 'error'],
  ['no end of the answer', bytes(head(...STREAM), chunk(event('x')), END), 'error'],
  ['no answer at all', bytes(head(...STREAM), END), 'refused'],
  ['no [DONE]', bytes(head(...STREAM), chunk(event('x', 'stop')), END), 'whole'],
  [
    'garbage behind [DONE]',
    bytes(head(...STREAM), chunk(`${WHOLE}\u0000\u001b[2Jdata: {"a"\n\n`), END),
    'whole',
  ],
  [
    'UTF-8 that is broken',
    bytes(head(...STREAM), chunk(Buffer.from([0xff, 0xfe, 0xc3, 10, 10])), chunk(WHOLE), END),
    'whole',
  ],
  ['UTF-16', bytes(head(...STREAM), chunk(Buffer.from(WHOLE, 'utf16le')), END), 'error'],
  ['events that are no objects', bytes(head(...STREAM), chunk('data: 1\n\ndata: [[\n\n'), END), 'error'],
  [
    '__proto__ and constructor',
    bytes(
      head(...STREAM),
      chunk('data: {"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"choices":[]}\n\n'),
      chunk(WHOLE),
      END,
    ),
    'whole',
  ],
  [
    'choices at indices of any kind',
    bytes(
      head(...STREAM),
      chunk(
        'data: {"choices":[{"index":1e308,"delta":{}},{"index":-1},{"index":"__proto__","delta":null},7,null]}\n\n',
      ),
      END,
    ),
    'error',
  ],
  [
    'half of what it says',
    closing(head('content-type: text/event-stream', 'content-length: 9999'), event('x')),
    'error',
  ],
  [
    'more than it says',
    bytes(
      head('content-type: text/event-stream', `content-length: ${WHOLE.length}`),
      `${WHOLE}HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad`,
    ),
    'whole',
  ],
  ['a chunk that is longer than it says', bytes(head(...STREAM), `2\r\n${WHOLE}\r\n${END}`), 'error'],
  ['a size of a chunk that is none', bytes(head(...STREAM), chunk(event('x')), 'zz\r\n'), 'error'],
  ['gzip', bytes(head(...STREAM, 'content-encoding: gzip'), chunk(gzipSync(WHOLE)), END), 'error'],
  [
    'trailers without an end',
    endless(`${head(...STREAM)}${chunk(WHOLE)}0\r\n`, `x: ${'a'.repeat(1000)}\r\n`),
    // its client has the whole answer, [DONE] too
    'whole',
  ],
  ['a reply that is closed in the middle', closing(head(...STREAM), chunk(event('x'))), 'error'],
  ['a head without an end', endless('HTTP/1.1 200 OK\r\n', `x: ${'a'.repeat(1000)}\r\n`), 'refused'],
  ['1xx without an end', endless('', 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(100)), 'refused'],
  [
    '103 with headers, without an end',
    endless('', 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'),
    'refused',
  ],
  ['no byte', () => {}, 'refused'],
  ['no HTTP', closing('SSH-2.0-OpenSSH_9.6\r\n'), 'refused'],
  ['HTTP/2', closing('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), 'refused'],
];

const OURS = new Set([
  ...['cache-control', 'connection', 'content-length', 'content-type', 'date', 'keep-alive'],
  ...['retry-after', 'transfer-encoding', 'x-accel-buffering', 'x-content-type-options', 'x-request-id'],
]);
const EVIL = [
  ...['set-cookie: fw_session_8080=x', 'location: http://127.0.0.1:1/', 'x-evil: 1'],
  ...[
    'access-control-allow-origin: *',
    'content-security-policy: none',
    'x-fw-cache: hit',
    'x-request-id: x',
  ],
];

/** A server of bare sockets: what it does with a request is up to `behave`, but for one that says "plain". */
async function bare(behave: (socket: Socket) => void): Promise<string> {
  const open = new Set<Socket>();
  const server = createServer(socket => {
    let came = '';
    open.add(socket);
    socket.on('error', () => {}).on('close', () => open.delete(socket));
    socket.on('data', data => {
      came += data.toString('latin1');
      const end = came.indexOf('\r\n\r\n') + 4;
      const length = Number(/content-length: (\d+)/i.exec(came)?.[1] ?? 0);
      if (end < 4 || came.length < end + length) return;
      const asked = came;
      came = '';
      if (asked.startsWith('GET /v1/models')) sending('200 OK', '{"data":[{"id":"m"}]}')(socket);
      else if (asked.startsWith('GET')) sending('404 X', '')(socket);
      else if (asked.includes('"plain"')) sending('200 OK', ANSWER.replace('"x"', '"fine"'))(socket);
      else behave(socket);
    });
  }).listen(0, '127.0.0.1');
  await new Promise(resolve => server.once('listening', resolve));
  onTestFinished(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

async function gateway() {
  let behave = (_socket: Socket): void => {};
  const endpoint = await bare(socket => behave(socket));
  const { url, said } = await served({ endpoints: [endpoint], gateway: { limits: LIMITS } });
  const post = (content: string, stream: boolean) =>
    fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content }] }),
    });
  return {
    said,
    async attack(how: (socket: Socket) => void, stream: boolean) {
      behave = how;
      const reply = await post('x', stream);
      let length = 0;
      let end = '';
      for await (const piece of (reply.body ?? []) as AsyncIterable<Uint8Array>) {
        length += piece.length;
        end = (end + Buffer.from(piece).toString('latin1')).slice(-2_000);
      }
      return { reply, length, end };
    },
    async plain(): Promise<string> {
      return (await post('plain', false)).text();
    },
  };
}

test('a stream of a hostile server ends for its client, and the next request gets its own answer', async () => {
  const { attack, plain } = await gateway();
  for (const [name, how, ends] of every(3, STREAMS)) {
    const { reply, end } = await attack(how, true);
    expect(reply.status >= 400 ? 'refused' : 'passed on', name).toBe(
      ends === 'refused' ? 'refused' : 'passed on',
    );
    expect(
      /data: \{"error":\{"message":"[^"]+","type":"server_error"[^\n]+\}\}\n\n$/.test(end),
      `${name}: ${end}`,
    ).toBe(ends === 'error');
    if (ends === 'refused') expect([502, 503, 504], name).toContain(reply.status);
    expect(await plain(), name).toContain('"fine"');
  }
  expect(({} as { polluted?: number }).polluted).toBeUndefined();
});

/** Asked for a whole answer: the bytes of the reply, and the statuses that the client may get. */
const WHOLES: [string, (socket: Socket) => void, number[]][] = [
  ['a redirect', sending('307 X', '', 'location: http://127.0.0.1:1/v1/chat/completions'), [502]],
  ['a permanent redirect', sending('301 X', '', 'location: /v1/models'), [502]],
  ['nothing modified', bytes('HTTP/1.1 304 Not Modified\r\n\r\n'), [502]],
  ['no content', bytes('HTTP/1.1 204 No Content\r\n\r\n'), [502]],
  ['a part of it', sending('206 X', ANSWER), [502]],
  [
    'another protocol',
    closing('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
    [502],
  ],
  ['a status that is none', sending('999 Evil', ''), [502]],
  ['a page', sending('200 OK', '<script>alert(1)</script>', 'content-type: text/html'), [502]],
  ['a gzip bomb', sending('200 OK', gzipSync(Buffer.alloc(1 << 27)), 'content-encoding: gzip'), [502]],
  ['5 MiB', sending('200 OK', `{"a":"${'x'.repeat(5 << 20)}"}`), [502]],
  // bytes without an end are given up by their number, or on a slow machine by the time that they take
  ['an answer without an end', endless(head(...CHUNKED), chunk('x'.repeat(KiB64))), [502, 504]],
  ['blanks without an end', endless(head(...CHUNKED), chunk(' '.repeat(KiB64))), [502, 504]],
  ['one byte a chunk without an end', endless(head(...CHUNKED), '1\r\na\r\n'.repeat(1000)), [502, 504]],
  ['a million lists', sending('200 OK', `[${'[],'.repeat(1_000_000)}0]`), [502]],
  ['100,000 levels', sending('200 OK', '['.repeat(100_000)), [502]],
  ['UTF-8 that is broken', sending('200 OK', Buffer.from([0x7b, 0xff, 0xfe, 0x7d])), [502]],
  ['words', sending('400 X', JSON.stringify({ error: { message: 'x'.repeat(1 << 20) } })), [400]],
  [
    'words that steer a terminal',
    sending('400 X', JSON.stringify({ error: { message: '\u001b[2J\u009b31m\r\nfw serve: fine\u202e' } })),
    [400],
  ],
  ['words that are a page', sending('422 X', '<script>alert(1)</script>', 'content-type: text/html'), [422]],
];

test('a whole answer of a hostile server is refused in our words, and the next request gets its own', async () => {
  const { attack, plain, said } = await gateway();
  for (const [name, how, statuses] of every(3, WHOLES)) {
    const { reply, length } = await attack(how, false);
    expect(statuses, name).toContain(reply.status);
    expect(reply.headers.get('content-type'), name).toBe('application/json; charset=utf-8');
    expect(length, name).toBeLessThan(80_000);
    expect(await plain(), name).toContain('"fine"');
  }
  // what is said to the operator is a line each
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what steers a terminal
  expect(said.filter(line => /[\u0000-\u001f\u007f-\u009f]/.test(line))).toEqual([]);
});

test('no header of a server reaches a client, and no type that a browser would render', async () => {
  const { attack } = await gateway();
  const types = [
    ...['text/html', 'text/event-stream, text/html', 'text/event-stream;x="\u4e2d"', 'application/jsonp'],
    ...['application/json, text/html', 'image/svg+xml', '', 'text/event-stream', 'application/json'],
  ];
  for (const type of types) {
    const how = bytes(
      head(`content-type: ${type}`, 'transfer-encoding: chunked', ...EVIL),
      chunk(WHOLE),
      END,
    );
    const { reply } = await attack(how, true);
    expect(reply.status, type).toBe(200);
    const names = [...reply.headers.keys()];
    expect(
      names.filter(name => !OURS.has(name)),
      type,
    ).toEqual([]);
    expect(reply.headers.get('x-request-id'), type).toMatch(/^req_/);
    expect(
      ['text/event-stream; charset=utf-8', 'application/json; charset=utf-8', 'application/octet-stream'],
      type,
    ).toContain(reply.headers.get('content-type'));
  }
});

test('what is kept of a stream for the record is bounded, whatever member of it is long', () => {
  const long = 'x'.repeat(100_000);
  const told = new StreamRecord(new KeptText(null));
  const say = (choice: object, more: object = {}) =>
    told.event(JSON.stringify({ ...more, choices: [choice] }));
  for (let index = 0; index < 200; index++) {
    say({ index, delta: { role: long, content: long }, finish_reason: long }, { id: long, model: long });
    for (let tool = 0; tool < 20; tool++)
      say({
        index,
        delta: {
          tool_calls: [
            {
              index: tool,
              id: `${tool}${long.slice(0, 10_000)}`,
              function: { name: long.slice(0, 10_000), arguments: 'x' },
            },
          ],
        },
      });
  }
  expect(told.answer().text.length).toBeLessThan(4 * 1024 * 1024);
});

test('… nor of one in items or in blocks, and what is no event of theirs does no harm', () => {
  const long = 'x'.repeat(20_000);
  const deep = '['.repeat(100_000) + ']'.repeat(100_000);
  for (const told of [new ItemsStream(new KeptText(null)), new BlocksStream(new KeptText(null))]) {
    const say = (one: object): void => told.event(JSON.stringify(one));
    for (let n = 0; n < 100; n++) {
      say({ type: 'response.output_item.added', output_index: n, item: { type: long, id: long } });
      say({
        type: `response.${long.slice(0, 50)}${n % 50}.delta`,
        output_index: n % 9,
        content_index: long,
        delta: long,
      });
      say({ type: 'response.created', response: { id: long, model: long, usage: { input_tokens: long } } });
      say({
        type: 'message_start',
        message: { id: long, role: long, usage: { [`${n}`]: n, input_tokens: n } },
      });
      say({ type: 'content_block_start', index: n, content_block: { type: long, text: long } });
      say({ type: 'content_block_delta', index: n, delta: { type: 'signature_delta', signature: long } });
      say({ type: 'message_delta', delta: { stop_reason: long }, usage: { [`${n}`]: n } });
    }
    for (const type of ['constructor', '__proto__', 7, null, [], {}]) {
      say({ type, delta: { type, text: 'x' }, response: 7, item: [], index: -1, content_block: null });
      say({ type: 'content_block_delta', delta: { type } });
      say({ type: `response.${type}.delta`, delta: 'x' });
    }
    const most = 2 * 1024 * 1024;
    expect(told.answer().text.length).toBeLessThan(most);
    expect(told.cutOff('x').length).toBeLessThan(most);
    try {
      told.event(`{"type":"response.completed","response":{"output":${deep}}}`);
      told.event(`{"type":"content_block_start","index":1,"content_block":{"input":${deep}}}`);
    } catch {
      // the sink reads no further
    }
    expect(told.answer().text.length).toBeLessThan(most);
  }
});
