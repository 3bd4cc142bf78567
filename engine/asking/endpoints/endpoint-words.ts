/**
 * Causes in words, and the API key kept out of them. What a server says is shown once and shortened, without control
 * characters and without the key: some servers repeat it when they refuse it, and one that means harm repeats it in a
 * form that a plain search does not find.
 */

/** Bytes of an error body that are read. */
const MAX_READ = 65_536;

/** Aborts an exchange that has had its time. */
export class NoAnswerInTime extends Error {
  override name = 'NoAnswerInTime';
  readonly code = 'FW_NO_ANSWER';
}

/** Aborts an exchange whose answer is too long. */
export class TooLong extends Error {
  override name = 'TooLong';
  readonly code = 'FW_TOO_LONG';
  /** it is the body, and longer than --max-body */
  readonly isBody: boolean;
  constructor(message: string, isBody = false) {
    super(message);
    this.isBody = isBody;
  }
}

/** What kind of thing prevented an exchange, for whoever gives advice. */
export type Obstacle =
  | 'unknown-host'
  | 'refused'
  | 'no-route'
  | 'silent'
  | 'tls'
  | 'no-tls'
  | 'cut'
  | 'not-http';

interface Meaning {
  words: string;
  obstacle?: Obstacle;
  /** nothing was sent: the endpoint is not there, or this process or machine has run out of something */
  unsent?: 'no-endpoint' | 'no-socket';
}

const CUT = { words: 'connection closed before the answer was complete' };
const UNKNOWN = { obstacle: 'unknown-host', unsent: 'no-endpoint' } as const;
const NO_ROUTE = { obstacle: 'no-route', unsent: 'no-endpoint' } as const;
const NO_SOCKET = { unsent: 'no-socket' } as const;

/** The codes of Node and of undici. */
const CODES: Record<string, Meaning> = {
  ECONNREFUSED: { words: 'connection refused', obstacle: 'refused', unsent: 'no-endpoint' },
  ECONNRESET: { words: 'connection reset' },
  EPIPE: { words: 'connection reset' },
  UND_ERR_SOCKET: CUT,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: CUT,
  UND_ERR_CONNECT_TIMEOUT: { words: 'no connection within 10 s', ...NO_ROUTE },
  UND_ERR_HEADERS_OVERFLOW: { words: 'headers larger than 16 KiB' },
  ENOTFOUND: { words: 'no such host', ...UNKNOWN },
  EAI_AGAIN: { words: 'no such host (the name server did not answer)', ...UNKNOWN },
  ETIMEDOUT: { words: 'connection timed out', obstacle: 'no-route' },
  EHOSTUNREACH: { words: 'host unreachable', ...NO_ROUTE },
  ENETUNREACH: { words: 'network unreachable', ...NO_ROUTE },
  EADDRNOTAVAIL: { words: 'no free local port: fewer calls in flight are needed', ...NO_SOCKET },
  EMFILE: { words: 'too many open files here: raise `ulimit -n` or ask for less in flight', ...NO_SOCKET },
  ENFILE: { words: 'too many open files on this machine: ask for less in flight', ...NO_SOCKET },
  ENOBUFS: { words: 'no room for another connection here: ask for less in flight', ...NO_SOCKET },
};

/** OpenSSL's codes for an answer that is no TLS at all. */
const NOT_TLS = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']);

function codeOf(error: Error): string {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? code : '';
}

function isTls(code: string): boolean {
  return /CERT|SIGNATURE|^ERR_TLS|^ERR_SSL|^EPROTO$/.test(code);
}

/** Why nothing was sent; undefined where the server may have the request. */
export function unsentFor(error: Error): Meaning['unsent'] {
  const code = codeOf(error);
  return isTls(code) ? 'no-endpoint' : CODES[code]?.unsent;
}

export function obstacleOf(error: Error): Obstacle {
  if (error instanceof NoAnswerInTime) return 'silent';
  const code = codeOf(error);
  if (NOT_TLS.has(code)) return 'no-tls';
  if (isTls(code)) return 'tls';
  return CODES[code]?.obstacle ?? (isNotHttp(error, code) ? 'not-http' : 'cut');
}

