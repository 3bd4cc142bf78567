/**
 * The lines of a ledger, as docs/ledger.md describes them for who reads them in ten years. Each is one JSON object that
 * ends in its own checksum; the first key says what it is:
 *
 *   {"fw":"ledger 1", …}    header: once, first in its file
 *   {"stage":"chain", …}    what a stage asks with: hashes of its agents, its options
 *   {"text":"<id>", …}      a part of requests that many calls share, once a file
 *   {"key":"<key>", …}      a try of a call: request, endpoint, answer or what went wrong
 *   {"verdict":"<rung>", …} what was made of an answer
 *   {"end":"ended", …}      how the run ended: once, last
 */
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { End } from '../../core/item/call.ts';
import type { Beside, Rung, TokenLogprob, Usage, WholeAnswer } from '../../core/item/item.ts';
import { REDACTED, redactOwn } from './redact.ts';

export const FORMAT = 'ledger 1';

/** Hex characters of a key, and its place in the bytes of a line: behind `{"key":"`. */
const KEY_LENGTH = 32;
const KEY_AT = 8;

/** What became of a try: `answer`, or in words what stood in its way. Only answers are replayed. */
export type Outcome =
  | 'answer'
  | 'bad answer'
  | 'crossed'
  | 'timeout'
  | 'transport'
  | 'refused'
  | 'interrupted'
  | `HTTP ${number}`;

const OUTCOMES: readonly string[] = [
  'answer',
  'bad answer',
  'crossed',
  'timeout',
  'transport',
  'refused',
  'interrupted',
];

export function isOutcome(text: string): text is Outcome {
  return OUTCOMES.includes(text) || /^HTTP \d{3}$/.test(text);
}

/** The lines that hold an answer begin so, up to the key and from there on. */
const BEFORE_KEY = Buffer.from('{"key":"');
const ANSWERED = Buffer.from('","outcome":"answer"');
const BEFORE_VERDICT = Buffer.from('{"verdict":"');
const QUOTE = 0x22;
/** from a verdict to its key */
const BETWEEN = '","key":"';
const BEFORE_STAGE = Buffer.from('{"stage":"');
const BEFORE_FORMAT = Buffer.from('{"fw":"');
const BEFORE_TEXT = Buffer.from('{"text":"');
const BEFORE_END = Buffer.from('{"end":"');
/** Hex characters of a text's id. */
export const ID_LENGTH = 16;
export const REQUEST = ',"request":{';
/** of a raw call, behind its path */
export const RAW_BODY = ',"body":';

/** A model as the endpoints say it. */
export interface Served {
  model: string;
  /** the weights behind the name, where the server says */
  root?: string;
}

export interface Header extends Served {
  fw: typeof FORMAT;
  version: string;
  started: string;
  host: string;
  pid: number;
  label: string;
  files: readonly string[];
  endpoints: readonly string[];
}

/**
 * `request` is written as it went over the wire, less its shared beginning and end: see `bodyOf`. That of a raw call is its
 * path and its `body`, which shares nothing.
 */
export interface CallLine extends Beside {
  key: string;
  outcome: Outcome;
  /** when it ended, ISO 8601 in UTC */
  time: string;
  endpoint: string;
  /** that was asked */
  model: string;
  /** the request names no model: it is the one that the run meant */
  unnamed?: true;
  item: string;
  agent: string;
  round: number;
  attempt: number;
  /** from sending to the end of the answer */
  ms: number;
  /** of a live call: who asked, the id of the key, which of several models a name became, and ms to the first token of a streamed answer */
  caller?: string;
  caller_key?: string;
  arm?: string;
  ttft?: number;
  /** … and the trace of W3C's traceparent that it belongs to */
  trace?: string;
  /** what went wrong, in words */
  detail?: string;
  finish?: string;
  usage?: Usage;
  /** the text of the answer */
  answer?: string;
  /** there where `answer` is only the beginning of one that is too long to be of use */
  whole?: WholeAnswer;
  /** of an answer, where the server gave them */
  logprobs?: TokenLogprob[];
  /** texts were left out: the key is that of the request as it was sent, and cannot be made again from this one */
  redacted?: true;
  /** texts of the request and of the answer were removed later: what it cost stays */
  forgotten?: true;
  request:
    | ({ path: string; head: string; tail: string; messages: unknown[] } & Record<string, unknown>)
    | { path: string; body: unknown };
}

export const ENDS: readonly string[] = ['ended', 'stopped', 'broken off'] satisfies End[];

