/** "Did the model say this?", asked of one value of a line, and answered from the entries that the line carries. */

import { type Answer, answersIn, isAccountedFor, list, markedRepairs } from '../answers/answers-of-line.ts';
import {
  applyEdits,
  editsOf,
  pointerOf,
  replay,
  spanBefore,
  type Trace,
  trace,
  valueEntries,
} from '../answers/entries.ts';
import { AGENT_NAME, READ_BACK, RULES } from '../answers/rules.ts';
import { isItem, isLegacy, type Repair } from '../core/item/item.ts';
import { getAt, type JsonObject, parsePointer, same } from '../core/json/pointer.ts';
import { shorten } from '../core/json/show.ts';
import { spanOf } from '../core/json/span.ts';
import { visible } from '../core/json/visible.ts';
import { changesOf } from './history.ts';
import { isNamePlace } from './legacy/own-names.ts';

/** What another line says of a legacy result: the item that it was made of, or a line of `legacy-convert --provenance`. */
export interface Vouching {
  answers: Answer[];
  where: string;
  /** it has the hash of the answers that it is of; version 0.1.0 wrote none */
  isBound: boolean;
}

/**
 * In one word: `said` to the letter, `mended` in its syntax, `coerced` into another form, `default` put by a rule, `named`
 * by the agent's own name; `unknown`; `beside` what any model said.
 */
export type OriginKind = 'said' | 'mended' | 'coerced' | 'default' | 'named' | 'unknown' | 'beside';

export interface Origin {
  kind: OriginKind;
  /** the verdict, then what it rests on: where in which text, and each change */
  words: string[];
}

/** Characters of a value that are printed; the story of the line has all of it. */
const MAX_SHOWN_TEXT = 400;

/** The lines to print about the value at `pointer`; null where the line holds none there. */
export function whoSaid(line: JsonObject, pointer: string, vouching: Vouching | null): string[] | null {
  const tokens = parsePointer(pointer);
  const value = getAt(line, tokens);
  if (value === undefined) return null;
  const text = JSON.stringify(value);
  const most =
    text.length > MAX_SHOWN_TEXT
      ? `${visible(text.slice(0, MAX_SHOWN_TEXT))}… (${text.length} characters)`
      : visible(text);
  const head = `${visible(pointer)} is ${most}`;
  return [head, ...originsIn(line, vouching)(tokens).words.map(text => `  ${text}`)];
}

/** Where the values of a line came from, asked of as many as are wanted; each is one that the line has. */
export function originsIn(
  line: JsonObject,
  vouching: Vouching | null,
): (tokens: readonly string[]) => Origin {
  if (!isItem(line)) return tokens => inRecord(line, tokens, vouching);
  const answers = new Map(answersIn(line).map(answer => [answer.at, readingOf(answer)]));
  return tokens => inItem(answers, tokens);
}

/** An answer, and of its text what is worked out once for all its values. */
interface Read {
  answer: Answer;
  /** the changes, made to what the model said, give the answer */
  isAccounted(): boolean;
  /** the text with its syntax mended; `isText`: the answer is that text itself */
  mended(): { text: string; isText: boolean };
}

function readingOf(answer: Answer): Read {
  const { said = '', output, repairs } = answer;
  let isAccounted: boolean | undefined;
  let mended: ReturnType<Read['mended']> | undefined;
  return {
    answer,
    isAccounted: () => (isAccounted ??= isAccountedFor(answer) === true),
    mended() {
      if (mended !== undefined) return mended;
      const text = applyEdits(said, editsOf(repairs));
      // an answer in text is all of what is left of it
      mended = { text, isText: typeof output === 'string' && replay(text, valueEntries(repairs)) === output };
      return mended;
    },
  };
}

/** Lists as they are: spread among arguments, those of a hostile line are more than a stack holds. */
type Words = string | readonly string[];

const origin = (kind: OriginKind, ...words: Words[]): Origin => ({ kind, words: words.flat() });

/** The keys at the deepest place of `pointer` that is there, for a message. */
export function keysNear(line: JsonObject, pointer: string): { at: string; keys: string[] } {
  const tokens = parsePointer(pointer);
  while (typeof (getAt(line, tokens) ?? null) !== 'object' || getAt(line, tokens) === undefined) tokens.pop();
  return { at: pointerOf(tokens), keys: Object.keys((getAt(line, tokens) ?? {}) as object) };
}

const FROM_THE_SOURCE = ['id', 'row', 'input', 'prompt', 'request', 'ordering'];