/** ERR_ASSERTION: what undici says of a status below 100, and for a change of protocol (101) that nobody asked for. */
function isNotHttp(error: Error, code: string): boolean {
  return code.startsWith('HPE_') || code === 'ERR_ASSERTION' || error.name === 'HTTPParserError';
}

/** The cause of a failed exchange, such as `connection refused`. */
export function causeOf(error: Error, key: Key | undefined): string {
  if (error instanceof NoAnswerInTime || error instanceof TooLong) return error.message;
  const code = codeOf(error);
  const known = CODES[code];
  if (known !== undefined) return known.words;
  if (NOT_TLS.has(code)) return 'it does not speak TLS here: did you mean http:// instead of https://?';
  if (code === 'CERT_HAS_EXPIRED') return 'TLS failed: the certificate has expired';
  if (isTls(code)) return `TLS failed (${code}); a private authority goes into NODE_EXTRA_CA_CERTS`;
  if (isNotHttp(error, code)) return 'the answer is not HTTP';
  const message = oneLine(hide(error.message, key), 120);
  return code === '' ? message : `${message} (${code})`;
}

/** What an error body says: the message of an OpenAI-style error, else its text. At most `most` characters. */
export function serverWords(body: Buffer, key: Key | undefined, most = 300): string {
  const text = body.toString('utf8', 0, MAX_READ);
  let words = text;
  try {
    words = messageIn(JSON.parse(text)) ?? text;
  } catch {
    if (isHtml(body)) words = 'an HTML page';
  }
  // Before anything is shortened: half a key is a leak too.
  return oneLine(body.length > MAX_READ ? hideInCut(words, key) : hide(words, key), most);
}

/** A page for people, where an API was asked. */
export function isHtml(body: Buffer): boolean {
  return /^\s{0,99}</.test(body.toString('utf8', 0, 200));
}

function messageIn(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { error, message, detail } = value as Record<string, unknown>;
  if (typeof error === 'object' && error !== null) return messageIn(error);
  for (const words of [message, error]) if (typeof words === 'string') return words;
  if (detail !== undefined) return typeof detail === 'string' ? detail : JSON.stringify(detail);
  return undefined;
}

/** One line of at most `most` characters, safe to show on a terminal. */
export function oneLine(text: string, most: number): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a server's words must not steer the terminal
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\s]+/g, ' ').trim();
  return line.length <= most ? line : `${line.slice(0, most - 1)}…`;
}

export function seconds(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${Number((ms / 1000).toPrecision(3))} s`;
}

/** Where the API key comes from. The key itself is behind a function, so that printing this shows the name alone. */
export interface Key {
  /** as messages call it: the environment variable, such as $FW_API_KEY */
  name: string;
  read(): string;
}

/** Shorter keys are often none (`x`, `EMPTY`), and any honest text may have their letters. */
const MIN_KEY_LENGTH = 12;
/** Any honest text may have fewer characters of base64. */
const MIN_BASE64_LENGTH = 8;
/** A character of the key takes at most this much of a text, whatever the form: base64, then JSON inside of JSON. */
const MAX_CHARACTER_FORM = 20;

const patterns = new WeakMap<Key, RegExp>();

/** The text with `***` for the key: as it is, escaped for JSON, a URL or HTML, in base64 or hexadecimal. */
export function hide(text: string, key: Key | undefined): string {
  return key === undefined ? text : text.replace(patternOf(key), '***');
}

/** `hide` for a text that was cut off at its end, where half a key may be left. */
function hideInCut(text: string, key: Key | undefined): string {
  if (key === undefined) return text;
  const hidden = hide(text, key);
  return hidden.slice(0, Math.max(0, hidden.length - MAX_CHARACTER_FORM * key.read().length));
}

/** Whether the text holds the key, as it is or escaped, so that nobody but the server itself can have put it there. */
export function holdsKey(text: string, key: Key | undefined): boolean {
  const secret = key?.read() ?? '';
  if (key === undefined || secret.length < MIN_KEY_LENGTH) return false;
  return text.includes(secret) || (text.includes('\\') && hide(text, key) !== text);
}

function patternOf(key: Key): RegExp {
  let pattern = patterns.get(key);
  if (pattern === undefined) {
    pattern = new RegExp(formsOf(key.read()).map(escapable).join('|'), 'g');
    patterns.set(key, pattern);
  }
  return pattern;
}

function formsOf(secret: string): string[] {
  const base64 = [0, 1, 2].map(before => base64Inside(secret, before)).filter(Boolean);
  const urlSafe = base64.map(text => text.replaceAll('+', '-').replaceAll('/', '_'));
  const hex = Buffer.from(secret).toString('hex');
  return [...new Set([secret, ...base64, ...urlSafe, hex, hex.toUpperCase()])];
}

/**
 * What of the base64 (RFC 4648) of a longer text comes from the key alone, where `before` bytes, modulo 3, precede it:
 * the characters that share bits with its neighbours are left out.
 */
function base64Inside(secret: string, before: number): string {
  const text = Buffer.from('\0'.repeat(before) + secret).toString('base64');
  const inside = text.slice(
    Math.ceil((before * 8) / 6),
    Math.floor(((before + Buffer.byteLength(secret)) * 8) / 6),
  );
  return inside.length < MIN_BASE64_LENGTH ? '' : inside;
}

/** A pattern for the text in which each character, all printable ASCII, may be escaped. Every repetition is bounded. */
function escapable(text: string): string {
  const character = (one: string): string => {
    const code = one.charCodeAt(0);
    const hex = code.toString(16).replace(/[a-f]/g, digit => `[${digit}${digit.toUpperCase()}]`);
    const itself = `\\x${code.toString(16).padStart(2, '0')}`;
    return `(?:\\\\{0,4}${itself}|\\\\{1,4}u00${hex}|%${hex}|&#0{0,3}${code};|&#[xX]0{0,3}${hex};)`;
  };
  return [...text].map(character).join('');
}

