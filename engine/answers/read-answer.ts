/**
 * From a model's text to an object that fits a schema, or to a reason why not. Every change on the way is an entry,
 * and the rung says what kind of change was needed:
 *
 *   JSON.parse ─ fits ──────────────────────────────────→ clean
 *       │  └──── does not fit ──→ coerce ─ fits ────────→ coerced
 *       ▼                           ▲  └─ does not ─────→ failed, with the problems that are left
 *   find the last, mend it ─── fits ┼───────────────────→ repaired
 *                     └─ does not ──┘
 *
 * What the model said last is the answer. Where that breaks or does not fit, nothing before it takes its place.
 */
import { REFUSED } from '../core/item/call.ts';
import { isShallow, lossless } from '../core/json/lossless.ts';
import { isObject } from '../core/json/pointer.ts';
import { shorten, show, summarise } from '../core/json/show.ts';
import { wordsOf } from './answers-of-line.ts';
import { coerce } from './coerce.ts';
import { applyEdits, type Edit } from './entries.ts';
import { type Found, findAnswer, MAX_TEXT } from './find-answer.ts';
import { findChoice, findScalar } from './find-scalar.ts';
import { doubtInside } from './inside.ts';
import { MENDS } from './mend.ts';
import type { Check, SchemaFinding } from './schema-check.ts';
import { type Kind, kindOf, kindsOf, nameOf } from './schema-words.ts';
import { failed, type Reading, readText } from './text.ts';
import { COERCIONS } from './written-forms.ts';

export { coerce } from './coerce.ts';
export { failed, type Reading } from './text.ts';

/** Every rule, on unless a caller leaves it out of `fixes`. */
export const FIXES: ReadonlySet<string> = new Set([...Object.keys(MENDS), ...Object.keys(COERCIONS)]);

/**
 * Reads one answer. `finish` is the server's finish_reason: anything but `stop` is `truncated`, whatever the text
 * looks like. Never throws, and takes time linear in the text.
 */
export function readAnswer(
  text: string,
  check: Check,
  { finish, fixes = FIXES }: { finish: string; fixes?: ReadonlySet<string> },
): Reading {
  if (check.text) {
    const read = readText(text, check, { finish, fixes });
    const { enum: choices } = isObject(check.schema) ? check.schema : {};
    const isNone = read.problem?.code === 'schema-mismatch' && Array.isArray(choices);
    return isNone ? readChoice(text, choices as string[], check, { fixes, read }) : read;
  }
  if (finish === REFUSED)
    return failed(
      'model-refused',
      `expected an answer, got a refusal: ${JSON.stringify(shorten(text.trim()))}`,
    );
  if (finish !== 'stop') {
    return failed(
      'truncated',
      `expected finish_reason "stop", got ${show(finish)}: the answer may not be whole`,
    );
  }
  if (text.length > MAX_TEXT) {
    return failed(
      'no-json-found',
      `expected an answer of at most ${MAX_TEXT} characters, got ${text.length}`,
    );
  }
  const whole = parse(text);
  const kinds = kindsOf(check.schema);
  const name = nameOf(kinds);
  if (whole === null && name !== 'object') return failed('null-value', 'expected a value, got null');
  if (isObject(whole) || kinds.has(kindOf(whole))) {
    const why = doubtInside(whole, check.schema);
    if (why !== null) return failed('not-the-answer', `expected a JSON ${name} that answers, got one ${why}`);
    return judge(text, whole, [], check, fixes);
  }
  // a whole JSON text says what it is: only a list of objects may have been meant as one
  const isList = Array.isArray(whole) && whole.length > 0 && whole.every(isObject);
  if (whole !== undefined && !(isList && kinds.has('object'))) {
    // a text may hold a number or a boolean in another form
    if (typeof whole === 'string' && name === 'value') return judge(text, whole, [], check, fixes);
    return failed('no-json-found', `expected a JSON ${name}, got ${show(whole)}`);
  }

  const found = findIn(text, kinds, check);
  if (found === null) return failed('no-json-found', `expected a JSON ${name}, got ${describe(text)}`);
  if (found.broke !== undefined)
    return failed('no-json-found', `expected a JSON ${name}, and one breaks: ${found.broke}`);
  if (found.beyond !== undefined) {
    const message = `expected the answer to end with its turn, got more behind the end of that at offset ${found.beyond}`;
    return { ...failed('beyond-its-turn', message), turnEnd: found.beyond };
  }
  if (found.doubt !== undefined) {
    const { at, why } = found.doubt;
    const message = `expected a JSON ${name} that is given as the answer, got one ${why}, at offset ${at}`;
    return failed('not-the-answer', message);
  }
  if (found.differ !== undefined) {
    const { count, at } = found.differ;
    const where = at === '' ? '' : ` at ${shorten(at)}`;
    return failed('several-answers', `expected one JSON ${name}, got ${count} that differ${where}`);
  }
  return readMended(text, found.edits ?? [], check, fixes);
}

