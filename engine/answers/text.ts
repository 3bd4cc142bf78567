/**
 * Answers in text, of agents without a schema: what the model said, to the letter. Reasoning beside it, and the tokens of
 * a chat template around it, are no part of it, and each is an entry. Where a choice or a regular expression is asked for,
 * the space around the answer is none either. Nothing is read out of a sentence; read-answer.ts finds a choice with words
 * around it.
 */
import { REFUSED } from '../core/item/call.ts';
import type { Code } from '../core/item/codes.ts';
import type { Repair, Rung } from '../core/item/item.ts';
import { shorten, show, summarise } from '../core/json/show.ts';
import { coerce } from './coerce.ts';
import { turnsOf } from './end-of-turn.ts';
import { applyEdits, type Edit } from './entries.ts';
import { MAX_TEXT } from './find-answer.ts';
import type { MendRule } from './mend.ts';
import { blocksOf, startOf } from './reasoning.ts';
import type { Check } from './schema-check.ts';
import { EMPTY, loopIn, REPEATS, repetitionIn } from './text-faults.ts';

/** What vLLM says of an answer that its own `repetition_detection` ended. */
const STOPPED_AS_LOOP = 'repetition';

/** Reads one answer in text, as readAnswer reads one in JSON. Never throws, and takes time linear in the text. */
export function readText(
  text: string,
  check: Check,
  { finish, fixes }: { finish: string; fixes: ReadonlySet<string> },
): Reading {
  if (finish === REFUSED) {
    const message = `expected an answer, got a refusal: ${JSON.stringify(shorten(text.trim()))}`;
    return failed('model-refused', message);
  }
  // first, since a loop mostly ends at the limit of tokens: then this is the cause
  const loop = repetitionIn(text);
  if (loop !== null || finish === STOPPED_AS_LOOP) {
    const got = loop === null ? 'one that the server stopped for its repetition' : loopIn(loop);
    return failed('repeats-itself', `expected a text that ends, got ${got}`);
  }
  if (finish !== 'stop') {
    const message = `expected finish_reason "stop", got ${show(finish)}: the answer may not be whole`;
    return failed('truncated', message);
  }
  if (text.length > MAX_TEXT) {
    const message = `expected an answer of at most ${MAX_TEXT} characters, got ${text.length}`;
    return failed('answer-too-long', message);
  }
  const cuts = cutsIn(text);
  if (!Array.isArray(cuts)) return cuts;
  const isExact = check.text?.isFree || check(applyEdits(text, cuts)).length === 0;
  return judged(text, isExact ? cuts : withoutSpace(text, cuts), check, fixes);
}

/** What is left out of the text, or why it is no answer. */
export function cutsIn(text: string): Edit[] | Reading {
  const turns = turnsOf(text);
  // <s> begins a turn, or begins struck-out text that ends at </s>
  const start = /^\s*<s>.*<\/s>/is.test(text) ? 0 : turns.start;
  const cuts = reasoningIn(text, start);
  if (!Array.isArray(cuts)) return cuts;
  const opensTurn = cuts[0]?.offset !== 0 && text.slice(0, start).trim() !== '';
  if (opensTurn) cuts.unshift(cutOf('text-around', text, 0, start));
  const from = cuts[0]?.offset === 0 ? cuts[0].cut.length : 0;
  for (let at = turns.tokenIn(from, text.length); at !== -1; at = turns.tokenIn(at + 1, text.length)) {
    if (isMarkup(text, at)) continue;
    if (turns.isEnd(at)) return [...cuts, cutOf('text-around', text, at, text.length)];
    const message = `expected the answer to end with its turn, got more behind the end of that at offset ${at}`;
    return { ...failed('beyond-its-turn', message), turnEnd: at };
  }
  return cuts;
}

/** Tokens of some templates that are tags of a page elsewhere: <s> strikes out. */
const TAG = /<(\/?)(?:s|user|human|assistant|bot|system)>/iy;

function isMarkup(text: string, at: number): boolean {
  TAG.lastIndex = at;
  const tag = TAG.exec(text)?.[0].toLowerCase();
  return tag !== undefined && (tag !== '</s>' || text.toLowerCase().lastIndexOf('<s>', at) !== -1);
}