/** How each kind of server says that a prompt does not fit, in small letters. */
const TOO_LONG = [
  // vLLM, old and new, SGLang, and OpenAI
  'maximum context length',
  'maximum model length',
  'context_length_exceeded',
  'context length is only',
  "longer than the model's context length",
  'exceeds the maximum allowed length',
  // llama.cpp
  'exceed_context_size_error',
  'exceeds the available context size',
  'n_ctx',
  // TGI, with HTTP 422
  '`inputs` tokens + `max_new_tokens` must be <=',
  '`inputs` must have less than',
  // Ollama
  'longer than the context length',
  'exceeds the context length',
  // LM Studio
  'loaded with context length of only',
  'greater than the context length',
];

/** Whether a refusal (400, 413, or 422 of TGI) with this body is about the length of the prompt. */
export function isTooLong(status: number, body: Buffer): boolean {
  if (status !== 400 && status !== 413 && status !== 422) return false;
  const text = body.toString('utf8', 0, 65_536).toLowerCase();
  return TOO_LONG.some(words => text.includes(words));
}

/** The fields that agents say the form of an answer by. */
export const FORM_FIELDS = [
  'response_format',
  'structured_outputs',
  'guided_json',
  'guided_choice',
  'guided_regex',
];

/** How a server says that it does not know a field, in small letters. */
const NOT_KNOWN = [
  // TGI: Failed to deserialize the JSON body into the target type: response_format: missing field `value`
  'failed to deserialize',
  // OpenAI, of fields, and of models that came before schemas
  'unrecognized request argument',
  'unknown parameter',
  'is not supported with this model',
  // servers on pydantic that forbid other fields
  'extra inputs are not permitted',
];

/** Of these fields, those that a refusal says to be unknown; none where it finds fault with what a field holds. */
export function unknownFields(words: string): string[] {
  const text = words.toLowerCase();
  return NOT_KNOWN.some(said => text.includes(said)) ? FORM_FIELDS.filter(field => text.includes(field)) : [];
}

/** llama.cpp gives its numbers beside its words: `{"error": {"n_prompt_tokens": 5120, "n_ctx": 4096, …}}`. */
export function lengthNumbers(body: Buffer): string {
  const text = body.toString('utf8', 0, 65_536);
  const prompt = /"n_prompt_tokens"\s{0,9}:\s{0,9}(\d{1,12})/.exec(text)?.[1];
  const context = /"n_ctx"\s{0,9}:\s{0,9}(\d{1,12})/.exec(text)?.[1];
  return prompt && context ? `${prompt} tokens where the context has ${context}` : '';
}
