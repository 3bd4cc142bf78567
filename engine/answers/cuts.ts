/** What is left out before and behind an answer, as entries with the rule of each. */
import type { Edit } from './edits.ts';
import { saysAnything } from './elements.ts';
import type { MendRule } from './mend.ts';

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
