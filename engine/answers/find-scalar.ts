/**
 * Finding a text, a number or a boolean in a chatty answer: alone on its line, alone in a fence, or behind a label that
 * calls it the answer, and nothing else there. It is the last line, or the first one with an explanation behind it. Many
 * sentences have numbers and quoted words in them, so nothing is read out of one.
 */

import { plain } from './answer-words.ts';
import { doubtAfter, doubtBefore } from './around.ts';
import { applyEdits, type Edit } from './entries.ts';
import { type Found, MAX_TEXT } from './find-answer.ts';
import { leadOf, saysFinal } from './lead.ts';
import type { MendRule } from './mend.ts';
import { cutsIn } from './text.ts';
import { LEADS_ON } from './words-lead.ts';
import { enumForm } from './written-forms.ts';

const FENCE = /^\s*`{3,}\w*\s*$/;
/** A line in bold, in code, or in the box of an examination. */
const MARKED = /^(\*{1,3}|_{1,3}|`{1,2}|\$?\\{1,2}boxed\{)([^*_`{}$]+)(\1|\}\$?)$/;
const VALUE =
  '-?(?:0|[1-9]\\d{0,17})(?:\\.\\d{1,17})?(?:[eE][+-]?\\d{1,3})?|[Tt]rue|[Ff]alse|"(?:[^"\\\\\\n]|\\\\.){0,200}"';
const MARKS = '[*_`]{0,4}';
/** `**Score:** 4`, `The answer is false.`: what calls it the answer, and the value. */
const LABELLED = new RegExp(
  `^([^\\n]{1,80}?(?:[:：=៖]|(?<=\\s)|(?<=[^\\p{ASCII}])))${MARKS}[ \\t]{0,4}${MARKS}(${VALUE})${MARKS}[ \\t]{0,2}(?:[.。]${MARKS})?$`,
  'u',
);
/** The same before any text, behind a colon alone. */
const LABELLED_TEXT = new RegExp(
  `^([^\\n:：=៖]{1,80}[:：=៖])${MARKS}[ \\t]{0,4}${MARKS}([^\\n*_\`]{1,200}?)${MARKS}[ \\t]{0,2}(?:[.。]${MARKS})?$`,
  'u',
);
const LONGEST_CHOICE = 200;
/** Words in a text behind a value that put another in its place. */
const INSTEAD =
  /(?<!\p{L})(?:make (?:it|that)|rather|actually|instead|better|no|or|correction|should (?:be|have been)|i meant|eher|besser|plutôt|mejor|nein|non)[,:]? (?:an? )?["'*_`]{0,3}(?:-?\d|true|false)/u;
const LITERALS: { readonly [word: string]: string } = { True: 'true', False: 'false' };

interface Line {
  /** with its marks */
  begin: number;
  from: number;
  to: number;
  /** behind a label that names it, whatever it is called */
  isNamed?: boolean;
  /** as JSON; absent where the line is no such value */
  json?: string;
}

/** How a value is read: from what is alone on a line, and from what stands behind a label. */
interface Reads {
  /** as JSON, or the text of a choice; undefined where it is none */
  readAs(said: string): string | undefined;
  labelled: RegExp;
  /** what it might have said instead */
  othersOf(value: string): string[];
  isChoice: boolean;
}

/** The only value, last or first; null where there is none. */
export function findScalar(text: string): Found | null {
  return find(text, { readAs: jsonOf, labelled: LABELLED, othersOf: opposite, isChoice: false });
}

/** The same of one of several texts, in any of their forms, which the edits leave as it is said. */
export function findChoice(text: string, choices: readonly string[]): Found | null {
  if (text.length > MAX_TEXT) return null;
  const lower = choices.map(choice => choice.toLowerCase());
  const readAs = (said: string): string | undefined =>
    said.length > LONGEST_CHOICE ? undefined : choices.includes(said) ? said : enumForm(said, choices)?.to;
  const othersOf = (value: string): string[] => lower.filter(other => other !== value.toLowerCase());
  return find(text, { readAs, labelled: LABELLED_TEXT, othersOf, isChoice: true });
}

function find(text: string, reads: Reads): Found | null {
  const { othersOf, isChoice } = reads;
  const cuts = cutsIn(text);
  if (!Array.isArray(cuts)) {
    const { turnEnd, problem } = cuts;
    return turnEnd === undefined ? { broke: problem?.message ?? '' } : { beyond: turnEnd };
  }
  const ends = cuts.filter(({ offset, cut }) => offset > 0 && offset + cut.length === text.length);
  const to = ends[0]?.offset ?? text.length;
  const before = cuts.filter(cut => !ends.includes(cut)).at(-1);
  const from = before ? before.offset + before.cut.length : 0;
  const lines = linesIn(text, { from, to, reads });
  const values = lines.filter(({ json }) => json !== undefined);
  const explained = values.length === 1 && lines.length > 1 && lines[0] === values[0] ? values[0] : undefined;
  const last = explained ?? lines.at(-1);
  if (last?.json === undefined) return null;
  if (explained !== undefined) {
    const behind = text.slice(explained.to, to);
    // `true⏎Not` and `4⏎or 3` are sentences
    if (!/^[*_`.。]{0,5}[ \t]*\n[ \t]*\n/.test(behind) || INSTEAD.test(plain(behind))) return null;
    const why = doubtAfter(behind.replace(/^[*_`.。]+/, ''), {
      said: saidOf(last.json),
      others: othersOf(last.json),
    });
    if (why !== null) return { doubt: { at: last.from, why } };
  }
  let first = lines.indexOf(last);
  while (first > 0 && lines[first - 1]?.json !== undefined) first--;
  const group = lines.slice(first, lines.indexOf(last) + 1);
  if (group.some(({ json }) => json !== last.json)) return { differ: { count: group.length, at: '' } };
  const start = (group[0] as Line).begin;
  const lead = text.slice(from, start);
  const others = lines.slice(0, first).filter(({ json }) => json !== undefined && json !== last.json);
  if (others.length > 0 && saysFinal(leadOf(lead)) === null)
    return { differ: { count: others.length + 1, at: '' } };
  const why = doubtBefore(lead, {
    isOneOf: others.length > 0,
    isValue: true,
    isKnown: group[0]?.isNamed === true,
    said: saidOf(last.json),
    others: othersOf(last.json),
  });
  if (why !== null) return { doubt: { at: last.from, why } };
  const said = text.slice(last.from, last.to);
  const edits: Edit[] = [
    ...cutOf(text, 0, last.from, before?.rule as MendRule | undefined, group.length > 1),
    ...(isChoice || said === last.json
      ? []
      : [{ rule: 'python-literal', offset: last.from, cut: said, put: last.json } as const]),
    ...(explained === undefined
      ? cutOf(text, last.to, text.length)
      : cutOf(text, last.to, text.length, 'text-after')),
  ];
  return applyEdits(text, edits).trim() === (isChoice ? said : last.json) ? { edits } : null;
}

/** Texts of a choice, in which a lead may say it; a number says nothing of that kind. */
const saidOf = (value: string): string[] => (/\p{L}{3}/u.test(value) ? [value.toLowerCase()] : []);

const opposite = (json: string): string[] => (json === 'true' ? ['false'] : json === 'false' ? ['true'] : []);

function linesIn(text: string, { from, to, reads }: { from: number; to: number; reads: Reads }): Line[] {
  const lines: Line[] = [];
  for (let at = from; at < to; ) {
    const found = text.indexOf('\n', at);
    const end = found === -1 || found > to ? to : found;
    const line = text.slice(at, end);
    const said = line.trim();
    const begin = at + line.length - line.trimStart().length;
    at = end + 1;
    if (said === '' || FENCE.test(line)) continue;
    lines.push(valueIn(said, begin, reads));
  }
  return lines;
}

/** What a line says that begins at `begin`. */
function valueIn(said: string, begin: number, { readAs, labelled }: Reads): Line {
  const [, mark = '', inner = said] = MARKED.exec(said) ?? [];
  const json = readAs(inner);
  const from = begin + mark.length;
  if (json !== undefined) return { begin, from, to: from + inner.length, json };
  const [, label = '', value = ''] = labelled.exec(inner) ?? [];
  const { clause } = leadOf(`${label} `);
  const called = value === '' || clause === '' ? undefined : readAs(value);
  const isNamed = called !== undefined && names(label, clause, called);
  if (called === undefined || !(LEADS_ON.test(clause) || isNamed))
    return { begin, from, to: from + inner.length };
  const start = from + inner.lastIndexOf(value);
  return { begin: start, from: start, to: start + value.length, json: called, isNamed };
}

/** A label that is a name of its own: of a measure before a number, any before a boolean. */
function names(label: string, clause: string, json: string): boolean {
  if (!/[:：]\W*$/.test(label) || clause.split(' ').length > MOST_WORDS) return false;
  return json === 'true' || json === 'false' ? !NOT_OURS.test(clause) : MEASURES.test(clause);
}

const MOST_WORDS = 3;
const MEASURES =
  /^(?:(?:final|overall|total|my|the|estimated) )?(?:severity|priority|urgency|risk|stars?|marks?|points?|level|confidence|probability|likelihood|relevance|quality|toxicity|similarity|total|sum|result|count|schweregrad|dringlichkeit|priorität|risiko|gravité|urgence|priorité|risque|gravedad|urgencia|prioridad|riesgo|严重程度|优先级|风险|置信度|重要度|深刻度|緊急度)(?: (?:score|level|rating))?$/u;
const NOT_OURS =
  /(?<!\p{L})(?:it|this|that|there|depends|maybe|perhaps|unsure|unless|example|if|or|not|option|default|previous|old|beispiel|exemple|ejemplo)(?!\p{L})/u;

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
