/** Words directly before an object that give it as the answer, and as the final one; see answer-words.ts. */
import {
  ANSWER_VERBS,
  ANSWER_WORDS,
  AR_ANSWER,
  anywhere,
  atStart,
  CJK_ANSWER,
  DE_ANSWER,
  EN_ANSWER,
  ES_ANSWER,
  FR_ANSWER,
  KM_ANSWER,
  LETTER,
  whole,
} from './answer-words.ts';

/** A noun for an answer. */
export const NAMES_ANSWER = anywhere({ words: ANSWER_WORDS, signs: [KM_ANSWER, CJK_ANSWER] });

/** Adjectives of a noun for the answer that is given. Any other makes it another one: the old, a tempting, his answer. */
const OF_THIS = `(?:my|our|the|this|final|definitive|ultimate|corrected|correct|right|only possible|only one|revised|(?:bank|model|officer|lender|system|assistant|committee|ai|agent)'s|updated|fixed|amended|loan|lending|credit|underwriting|overall|official|formal|complete|full|json|structured|formatted|valid|requested|required|following|single|brief|short|clear|own|actual|resulting|raw|plain|only|strict|proper|appropriate|recommended|best|honest|considered|careful|professional|clean|parsed|output|answer|decision|response|application|approval|assessment|risk|result|confidence|sentiment|classification|official)`;
const BUT = '(?:so|and|now|thus|then|therefore|hence|ok|okay|yes|well|finally|overall|again|here)';
const FIRST = `(?:so |and |therefore |thus |then |hence |now |thereby )?(?:i|we)(?:'ll|'d|'m|'ve)?`;
const AUX =
  '(?: (?:am|are|will|would|must|shall|should|have|has|had|to|can|only|hereby|therefore|now|thus|do|going|want|choose|decided|decide|therefore|reluctantly|gladly|finally|also|strongly|would|like))';
const DECIDES =
  '(?:answer|answering|respond|responding|reply|say|return|output|choose|chose|chosen|pick|select|decide|decided|deciding|give|provide|conclude|concluded|recommend|recommending|print|submit|go with|going with|settle on|opt for|propose|vote|think|believe|judge|rate|score|classify|assess|find|make|present|state|approve|approving|deny|denying|reject|rejecting|decline|declining|refuse the|grant|granting|accept|accepting)';
const IS = '(?: (?:is|are|would be|will be|becomes|remains|in json|as json|as follows|in json format))?';
const LATE =
  '(?: (?:now|then|therefore|thus|clear|simple|as follows|this|the following|the following json))?';

/** All of a clause that goes on with the answer, without a colon: `my answer is`, `I respond with`. */
export const LEADS_ON = whole({
  words: [
    `(?:${BUT} ){0,3}(?:${OF_THIS} ){0,5}${EN_ANSWER}(?: (?:for|to|on|in) (?:this|the) (?!form|style|shape|manner|way)\\p{L}{2,14})?${IS}${LATE}`,
    `${FIRST}${AUX}{0,4} ${DECIDES}(?: (?:with|for|on))?(?: (?:it|this|them)(?: an?)?)?${LATE}`,
    `${BUT}|consequently|accordingly|(?:here|this|it) is|(?:which|that|this) (?:gives|leads|means|makes)(?: us| me)?(?: to)?|here's|here you (?:go|are)|let's go with|certainly|sure`,
    `(?:also |daher |somit )?(?:(?:meine?|die|das|unsere?|endgültige|abschließende|finale) ){0,3}${DE_ANSWER}(?: (?:ist|lautet|wäre))?(?: (?:daher|also|somit))?`,
    `(?:ich|wir)(?: \\p{L}{1,12}){0,2} ${ANSWER_VERBS[1]}(?: mit)?|hier ist|das ist|also|daher|deshalb`,
    `(?:donc |ainsi )?(?:(?:ma|la|notre|le|mon) ){0,2}${FR_ANSWER}(?: (?:finale|définitive))?(?: (?:est|serait))?(?: donc)?`,
    `je(?: \\p{L}{1,12}){0,2} ${ANSWER_VERBS[2]}(?: (?:avec|par))?|voici|c'est|donc|ainsi`,
    `(?:(?:mi|la|nuestra|el) ){0,2}${ES_ANSWER}(?: (?:final|definitiva))?(?: (?:es|sería))?`,
    `(?:yo )?${ANSWER_VERBS[3]}(?: con)?|aquí está|esta es|entonces|por lo tanto`,
    `${AR_ANSWER}(?: ${AR_ANSWER})?(?: (?:ال)?نهائي(?:ة)?)?(?: (?:هي|هو))?|أجيب ب|لذلك|إذن`,
  ],
  signs: [
    `(?:那么)?(?:我|我们|私|本)?(?:的|の)?(?:最终|最終)?(?:的|の)?${CJK_ANSWER}(?:是|为|為|は|如下|就是)? ?`,
    '(?:因此|所以|したがって|よって|我(?:选择|回答|决定|的选择是))',
    `${KM_ANSWER}(?:ចុងក្រោយ)?(?:របស់ខ្ញុំ)?(?:ចុងក្រោយ)?(?:គឺ|ជា)? ?`,
    '(?:ដូច្នេះ|នេះជា)',
  ],
});

