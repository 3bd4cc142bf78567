/**
 * Finding the answer in a chatty text: the last object, outside of reasoning. One pass. What breaks is judged
 * as broken, and nothing before it, inside it or beside it takes its place: a draft is not an answer.
 */
import type { JsonObject } from '../core/json/pointer.ts';
import { doubtAfter, doubtBefore } from './around.ts';
import { closersEnd, goesOnAt, isComment, isPart } from './beside.ts';
import { type Candidate, differenceBefore, differenceOf, objectOf } from './drafts.ts';
import { elementsOf, hasWord, saysAnything } from './elements.ts';
import { turnsOf } from './end-of-turn.ts';
import type { Edit } from './entries.ts';
import { doubtInside } from './inside.ts';
import { type Broken, boundsOf, type MendRule, mendObject } from './mend.ts';
import { blocksOf, closingEnd, startOf } from './reasoning.ts';
import { keysOf, mayBeAnswer, textsOf } from './schema-words.ts';

/** Longer texts are not searched: an answer has some thousand characters. */
export const MAX_TEXT = 1 << 20;

export type Found =
  /** makes the last object alone, as JSON, of the whole text */
  | { edits: Edit[]; broke?: undefined; differ?: undefined; beyond?: undefined; doubt?: undefined }
  /** how the last object breaks */
  | { broke: string; differ?: undefined; beyond?: undefined; doubt?: undefined }
  /** the offset where another turn begins, with more behind it */
  | { beyond: number; broke?: undefined; differ?: undefined; doubt?: undefined }
  /** several objects: how many, and where the last one differs from another; '' where that cannot be said */
  | { differ: { count: number; at: string }; broke?: undefined; beyond?: undefined; doubt?: undefined }
  /** where the last object begins, and why it is not given as the answer */
  | { doubt: { at: number; why: string }; broke?: undefined; differ?: undefined; beyond?: undefined };

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
  const bounds = boundsOf(text);
  const blockAt = blocksOf(text);
  let group: Candidate[] = []; // the objects that are beside the last one, with no word between them
  let earlier: Candidate[] = []; // whole ones before these, with words between
  let trouble: string | undefined; // why what follows the last object is no object
  let from = 0;
  let lead = 0;
  let thoughts: Stretch[] = []; // reasoning behind the last object
  const turns = turnsOf(text);
  const elements = elementsOf(text);
  let heard = 0; // up to where the text was asked for the end of the turn
  let hasObject = false; // anywhere before
  let at = startOf(text);
  let hasThought = at > 0;
  for (let mark = next(MARK, text, at); mark !== null; mark = next(MARK, text, at)) {
    at = mark.index;
    if (mark[0][0] === '`') {
      at += mark[0].length;
      continue;
    }
    if (mark[0] === '}') {
      // it closes something whose beginning was lost
      if (group.length > 0) trouble = `expected the beginning of what ends at offset ${at}`;
      at += 1;
      continue;
    }
    const block = mark[0] === '{' ? null : blockAt(at);
    const list = lists && mark[0] === '[' && block === null ? mendObject(text, at, bounds) : null;
    const opensList = list !== null && (list.broke === undefined || list.real);
    if (mark[0] !== '{' && !opensList) {
      if (block === null) {
        const { end, isOther, lost } = elements.read(at);
        if (isOther) lead = end;
        if (lost !== undefined && group.length > 0)
          trouble = `expected the beginning of what ${lost} ends at offset ${at}`;
        at = Math.max(end, list?.end ?? 0);
        continue;
      }
      at = block.end;
      from = at;
      lead = at + (TAG_END.exec(text.slice(at, at + 8))?.[0].length ?? 0);
      if (block.fromTheStart) {
        elements.clear();
        group = [];
        earlier = [];
        thoughts = [];
        hasThought = true;
        trouble = undefined;
      } else if (block.isOpen)
        trouble = `expected the end of the reasoning at offset ${mark.index}, got the end`;
      else if (group.length === 0) hasThought = true;
      else thoughts.push({ from: mark.index, to: at });
      continue;
    }
    const read = list ?? mendObject(text, at, bounds);
    const isWhole = read.broke === undefined;
    if (!isWhole && text[read.end] === '{' && text.slice(at + 1, read.end).trim() === '') {
      at = read.end; // braces around braces
      continue;
    }
    const end = isWhole ? read.end : brokenEnd(text, read);
    const isReal = isWhole || read.real;
    if (isReal) {
      const token = turns.tokenIn(heard, at);
      const beyond = token === -1 && hasObject ? turns.roleIn(heard, at) : token;
      if (beyond !== -1) return { beyond };
      heard = isWhole ? end : at; // where an object breaks, a token in it may be outside of all its strings
      hasObject = true;
    }
    const element = elements.inside();
    if (isReal && element !== undefined) {
      trouble = `expected an object outside of <${element}>, got one in it at offset ${at}`;
      hasThought = true;
    } else if (isReal) {
      const before = group.at(-1);
      if (before === undefined || isApart(text.slice(before.end, at), before)) {
        for (const one of group) if (one.edits !== undefined) earlier.push(one);
        group = [];
      }
      group.push({
        start: at,
        end,
        from,
        lead,
        broke: '',
        ...(isWhole ? { edits: read.edits } : { broke: read.broke }),
      });
      trouble = undefined;
      thoughts = [];
      lead = end;
    } else trouble = read.broke;
    from = end;
    at = isWhole ? closersEnd(text, end) : end;
  }
  const token = turns.tokenIn(heard, text.length);
  if (token !== -1 && !turns.isEnd(token)) return { beyond: token };
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
  const behind = withoutThoughts(text, last.end, thoughts);
  const own = objectOf(text, last);
  const { said, others } = textsOf(own, schema);
  const keys = [...keysOf(schema).keys()].map(key => key.toLowerCase());
  // what differs from the last one is no answer here, so that one that was given as it is the same
  const isKnown = earlier.some(
    one =>
      mayBeAnswer(objectOf(text, one), schema) &&
      doubtBefore(text.slice(one.lead, one.start), { said, others, keys }) === null,
  );
  const comments = last.edits.filter(({ rule }) => rule === 'comment').map(edit => edit.cut);
  const why =
    doubtInside(own, schema, comments) ??
    doubtBefore(text.slice(first.lead, first.start), { isOneOf, isKnown, said, others, keys }) ??
    doubtAfter(behind, { said, others });
  if (why !== null) return { doubt: { at: last.start, why } };
  return {
    edits: [
      ...cut(text, 0, last.start, isOneOf ? 'other-object' : hasThought ? 'think-block' : undefined),
      ...last.edits,
      ...cutBehind(text, last.end, thoughts),
    ],
  };
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
export function withoutThoughts(text: string, from: number, thoughts: readonly Stretch[]): string {
  const parts: string[] = [];
  let at = from;
  for (const thought of thoughts) {
    parts.push(text.slice(at, thought.from));
    at = thought.to;
  }
  return [...parts, text.slice(at)].join('\n');
}

export function cutBehind(text: string, from: number, thoughts: readonly Stretch[]): Edit[] {
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
