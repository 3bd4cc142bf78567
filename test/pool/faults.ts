/**
 * What servers, proxies and networks do to a request, one entry each: faults.test.ts puts every one of them through the
 * same situations. To add one, say here what a bad server does.
 */
import { type Ask, idOf, nonceIn } from './serving.ts';

export interface Fault {
  treat(ask: Ask): void;
  /** the server says that it is full: no fault of the call, and none of its tries */
  away?: true;
  /** nothing comes, so that each costs a place there until the timeout */
  silent?: true;
}

const completion = (content: string, id?: string): string =>
  JSON.stringify({ id, choices: [{ index: 0, message: { content }, finish_reason: 'stop' }] });
const whole = (ask: Ask): string => completion(nonceIn(ask.body), idOf(ask.headers));
const half = (ask: Ask): string => whole(ask).slice(0, -20);
const head = (...fields: string[]): string => ['HTTP/1.1 200 OK', ...fields, '', ''].join('\r\n');
const headOf = (body: string): string => head(`content-length: ${body.length}`);
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const CHUNKED = head('transfer-encoding: chunked');

export const FAULTS: Record<string, Fault> = {
  'HTTP 408': { treat: ask => ask.send(408, {}) },
  'HTTP 429': { treat: ask => ask.send(429, { error: { message: 'slow down' } }), away: true },
  'HTTP 429 with Retry-After: 2': { treat: ask => ask.send(429, {}, { 'retry-after': '2' }), away: true },
  'HTTP 500': { treat: ask => ask.send(500, { error: { message: 'worker died' } }) },
  'HTTP 502 with HTML': { treat: ask => ask.send(502, '<html>bad gateway</html>') },
  'HTTP 503': { treat: ask => ask.send(503, 'The engine is currently busy'), away: true },
  'HTTP 504': { treat: ask => ask.send(504, '') },
  // beyond what there is: as any 5xx (RFC 9110 15)
  'HTTP 999': { treat: ask => ask.send(999, {}) },
  'HTTP 099': { treat: ask => ask.raw('HTTP/1.1 099 Odd\r\ncontent-length: 2\r\n\r\n{}') },
  'HTTP 101 that nobody asked for': {
    treat: ask => ask.raw('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
  },
  'an end before the headers': { treat: ask => ask.cut() },
  'a reset before the headers': { treat: ask => ask.reset() },
  'an end after the headers': { treat: ask => ask.cut(head('content-length: 500')) },
  'a reset after the headers': { treat: ask => ask.reset(head('content-length: 500')) },
  'half a body': { treat: ask => ask.cut(headOf(whole(ask)) + half(ask)) },
  'half a body and a reset': { treat: ask => ask.reset(headOf(whole(ask)) + half(ask)) },
  'half a body up to the end': { treat: ask => ask.cut(head('connection: close') + half(ask)) },
  'half a chunk': { treat: ask => ask.cut(CHUNKED + chunk(whole(ask)).slice(0, -20)) },
  'chunks without the last one': { treat: ask => ask.cut(CHUNKED + chunk(whole(ask))) },
  'no HTTP': { treat: ask => ask.cut('220 smtp ready\r\n') },
  '200 with HTML': { treat: ask => ask.send(200, '<html>please log in</html>') },
  '200 with nothing': { treat: ask => ask.send(200, '') },
  '200 with an error': { treat: ask => ask.send(200, { error: { message: 'engine dead' } }) },
  '200 with empty choices': { treat: ask => ask.send(200, { choices: [] }) },
  '200 without content': { treat: ask => ask.send(200, { choices: [{ message: { role: 'assistant' } }] }) },
  '200 aborted by the engine': {
    treat: ask => ask.send(200, { choices: [{ message: { content: 'half' }, finish_reason: 'abort' }] }),
  },
  'no answer': { treat: ask => ask.ignore(), silent: true },
  'headers and no body': { treat: ask => ask.raw(head('content-length: 500')), silent: true },
};

/** Behind the right answer comes one that nobody asked for, and that must not be taken for the next request's. */
export const oneTooMany = (ask: Ask): void => {
  const other = completion('crossed');
  ask.raw(headOf(whole(ask)) + whole(ask) + headOf(other) + other);
};
