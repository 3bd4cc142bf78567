/**
 * The words around an object that say what it is, in English, German, French, Spanish, Chinese, Japanese, Arabic and Khmer.
 * `words` are matched between bounds of words, `signs` anywhere, as scripts without spaces need it. All are sources of
 * regular expressions on text as `plain` gives it, without unbounded repeats, so that matching stays linear.
 */

export interface Phrases {
  words: readonly string[];
  signs?: readonly string[];
}

/** The text that phrases are matched on: one form of each character and quote, in lower case; line breaks stay. */
export function plain(text: string): string {
  return text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[‘’ʼ´]/g, "'")
    .replace(/[^\S\n]+/g, ' ')
    .replace(/\b(?:e\. ?g|i\. ?e|z\. ?b|p\. ?ej|par ex|d\. ?h)\./g, found => found.replace(/[. ]/g, ''));
}

export const LETTER = '[\\p{L}\\p{N}]';

export function sourceOf({ words, signs = [] }: Phrases): string {
  const bounded = `(?<!${LETTER})(?:[وف])?(?:${words.join('|')})(?!${LETTER})`;
  return [bounded, ...signs].join('|');
}

/** Tells whether a text has one of some phrases. */
export interface Matcher {
  test(text: string): boolean;
}

const ASCII = /^\p{ASCII}*$/u;
const HAS_LATIN = /[a-z]/;

/**
 * Of one expression two: nearly all answers are in ASCII, and without the classes of Unicode it takes a fifth of the time.
 * `put` sets the phrases in place.
 */
export function matcher(phrases: Phrases, put: (source: string) => string): Matcher {
  // each is made for the first text that needs it: to make all of them is a fifth of a start
  let any: RegExp | undefined;
  let ascii: RegExp | undefined;
  return {
    test(text) {
      if (!ASCII.test(text)) {
        any ??= new RegExp(put(sourceOf(phrases)), 'u');
        return any.test(text);
      }
      ascii ??= asciiOf(phrases, put);
      return ascii.test(text);
    },
  };
}

function asciiOf(phrases: Phrases, put: (source: string) => string): RegExp {
  const latin = phrases.words.filter(words => HAS_LATIN.test(words.replace(/\\p\{\w+\}/g, '')));
  const bounded = `(?<![a-z0-9])(?:${latin.join('|')})(?![a-z0-9])`;
  const source = put(latin.length === 0 ? '(?!)' : bounded)
    .replaceAll(LETTER, '[a-z0-9]')
    .replaceAll('[\\p{L}\\p{M}]', '[a-z]')
    .replaceAll('\\p{L}', '[a-z]')
    .replaceAll('\\p{N}', '[0-9]');
  return new RegExp(source);
}

export const anywhere = (phrases: Phrases): Matcher => matcher(phrases, source => source);
export const atStart = (phrases: Phrases): Matcher => matcher(phrases, source => `^(?:${source})`);
export const atEnd = (phrases: Phrases): Matcher => matcher(phrases, source => `(?:${source})$`);
export const whole = (phrases: Phrases): Matcher => matcher(phrases, source => `^(?:${source})$`);

export const EN_ANSWER =
  '(?:answer|decision|response|reply|output|result|verdict|choice|conclusion|recommendation|determination|judge?ment|assessment|evaluation|analysis|review|finding|report|summary|outcome|rating|score|grade|estimate|value|ruling|vote|pick|call|stance|position|view|opinion|classification|label|category|sentiment|json|object|array|list|tag|entit(?:y|ie)|item|number|version)s?';
export const DE_ANSWER =
  '(?:antwort|entscheidung|ergebnis|urteil|fazit|punktzahl|punkte|note|wert|schätzung|bescheid|einschätzung|beschluss|schlussfolgerung|ausgabe|empfehlung|bewertung|json)';
export const FR_ANSWER =
  '(?:réponse|décision|résultat|verdict|sortie|recommandation|conclusion|avis|bilan|note|score|valeur|estimation|évaluation|jugement|json)';
export const ES_ANSWER =
  '(?:respuesta|decisión|resultado|veredicto|salida|recomendación|conclusión|dictamen|evaluación|puntuación|puntaje|nota|valor|estimación|fallo|calificación|json)';
export const AR_ANSWER =
  '(?:ال)?(?:إجابة|إجابات|قراران|قرارات|قراراتي|نتائج|إجابتي|جواب|جوابي|قرار|قراري|نتيجة|رد|ردي|حكم|توصية|خلاصة|استنتاج|تقييم|درجة|نقاط|قيمة)';
export const KM_ANSWER = '(?:ចម្លើយ|ការសម្រេចចិត្ត|សរុប|សន្និដ្ឋាន|ការវាយតម្លៃ|ពិន្ទុ|សេចក្តីសម្រេច|លទ្ធផល)';
export const CJK_ANSWER =
  '(?:答案|回答|决定|決定|结果|結果|结论|結論|答复|輸出|输出|判断|判定|回应|回複|评分|得分|分数|点数|スコア|评估|总结|出力|まとめ|評価|建议|最終案)';
export const ANSWER_WORDS = [EN_ANSWER, `(?:${DE_ANSWER})`, FR_ANSWER, ES_ANSWER, AR_ANSWER];
export const ANSWER_VERBS = [
  '(?:answer|respond|reply|say|saying|return|output|choose|pick|select|decide|give|write|writing|conclude|recommend|print|use|submit)',
  '(?:antworte|antworten|sage|sagen|wähle|gebe|schreibe|entscheide)',
  '(?:réponds?|répondre|répondrais?|dis|dire|dirais|choisis|écris|donne|écrire)',
  '(?:respondo|responder|respondería|digo|decir|diría|elijo|escribo|doy)',
  '(?:أجيب|أقول|أختار|أكتب)',
];
export const ANSWER_SIGNS = [KM_ANSWER, CJK_ANSWER, 'ឆ្លើយ', '(?:回答|说|選ぶ|选择|選択|返す|返回)'];
