/**
 * What servers and what stands before them do to a request, one entry each, byte by byte. Each is put beside a healthy
 * endpoint: servers.test.ts does that on an injected clock, test/by-hand/hostile-servers.sh with whole runs. To add one,
 * say here what a bad server does.
 */
import { gzipSync } from 'node:zlib';
import type { Ask } from './serving.ts';

export interface Behaviour {
  name: string;
  behave(ask: Ask): void;
  /** it gives right answers, in its own way: they may be taken */
  isRight?: true;
}

const MIB = 1024 * 1024;
const DAY = 86_400;

const head = (status: string, ...fields: string[]): string =>
  [`HTTP/1.1 ${status}`, ...fields, '', ''].join('\r\n');
const lengthOf = (body: string | Buffer): string => `content-length: ${Buffer.byteLength(body)}`;
const CHUNKED = 'transfer-encoding: chunked';
const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;

/** A whole reply with this body. */
function reply({ socket }: Ask, body: string | Buffer, status = '200 OK', ...fields: string[]): void {
  socket.write(head(status, 'content-type: application/json', lengthOf(body), ...fields));
  socket.write(body);
}
const replying =
  (body: string | Buffer | ((ask: Ask) => string | Buffer), status?: string, ...fields: string[]) =>
  (ask: Ask): void =>
    reply(ask, typeof body === 'function' ? body(ask) : body, status, ...fields);

/** These bytes as they are, and the connection stays open, or is closed. */
const bytes =
  (text: string | Buffer | ((ask: Ask) => string)) =>
  (ask: Ask): void =>
    void ask.socket.write(typeof text === 'function' ? text(ask) : text);
const lastly =
  (text: string | Buffer | ((ask: Ask) => string)) =>
  (ask: Ask): void =>
    void ask.socket.end(typeof text === 'function' ? text(ask) : text);

/** One byte a second, from the first to the last and no end. */
const dripping =
  (before: (ask: Ask) => string, text: (ask: Ask) => string) =>
  (ask: Ask): void => {
    ask.socket.write(before(ask));
    const all = text(ask);
    ask.every(1_000, times => void (times < all.length && ask.socket.write(all[times] as string)));
  };

/** The right reply, with something else in the place of one of its members. */
const withMember =
  (key: string, value: unknown) =>
  ({ right }: Ask): string =>
    JSON.stringify({ ...JSON.parse(right), [key]: value });

function withUsage({ right }: Ask): string {
  return right.replace(
    /"usage":\{[^}]*\}?/,
    '"usage":{"prompt_tokens":1e308,"completion_tokens":-7,"total_tokens":"many"',
  );
}

const TINY = (size: number): string => `{"choices":[${'{},'.repeat(size / 3)}{}]}`;
const BOMB = gzipSync(Buffer.alloc(64 * MIB));
const TLS_ALERT = Buffer.from('15030300020228', 'hex');
const HTTP2 = Buffer.from('000012040000000000000300000064000400100000000600004000', 'hex');

