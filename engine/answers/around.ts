/**
 * Whether an object is given as the answer, by what stands directly before and behind it. It is where it stands alone, or
 * behind a lead ("My answer:"), with sentences of their own behind it. It is none within a sentence that says something
 * of it, under a condition, as one of several, as an example, in somebody else's words, or where the text takes it back.
 */

import { EN_ANSWER, plain } from './answer-words.ts';
import { type Lead, LONGEST_LEAD, leadOf, saysFinal } from './lead.ts';
import { decidesAgainst, remembered } from './verdicts.ts';
import * as hedges from './words-before.ts';
import * as behind from './words-behind.ts';
import * as leads from './words-lead.ts';
import * as self from './words-self.ts';

/** Text in which a refusal is looked for, at the beginning and directly before the answer. */
const LONGEST_REFUSAL = 500;

/** Words of a line that may be a title without being marked as one. */
const LONGEST_TITLE = 5;
/** Words of a lead that may be the name of a key. */
const LONGEST_NAME = 3;
/** Words of a lead in another language than English that may be a statement. */
const LEAST_STATEMENT = 4;

const TAGS = /(?:<|&lt;)[/|｜]?[^<>&\s]{1,42}(?:>|&gt;)/g;
/** Languages in whose fences `#` begins a comment. */
const HASH_LANGUAGE =
  /(?:`{3,}|~{3,})[ \t]*(?:python|py|bash|sh|shell|ruby|rb|perl|r|yaml|yml|toml)[^\n]*\n[^`~]*$/i;
