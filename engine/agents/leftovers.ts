/**
 * What must not stand in a result: nulls, the texts of errors where a model's reasons belong, and the placeholders of
 * a prompt's example that a model copied. One walk over the record, with pointers built only where something is found.
 */
import type { Code } from '../flow/failure.ts';
import { MAX_DEPTH } from '../integrity/lossless.ts';
import { join } from '../integrity/pointer.ts';
import { shorten } from '../integrity/problem.ts';

/** Something that verification refuses. `rule` is a short word to count by; `at` a JSON Pointer. */
export interface Finding {
  code: Code;
  rule: string;
  at: string;
  expected: string;
  got: string;
}

/** Findings that are kept of one record: the first says why it is refused. */
const MOST = 20;

/** What the older scripts wrote into a reason when a call or the reading of its answer had failed. */
const SENTINEL = /System Error|Parsing Failure|Manual Review Required/;

/**
 * Texts that stand for an answer in an example, and are none when a model copies them. Few and whole: a reason that
 * merely holds one of these words is a reason. Beside them: a text in angle brackets (`<your reason>`), and the
 * alternatives of an enum (`approve | deny`).
 */
const PLACEHOLDERS = new Set([
  '...',
  '…',
  'string',
  'text',
  'reason',
  'reasoning',
  'explanation',
  'your reason here',
]);
const LONGEST_PLACEHOLDER = 80;

/** Keys of a legacy result under which answers of models stand. */
const ANSWERS = new Set(['output', 'all_agent_outputs', 'final_output', 'business_decision']);

/** Adds to `found` what is wrong inside `value`, which stands at `at`. `inAnswer`: its texts are a model's. */
export function findLeftovers(value: object, at: string, inAnswer: boolean, found: Finding[]): void {
  const before = found.length;
  walk(value, inAnswer, 0, found);
  for (let i = before; i < found.length; i++) prefix(found[i] as Finding, at);
}

function walk(value: object, inAnswer: boolean, depth: number, found: Finding[]): void {
  if (depth > MAX_DEPTH) {
    found.push({
      code: 'too-deep',
      rule: 'too deep',
      at: '',
      expected: `at most ${MAX_DEPTH} levels`,
      got: 'more',
    });
  } else if (Array.isArray(value)) {
    for (let i = 0; i < value.length && found.length < MOST; i++) visit(value[i], i, inAnswer, depth, found);
  } else {
    for (const key in value) {
      if (found.length >= MOST) return;
      visit((value as Record<string, unknown>)[key], key, inAnswer || ANSWERS.has(key), depth, found);
    }
  }
}

function visit(
  child: unknown,
  key: string | number,
  inAnswer: boolean,
  depth: number,
  found: Finding[],
): void {
  if (typeof child === 'string') {
    if (!inAnswer) return;
    const finding = judgeText(child);
    if (finding !== null) found.push({ ...finding, at: join('', key) });
  } else if (child === null) {
    found.push({ code: 'not-strict', rule: 'null', at: join('', key), expected: 'a value', got: 'null' });
  } else if (typeof child === 'object') {
    const before = found.length;
    walk(child, inAnswer, depth + 1, found);
    for (let i = before; i < found.length; i++) prefix(found[i] as Finding, join('', key));
  }
}

function prefix(finding: Finding, at: string): void {
  finding.at = at + finding.at;
}

function judgeText(text: string): Omit<Finding, 'at'> | null {
  if (SENTINEL.test(text)) {
    const got = `the text of an error: ${JSON.stringify(shorten(text))}`;
    return { code: 'sentinel-text', rule: 'text of an error', expected: "the model's own words", got };
  }
  if (text.length > LONGEST_PLACEHOLDER || !isPlaceholder(text.trim())) return null;
  const got = `a placeholder: ${JSON.stringify(text)}`;
  return { code: 'placeholder-text', rule: 'placeholder', expected: "the model's own words", got };
}

function isPlaceholder(text: string): boolean {
  if (PLACEHOLDERS.has(text.toLowerCase())) return true;
  if (text.startsWith('<')) return text.endsWith('>') && text.indexOf('>') === text.length - 1;
  return text.includes('|') && text.split('|').every(part => /^\s*"?\w+"?\s*$/.test(part));
}