export const BEHAVIOURS: readonly Behaviour[] = [
  // nothing comes, or not enough of it
  { name: 'never answers', behave: () => {} },
  {
    name: 'answers one call in 50, never the others',
    behave: ask => void (ask.n % 50 === 1 && reply(ask, ask.right)),
    isRight: true,
  },
  { name: 'a head with a length, and no body', behave: bytes(head('200 OK', 'content-length: 500')) },
  { name: 'a chunked head, and no body', behave: bytes(head('200 OK', CHUNKED)) },
  {
    name: 'a length that never comes',
    behave: bytes(({ right }) => head('200 OK', 'content-length: 99999') + right),
  },
  {
    name: 'half a body, and silence',
    behave: bytes(({ right }) => head('200 OK', lengthOf(right)) + right.slice(0, 40)),
  },
  {
    name: 'half a chunk, and silence',
    behave: bytes(({ right }) => head('200 OK', CHUNKED) + chunk(right).slice(0, 40)),
  },
  { name: 'half a head, and silence', behave: bytes('HTTP/1.1 200 OK\r\ncontent-ty') },
  {
    name: 'a body of 1 byte/s',
    behave: dripping(
      ({ right }) => head('200 OK', lengthOf(right)),
      ({ right }) => right,
    ),
  },
  {
    name: 'a chunked body of 1 byte/s',
    behave: dripping(
      () => head('200 OK', CHUNKED),
      ({ right }) => [...right].map(chunk).join(''),
    ),
  },
  {
    name: 'a head of 1 byte/s',
    behave: dripping(
      () => '',
      ({ right }) => head('200 OK', `x-pad: ${'a'.repeat(500)}`, lengthOf(right)) + right,
    ),
  },
  {
    name: '1xx without end',
    behave: ask => ask.every(500, () => void ask.socket.write(head('102 Processing'))),
  },
  {
    name: '1xx without end, as fast as they are read',
    behave: ask => ask.flood(() => head('102 Processing').repeat(200)),
  },
  {
    name: '100 Continue, unasked',
    behave: ask => ask.every(500, () => void ask.socket.write(head('100 Continue'))),
  },
  {
    name: 'blanks without end',
    behave: ask => {
      ask.socket.write(head('200 OK', CHUNKED));
      ask.every(1_000, () => void ask.socket.write(chunk('\n')));
    },
  },
  // too much of it
  {
    name: 'headers without end',
    behave: ask => {
      ask.socket.write('HTTP/1.1 200 OK\r\n');
      ask.flood(() => `x-more: ${'a'.repeat(900)}\r\n`.repeat(8));
    },
  },
  {
    name: 'a header of 1 MiB',
    behave: bytes(({ right }) => head('200 OK', `x-long: ${'a'.repeat(MIB)}`, lengthOf(right)) + right),
  },
  {
    name: 'trailers without end',
    behave: ask => {
      ask.socket.write(`${head('200 OK', CHUNKED)}${chunk(ask.right)}0\r\n`);
      ask.flood(() => `x-more: ${'a'.repeat(900)}\r\n`.repeat(8));
    },
  },
  {
    name: 'a chunk extension without end',
    behave: ask => {
      ask.socket.write(`${head('200 OK', CHUNKED)}5;`);
      ask.flood(() => 'a'.repeat(65_536));
    },
  },
  {
    name: 'a body of 1 GiB',
    behave: ask => {
      ask.socket.write(head('200 OK', `content-length: ${1024 * MIB}`));
      ask.flood(() => 'a'.repeat(65_536));
    },
  },
  {
    name: 'a body without end',
    behave: ask => {
      ask.socket.write(head('200 OK', CHUNKED));
      ask.flood(() => chunk('a'.repeat(65_536)));
    },
  },
  {
    name: 'blanks without end, as fast as they are read',
    behave: ask => {
      ask.socket.write(head('200 OK', CHUNKED));
      ask.flood(() => chunk(' '.repeat(65_536)));
    },
  },
  { name: '12 MB of tiny choices', behave: replying(() => TINY(12 * MIB)) },
  { name: '4 MB of tiny choices', behave: replying(() => TINY(4_000_000)) },
  {
    name: 'HTTP 500 with 12 MB of words',
    behave: replying(() => `{"error":{"message":"${'no '.repeat(4 * MIB)}"}}`, '500 Internal Server Error'),
  },
  {
    name: 'a gzip bomb',
    behave: replying(BOMB, '200 OK', 'content-encoding: gzip'),
  },
  {
    name: 'nested 100,000 deep',
    behave: replying(() => `{"choices":${'['.repeat(100_000)}${']'.repeat(100_000)}}`),
  },
  // the connection breaks
  { name: 'closes at once', behave: ask => ask.socket.destroy() },
  { name: 'resets at once', behave: ask => void ask.socket.resetAndDestroy() },
  {
    name: 'resets after half a body',
    behave: ask =>
      void ask.socket.write(head('200 OK', lengthOf(ask.right)) + ask.right.slice(0, 40), () =>
        ask.socket.resetAndDestroy(),
      ),
  },
  { name: 'closes after the head', behave: lastly(head('200 OK', 'content-length: 500')) },
  {
    name: 'closes after half a body of no length',
    behave: lastly(({ right }) => head('200 OK', 'connection: close') + right.slice(0, 40)),
  },
  // no HTTP, or a broken one
  { name: 'HTTP/0.9: a body and no head', behave: lastly(({ right }) => right) },
  { name: 'HTTP/2', behave: bytes(HTTP2) },
  { name: 'TLS on a plain port', behave: bytes(TLS_ALERT) },
  { name: 'another protocol', behave: bytes('220 mail.example ESMTP ready\r\n') },
  { name: 'NUL bytes', behave: bytes(Buffer.alloc(4_096)) },
  {
    name: '101 Switching Protocols',
    behave: bytes(
      `${head('101 Switching Protocols', 'connection: upgrade', 'upgrade: websocket')}\u0001\u0002`,
    ),
  },
  {
    name: 'a length that is too small',
    behave: bytes(({ right }) => head('200 OK', 'content-length: 20') + right),
  },
  {
    name: 'a length that is too large, and the end',
    behave: lastly(({ right }) => head('200 OK', 'content-length: 99999') + right),
  },
  { name: 'a negative length', behave: bytes(({ right }) => head('200 OK', 'content-length: -5') + right) },
  {
    name: 'two lengths',
    behave: bytes(({ right }) => head('200 OK', 'content-length: 20', lengthOf(right)) + right),
  },
  {
    name: 'a length and chunks',
    behave: bytes(({ right }) => head('200 OK', 'content-length: 20', CHUNKED) + chunk(right) + chunk('')),
  },
  {
    name: 'a chunk size that is no number',
    behave: bytes(({ right }) => `${head('200 OK', CHUNKED)}zz\r\n${right}\r\n0\r\n\r\n`),
  },
  {
    name: 'a chunk of 2^64 bytes',
    behave: bytes(({ right }) => `${head('200 OK', CHUNKED)}ffffffffffffffff\r\n${right}\r\n`),
  },
  {
    name: 'two replies to one request',
    behave: ask => {
      reply(ask, ask.right);
      reply(ask, ask.right.replace(/"content":"/, '"content":"crossed '));
    },
    isRight: true,
  },
  {
    name: 'garbage between replies',
    behave: ask => {
      reply(ask, ask.right);
      ask.after(1, () => void ask.socket.write('garbage\r\n'));
    },
    isRight: true,
  },
  // another status
  {
    name: 'HTTP 422 with details nested 30,000 deep',
    behave: replying(`{"detail":${'['.repeat(30_000)}${']'.repeat(30_000)}}`, '422 Unprocessable Entity'),
  },
  { name: 'HTTP 204', behave: bytes(head('204 No Content')) },
  {
    name: 'HTTP 307 to itself',
    behave: replying('', '307 Temporary Redirect', 'location: /v1/chat/completions'),
  },
  { name: 'HTTP 401', behave: replying('{"error":"Unauthorized"}', '401 Unauthorized') },
  { name: 'HTTP 404', behave: replying('{"detail":"Not Found"}', '404 Not Found') },
  {
    name: 'HTTP 429, come back in a year',
    behave: replying('{}', '429 Too Many Requests', `retry-after: ${365 * DAY}`),
  },
  {
    name: 'HTTP 429, come back before now',
    behave: replying('{}', '429 Too Many Requests', 'retry-after: -5'),
  },
  {
    name: 'HTTP 429, come back whenever',
    behave: replying('{}', '429 Too Many Requests', 'retry-after: \u00ff when, if ever'),
  },
  { name: 'HTTP 503 for ever', behave: replying('busy', '503 Service Unavailable') },
  { name: 'HTTP 999', behave: replying('{}', '999 Request Denied') },
  { name: 'HTTP 000', behave: replying('{}', '000 Nothing') },
  // 200, and no completion
  { name: 'HTML', behave: replying('<html><h1>please log in</h1></html>') },
  { name: 'an empty body', behave: replying('') },
  { name: 'half a document', behave: replying(({ right }) => right.slice(0, -20)) },
  {
    name: 'bytes that are no UTF-8',
    behave: replying(({ right }) =>
      Buffer.concat([
        Buffer.from(right.slice(0, 60)),
        Buffer.from([0xc3, 0x28, 0xff]),
        Buffer.from(right.slice(60)),
      ]),
    ),
  },
  { name: 'NULs in the body', behave: replying(({ right }) => right.replace('{', '{\u0000')) },
  { name: 'a byte order mark', behave: replying(({ right }) => `\ufeff${right}`) },
  {
    name: 'a stream of events',
    behave: replying(({ right }) => `data: ${right}\n\ndata: [DONE]\n\n`, '200 OK'),
  },
  {
    name: 'compressed, unasked',
    behave: replying(({ right }) => gzipSync(right), '200 OK', 'content-encoding: gzip'),
  },
  { name: 'an array', behave: replying(({ right }) => `[${right}]`) },
  { name: 'a number', behave: replying('-0') },
  { name: 'an error', behave: replying('{"error":{"message":"the engine is dead","code":500}}') },
  { name: 'choices: null', behave: replying(withMember('choices', null)) },
  { name: 'choices: []', behave: replying(withMember('choices', [])) },
  {
    name: 'choices of other types',
    behave: replying(
      withMember('choices', [7, 'x', null, [], { index: 0, message: 'text', finish_reason: 7 }]),
    ),
  },
  {
    name: 'content of another type',
    behave: replying(
      withMember('choices', [{ index: 0, message: { content: { a: 1 } }, finish_reason: 'stop' }]),
    ),
  },
  { name: 'usage of 1e308, negative and in words', behave: replying(withUsage), isRight: true },
];