/** What the pool has to say of a try. */
export interface CallRecord extends Omit<CallLine, 'time' | 'redacted' | 'forgotten' | 'request'> {
  /** milliseconds since 1970 */
  time: number;
  path: string;
  body: Buffer;
  /** the constant beginning and end of the body: what is between them is the call's own */
  head: string;
  tail: string;
  raw?: true;
  /** texts of the item that must not be kept */
  redact?: readonly string[];
}

/** A line with bytes in it that are JSON already: they are copied, and never made a string. */
export interface LineWithBytes {
  before: string;
  bytes: Buffer;
  after: string;
}

/**
 * A line of the ledger without its checksum and closing brace. `head` and `tail` are ids of text lines; a raw call has
 * none.
 */
export function callLine(record: CallRecord, head: string, tail: string): LineWithBytes {
  const { key, outcome, time, endpoint, model, item, agent, round, attempt, ms } = record;
  const { detail, finish, usage, answer, whole, logprobs, path, body, redact } = record;
  let line = `{"key":"${key}","outcome":"${outcome}","time":"${new Date(time).toISOString()}"`;
  const named = record.unnamed ? ',"unnamed":true' : '';
  line += `,"endpoint":${JSON.stringify(endpoint)},"model":${JSON.stringify(model)}${named},"item":${JSON.stringify(item)}`;
  line += `,"agent":${JSON.stringify(agent)},"round":${round},"attempt":${attempt},"ms":${Math.round(ms)}`;
  const { caller, caller_key, arm, trace, ttft } = record;
  if (caller !== undefined) line += `,"caller":${JSON.stringify(caller)}`;
  if (caller_key !== undefined) line += `,"caller_key":${JSON.stringify(caller_key)}`;
  if (arm !== undefined) line += `,"arm":${JSON.stringify(arm)}`;
  if (trace !== undefined) line += `,"trace":${JSON.stringify(trace)}`;
  if (ttft !== undefined) line += `,"ttft":${Math.round(ttft)}`;
  if (detail !== undefined)
    line += `,"detail":${JSON.stringify(redact && isOfServer(outcome) ? REDACTED : detail)}`;
  if (answer === undefined && usage !== undefined) line += `,"usage":${JSON.stringify(usage)}`;
  if (answer !== undefined) {
    line += `,"finish":${JSON.stringify(finish)},"usage":${JSON.stringify(usage)},"answer":${JSON.stringify(answer)}`;
    if (whole !== undefined) line += `,"whole":${JSON.stringify(whole)}`;
    if (logprobs !== undefined) line += `,"logprobs":${JSON.stringify(logprobs)}`;
    const { tool_calls, reasoning, reasoning_whole } = record;
    if (tool_calls !== undefined) line += `,"tool_calls":${JSON.stringify(tool_calls)}`;
    if (reasoning !== undefined) line += `,"reasoning":${JSON.stringify(reasoning)}`;
    if (reasoning_whole !== undefined) line += `,"reasoning_whole":${JSON.stringify(reasoning_whole)}`;
  }
  const request = `${REQUEST}"path":${JSON.stringify(path)}`;
  if (record.raw) return { before: `${line}${request}${RAW_BODY}`, bytes: body, after: '}' };
  const sent = body.subarray(Buffer.byteLength(record.head), body.length - Buffer.byteLength(record.tail));
  const own = redact ? Buffer.from(redactOwn(sent.toString(), redact)) : sent;
  if (own !== sent && !own.equals(sent)) line += ',"redacted":true';
  // the body is JSON already: what is the call's own closes the list of messages, and goes in as it is
  return {
    before: `${line}${request},"head":"${head}","tail":"${tail}","messages":[`,
    bytes: own,
    after: '}',
  };
}

/** What such a detail says are a server's words, which may quote the request in any form, and cut. */
function isOfServer(outcome: Outcome): boolean {
  return outcome === 'refused' || outcome === 'bad answer' || outcome.startsWith('HTTP ');
}

export function idOfText(content: string): string {
  return createHash('sha256').update(content).digest('hex').slice(0, 16);
}

export const CRC = ',"crc":"';
/** `,"crc":"xxxxxxxx"}` */
export const SEAL_LENGTH = CRC.length + 8 + 2;
const SEAL = Buffer.from(CRC);
const OPEN_SEAL = SEAL[0] as number;

/**
 * Writes a line, its checksum and its newline at `at`; returns where it ends. The checksum is CRC-32 (ISO 3309, as in
 * gzip) over the bytes before it: it finds every single flipped bit. `bytes` has room for three bytes a character.
 */
