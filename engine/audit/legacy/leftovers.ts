/**
 * What must not be in a result: nulls, the texts of errors where a model's reasons belong, and the placeholders of
 * a prompt's example that a model copied. One walk over the record, with pointers built only where something is found.
 */
import { isBlank } from '../../answers/text-faults.ts';
import type { Code } from '../../core/item/codes.ts';
import { join, MAX_DEPTH } from '../../core/json/pointer.ts';
import { shorten } from '../../core/json/show.ts';

/** Something that verification refuses. `rule` is a short word to count by; `at` a JSON Pointer. */
export interface Violation {
  code: Code;
  rule: string;
  at: string;
  expected: string;
  got: string;
}

export function broken(
  rule: string,
  at: string,
  expected: string,
  got: string,
  code: Code = 'not-strict',
): Violation {
  return { code, rule, at, expected, got };
}

/** Findings that are kept of one record: the first says why it is refused. */
export const MAX_VIOLATIONS = 20;

/**
 * What the older scripts wrote into a reason when a call or the reading of its answer had failed; also as the beginning of
 * a text, in any case and as a clause of its own. Small letters inside a sentence are a model's: "a manual review required
 * by law" is a reason.
 */
const SENTINEL = /System\s{1,9}Error|Parsing\s{1,9}Failure|Manual\s{1,9}Review\s{1,9}Required/;
const AS_CLAUSE =
  /^[\W_]{0,9}(?:system[\s_]{1,9}error|parsing[\s_]{1,9}failure|manual[\s_]{1,9}review[\s_]{1,9}required)\s{0,9}(?:$|[^\w\s])/i;

/**
 * What may stand inside of a text unseen: a text of an error with a U+200B in it was somebody's way past a filter. Joiners
 * of emoji and of Indic scripts are among them, so the text is only looked at without them, and never changed.
 */
const UNSEEN =
  /(?:[\p{Cf}\u115f\u1160\u2800\u3164\uffa0]|\u034f|\u17b4|\u17b5|[\u180b-\u180f]|[\ufe00-\ufe0f]){1,99}/gu;
/** None of Latin-1 but the soft hyphen is unseen, and an engine need not look for the others in a text of Latin-1. */
const WIDE = /[\u034f-\uffff]/;
const SOFT_HYPHEN = '\u00ad';
/** Most other texts are of these characters alone. */
const SEEN = /^[\n -~\u00a1-\u00ac\u00ae-\u02ff\u2010-\u2027\u2030-\u205e]*$/;

/** Nearly all texts begin with a letter of ASCII. */
const SPACE = 32;
const DELETE = 127;

/**
 * Texts that stand for an answer in an example, and are none when a model copies them. Few and whole: a reason that
 * merely holds one of these words is a reason. Beside them: a text in angle brackets (`<your reason>`), and the
 * alternatives of an enum (`approve | deny`).
 */
const PLACEHOLDER = /^\s*(?:\.{3}|…|string|text|reason|reasoning|explanation|your reason here|<[^<>]*>)\s*$/i;
const LONGEST_PLACEHOLDER = 80;
const FULL_STOP = 46;

/** Keys of a legacy result that have answers of models. */
const ANSWERS = new Set(['output', 'all_agent_outputs', 'final_output', 'business_decision']);

const NO_KEYS: ReadonlySet<string> = new Set();

/**
 * Which texts are judged: `all` of an answer; of a record those in `answers`; `none` of agents whose answers may be any
 * text (folder.yaml does not say `own_words`).
 */
export type JudgedTexts = 'all' | 'answers' | 'none';

/** Adds to `found` what is wrong inside `value`, which is at `at`. `but`: keys of a record that are passed over. */
export function findLeftovers(
  value: object,
  at: string,
  texts: JudgedTexts,
  found: Violation[],
  but: ReadonlySet<string> = NO_KEYS,
): void {
  const before = found.length;
  walk(value, texts, 0, found, but);
  for (let i = before; i < found.length; i++) prefix(found[i] as Violation, at);
}