/** The beginning of a clause that leads to an answer: a connection, what it rests on, or the one who decides. */
export const GIVES = atStart({
  words: [
    `${FIRST}${AUX}{0,4}(?: \\p{L}{2,12}ly)? ${DECIDES}`,
    `here|below|in order|to repeat|repeating|once (?:more|again)|again|thus|therefore|hence|so|then|ok|okay|sure|certainly|of course|absolutely|great|alright|well|yes|understood|got it|done|voilà|finally|overall|unfortunately|regrettably|bottom line|tl;? ?dr|accordingly|consequently|\\p{L}{3,14}ly(?=$| )|\\p{L}{3,12}ing(?! ${EN_ANSWER})|everything|all|nothing|both|it follows|(?:which|that|this|it) (?:leads|gives|means|results|yields|makes|brings|leaves|boils)|a(?=$)|loan assistant|assistant|in (?:accordance|line|keeping|response|answer|reply|compliance|agreement|consequence|this case|the format|the required)|as per|without further|it follows|let's go|let me|please find|assistant|ai|model|bot`,
    '(?:as|when) (?:requested|asked|required|instructed|you asked|you requested|per)|as you|as (?:a )?(?:valid )?json|in (?:short|summary|conclusion|my (?:view|opinion|judge?ment)|the end|json|sum|total|light|view|line)|to (?:sum|summari[sz]e|conclude|answer)|all (?:in all|things considered)|taking|based|given (?:the|this|these|that|those|all|his|her|their|such|how)|considering|after|following|on (?:the basis|balance|reflection)|looking|having|weighing|from (?:the|this|these) (?:data|above|application|analysis|information|facts)|with (?:all|this|that|these|the)|for (?:this|the (?:present|given|above|record))|regarding|according to',
    'this (?:leads|results|means|gives|yields|is my|is the|application|applicant|loan)',
    '(?:ich|wir) \\p{L}{2,20}|hier|unten|daher|deshalb|also|somit|folglich|folgend\\p{L}{0,3}|zusammengefasst|zusammenfassend|nochmals|kurz|insgesamt|leider|gerne|natürlich|basierend|nach|auf|aufgrund|angesichts|wie (?:gewünscht|gefordert)|für diesen',
    "(?:je|nous) \\p{L}{2,20}|j'\\p{L}{2,20}|voici|ci-dessous|donc|ainsi|bref|en (?:résumé|conclusion|conséquence|somme)|malheureusement|bien sûr|sur la base|après|compte tenu|au vu|vu|comme demandé|pour cette",
    '(?:yo )?(?:rechazo|apruebo|deniego|acepto|decido|respondo|recomiendo|elijo|concluyo|concedo|otorgo|niego|he decidido)|aquí|abajo|así|entonces|por (?:lo tanto|ende|eso|tanto)|en (?:resumen|conclusión)|lamentablemente|claro|tras|después|basado|con base|teniendo|dado|sobre la base|a continuación|como se pidió|para esta',
    'أرفض|أوافق|أقرر|أوصي|أختار|أجيب|قررت|هذا هو|هذه هي|إليك|فيما يلي|كالتالي|لذلك|إذن|بناء|بناءً|بعد|نظرا|نظراً|باختصار',
  ],
  signs: [
    '(?:我|我们|本人)(?:[^。,、]{0,8})(?:拒绝|批准|决定|选择|建议|认为|同意|回答|给出)',
    '(?:因此|所以|即|也就是|总结|综上|总之|好的|以下|如下|根据|基于|经过|综合|鉴于|这是)',
    '(?:以下|次の|したがって|よって|つまり|はい|結論|これが|私は)',
    '(?:ដូច្នេះ|ខាងក្រោម|នេះជា|នេះគឺ|ផ្អែក|បន្ទាប់ពី|ខ្ញុំ)',
  ],
});
/** The same anywhere in a clause. */
export const FOLLOWS = anywhere({
  words: [
    'below|follows|as follows|following|folgt|folgende[rsmn]?|suit|suivante?|came up with|decided|siguiente|التالي',
  ],
  signs: [
    '如下',
    '以下',
    '次の',
    '次のとおり',
    'ដូចខាងក្រោម',
    '(?:拒否|承認|決定|判断|回答|推奨|却下|可決)(?:します|しました|する|した|いたします)',
  ],
});
/** A noun for an answer in another language than English. */
export const NAMES_OTHERWISE = anywhere({
  words: ANSWER_WORDS.slice(1).map(word => word.replace('|json', '')),
  signs: [KM_ANSWER, CJK_ANSWER],
});
/** The same in English, of this one, or of one that is introduced with `here is a`. */
export const NAMES_THIS = new RegExp(
  `(?:^|[("'*_#\\[] ?)(?:${BUT} ){0,2}(?:${OF_THIS} ){0,5}${EN_ANSWER}(?!${LETTER})|(?<!${LETTER})(?:my|our|this)(?: (?!(?:old|previous|earlier|former|prior|past|first|initial|other|next|wrong)(?!${LETTER}))[\\p{L}-]{2,16}(?!')){0,3} ${EN_ANSWER}(?!${LETTER})|(?<!${LETTER})(?:is|in|as|with|of|for|to|and|by|give|gives|just|only) (?:${OF_THIS} ){0,5}${EN_ANSWER}(?!${LETTER})|(?<!${LETTER})the (?:${OF_THIS} ){0,5}${EN_ANSWER}(?!${LETTER})`,
  'u',
);
/** The same in other languages. */
export const STATES_OTHERWISE = anywhere({
  words: [
    '(?:ist|sind|war|hat|haben|reicht|liegt|fehlt|fehlen|est|sont|était|a|ont|es|son|está|están|tiene|hay|supera) \\p{L}',
  ],
  signs: [
    '(?:没有|无)(?:任何)?(?:理由|问题|风险|异议)',
    '太',
    '很',
    '过高',
    '不足',
    '高すぎ',
    '低すぎ',
    '(?:です|ます)$',
    'ខ្ពស់',
    'ទាប',
  ],
});
/** A word that says a clause is in German, French or Spanish. */
export const IS_OTHER =
  /^(?!(?:avec|sans|mit|ohne|con|sin|bei|pour|für|para)(?!\p{L})).*(?<!\p{L})(?:der|die|das|dem|den|des|ein|eine|einen|ich|wir|sind|ist|keine?n?|zu|und|trotz|wegen|le|la|les|une?|je|nous|est|sont|aucune?|malgré|el|los|las|una?|son|es|está|no|veo|pese|debido)(?!\p{L})/u;