const MARK = /[<&[◁【]|assistantfinal/gi;
/** The end of a tag of reasoning, and what harmony writes between the name of a channel and its text. */
const TAG_END = /\s{0,4}(?:>|&gt;)?(?:\s{0,4}<\|message\|>)?/iy;

/** The blocks of reasoning in a text, each with the space behind it where it begins the text; or a failure where one has no end. */
function reasoningIn(text: string, start: number): Edit[] | Reading {
  const blockAt = blocksOf(text);
  const bare = startOf(text);
  let cuts: Edit[] = [];
  let begin = afterSpace(text, start); // of what is left of the text
  MARK.lastIndex = bare;
  for (let mark = MARK.exec(text); mark !== null; mark = MARK.exec(text)) {
    const at = mark.index;
    const block = isQuoted(text, at) ? null : blockAt(at);
    if (block === null) continue;
    if (block.isOpen)
      return failed('empty-answer', `expected the end of the reasoning at offset ${at}, got the end`);
    TAG_END.lastIndex = block.end;
    TAG_END.test(text);
    const end = TAG_END.lastIndex || block.end;
    if (block.fromTheStart || at <= begin) {
      begin = afterSpace(text, end);
      cuts = [cutOf('think-block', text, 0, begin)];
    } else cuts.push(cutOf('think-block', text, at, end));
    MARK.lastIndex = end;
  }
  // bare reasoning that nothing ends is all of the text
  return bare > 0 && cuts.length === 0 ? [cutOf('think-block', text, 0, bare)] : cuts;
}

/** A tag in code or in quotes is mentioned, not used. */
function isQuoted(text: string, at: number): boolean {
  return at > 0 && '`"\'“‘'.includes(text[at - 1] as string);
}

function afterSpace(text: string, from: number): number {
  return text.length - text.slice(from).trimStart().length;
}

function cutOf(rule: MendRule, text: string, from: number, to: number): Edit {
  return { rule, offset: from, cut: text.slice(from, to), put: '' };
}

/** The cuts, and the space at both ends of what they leave; the same where there is none. */
function withoutSpace(text: string, cuts: readonly Edit[]): Edit[] {
  const [first] = cuts;
  const last = cuts.at(-1);
  const from = first?.offset === 0 ? first.cut.length : 0;
  const to = last && last.offset + last.cut.length === text.length ? last.offset : text.length;
  const begin = Math.min(to, afterSpace(text, from));
  const end = Math.max(begin, text.slice(0, to).trimEnd().length);
  const around = [cutOf('text-around', text, from, begin), cutOf('text-around', text, end, to)];
  return [...cuts, ...around.filter(({ cut }) => cut !== '')].sort((a, b) => a.offset - b.offset);
}

function judged(text: string, cuts: readonly Edit[], check: Check, fixes: ReadonlySet<string>): Reading {
  const off = cuts.find(({ rule }) => !fixes.has(rule));
  if (off) return failed('schema-mismatch', `expected a text, got one that needs ${off.rule}, which is off`);
  const { value, repairs: changes, findings } = coerce(applyEdits(text, cuts), check, fixes);
  const repairs = [...cuts, ...changes];
  const [first] = findings;
  if (first) return failed(codeOf(first), summarise(findings), repairs);
  const output = value as string;
  const rung = changes.length > 0 ? 'coerced' : cuts.length > 0 ? 'repaired' : 'clean';
  return { rung, output, compact: output, repairs };
}

/** Of a text that any will do for: `textCheck` finds nothing else in one. */
const CODES: { readonly [keyword: string]: Code } = { [EMPTY]: 'empty-answer', [REPEATS]: 'repeats-itself' };

const codeOf = ({ keyword }: { keyword: string }): Code => CODES[keyword] ?? 'schema-mismatch';

export interface Reading {
  rung: Rung;
  /** the answer; where the rung is `failed`, the object as far as it could be read, for whoever fills what is missing */
  output?: unknown;
  /** the output as later agents are shown it (see `wordsOf`); there where the rung is not `failed` */
  compact?: string;
  /** syntax entries on the text first, then values in the order of their change */
  repairs: Repair[];
  problem?: { code: Code; message: string };
  /** where the model's own turn ends, if there is text behind it, which is never read or judged */
  turnEnd?: number;
}

export function failed(code: Code, message: string, repairs: readonly Repair[] = []): Reading {
  return { rung: 'failed', repairs: [...repairs], problem: { code, message } };
}