function walk(
  value: object,
  texts: JudgedTexts,
  depth: number,
  found: Violation[],
  but: ReadonlySet<string>,
): void {
  if (depth > MAX_DEPTH) {
    found.push(broken('too deep', '', `at most ${MAX_DEPTH} levels`, 'more', 'too-deep'));
    return;
  }
  // Object.values, since a load by key from objects of many shapes costs more than the rest of the walk
  const children: unknown[] = Array.isArray(value) ? value : Object.values(value);
  const isRecord = texts === 'answers' || but.size > 0;
  const keys = !isRecord || Array.isArray(value) ? null : Object.keys(value);
  for (let i = 0; i < children.length; i++) {
    const child = children[i];
    if (but.size > 0 && keys !== null && but.has(keys[i] as string)) continue;
    if (typeof child === 'string') {
      const finding = textsBelow(texts, keys?.[i]) === 'all' ? judgeText(child) : null;
      if (finding !== null) found.push({ ...finding, at: pointerTo(value, i) });
    } else if (child === null) {
      found.push(broken('null', pointerTo(value, i), 'a value', 'null'));
    } else if (typeof child === 'object') {
      const before = found.length;
      walk(child, textsBelow(texts, keys?.[i]), depth + 1, found, NO_KEYS);
      for (let f = before; f < found.length; f++) prefix(found[f] as Violation, pointerTo(value, i));
    }
    if (found.length >= MAX_VIOLATIONS) return;
  }
}

const textsBelow = (texts: JudgedTexts, key: string | undefined): JudgedTexts =>
  texts === 'answers' && key !== undefined && ANSWERS.has(key) ? 'all' : texts;

/** How a line of a log begins. Verification lets it pass; who can ask again does not take it for a reason. */
const ERROR_LINE = /^\s*[[(<]?error\b\s*[:\])>]/i;

/** The first text in an answer that no model meant: of an error, or a placeholder. Below MAX_DEPTH nobody looks. */
export function leftoverText(answer: object, at = '', depth = 0): Violation | null {
  for (const [key, child] of Object.entries(answer)) {
    if (typeof child === 'string') {
      const finding = ERROR_LINE.test(child) ? errorIn(child) : judgeText(child);
      if (finding !== null) return { ...finding, at: join(at, key) };
    } else if (typeof child === 'object' && child !== null && depth < MAX_DEPTH) {
      const finding = leftoverText(child, join(at, key), depth + 1);
      if (finding !== null) return finding;
    }
  }
  return null;
}

function pointerTo(value: object, index: number): string {
  return join('', Array.isArray(value) ? index : (Object.keys(value)[index] as string));
}

function prefix(finding: Violation, at: string): void {
  finding.at = at + finding.at;
}

/** Whether a model may have meant the text: it is no text of an error, no placeholder and not blank. */
export function isInOwnWords(text: string): boolean {
  return judgeText(text) === null;
}

function isError(text: string): boolean {
  // to look for each word takes a third of the time that an expression of three does
  const isSuspect = text.includes('System') || text.includes('Parsing') || text.includes('Manual');
  return (isSuspect && SENTINEL.test(text)) || AS_CLAUSE.test(text);
}

/** Whether it is a text of an error once what is unseen in it is left out, or taken for the space that it stands for. */
function hidesError(text: string): boolean {
  if ((!WIDE.test(text) && !text.includes(SOFT_HYPHEN)) || SEEN.test(text)) return false;
  return ['', ' '].some(instead => isError(text.replace(UNSEEN, instead)));
}

function judgeText(text: string): Omit<Violation, 'at'> | null {
  if (isError(text) || hidesError(text)) return errorIn(text);
  if (isUnseen(text)) {
    const got = `a text in which nothing can be seen: ${escaped(text)}`;
    return { code: 'placeholder-text', rule: 'blank text', expected: "the model's own words", got };
  }
  if (!isPlaceholder(text)) return null;
  const got = `a placeholder: ${JSON.stringify(text)}`;
  return { code: 'placeholder-text', rule: 'placeholder', expected: "the model's own words", got };
}

function errorIn(text: string): Omit<Violation, 'at'> {
  const got = `the text of an error: ${JSON.stringify(shorten(text))}`;
  return { code: 'sentinel-text', rule: 'text of an error', expected: "the model's own words", got };
}

function isUnseen(text: string): boolean {
  const first = text.charCodeAt(0);
  return text !== '' && !(first > SPACE && first < DELETE) && isBlank(text);
}

/** What cannot be seen, by its numbers. */
function escaped(text: string): string {
  const units = [...text]
    .slice(0, 5)
    .map(unit => `U+${unit.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}`);
  return units.join(' ');
}

function isPlaceholder(text: string): boolean {
  if (text.length > LONGEST_PLACEHOLDER) return false;
  // reasons are sentences: what ends in a full stop is three of them or no placeholder
  if (text.charCodeAt(text.length - 1) === FULL_STOP) return text.trimStart() === '...';
  if (text.includes('|')) return text.split('|').every(part => /^\s*"?\w+"?\s*$/.test(part));
  return PLACEHOLDER.test(text);
}
