/** How a text leads to what follows it: the sentence directly before, without the marks and fences between. */
import { plain } from './answer-words.ts';
import { NEXT_CLAUSE } from './words-before.ts';
import { CORRECTED, FINAL } from './words-lead.ts';

/** Text directly before an answer is looked at this far back. */
export const LONGEST_LEAD = 1_000;
const SENTENCE_END =
  /(?<!(?<!\p{L})(?:\p{L}|mrs?|ms|dr|no|nr|vs|st|approx))[.!?。؟។…]+["'”’)*_]*(?=\s|$|\P{ASCII})/gu;
const WORD = /[\p{L}\p{N}]/u;
const OPEN_FENCE = /(?:`{3,}|~{3,})[ \t]*[\w+.#-]{0,20}[^\n`~]{0,40}$/;
const TAG = /(?:<|&lt;)[/|｜]?[^<>&\s]{1,42}(?:>|&gt;)$/;
/** The box around an answer in LaTeX. */
const BOX = /\\{1,2}boxed\{$/;
const LONGEST_BOX = 10;
const LIST_MARK = /^[ \t>]*(?:[-*+•]|\p{N}{1,3}[.)]|\p{L}[.)])[ \t]+/u;
const LIST_MARK_ALONE = /^[ \t>]*(?:\p{N}{1,3}|\p{L})[.)]$/u;

/** How a text leads to what follows it. */
export interface Lead {
  /** `none`: a sentence of its own, or nothing. `title`: a line. `inline`: the beginning of a sentence. */
  kind: 'none' | 'colon' | 'title' | 'comma' | 'inline';
  /** the sentence that leads, and its last clause, both as `plain` gives them */
  sentence: string;
  clause: string;
  /** the line is a heading, or in bold */
  isHeading: boolean;
}

/** The lead at the end of `before`, which is all text up to the object that was not read as anything else. */
export function leadOf(before: string): Lead {
  const tail = before.slice(-LONGEST_LEAD);
  let { end, isApart } = unwrapped(tail);
  let line = lineAt(tail, end);
  while (line !== '' || end > 0) {
    if (WORD.test(line) && !LIST_MARK_ALONE.test(line)) break;
    end = Math.max(0, end - line.length - 1); // a rule, or the mark of a list
    const outer = unwrapped(tail.slice(0, end));
    isApart = true;
    end = outer.end;
    line = lineAt(tail, end);
    if (end === 0) break;
  }
  const isHeading = /^[ \t]*(?:#{1,6} |\*\*|__)/.test(line);
  const said = plain(line.replace(LIST_MARK, '')).replace(/^[\s#>*_]+|[\s*_"'”’]+$/g, '');
  let from = 0;
  for (const found of said.matchAll(SENTENCE_END)) from = found.index + found[0].length;
  const sentence = said
    .slice(from)
    .replace(/^[^\p{L}\p{N}]+/u, '')
    .trim();
  if (!WORD.test(sentence)) return { kind: 'none', sentence: '', clause: '', isHeading };
  const clause = lastClause(sentence);
  const kind = /[:=៖→⇒>—–-]$/.test(sentence)
    ? 'colon'
    : isApart
      ? 'title'
      : /[,،、]$/.test(sentence)
        ? 'comma'
        : 'inline';
  return { kind, sentence, clause, isHeading };
}

/** Whether the lead says of what follows that it is the last word. */
export function saysFinal({ kind, sentence }: Lead): 'corrected' | 'final' | null {
  if (kind === 'none') return null;
  if (CORRECTED.test(sentence)) return 'corrected';
  return FINAL.test(sentence) ? 'final' : null;
}

/** Where the text ends once space, quotes, fences and tags at its end are left out, and whether a line ended among these. */
function unwrapped(text: string): { end: number; isApart: boolean } {
  let end = text.length;
  let isApart = false;
  for (;;) {
    const last = text[end - 1];
    if (last === undefined) return { end, isApart };
    if (/[\s*_"'“‘«„「『([$]/.test(last)) {
      isApart ||= last === '\n';
      end -= 1;
      continue;
    }
    const box = last === '{' ? BOX.exec(text.slice(Math.max(0, end - LONGEST_BOX), end))?.[0] : undefined;
    if (box !== undefined) {
      end -= box.length;
      continue;
    }
    // looked for once a line, or a thousand marks would cost a thousand looks
    const mayBeFence = text[end] === '\n' || last === '`' || last === '~';
    const fence = mayBeFence ? OPEN_FENCE.exec(lineAt(text, end))?.[0] : undefined;
    const mayBeTag = fence === undefined && (last === '>' || last === ';');
    const tag = mayBeTag ? TAG.exec(lineAt(text, end))?.[0] : undefined;
    if (fence !== undefined || tag !== undefined) isApart = true;
    else if (tag === undefined && last !== '`') return { end, isApart };
    end -= (fence ?? tag ?? last).length;
  }
}

/** The line that ends at `end`. */
function lineAt(text: string, end: number): string {
  return text.slice(end === 0 ? 0 : text.lastIndexOf('\n', end - 1) + 1, end);
}

/** What stands behind the last comma or `so`; a comma at the end ends the clause before it. */
function lastClause(sentence: string): string {
  const said = sentence.replace(/\([^()]{0,200}\)/g, '').replace(/[\s:=៖→⇒>—–,،、-]+$/, '');
  let from = 0;
  for (const found of said.matchAll(NEXT_CLAUSE)) from = found.index + found[0].length;
  // `My conclusion, after all, is:`
  const last = said.slice(from).trim();
  if (!/^(?:is|are|would be|ist|lautet|est|es)$/.test(last)) return last;
  return said.replace(/, [^,]{1,80},(?= \p{L}{2,8}(?: be)?$)/u, '');
}
