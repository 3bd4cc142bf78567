/** What an object says of itself, in its comments and texts: that it is a form to fill in, or that its answer is wrong. */
import { isObject, type JsonObject } from '../core/json/pointer.ts';
import { anywhere, plain } from './answer-words.ts';
import { textsOf } from './schema-words.ts';
import { decidesAgainst } from './verdicts.ts';

/** A longer text is no word of a form. */
const LONGEST_FIELD = 80;
const MOST_TEXTS = 200;
/** … and of a text, so many characters. */
const LONGEST_TEXT = 4_000;

/** A text that is a field of a form, and no more: `<your reason here>`. Words in brackets alone may be an answer. */
const FIELD =
  /^(?:[<[{【《「](?=[^>\]}】》」]{2,70}[>\]}】》」]$).{0,50}?(?:(?<!\p{L})(?:your|insert|fill|enter|placeholder|goes|reason(?:ing)?|explanation|justification|rationale|einfügen|ausfüllen|eintragen|begründung|compléter|insérer|remplir|votre|motif|insertar|completar|rellenar|motivo|su razón)(?!\p{L})|填写|填入|插入|在此|此处|理由|記入|入力|ここに|أدخل|اكتب|هنا|السبب|បញ្ចូល|បំពេញ|មូលហេតុ)|(?:your|the|a|an|brief|short|detailed|insert|enter|add|write|put|fill in|provide)(?: \p{L}{1,12}){0,4} (?:goes|go|comes) here\W*$|(?:insert|enter|write|put|fill in|add)(?: \p{L}{1,12}){1,4} here\W*$|(?:在此|此处|请)(?:处|在此)?(?:填写|填入|输入|插入)\S{1,12}$|ここに\S{1,12}(?:記入|入力|書い?)|(?:hier|ihre) (?:\p{L}{2,20} ){0,2}(?:einfügen|eintragen)$)/u;

const MENDS_ITSELF = anywhere({
  words: [
    '(?:wait|hmm+|oops|sorry),? (?:no|actually|that|this|i)',
    'actually,? (?:the|this|that|it|my)(?: \\p{L}{2,10})? (?:should|must|is|ought)',
    '(?:this|it|the (?:answer|decision)) should (?:have been|really be)',
    '(?:moment|warte),? nein|eigentlich (?:sollte|müsste|ist)|attendez?,? non|en fait,? non|espera,? no|en realidad,? no',
  ],
  signs: ['等等', '不对,', '更正', 'いや、', '訂正', 'انتظر', 'ចាំសិន'],
});
/** A comment that puts the answer right. */
const COMMENT =
  /^(?:\/\/|\/\*|#)[\s*]*(?:no|not|wrong|actually|should|must|correct(?:ion)?|fix|todo)(?![\p{L}])/u;

/** What every field and every such sentence has: nearly all texts have nothing of it. */
const MAY_BE_FIELD = /^[<[{【《「在此请]|here\W{0,9}$|ここに|einfügen|eintragen/;
const MAY_MEND =
  /[Ww]ait|[Hh]mm|[Oo]ops|[Ss]orry|[Aa]ctually|should|[Mm]oment|[Ww]arte|[Ee]igentlich|[Aa]ttend|[Ee]n fait|[Ee]spera|[Ee]n realidad|[\u0600-\u06ff\u1780-\u17ff\u3040-\uffef]/;

/** Why an object is none that answers, by its texts and the comments that were in it; null where nothing does. */
export function doubtInside(
  value: unknown,
  schema: JsonObject | boolean,
  comments: readonly string[] = [],
): string | null {
  for (const comment of comments) {
    const text = plain(comment);
    if (COMMENT.test(text) && textsOf(value, schema).others.some(other => text.includes(other)))
      return 'that its own comment takes back';
  }
  for (const text of textsIn(value)) {
    if (text.length <= LONGEST_FIELD && MAY_BE_FIELD.test(text) && FIELD.test(plain(text)))
      return 'that is a form to fill in';
    if (!MAY_MEND.test(text)) continue;
    const own = plain(text.slice(0, LONGEST_TEXT));
    if (!MENDS_ITSELF.test(own)) continue;
    const { said, others } = textsOf(value, schema);
    if (decidesAgainst(own, said, others) || others.some(other => own.includes(other)))
      return 'that takes itself back';
  }
  return null;
}

function pushSome(left: unknown[], values: readonly unknown[]): void {
  for (let at = 0; at < values.length && at < MOST_TEXTS; at++) left.push(values[at]);
}

function textsIn(value: unknown): string[] {
  const texts: string[] = [];
  const left: unknown[] = [value];
  while (left.length > 0 && texts.length < MOST_TEXTS) {
    const next = left.pop();
    if (typeof next === 'string') texts.push(next);
    else if (Array.isArray(next)) pushSome(left, next);
    else if (isObject(next)) pushSome(left, Object.values(next));
  }
  return texts;
}