function inItem(answers: ReadonlyMap<string, Read>, tokens: readonly string[]): Origin {
  const [first = '', ...more] = tokens;
  const depth = first === 'decision' ? 1 : first === 'steps' ? 2 : 0;
  const read = depth > 0 ? answers.get(pointerOf(tokens.slice(0, depth))) : undefined;
  if (!read) {
    if (FROM_THE_SOURCE.includes(first))
      return origin('beside', 'no model said this: it is of the source, or made from it by ingest');
    return origin('beside', 'no: this is no answer of a model, but a part of the record around it');
  }
  const { answer } = read;
  const [part, ...rest] = more.slice(depth - 1);
  if (part === 'raw')
    return origin('said', `yes: this is the text of ${visible(answer.agent)}, to the letter`);
  if (part === 'rejected' && rest[1] === 'raw') {
    const number = Number(rest[0]) + 1;
    return origin(
      'said',
      `yes: this is the text of ${visible(answer.agent)} in attempt ${number}, which was not accepted`,
    );
  }
  if (part === 'response' && rest[0] === 'body') {
    if (answer.isEdited)
      return origin('unknown', 'unknown: this is not what the server answered: it has another hash');
    return origin('said', `yes: this is what the server answered to ${visible(answer.agent)}, as it came`);
  }
  if (part !== 'output') return origin('beside', 'no: this is what fw says about the answer');
  return inAnswer(read, rest);
}

function inAnswer(read: Read, tokens: readonly string[]): Origin {
  const { answer } = read;
  const who = visible(answer.agent);
  if (answer.said === undefined) return withoutText(answer, tokens);
  if (!read.isAccounted()) return origin('unknown', alteredBySomeone(who));
  const found = trace(valueEntries(answer.repairs), tokens);
  const { lines, mended } = found.at === null ? { lines: [], mended: false } : textIn(read, found.at);
  return withWords(verdictOf(found, who, mended), lines, changesIn(found));
}

const withWords = ({ kind, words }: Origin, ...more: Words[]): Origin => ({
  kind,
  words: [words, ...more].flat(),
});

/** Of an answer whose text nobody kept it is known only what was put there since. */
function withoutText({ agent, repairs }: Answer, tokens: readonly string[]): Origin {
  const changes = repairs.filter(({ rule }) => rule !== READ_BACK);
  const found = trace(valueEntries(changes), tokens);
  if (found.changes.some(isDefault)) return withWords(verdictOf(found, 'the result'), changesIn(found));
  const lacks = `neither the text of ${visible(agent)} is on record nor its hash`;
  return origin('unknown', `unknown: ${lacks}, so an edit of this cannot be ruled out`, changesIn(found));
}

const alteredBySomeone = (who: string): string =>
  `unknown: the text of ${who}, with the changes recorded, does not give this answer; something else changed it`;

const isDefault = ({ rule }: Repair): boolean => RULES.get(rule)?.rung === 'defaulted';

/** The first line: yes, yes with a reserve, or no. */
function verdictOf({ at, changes, inside }: Trace, who: string, mended = false): Origin {
  const ours = changes.findLast(isDefault);
  if (ours) {
    const said = 'from' in ours ? JSON.stringify(ours.from) : 'nothing';
    return origin(
      'default',
      `no: ${who} said ${visible(said)} here, and ${visible(ours.rule)} put a default`,
    );
  }
  if (at === null)
    return origin(
      'coerced',
      `yes, in another form: ${who} said what is in it, but not this object around it`,
    );
  const named = changes.find(({ rule }) => rule === AGENT_NAME);
  if (named)
    return origin(
      'named',
      `no: ${who} said ${visible(JSON.stringify(named.from) ?? 'nothing')} here, and the result has the agent's own name`,
    );
  const [first] = changes;
  if (first !== undefined) {
    const form = 'from' in first ? JSON.stringify(first.from) : 'it in another place';
    return origin('coerced', `yes, in another form: ${who} said ${visible(form)}`);
  }
  const places = inside.length === 1 ? 'a change' : `${inside.length} changes`;
  const but = inside.length > 0 ? `, but for ${places} inside it` : '';
  return origin(
    mended ? 'mended' : 'said',
    `yes${mended ? ', its syntax mended' : ''}: ${who} said this${but}`,
  );
}

