/**
 * Elements around an object: `<name>…</name>`. What is in one whose name is not known to hold an answer may be a
 * draft, a plan or an example, whatever a model calls it, so it is never taken as the answer.
 */
import { isToken } from './end-of-turn.ts';

/** A tag, also with a prefix, a number or attributes, or with its angles written as entities; or `[/name]`. */
const NAME = '[\\p{L}_][\\p{L}\\p{N}_.-]{0,40}';
const TAG = new RegExp(
  `(?:<|&lt;)\\s?(/?)\\s?(?:${NAME}:)?(${NAME})(?:\\s{1,4}(?:\\d{1,4}|[^<>{}]{0,200}=[^<>{}]{0,200}))?\\s?(/?)(?:>|&gt;)|\\[/(${NAME})\\]`,
  'iuy',
);
const TAGS = new RegExp(TAG.source, 'igu');
/** Names of elements that hold an answer. */
const HOLDS_ANSWER =
  /^(?:final|json|object|(?:(?:final|json|my|model|structured)[_.-]?)?(?:answer|output|result|response|solution|reply|decision|verdict|json|object)s?|antwort|ergebnis|entscheidung|réponse|résultat|décision|respuesta|resultado|decisión|答案|回答|结果|決定|决定|結果|出力|输出|(?:ال)?إجابة|(?:ال)?جواب|ចម្លើយ)$/;
/** Markup of a page, which says nothing about its content. */
const MARKUP = new Set(
  'a b i u p em strong br hr pre code tt div span font center html body section article main ul ol li dl dt dd table thead tbody tr td th h1 h2 h3 h4 h5 h6 sub sup small big mark kbd samp xml'.split(
    ' ',
  ),
);
/** A fence, with what is said of it up to the end of the line. */
const FENCE = /(?:`{3,}|~{3,})(?:[^\n`~]*\n|[^\s`~]*\s*$)/g;
/** A token of a chat template, as far as one may stand behind an answer. */
const TOKENS = /(?:<|&lt;)\/?[|｜]?[^<>&\s]{1,42}(?:>|&gt;)|\[\/?[A-Z_]{2,20}\]/g;
const ENTITY = /&#?\w{1,10};|\\[nrt]/g;

export interface Elements {
  /**
   * Reads the tag at `at`, if there is one; the offset behind it, whether it is of an element that may hold something else
   * than the answer, and the name of one that was not open.
   */
  read(at: number): { end: number; isOther: boolean; lost?: string };
  /** the innermost element that is open; undefined where there is none */
  inside(): string | undefined;
  /** Takes all as closed. */
  clear(): void;
}

export function elementsOf(text: string): Elements {
  const open: string[] = [];
  const counts = new Map<string, number>();
  const count = (name: string, more: number): void => {
    counts.set(name, (counts.get(name) ?? 0) + more);
  };
  return {
    read(at) {
      TAG.lastIndex = at;
      const found = isToken(text, at) ? null : TAG.exec(text);
      if (found === null) return { end: at + 1, isOther: false };
      const end = at + found[0].length;
      const [tag, slash, angled, selfClosed, bracketed] = found;
      const name = (angled ?? bracketed ?? '').toLowerCase();
      if (isTransparent(name) || selfClosed === '/' || /\/(?:>|&gt;)$/.test(tag))
        return { end, isOther: false };
      if (slash === '' && bracketed === undefined) {
        open.push(name);
        count(name, 1);
        return { end, isOther: true };
      }
      if ((counts.get(name) ?? 0) === 0) return { end, isOther: true, lost: tag };
      // those that were opened within it end with it
      for (let last = open.pop(); last !== undefined; last = open.pop()) {
        count(last, -1);
        if (last === name) break;
      }
      return { end, isOther: true };
    },
    inside: () => open.at(-1),
    clear() {
      open.length = 0;
      counts.clear();
    },
  };
}

/** Whether the text between two objects says anything: it has a letter, outside of markup and of what a fence is called. */
export function hasWord(between: string): boolean {
  const rest = between
    .replace(FENCE, '')
    .replace(TAGS, (tag, _slash, angled, _self, bracketed) =>
      isTransparent(String(angled ?? bracketed).toLowerCase()) ? '' : tag,
    )
    .replace(ENTITY, '');
  return /\p{L}/u.test(rest);
}

/** The same of text behind an answer, in which a token that ends the turn says nothing. */
export function saysAnything(behind: string): boolean {
  return hasWord(behind.replace(TOKENS, ' '));
}

function isTransparent(name: string): boolean {
  return MARKUP.has(name) || HOLDS_ANSWER.test(name);
}
