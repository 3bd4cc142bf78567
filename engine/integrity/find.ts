/**
 * Finding the objects in a chatty answer: behind thinking, inside fences, between sentences. One pass; an object that
 * breaks is left at the place where it broke, and what is nested in it is never taken for an answer of its own.
 */
import type { Edit } from './edits.ts';
import { type Broken, boundsOf, type MendRule, mendObject } from './mend.ts';

/** Longer texts are not searched: an answer has some thousand characters. */
export const MAX_TEXT = 1 << 20;
/** Objects that are tried, from the last. */
const KEPT = 16;

export interface Found {
  /** makes the object alone, as JSON, of the whole text */
  edits: Edit[];
}

interface Candidate {
  start: number;
  end: number;
  edits: Edit[];
  fenced: boolean;
}

const MARK = /[{<]|`{3,}/g;
const IN_BROKEN = /[{}[\]]|"(?:[^"\\\n]|\\.)*(?:"|$|\n|\\)|`{3,}|<\/think/g;

/**
 * The objects of `text`, the most likely answer first: those inside fences before those outside, the last before the
 * first. `broke` tells how the last broken object broke, for a message.
 */
export function findObjects(text: string): { found: Found[]; broke?: string } {
  const bounds = boundsOf(text);
  let candidates: Candidate[] = [];
  let count = 0;
  let fenced = false;
  let broke: string | undefined;
  let at = 0;
  while (at < text.length) {
    MARK.lastIndex = at;
    const mark = MARK.exec(text);
    if (mark === null) break;
    at = mark.index;
    if (mark[0][0] === '`') {
      fenced = !fenced;
      at += mark[0].length;
    } else if (mark[0] === '<') {
      if (text.startsWith('<think', at)) at = thinkingEnd(text, at);
      else if (text.startsWith('</think', at)) {
        // Servers may send the thinking without its opening tag: what was found so far was a draft.
        candidates = [];
        count = 0;
        fenced = false;
        at += 7;
      } else at++;
    } else {
      const read = mendObject(text, at, bounds);
      if (read.broke !== undefined) {
        broke = read.broke;
        at = read.real ? brokenEnd(text, read) : read.end;
        continue;
      }
      candidates.push({ start: at, end: read.end, edits: read.edits, fenced });
      if (candidates.length > KEPT) candidates.shift();
      count++;
      at = read.end;
    }
  }
  const last = candidates.length - 1;
  const found = candidates
    .map((candidate, index) => ({
      fenced: candidate.fenced,
      edits: [
        ...cut(text, 0, candidate.start, index > 0 || count > candidates.length),
        ...candidate.edits,
        ...cut(text, candidate.end, text.length, index < last),
      ],
    }))
    .reverse();
  return { found: [...found.filter(one => one.fenced), ...found.filter(one => !one.fenced)], broke };
}

/** Behind the thinking that opens at `at`; thinking that never ends is the rest of the text. */
function thinkingEnd(text: string, at: number): number {
  const end = text.indexOf('</think', at);
  return end === -1 ? text.length : end + 7;
}

/** Where the object that broke ends, by counting brackets outside of strings; a fence ends it in any case. */
function brokenEnd(text: string, { end, depth }: Broken): number {
  let open = depth;
  IN_BROKEN.lastIndex = end;
  for (let mark = IN_BROKEN.exec(text); mark !== null; mark = IN_BROKEN.exec(text)) {
    const [found] = mark;
    if (found[0] === '`' || found[0] === '<') return mark.index;
    if (found === '{' || found === '[') open++;
    else if (found === '}' || found === ']') open--;
    if (open === 0) return mark.index + 1;
  }
  return text.length;
}

function cut(text: string, from: number, to: number, other: boolean): Edit[] {
  const around = text.slice(from, to);
  if (/^[ \t\n\r]*$/.test(around)) return [];
  return [{ rule: ruleFor(around.trim(), other), offset: from, cut: around, put: '' }];
}

function ruleFor(around: string, other: boolean): MendRule {
  if (other) return 'other-object';
  if (around.includes('</think')) return 'think-block';
  if (around === '[' || around === ']') return 'array-around';
  return /^`{3,}\w*$/.test(around) ? 'fence' : 'text-around';
}