/** Where the value is in the model's text, in which form, and what was mended inside it. */
function textIn(
  { answer: { said = '', repairs, attempts, rejected }, mended }: Read,
  at: readonly string[],
): { lines: string[]; mended: boolean } {
  const { text, isText } = mended();
  const span = isText ? { from: 0, to: text.length } : spanOf(text, at);
  if (span === null) return { lines: [], mended: false };
  const { from, to, edits: inside } = spanBefore(editsOf(repairs), span);
  const attempt = Math.max(attempts, rejected.length);
  const place = `in attempt ${attempt}, at offset ${from} of its text`;
  return {
    lines: [
      `${place}: ${visible(shorten(said.slice(from, to)))}`,
      ...changesOf(inside, { said, indent: '' }),
    ],
    mended: inside.length > 0,
  };
}

function changesIn({ changes, inside }: Trace): string[] {
  return changesOf([...changes, ...inside], { indent: '' });
}

const SILENT = [
  'unknown: a legacy result has no place to say so. Name the items that it was made of beside it, or the',
  'file that legacy-convert --provenance wrote',
];

/** A legacy result or another record: what its own mark says, then what others say of the result before that. */
function inRecord(line: JsonObject, tokens: readonly string[], vouching: Vouching | null): Origin {
  const found = trace(valueEntries(markedRepairs(line)), tokens);
  const changed = found.changes.length + found.inside.length > 0;
  const ofLine = mendedIn(markedRepairs(line), 'line');
  const byMark = withWords(
    verdictOf(found, `the ${isLegacy(line) ? 'legacy result' : 'record'}`),
    ofLine,
    changesIn(found),
  );
  if (!isLegacy(line))
    return changed ? byMark : origin('beside', 'unchanged: no rule of fw made or changed this value', ofLine);
  const place = found.at && placeIn(line, found.at);
  if (!place)
    return changed
      ? byMark
      : origin('beside', 'no: this is no answer of a model, but a part of the result around the answers');
  if (found.changes.some(isDefault)) return byMark;
  const answer = vouching && answerAt(vouching, place.index);
  if (!answer) return changed ? byMark : origin('unknown', SILENT, ofLine);
  const where = visible(vouching?.where ?? '');
  if (isAccountedFor(answer) === false)
    return origin('unknown', alteredBySomeone(visible(answer.agent)), `by ${where}`);
  if (answer.output !== undefined) {
    const before = 'from' in (found.changes[0] ?? {}) ? found.changes[0]?.from : getAt(line, tokens);
    const there = getAt(answer.output, place.rest);
    if (!same(before, there) && found.inside.length === 0) {
      return origin(
        'unknown',
        `unknown: the item at ${where} holds ${visible(JSON.stringify(there) ?? 'nothing')} there`,
        ...(isNamePlace(place.rest) ? [WRITTEN_AS_NAME] : []),
        changesIn(found),
      );
    }
  }
  if (answer.output === undefined ? !vouching?.isBound : answer.said === undefined)
    return withWords(
      withoutText({ ...answer, repairs: [...answer.repairs, ...markedRepairs(line)] }, place.rest),
      `by ${where}`,
    );
  const earlier = trace(valueEntries(answer.repairs), place.rest);
  const both: Trace = {
    at: earlier.at,
    changes: [...earlier.changes, ...found.changes],
    inside: [...earlier.inside, ...found.inside],
  };
  const ofText = mendedIn(answer.repairs, 'text');
  return withWords(verdictOf(both, visible(answer.agent)), `by ${where}`, ofText, ofLine, changesIn(both));
}

const WRITTEN_AS_NAME =
  "legacy-convert writes the agent's own name here; the file of --provenance says whether it did";

function mendedIn(repairs: readonly Repair[], what: 'text' | 'line'): string[] {
  const rules = new Set(editsOf(repairs).map(({ rule }) => visible(rule)));
  if (rules.size === 0) return [];
  return [`the syntax of its ${what} was mended, here or elsewhere: ${[...rules].join(', ')}`];
}

/** The answer of a turn, or (-1) the decision, which an item may lack. */
function answerAt({ answers }: Vouching, index: number): Answer | undefined {
  const answer = Number.isInteger(index) ? answers.at(index) : undefined;
  return index === -1 && answer?.at.startsWith('/steps/') ? undefined : answer;
}

/** Which answer a place of a legacy result is in (-1: the decision), and where in it; null for any other place. */
function placeIn(line: JsonObject, tokens: readonly string[]): { index: number; rest: string[] } | null {
  const [key, index, part, ...rest] = tokens;
  if (key === 'business_decision') return { index: -1, rest: tokens.slice(1) };
  if (key === 'final_output')
    return { index: list(line.conversation_history).length - 1, rest: tokens.slice(1) };
  if (key === 'all_agent_outputs' && index !== undefined)
    return { index: Number(index), rest: tokens.slice(2) };
  if (key === 'conversation_history' && part === 'output') return { index: Number(index), rest };
  return null;
}