/** Code directly before an object: a branch, a result, a call. */
const CODE =
  /(?:^|[:;{)])[ \t]*(?:return|yield|raise|throw)\b[ \t(]*$|=>[ \t(]*$|[\w\])][ \t]*\?[ \t]*$|&&[ \t]*$|\|\|[ \t]*$|[\w.]\($|\b(?:const|let|var|def|elif|else|assert)\b[^\n]*$|[=!]==?[ \t]*$/;
/** A fence says of what is in it that it is `json`, or `text`, also behind words: an answer may decide between these too. */
const FENCE =
  /(?:^[ \t]{0,8}(?:`{3}|~{3})[ \t]{0,8}[\w+-]{1,20}|`{3}(?:json|text))(?=[ \t]{0,8}\r?(?:\n|$))/gm;
interface Place {
  /** others stand before it */
  isOneOf?: boolean;
  /** what leads to it is known to give it: it was given before, or stands behind a name */
  isKnown?: boolean;
  /** it is a number, a boolean or a text alone on a line, which any sentence may break off before */
  isValue?: boolean;
  /** texts of the answer, in lower case: a lead that says one of them says the answer */
  said?: readonly string[];
  /** texts that it might have said instead */
  others?: readonly string[];
  /** keys of the answer, in lower case: a lead may name one */
  keys?: readonly string[];
}

/** Why `before`, directly before an answer, says that it is none; null where it does not. */
export function doubtBefore(before: string, place: Place): string | null {
  const mark = markBefore(before);
  if (mark !== null) return mark;
  for (const part of [before.slice(0, LONGEST_REFUSAL), before.slice(-LONGEST_REFUSAL)])
    if (refuses(plain(part))) return 'beside a refusal';
  const { said = [], others = [] } = place;
  const near = before.slice(-LONGEST_LEAD);
  const tail = plain(near);
  if (decidesAgainst(plain(near.replace(FENCE, '')), said, others)) return 'behind another decision';
  const lead = leadOf(before);
  if (lead.kind === 'none') return null;
  if (hedges.SUPPOSED.test(tail)) return 'under a condition';
  const hedge = hedgeIn(lead, place);
  if (hedge !== null || place.isKnown) return hedge;
  return isGiven(lead, place) ? null : 'behind words that do not give it as the answer';
}

function hedgeIn({ kind, sentence, clause }: Lead, { isOneOf = false }: Place): string | null {
  const bare = sentence.replace(/[\s:=៖→⇒>—–,،、-]+$/, '');
  if (hedges.ROLE.test(sentence) || hedges.SPEAKER.test(clause)) return "in somebody else's words";
  if (hedges.OTHER_CASE.test(sentence) || (isOneOf && hedges.NUMBERED_CASE.test(sentence)))
    return 'for another application';
  if (hedges.CONDITION.test(sentence)) return 'under a condition';
  const isForm = hedges.IS_FORM.test(bare) || hedges.ASKS_FOR_FORM.test(sentence);
  if (hedges.EXAMPLE.test(clause) || isForm) return 'in an example or a draft';
  if (hedges.ALTERNATIVE.test(clause) || hedges.OR_AT_END.test(bare)) return 'as one of several';
  if (hedges.ASKS.test(clause)) return 'in a question';
  return isDenied(kind, clause) ? 'in a sentence that denies it' : null;
}

function isDenied(kind: Lead['kind'], clause: string): boolean {
  // `no reason to deny` denies nothing
  const rest = clause.replace(hedges.NO_REASON, '');
  if (hedges.MUST_NOT_BE_USED.test(clause)) return true;
  if (kind === 'inline') return hedges.DENIES.test(rest);
  return hedges.DENIES_AT_END.test(rest) || (hedges.DENIES.test(rest) && hedges.ANSWERS.test(rest));
}

/** Whether a lead without a hedge gives what follows as the answer. What it does not know gives nothing. */
function isGiven(lead: Lead, { isValue = false, said = [], keys = [] }: Place): boolean {
  const { kind, sentence, clause, isHeading } = lead;
  // `3 and`, `so`
  if (clause === '' && isValue && kind !== 'colon') return !sentence.includes(' ');
  if (clause === '' || (kind === 'colon' && saysFinal(lead) !== null && !leads.PERSON.test(clause)))
    return true;
  if (leads.ANOTHER_ANSWER.test(clause) && !leads.GIVES.test(clause)) return false;
  if (kind === 'inline') return leads.LEADS_ON.test(clause);
  const isOurs = leads.GIVES.test(clause);
  if (leads.PERSON.test(clause) && !isOurs) return false;
  if (kind === 'title' && isValue)
    return isHeading || namesAnswer(clause) || leads.LEADS_ON.test(clause) || leads.FOLLOWS.test(clause);
  if (kind === 'comma') return isOurs && !isValue;
  if (isOurs || namesAnswer(clause) || leads.FOLLOWS.test(clause)) return true;
  if (said.some(text => says(clause, text))) return true;
  if (kind === 'title' && (isHeading || clause.split(' ').length <= LONGEST_TITLE)) return true;
  const words = clause.split(/[^\p{L}\p{N}]+/u);
  if (words.length <= LONGEST_NAME && words.some(word => keys.includes(word))) return true;
  if (leads.NAMES_ANSWER.test(clause)) return false;
  const isOther =
    kind === 'colon' && clause.split(' ').length >= LEAST_STATEMENT && leads.IS_OTHER.test(clause);
  return (
    isOther ||
    [leads.STATES, leads.STATES_OTHERWISE, leads.NAMES_A_THING, leads.FIRST_PERSON].some(one =>
      one.test(clause),
    )
  );
}

function namesAnswer(clause: string): boolean {
  return leads.NAMES_THIS.test(clause) || leads.NAMES_OTHERWISE.test(clause);
}

/** Whether a clause has a text of the answer as a word, in any of its forms: deny, denied, denial. */
function says(clause: string, text: string): boolean {
  const stem = text.slice(0, Math.max(3, text.length - 2));
  return clause.split(/[^\p{L}\p{N}_]+/u).some(word => word.startsWith(stem));
}

/** Marks of a quotation, a deletion, a comment or code on the line before an object. */
function markBefore(before: string): string | null {
  const tail = before.slice(-LONGEST_LEAD);
  const line = tail.slice(tail.lastIndexOf('\n') + 1);
  const lines = tail.split('\n');
  const above = lines.at(-2) ?? '';
  const isFenced = /(?:`{3,}|~{3,})/.test(above);
  if (/^[ \t]{0,3}>/.test(line) || (isFenced && /^[ \t]{0,3}>/.test(above))) return 'in a quotation';
  const paragraph = tail.slice(tail.lastIndexOf('\n\n') + 1);
  if ((paragraph.match(/(?<!~)~~(?!~)/g)?.length ?? 0) % 2 === 1) return 'struck out';
  if (/^[ \t]*#/.test(line) && HASH_LANGUAGE.test(tail)) return 'in a comment';
  if (CODE.test(line)) return 'in code';
  if (/(?:`{3,}|~{3,})[ \t]*diff\b[^`~]*\n-[^\n]*$/.test(tail)) return 'struck out';
  if (/^[ \t]*(?:--|[-*+][ \t]+\[ ?\]|[✗✘❌🚫]\P{L}*$)/u.test(line)) return 'struck out';
  return null;
}

const TAKEN_BACK = 'that the text behind it takes back';

/**
 * Why `after`, directly behind an answer and outside of reasoning, says that it is none; null where it does not.
 * `opposites` are verdicts that the answer might have said instead, in lower case.
 */
export function doubtAfter(
  after: string,
  { said, others: opposites }: { said: readonly string[]; others: readonly string[] },
): string | null {
  const lines = after
    .replace(TAGS, '')
    .replace(/^[ \t`*_"'”’»」』)\]}$]+/, '')
    .split('\n');
  const rest = (lines[0] ?? '').trim();
  const joined = plain(rest);
  if (/^!?[?؟]/.test(joined)) return 'in a question';
  if (joined !== '' && goesOn(rest, joined)) return 'in a sentence';
  const verdict = opposites.length > 0 ? verdictOf(opposites) : null;
  const sentences = (plain(lines.join('\n')).match(/[^.!?;。؟؛។\n]+[.!?;。؟؛។]*/g) ?? [])
    .map(part => part.replace(/^[^\p{L}\p{N}¿]+/u, '').trim())
    .filter(sentence => sentence !== '');
  if (sentences.length === 1 && /^no\W*$/.test(sentences[0] as string)) return TAKEN_BACK;
  if (decidesAgainst(plain(after.slice(0, LONGEST_LEAD)), said, opposites)) return TAKEN_BACK;
  const isChecked = confirms(sentences.at(-1), said);
  for (const [index, sentence] of sentences.entries()) {
    const bare = withoutMarks(sentence);
    if (index === 0 && behind.ELSE_AT_START.test(sentence)) return 'under a condition';
    if (refuses(sentence)) return 'beside a refusal';
    if (isChecked && self.CHECKS.test(sentence)) continue;
    if (behind.RETRACTS_AT_START.test(sentence) || self.GOES_BACK_AT_START.test(sentence)) return TAKEN_BACK;
    if (self.IS_ABOUT_TO_MEND.test(sentence) || self.IS_VOID.test(sentence)) return TAKEN_BACK;
    if (self.ONLY_IF.test(sentence)) return 'under a condition';
    if (hedges.CONDITION.test(sentence)) continue; // "tell me if this is wrong" says nothing
    if (
      [behind.RETRACTS, self.CALLS_WRONG].some(one => one.test(sentence) || one.test(bare)) ||
      verdict?.test(bare)
    )
      return TAKEN_BACK;
    if (hedges.EXAMPLE.test(sentence) && sentence.length < 12) return 'in an example or a draft';
  }
  return null;
}

const MARK = /[\s.!?。؟។"'*_`)\]]/;

/** Without the marks at its end: from there on, since a pattern that may begin at each of a million marks takes hours. */
function withoutMarks(sentence: string): string {
  let end = sentence.length;
  while (end > 0 && MARK.test(sentence.charAt(end - 1))) end -= 1;
  return sentence.slice(0, end);
}

/** Whether a sentence says that the answer holds after all: `Yes, deny is right.` */
function confirms(sentence: string | undefined, said: readonly string[]): boolean {
  if (sentence === undefined || hedges.DENIES.test(sentence)) return false;
  return (
    self.HOLDS.test(sentence) || (said.some(text => says(sentence, text)) && self.IS_RIGHT.test(sentence))
  );
}

function refuses(text: string): boolean {
  return behind.REFUSES.test(text) || self.WILL_NOT_DECIDE.test(text);
}

/** Whether text on the same line goes on with the sentence in which the answer stands, other than to say why. */
function goesOn(rest: string, joined: string): boolean {
  if (/^[,،、]/.test(joined)) return !behind.REASON_AT_START.test(joined.replace(/^[,،、]\s*/, ''));
  if (!/^[\p{L}\p{M}\p{N}]/u.test(joined) || /^\p{Lu}/u.test(rest)) return false;
  return !behind.REASON_AT_START.test(joined) && !behind.ENDS_WITH.test(joined);
}

/** Values of enums that may be said of anything: `Debt: high` is no other verdict. */
const GRADES = new Set(
  'low medium high moderate none yes no true false good bad poor fair strong weak small large very unknown other minor major'.split(
    ' ',
  ),
);

function alternativesOf(texts: readonly string[]): string {
  return texts.map(text => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|');
}

function verdictOf(opposites: readonly string[]): RegExp {
  return remembered(`\0instead ${opposites.join('\n')}`, () => instead(opposites));
}

function instead(opposites: readonly string[]): RegExp {
  const one = alternativesOf(opposites);
  const clear = alternativesOf(opposites.filter(text => !GRADES.has(text)));
  const rival = `["'*_\`]{0,3}(?:${one})["'*_\`]{0,3}`;
  const end = '(?: (?:it|this|instead|the (?:loan|application|request)))? ?(?=$|[,;)—–-])';
  const we = `(?:i|we|it|this|that|(?:the|my)(?: (?:final|correct|right|actual|real|true))? ${EN_ANSWER})`;
  return new RegExp(
    [
      // `Deny.`, `So, deny.`, `Read "deny" instead.`
      `^(?:\\p{L}{2,12},? ){0,2}(?<!(?:not|to|never|or|of|was|is) )${rival}${end}`,
      `(?<![\\p{L}\\p{N}])${behind.LABEL}(?: (?:now|is|was|should be|must be|ist|est|es|lautet))*[*_ ]{0,3}[:=,—–-]?[*_ ]{0,3}${rival}${end}`,
      // `I should have said deny.`, `It must be deny.`
      `(?:^|[,;:] |(?:so|therefore|thus|then|and|but|that) )${we}(?: (?!not|never)\\p{L}{2,10}){0,4} (?<!(?:to|not|never|or) )${rival}${end}`,
      `(?:^|[,;:] |(?:so|therefore|thus|then|and|but|that) )(?:i|we) (?:have|need|ought|am going) to ${rival}`,
      `^(?:so |therefore |thus |then |actually )?,? ?i (?:now |hereby |therefore |would |will |must |should |have to )?(?:rather |instead )?${rival}`,
      // `Revision: deny`, whatever the label is called
      ...(clear === ''
        ? []
        : [`^[\\p{L}\\p{M} '*_-]{2,40}[:=][*_ ]{0,3}["'*_\`]{0,3}(?:${clear})["'*_\`]{0,3}$`]),
      `[\\p{L}]{2} ?(?:/|→|->|=>) ?${rival}`,
    ].join('|'),
    'u',
  );
}
