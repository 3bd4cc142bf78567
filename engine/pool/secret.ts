/**
 * The API key, kept out of every text that a server sends back: some repeat it when they refuse it, and one that means
 * harm repeats it in a form that a plain search does not find.
 */

/** Where the API key comes from. The key itself stays behind a function, so that printing this shows the name alone. */
export interface Key {
  /** as messages call it: the environment variable, such as $FW_API_KEY */
  name: string;
  read(): string;
}

/** Shorter keys are often none (`x`, `EMPTY`), and their letters stand in any honest text. */
const TELLING = 12;
/** Fewer characters of base64 stand in any honest text. */
const TELLING_BASE64 = 8;
/** A character of the key takes at most this much of a text, whatever the form: base64, then JSON inside of JSON. */
const WIDEST = 20;

const patterns = new WeakMap<Key, RegExp>();

/** The text with `***` for the key: as it is, escaped for JSON, a URL or HTML, in base64 or hexadecimal. */
export function hide(text: string, key: Key | undefined): string {
  return key === undefined ? text : text.replace(patternOf(key), '***');
}

/** `hide` for a text that was cut off at its end, where half a key may be left. */
export function hideInCut(text: string, key: Key | undefined): string {
  if (key === undefined) return text;
  const hidden = hide(text, key);
  return hidden.slice(0, Math.max(0, hidden.length - WIDEST * key.read().length));
}

/** Whether the text holds the key, as it is or escaped, so that nobody but the server itself can have put it there. */
export function holdsKey(text: string, key: Key | undefined): boolean {
  const secret = key?.read() ?? '';
  if (key === undefined || secret.length < TELLING) return false;
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
  return inside.length < TELLING_BASE64 ? '' : inside;
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