export function writeSealed(line: string | LineWithBytes, bytes: Buffer, at: number): number {
  let end = at + bytes.write(typeof line === 'string' ? line : line.before, at);
  if (typeof line !== 'string') {
    end += line.bytes.copy(bytes, end);
    end += bytes.write(line.after, end);
  }
  const sum = crc32(bytes.subarray(at, end)).toString(16).padStart(8, '0');
  return end + bytes.write(`${CRC}${sum}"}\n`, end, 'latin1');
}

/** Bytes that a sealed line may need. */
export function roomFor(line: string | LineWithBytes): number {
  if (typeof line === 'string') return 3 * line.length + SEAL_LENGTH + 1;
  return 3 * (line.before.length + line.after.length) + line.bytes.length + SEAL_LENGTH + 1;
}

/** Whether a line (without its newline) is as it was written. */
export function isSealed(line: Buffer): boolean {
  const at = line.length - SEAL_LENGTH;
  if (at < 1 || line[at] !== OPEN_SEAL || SEAL.compare(line, at, at + CRC.length) !== 0) return false;
  if (line[line.length - 2] !== 0x22 || line[line.length - 1] !== 0x7d) return false;
  const sum = line.toString('latin1', at + CRC.length, line.length - 2);
  return sum === crc32(line.subarray(0, at)).toString(16).padStart(8, '0');
}

/** Whether a sealed line holds an answer, which is what is replayed. */
export function isAnswer(line: Buffer): boolean {
  const after = KEY_AT + KEY_LENGTH;
  return (
    line.length > after + ANSWERED.length &&
    BEFORE_KEY.compare(line, 0, KEY_AT) === 0 &&
    ANSWERED.compare(line, after, after + ANSWERED.length) === 0
  );
}

export const isVerdict = (line: Buffer): boolean => beginsWith(line, BEFORE_VERDICT);
export const isStage = (line: Buffer): boolean => beginsWith(line, BEFORE_STAGE);
export const isCall = (line: Buffer): boolean => beginsWith(line, BEFORE_KEY);
export const isHeader = (line: Buffer): boolean => beginsWith(line, BEFORE_FORMAT);
export const isText = (line: Buffer): boolean => beginsWith(line, BEFORE_TEXT);

export const isEnd = (line: Buffer): boolean => beginsWith(line, BEFORE_END);

export type Kind = 'header' | 'stage' | 'text' | 'call' | 'verdict' | 'end';

/** What a sealed line begins like; null for none of these. */
export function kindIn(line: Buffer): Kind | null {
  if (isCall(line)) return 'call';
  if (isVerdict(line)) return 'verdict';
  if (isText(line)) return 'text';
  if (isStage(line)) return 'stage';
  if (isEnd(line)) return 'end';
  return isHeader(line) ? 'header' : null;
}

/** Their third bytes tell the kinds apart: most lines are asked no further. */
function beginsWith(line: Buffer, begin: Buffer): boolean {
  return line[2] === begin[2] && line.length > begin.length && begin.compare(line, 0, begin.length) === 0;
}

/** The key of a call line. */
export function keyIn(line: Buffer): string {
  return line.toString('latin1', KEY_AT, KEY_AT + KEY_LENGTH);
}

/** Far more often than anybody asks again; a line that says more is somebody's invention. */
const MOST_ROUNDS = 99;
const BEFORE_ROUND = Buffer.from(',"round":');

/** The round of a call line, without parsing it: quotes are escaped in texts, so that none of them holds this. */
export function roundIn(line: Buffer): number {
  const at = line.indexOf(BEFORE_ROUND) + BEFORE_ROUND.length;
  const round = Number.parseInt(line.toString('latin1', at, at + 3), 10);
  return round > 0 && round <= MOST_ROUNDS ? round : 0;
}

/** What a sealed verdict line begins with, without parsing it: a finished run has one for each call. */
export function readVerdict(line: Buffer): { verdict: Rung; key: string } {
  const from = BEFORE_VERDICT.length;
  const end = line.indexOf(QUOTE, from);
  const keyAt = end + BETWEEN.length;
  return {
    verdict: line.toString('latin1', from, end) as Rung,
    key: line.toString('latin1', keyAt, keyAt + KEY_LENGTH),
  };
}

/** The id of a text line. */
export function textIdIn(line: Buffer): string {
  return line.toString('latin1', BEFORE_TEXT.length, BEFORE_TEXT.length + ID_LENGTH);
}

/** A call line as JSON without its request, which is the larger part of it. */
export function withoutRequest(line: Buffer): string {
  return `${line.toString('utf8', 0, line.indexOf(REQUEST))}}`;
}