/** One of several texts, with words around it. `read`: why the whole text is none. */
function readChoice(
  text: string,
  choices: readonly string[],
  check: Check,
  { fixes, read }: { fixes: ReadonlySet<string>; read: Reading },
): Reading {
  const found = findChoice(text, choices);
  if (found?.doubt !== undefined)
    return failed(
      'not-the-answer',
      `expected a choice that is given as the answer, got one ${found.doubt.why}`,
    );
  if (found?.differ !== undefined)
    return failed('several-answers', `expected one choice, got ${found.differ.count} that differ`);
  const edits = found?.edits;
  if (edits === undefined || edits.some(({ rule }) => !fixes.has(rule))) return read;
  if (check.textAfter === 'refuse' && edits.some(({ rule }) => rule === 'text-after'))
    return failed('text-after', 'expected nothing behind the answer, got text');
  const { value, repairs, findings } = coerce(applyEdits(text, edits).trim(), check, fixes);
  if (findings.length > 0) return read;
  const output = value as string;
  return {
    rung: repairs.length > 0 ? 'coerced' : 'repaired',
    output,
    compact: output,
    repairs: [...edits, ...repairs],
  };
}

/** What may hold others is looked for first: a list, an object; then single values. */
function findIn(text: string, kinds: ReadonlySet<Kind>, { schema }: Check): Found | null {
  const lists = kinds.has('array');
  const bracketed = kinds.has('object') || lists ? findAnswer(text, { lists, schema }) : null;
  if (bracketed !== null) return bracketed;
  const isAlone = kinds.has('string') || kinds.has('number') || kinds.has('boolean');
  return isAlone ? findScalar(text) : null;
}

function readMended(text: string, edits: readonly Edit[], check: Check, fixes: ReadonlySet<string>): Reading {
  const off = edits.find(({ rule }) => !fixes.has(rule));
  if (off)
    return failed('no-json-found', `expected JSON, got an answer that needs ${off.rule}, which is off`);
  if (check.textAfter === 'refuse' && edits.some(({ rule }) => rule === 'text-after'))
    return failed('text-after', 'expected nothing behind the answer, got text');
  const mended = applyEdits(text, edits);
  const value = parse(mended);
  // The mender and JSON.parse agree on what JSON is; if they ever do not, the parser is right.
  if (value === undefined || (!isObject(value) && nameOf(kindsOf(check.schema)) === 'object'))
    return failed('no-json-found', 'expected a JSON object, got one that could not be mended');
  return judge(mended, value, edits, check, fixes);
}

function judge(
  json: string,
  value: unknown,
  edits: readonly Edit[],
  check: Check,
  fixes: ReadonlySet<string>,
): Reading {
  // most answers are compact as they come: a text that JSON.stringify gives back to the letter has lost nothing
  const before = isShallow(json) ? JSON.stringify(value) : undefined;
  const lost = before === json ? null : lossless(json);
  if (lost) return failed(lost.code, lost.message, edits);
  const { value: output, repairs: changes, findings } = coerce(value, check, fixes);
  const repairs = [...edits, ...changes];
  if (findings.length > 0) {
    return { ...failed(codeOf(findings), summarise(findings), repairs), output };
  }
  const rung = changes.length > 0 ? 'coerced' : edits.length > 0 ? 'repaired' : 'clean';
  const isSame = output === value && before !== undefined && typeof output !== 'string';
  const compact = isSame ? before : wordsOf(output);
  return { rung, output, compact, repairs };
}

/** `null-value` where nulls are all that is wrong, so that null-fix knows its work. */
export function codeOf(findings: readonly SchemaFinding[]): 'null-value' | 'schema-mismatch' {
  const isNull = ({ data, at, instance }: SchemaFinding): boolean => data === null && at === instance;
  return findings.every(isNull) ? 'null-value' : 'schema-mismatch';
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function describe(text: string): string {
  return text.trim() === '' ? 'an empty answer' : JSON.stringify(shorten(text.trim()));
}
