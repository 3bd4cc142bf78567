/**
 * Finding the answer in a chatty text: the last object, outside of reasoning. One pass. What breaks is judged
 * as broken, and nothing before it, inside it or beside it takes its place: a draft is not an answer.
 */
import type { JsonObject } from '../core/json/pointer.ts';
import { doubtAfter, doubtBefore } from './around.ts';
import { closersEnd, goesOnAt, isComment, isPart } from './beside.ts';
import { type Candidate, differenceBefore, differenceOf, objectOf } from './drafts.ts';
import { type Elements, elementsOf, hasWord, saysAnything } from './elements.ts';
import { type Turns, turnsOf } from './end-of-turn.ts';
import type { Edit } from './entries.ts';
import { doubtInside } from './inside.ts';
import { type Bounds, type Broken, boundsOf, type Mended, type MendRule, mendObject } from './mend.ts';
import { type Block, blocksOf, closingEnd, startOf } from './reasoning.ts';
import { keysOf, mayBeAnswer, textsOf } from './schema-words.ts';

/** Longer texts are not searched: an answer has some thousand characters. */
export const MAX_TEXT = 1 << 20;

/** One of these. */
export interface Found {
  /** makes the last object alone, as JSON, of the whole text */
  edits?: Edit[];
  /** how the last object breaks */
  broke?: string;
  /** the offset where another turn begins, with more behind it */
  beyond?: number;
  /** several objects: how many, and where the last one differs from another; '' where that cannot be said */
  differ?: { count: number; at: string };
  /** where the last object begins, and why it is not given as the answer */
  doubt?: { at: number; why: string };
}