/** A statement of one's own that is no decision: `I would rather be careful here`. */
export const FIRST_PERSON = /^(?:i|we)(?:'[a-z]{1,2})? /;
/** A thing by its name: `The tags`, `my shopping list`. */
export const NAMES_A_THING = /^(?:the|these|my|our|this)(?: [\p{L}-]{2,20}){1,4}$/u;
/** A statement, in English: it has a verb, says of what, and does not end in `is`. */
export const STATES = new RegExp(
  `^(?!(?:an?|some|one|another|every|any|many|most|no|you|he|she|they|who|what|this is what|that)(?!${LETTER})).{2,200}?(?<!${LETTER})(?:is|are|was|were|has|have|had|does|do|did|can|cannot|could|should|must|seems?|looks|shows?|meets?|fails?|exceeds?|lacks?|qualif(?:y|ies)|remains?|appears?|warrants?|supports?|indicates?|suggests?)(?!${LETTER}) .{1,200}$`,
  'u',
);
/** Somebody other than the model, by a role. */
export const PERSON = anywhere({
  words: [
    "manager|regulator|advocate|scientist|colleague|boss|supervisor|auditor|expert|predecessor|lawyer|competitor|neighbou?r|user|customer|human|somebody|someone|everybody|everyone|others|people|conversation|teacher|critic|opponent|committee's|predecessor's",
    'kolleg\\p{L}{1,4}|chef|vorgesetzte[rn]?|manager\\p{L}{0,2}|risikomanager\\p{L}{0,2}|prüfer|jemand|andere',
    "collègues?|responsable|gestionnaire|directeur|directrice|auditeur|quelqu'un",
    'colegas?|gerente|gestora?|jef[ea]|director|auditor|alguien',
    '(?:ال)?(?:زميل|زميلي|زميلتي|مدير|مديرة|مراجع)',
  ],
  signs: ['同事', '经理', '主管', '同僚', '上司', 'マネージャー', '担当者の', 'មិត្តរួមការងារ', 'អ្នកគ្រប់គ្រង'],
});
/** Words for an answer that was given before, or by nobody. */
export const ANOTHER_ANSWER = anywhere({
  words: [
    `(?:old|previous|earlier|former|prior|past|yesterday|yesterday's|last (?:week|month|year|time)(?:'s)?|rejected|discarded|tempting|typical|naive|expected|tentative|his|her|their|your|its|someone's|an?)(?: \\p{L}{2,14}){0,1} ${EN_ANSWER}`,
    `(?!(?:bank|model|officer|lender|system|assistant|committee|ai|agent|applicant|application|today|borrower|loan)'s)\\p{L}{2,16}'s(?: \\p{L}{2,14}){0,1} ${EN_ANSWER}|yesterday|old|discarded|last (?:week|month|year|time)(?:'s)?`,
    `(?:alte|frühere|vorherige|gestrige|letzte)[rsn]? ${DE_ANSWER}|${FR_ANSWER} (?:précédente?|ancienne)|ancienne ${FR_ANSWER}|${ES_ANSWER} anterior|(?:vieja|antigua) ${ES_ANSWER}`,
  ],
  signs: [
    '(?:之前|以前|上次|昨天|旧)的?(?:答案|回答|决定|结果)',
    '(?:前回|以前|昨日)の(?:回答|答え|決定|結果)',
    'ចម្លើយមុន',
  ],
});

const FIXED = '(?:corrected|correct|revised|updated|fixed|amended)';
const FINALLY = '(?:final|definitive|ultimate|actual|last)';
/** What says of the last of several that it is the final one. */
export const CORRECTED = anywhere({
  words: [
    `${FIXED}(?: \\p{L}{2,12}){0,2} ${EN_ANSWER}|${FIXED}|correction|on (?:second thoughts?|reflection|further thought)|(?:change|changed|correct) (?:my answer|my decision|it|this|that)(?: to)?`,
    'korrigierte?[rs]?|überarbeitete?[rs]?|berichtigte?[rs]?|corrigée?|révisée?|corregid[oa]|revisad[oa]|المصححة|المعدلة|تصحيح|korrektur|berichtigung|corrección',
  ],
  signs: ['更正', '修正', '修改后', '訂正', 'កែតម្រូវ'],
});
export const FINAL = anywhere({
  words: [
    `${FINALLY}(?: \\p{L}{2,12}){0,2} ${EN_ANSWER}|final|finally`,
    'endgültige?[rs]?|abschließende?[rs]?|finale?[rs]?|finales|définitive?|finalement|finale|definitiv[oa]|finales',
    '(?:ال)?نهائي(?:ة)?|أخيرا',
  ],
  signs: ['最终', '最後', '最后', '最終', 'ចុងក្រោយ'],
});
