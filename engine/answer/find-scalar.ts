/**
 * Finding a text, a number or a boolean in a chatty answer: it must be the last line, alone there, or alone in a fence.
 * Many sentences have numbers and quoted words in them, so nothing is read out of one.
 */
import { doubtBefore } from './around.ts';
import { applyEdits, type Edit } from './edits.ts';
import type { Found } from './find.ts';
import { leadOf, saysFinal } from './lead.ts';
import type { MendRule } from './mend.ts';
import { cutsIn } from './text.ts';

const FENCE = /^\s*`{3,}\w*\s*$/;
/** A line in bold, or in code. */
const MARKED = /^(\*{1,3}|_{1,3}|`{1,2})([^*_`]+)\1$/;
const LITERALS: { readonly [word: string]: string } = { True: 'true', False: 'false' };

interface Line {
  from: number;
  to: number;
  /** as JSON; absent where the line is no such value */
  json?: string;
}

/** The last value; null where the last line is none. */
export function findScalar(text: string): Found | null {
  const cuts = cutsIn(text);
  if (!Array.isArray(cuts)) {
    const { turnEnd, problem } = cuts;
    return turnEnd === undefined ? { broke: problem?.message ?? '' } : { beyond: turnEnd };
  }
  const ends = cuts.filter(({ offset, cut }) => offset > 0 && offset + cut.length === text.length);
  const to = ends[0]?.offset ?? text.length;
  const before = cuts.filter(cut => !ends.includes(cut)).at(-1);
  const from = before ? before.offset + before.cut.length : 0;
  const lines = linesIn(text, from, to);
  const last = lines.at(-1);
  if (last?.json === undefined) return null;
  let first = lines.length - 1;
  while (first > 0 && lines[first - 1]?.json !== undefined) first--;
  const group = lines.slice(first);
  if (group.some(({ json }) => json !== last.json)) return { differ: { count: group.length, at: '' } };
  const start = (group[0] as Line).from;
  const lead = text.slice(from, start);
  const others = lines.slice(0, first).filter(({ json }) => json !== undefined && json !== last.json);
  if (others.length > 0 && saysFinal(leadOf(lead)) === null)
    return { differ: { count: others.length + 1, at: '' } };
  const why = doubtBefore(lead, { isOneOf: others.length > 0, isValue: true });
  if (why !== null) return { doubt: { at: last.from, why } };
  const said = text.slice(last.from, last.to);
  const edits: Edit[] = [
    ...cutOf(text, 0, last.from, before?.rule as MendRule | undefined, group.length > 1),
    ...(said === last.json
      ? []
      : [{ rule: 'python-literal', offset: last.from, cut: said, put: last.json } as const]),
    ...cutOf(text, last.to, text.length),
  ];
  return applyEdits(text, edits).trim() === last.json ? { edits } : null;
}

function linesIn(text: string, from: number, to: number): Line[] {
  const lines: Line[] = [];
  for (let at = from; at < to; ) {
    const found = text.indexOf('\n', at);
    const end = found === -1 || found > to ? to : found;
    const line = text.slice(at, end);
    const said = line.trim();
    const begin = at + line.length - line.trimStart().length;
    at = end + 1;
    if (said === '' || FENCE.test(line)) continue;
    const [, mark = '', inner = said] = MARKED.exec(said) ?? [];
    const json = jsonOf(inner);
    const start = begin + mark.length;
    lines.push({ from: start, to: start + inner.length, ...(json !== undefined && { json }) });
  }
  return lines;
}

function jsonOf(said: string): string | undefined {
  if (Object.hasOwn(LITERALS, said)) return LITERALS[said];
  try {
    const value: unknown = JSON.parse(said);
    return value === null || typeof value === 'object' ? undefined : said;
  } catch {
    return undefined;
  }
}

function cutOf(text: string, from: number, to: number, rule?: MendRule, hasSame = false): Edit[] {
  const cut = text.slice(from, to);
  if (cut.trim() === '') return [];
  const own: MendRule = hasSame ? 'other-object' : /^`{3,}\w*$/.test(cut.trim()) ? 'fence' : 'text-around';
  return [{ rule: rule ?? own, offset: from, cut, put: '' }];
}