/** What is left of a tag of reasoning behind its name. */
const TAG_END = /^\s{0,4}(?:>|&gt;)/;
const MARK = /[{}<[&◁【]|`{3,}|assistantfinal/gi;
const IN_BROKEN = /[{}[\]<&◁【]|"(?:[^"\\\n]|\\.)*(?:"|$|\n|\\)|`{3,}|assistantfinal/gi;

/** What may follow an object that breaks, as in a list. The looks around a fence keep its ticks together. */
const SEPARATOR = /^(?:[\s,[\]]|(?<!`)`{3,}(?!`)\w*)*$/;

/**
 * The answer in `text`; null where there is no object outside of reasoning, whole or broken. With `lists` a list may be the
 * answer as well, whatever is in it. `schema` tells other objects from answers.
 */
export function findAnswer(
  text: string,
  { lists, schema }: { lists: boolean; schema: JsonObject | boolean },
): Found | null {
  const search = new Search(text, lists);
  const beyond = search.run();
  if (beyond !== -1) return { beyond };
  const { group, earlier, trouble, thoughts, hasThought } = search;
  const last = group.at(-1);
  if (trouble !== undefined) return { broke: trouble };
  if (last === undefined) return null;
  if (last.edits === undefined) return { broke: last.broke };
  const isOneOf = earlier.length > 0 || group.length > 1;
  if (isComment(text.slice(last.from, last.start), isOneOf))
    return { broke: `expected an object of its own, got one in a comment at offset ${last.start}` };
  const first = group[0] ?? last;
  const beside = differenceOf(text, group);
  if (beside !== null) return { differ: beside };
  const goesOn = goesOnAt(text, last.end, thoughts[0]?.from ?? text.length);
  if (goesOn !== -1) {
    const rest = JSON.stringify(text.slice(goesOn, goesOn + 12));
    return { broke: `expected nothing that goes on with the object at offset ${goesOn}, got ${rest}` };
  }
  if (isPart(text, first.from, first.start, last.end))
    return { broke: `expected an object of its own, got a part of something at offset ${first.start}` };
  const before = differenceBefore(text, { earlier, first, last, schema });
  if (before !== null) return { differ: before };
  const why = doubtOf(text, search, schema);
  if (why !== null) return { doubt: { at: last.start, why } };
  return {
    edits: [
      ...cut(text, 0, last.start, isOneOf ? 'other-object' : hasThought ? 'think-block' : undefined),
      ...last.edits,
      ...cutBehind(text, last.end, thoughts),
    ],
  };
}

/** Why the last object is not given as the answer, by what it says itself and what is said around it; null where it is. */
function doubtOf(
  text: string,
  { group, earlier, thoughts }: Search,
  schema: JsonObject | boolean,
): string | null {
  const first = group[0] as Candidate;
  const last = group.at(-1) as Candidate;
  const isOneOf = earlier.length > 0 || group.length > 1;
  const own = objectOf(text, last);
  const { said, others } = textsOf(own, schema);
  const keys = [...keysOf(schema).keys()].map(key => key.toLowerCase());
  // what differs from the last one is no answer here, so that one that was given as it is the same
  const isKnown = earlier.some(
    one =>
      mayBeAnswer(objectOf(text, one), schema) &&
      doubtBefore(text.slice(one.lead, one.start), { said, others, keys }) === null,
  );
  const comments = (last.edits ?? []).filter(({ rule }) => rule === 'comment').map(edit => edit.cut);
  return (
    doubtInside(own, schema, comments) ??
    doubtBefore(text.slice(first.lead, first.start), { isOneOf, isKnown, said, others, keys }) ??
    doubtAfter(withoutThoughts(text, last.end, thoughts), { said, others })
  );
}

/** One pass over a text, mark by mark, to its last object. */
class Search {
  /** the objects that are beside the last one, with no word between them */
  group: Candidate[] = [];
  /** whole ones before these, with words between */
  earlier: Candidate[] = [];
  /** why what follows the last object is no object */
  trouble: string | undefined;
  /** reasoning behind the last object */
  thoughts: Stretch[] = [];
  /** there is reasoning, or something else that is no answer, before the last object */
  hasThought: boolean;
  readonly #text: string;
  readonly #lists: boolean;
  readonly #bounds: Bounds;
  readonly #blockAt: ReturnType<typeof blocksOf>;
  readonly #turns: Turns;
  readonly #elements: Elements;
  #at: number;
  #from = 0; // as `from` and `lead` of the next object
  #lead = 0;
  #heard = 0; // up to where the text was asked for the end of the turn
  #hasObject = false; // anywhere before

  constructor(text: string, lists: boolean) {
    this.#text = text;
    this.#lists = lists;
    this.#bounds = boundsOf(text);
    this.#blockAt = blocksOf(text);
    this.#turns = turnsOf(text);
    this.#elements = elementsOf(text);
    this.#at = startOf(text);
    this.hasThought = this.#at > 0;
  }

  /** Reads the text to its end; where another turn begins with more behind it, that offset, else -1. */
  run(): number {
    const text = this.#text;
    for (let mark = next(MARK, text, this.#at); mark !== null; mark = next(MARK, text, this.#at)) {
      this.#at = mark.index;
      const beyond = this.#read(mark[0]);
      if (beyond !== -1) return beyond;
    }
    const token = this.#turns.tokenIn(this.#heard, text.length);
    return token !== -1 && !this.#turns.isEnd(token) ? token : -1;
  }

  /** Reads what is at a mark, as `run`. */
  #read(mark: string): number {
    const at = this.#at;
    if (mark[0] === '`') {
      this.#at += mark.length;
      return -1;
    }
    if (mark === '}') {
      // it closes something whose beginning was lost
      if (this.group.length > 0) this.trouble = `expected the beginning of what ends at offset ${at}`;
      this.#at += 1;
      return -1;
    }
    if (mark === '{') return this.#object(mendObject(this.#text, at, this.#bounds));
    const block = this.#blockAt(at);
    if (block !== null) this.#reasoning(block);
    else {
      const list = this.#lists && mark === '[' ? mendObject(this.#text, at, this.#bounds) : null;
      if (list !== null && (list.broke === undefined || list.real)) return this.#object(list);
      this.#tag(list?.end ?? 0);
    }
    return -1;
  }

  #tag(least: number): void {
    const at = this.#at;
    const { end, isOther, lost } = this.#elements.read(at);
    if (isOther) this.#lead = end;
    if (lost !== undefined && this.group.length > 0)
      this.trouble = `expected the beginning of what ${lost} ends at offset ${at}`;
    this.#at = Math.max(end, least);
  }

  #reasoning({ end, fromTheStart, isOpen }: Block): void {
    const at = this.#at;
    this.#at = this.#from = end;
    this.#lead = end + (TAG_END.exec(this.#text.slice(end, end + 8))?.[0].length ?? 0);
    if (fromTheStart) {
      this.#elements.clear();
      this.group = [];
      this.earlier = [];
      this.thoughts = [];
      this.hasThought = true;
      this.trouble = undefined;
    } else if (isOpen) this.trouble = `expected the end of the reasoning at offset ${at}, got the end`;
    else if (this.group.length === 0) this.hasThought = true;
    else this.thoughts.push({ from: at, to: end });
  }

  /** Takes what was read of an object, or of a list, as `run`. */
  #object(read: Mended | Broken): number {
    const text = this.#text;
    const at = this.#at;
    const isWhole = read.broke === undefined;
    if (!isWhole && text[read.end] === '{' && text.slice(at + 1, read.end).trim() === '') {
      this.#at = read.end; // braces around braces
      return -1;
    }
    const end = isWhole ? read.end : brokenEnd(text, read);
    if (isWhole || read.real) {
      const token = this.#turns.tokenIn(this.#heard, at);
      const beyond = token === -1 && this.#hasObject ? this.#turns.roleIn(this.#heard, at) : token;
      if (beyond !== -1) return beyond;
      this.#heard = isWhole ? end : at; // where an object breaks, a token in it may be outside of all its strings
      this.#hasObject = true;
      const element = this.#elements.inside();
      if (element === undefined) this.#keep(read, end);
      else {
        this.trouble = `expected an object outside of <${element}>, got one in it at offset ${at}`;
        this.hasThought = true;
      }
    } else this.trouble = read.broke;
    this.#from = end;
    this.#at = isWhole ? closersEnd(text, end) : end;
    return -1;
  }

  #keep(read: Mended | Broken, end: number): void {
    const start = this.#at;
    const before = this.group.at(-1);
    if (before === undefined || isApart(this.#text.slice(before.end, start), before)) {
      this.earlier.push(...this.group.filter(({ edits }) => edits !== undefined));
      this.group = [];
    }
    const outcome = read.broke === undefined ? { broke: '', edits: read.edits } : { broke: read.broke };
    this.group.push({ start, end, from: this.#from, lead: this.#lead, ...outcome });
    this.trouble = undefined;
    this.thoughts = [];
    this.#lead = end;
  }
}

/** Whether the text behind an object separates the next one from it: a word, or anything behind one that breaks, as a format does. */
function isApart(between: string, { edits }: Candidate): boolean {
  return edits === undefined ? !SEPARATOR.test(between) : hasWord(between);
}

function next(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** Where the object that broke ends, by counting brackets outside of strings; a fence or the end of reasoning ends it in any case. */
function brokenEnd(text: string, { end, depth }: Broken): number {
  let open = depth;
  for (let mark = next(IN_BROKEN, text, end); mark !== null; mark = IN_BROKEN.exec(text)) {
    const [found] = mark;
    if (found[0] === '`' || closingEnd(text, mark.index) !== -1) return mark.index;
    if (found === '{' || found === '[') open++;
    else if (found === '}' || found === ']') open--;
    if (open === 0) return mark.index + 1;
  }
  return text.length;
}

/** A stretch of the text, in UTF-16 units. */
export interface Stretch {
  from: number;
  to: number;
}

/** The text from `from` on without what is reasoning. */
function withoutThoughts(text: string, from: number, thoughts: readonly Stretch[]): string {
  const parts: string[] = [];
  let at = from;
  for (const thought of thoughts) {
    parts.push(text.slice(at, thought.from));
    at = thought.to;
  }
  return [...parts, text.slice(at)].join('\n');
}

function cutBehind(text: string, from: number, thoughts: readonly Stretch[]): Edit[] {
  const edits: Edit[] = [];
  let at = from;
  for (const thought of thoughts) {
    edits.push(
      ...cut(text, at, thought.from, undefined, true),
      ...cut(text, thought.from, thought.to, 'think-block'),
    );
    at = thought.to;
  }
  return [...edits, ...cut(text, at, text.length, undefined, true)];
}

/** The text from `from` to `to` as an entry; none where it is space. */
export function cut(text: string, from: number, to: number, rule?: MendRule, isBehind = false): Edit[] {
  const around = text.slice(from, to);
  if (/^[ \t\n\r]*$/.test(around)) return [];
  return [{ rule: rule ?? ruleFor(around.trim(), isBehind), offset: from, cut: around, put: '' }];
}

function ruleFor(around: string, isBehind: boolean): MendRule {
  if (around === '[' || around === ']') return 'array-around';
  if (/^`{3,}\w*$/.test(around)) return 'fence';
  return isBehind && saysAnything(around) ? 'text-after' : 'text-around';
}
