/** Words directly before an object that say it is not given as the answer; see answer-words.ts. */
import {
  ANSWER_SIGNS,
  ANSWER_VERBS,
  ANSWER_WORDS,
  anywhere,
  atEnd,
  LETTER,
  matcher,
  type Phrases,
} from './answer-words.ts';

/** Words and signs behind which another clause begins. What is before them says nothing about what follows. */
export const NEXT_CLAUSE = new RegExp(
  `[,;:،؛、៖—–](?= |$|\\P{ASCII})| - |(?<!${LETTER})(?:so|thus|therefore|hence|(?<!(?:any|every|no)thing )but|then|and (?=(?:i|we|my|the|here|so|therefore|that|this)(?!\\p{L}))|also|daher|deshalb|darum|somit|aber|und|donc|mais|et|por lo tanto|por eso|pero|y|لذلك|ولكن)(?!${LETTER})|因此|所以|故|但|したがって|よって|ので|が、|ដូច្នេះ|ប៉ុន្តែ`,
  'gu',
);

const WRONG =
  'wrong|incorrect|false|mistaken|falsch|falsche|incorrecte?|faux|fausse|mauvaise?|incorrecta|equivocad[oa]|خطأ|خاطئة';
/** A denial, which makes of an answer what it is not. */
export const NOT: Phrases = {
  words: [
    "(?:do|does|did|is|are|was|were|would|could|should|ca|can|wo|must|has|have|ain)n't",
    "don't|won't|can't|not|never|cannot|no|nobody|neither|nor|hardly|anything but|everything but|everything except|except|far from|by no means|no way|under no circumstances|impossible|the opposite|opposite|unacceptable|not acceptable|refuse|against|instead of|rather than|avoid",
    'nicht|nie|niemals|kein|keine|keinen|niemand|statt|anstatt|weder|kaum',
    "pas|jamais|aucune?|plutôt que|au lieu de?|ni|n'est",
    'nunca|jamás|ningún|ninguna|nadie|tampoco|en lugar de|en vez de',
    'ليس|ليست|لا|لن|لم|بدلا من|بدلاً من|غير',
    WRONG,
  ],
  signs: [
    '不',
    '没有',
    '并非',
    '別',
    '别',
    '而不',
    'ない',
    'ません',
    'ではなく',
    'មិន',
    'កុំ',
    'ជំនួស',
    '错',
    '間違',
    '誤',
  ],
};
/** A denial of what is the opposite: no reason to refuse. */
export const NO_REASON =
  /(?:no|any|kein(?:en|e)?|aucune?|ning(?:ún|una)|(?:pas|no) (?:de |veo |hay |vois (?:de |aucune )?)?) ?(?:good |clear |further |valid )?(?:reasons?|grounds?|objections?|concerns?|risk|grund|gründe|bedenken|einwände|raisons?|motifs?|objections?|motivos?|razón|razones|objeción)(?: (?:to|for|not to|against|de|para|pour|zu|zur|gegen)(?: \p{L}{2,20}){0,4})?|(?:没有|无)(?:任何)?(?:理由|问题|风险|异议)(?:拒绝|不批准|反对)?|(?:拒否|却下)する理由(?:は|が)(?:ない|ありません)|(?:問題|懸念|リスク)(?:は|が)?(?:ない|ありません|なし)/u;
/** What is shown so that nobody takes it. */
export const MUST_NOT_BE_USED = anywhere({
  words: [
    "(?:do not|don't|never|must not|please (?:do not|don't)) (?:use|take|return|submit|copy|accept|adopt|trust|send)",
    '(?:nicht|niemals) (?:verwenden|benutzen|übernehmen|nutzen)|ne pas (?:utiliser|prendre|retenir|reprendre)|no (?:usar|utilizar|tomar|use|utilice)',
    'لا (?:تستخدم|تستخدموا|تأخذ)',
  ],
  signs: [
    '(?:请勿|不要|切勿|别)(?:采用|使用|采纳|参考|提交)',
    '(?:使用|採用|利用)しないで',
    '(?:សូម)?កុំ(?:ប្រើ|យក)',
  ],
});
/** A noun for an answer, or a verb of answering. */
export const ANSWERS = anywhere({
  words: [...ANSWER_WORDS, ...ANSWER_VERBS, 'words?'],
  signs: ANSWER_SIGNS,
});
export const DENIES = anywhere(NOT);
/** The same as the last word or two. */
export const DENIES_AT_END = matcher(NOT, source => `(?:${source})(?: ?[\\p{L}\\p{M}]{1,12}){0,1} ?$`);

/** A condition. `if` behind a verb of asking is none. */
export const CONDITION = anywhere({
  words: [
    '(?<!(?:determine|determined|check|checked|see|know|decide|assess|evaluate|verify|tell|ask|asks|asked|asking|wonder|consider|considered|judge|matter|as|even) )if',
    "unless|(?:provided|providing) (?:that|the|it|he|she|they|his|her)|assuming|supposing|suppose|imagine|in case|in the case of|in the event|as long as|otherwise|(?<!(?:nothing|anything|something|everything|anybody|everybody|someone|somebody) )else|what if|until|subject to|conditional|pending|had (?:the|he|she|they|it)|were (?:the|he|she|they|it)|let's (?:say|imagine|assume|suppose)|assume|assumes|only when",
    '(?:when|once)(?! \\p{L}{2,20}ing(?!\\p{L}))',
    '(?<!(?:prüfen|wissen|klären) )(?:wenn|falls)|sofern|vorausgesetzt|angenommen|sonst|andernfalls|ansonsten|solange|im falle?|wäre|wären|hätte',
    "(?<!(?:savoir|décider|déterminer|vérifier|comme|même) )(?:si|s'ils?)|sinon|à condition|pourvu que?|en cas|à moins|tant que|supposons",
    '(?<!(?:saber|decidir|determinar|verificar|como|aun) )si|de lo contrario|siempre que|a condición|en caso|a menos|mientras|supongamos|con tal de',
    'إذا|لو|بشرط|شريطة|وإلا|إلا إذا|في حال|طالما|عندما',
  ],
  signs: [
    ...['如果', '若', '假如', '假设', '倘若', '要是', '只要', '只有', '除非', '否则', '万一', '一旦'],
    ...['もし', 'れば', 'ならば', 'なら(?!ない|な)', '場合', 'たら', 'でなければ', '限り'],
    ...['ប្រសិនបើ', 'បើ', 'ក្នុងករណី', 'លុះត្រាតែ', 'ឱ្យតែ'],
  ],
});

/** One of several that may be. */
export const ALTERNATIVE = anywhere({
  words: [
    'usually|normally|generally|typically|ironically|supposedly|allegedly|ideally|theoretically|sometimes|either|alternatively|alternative|perhaps|maybe|possibly|potential|scenario|(?:may|might|could) be',
    '(?<!only )possible (?:answer|decision|response|output|result|option)s?',
    'option (?:\\p{L}|\\p{N}{1,2}|one|two|three|first|second)',
    '(?:first|second|other) option|one option|(?:answer|choice|candidate|case|version) (?:[a-d]|\\p{N}{1,2}|one|two)',
    'angeblich|normalerweise|entweder|alternativ|alternative|vielleicht|möglicherweise|eventuell|(?:variante|option|möglichkeit|fall) (?:\\p{L}|\\p{N}{1,2})|könnte',
    'soit|alternativement|peut-être|(?:option|cas|variante) (?:\\p{L}|\\p{N}{1,2})|pourrait',
    'alternativamente|quizás?|tal vez|(?:opción|caso|variante) (?:\\p{L}|\\p{N}{1,2})|podría',
    'إما|ربما|(?:ال)?خيار (?:\\p{L}|\\p{N}{1,2})|(?:ال)?احتمال|بدلا|قد يكون',
  ],
  signs: [
    ...['要么', '或许', '也许', '可能', '选项', '选择[A-Da-d一二1-4]', '方案', '备选'],
    ...['選択肢', '案[A-Da-d一二1-4]', 'あるいは', 'おそらく', 'たぶん', 'かもしれ'],
    ...['ជម្រើស', 'ប្រហែល', 'អាចជា'],
  ],
});
/** `or` and its like as the last word. */
export const OR_AT_END = atEnd({
  words: ['or|vs|versus|than|oder|ou|أو'],
  signs: ['或', '或者', '还是', 'または', 'か', 'ឬ'],
});

/** An example, a template, a draft. */
export const EXAMPLE = anywhere({
  words: [
    '(?<!(?:following|by|per|to|in|above|given|provided) (?:the|your|this) )(?:example|examples|sample|template)|for instance|eg|such as|placeholder|dummy|mock|test case|stub|fixture|skeleton|syntax|pattern|hypothetical|hypothetically|illustration|illustrative',
    '(?:looks?|looking) (?:something )?like|something like|of the form|have the form|has the form|schema allows',
    '(?:format|schema|template|structure|form)(?: of (?:the|an?|your|my) (?:answer|output|response|decision))? (?:is|was|must|should|would|of an? answer)',
    '(?<!(?:your|the|these) )instructions?(?= ?:|$)|(?:must|should) (?:match|look like)|would look like|(?:valid|allowed|permitted|possible) (?:outputs?|answers?|responses?|values?) (?:is|are)|draft|sketch|tentative|tentatively|initial (?:assessment|answer|decision|thought|guess)|first (?:thought|guess|idea|impression)|rough',
    '(?:zum )?beispiel|beispiele|beispielsweise|zb|vorlage|muster|platzhalter|entwurf|(?:format|schema) (?:ist|lautet)|sieht so aus|sähe|aussehen',
    'exemples?|parex|modèle|gabarit|brouillon|ébauche|(?:le )?(?:format|schéma) est|ressembl\\p{L}{1,6}',
    'ejemplos?|pej|plantilla|borrador|(?:el )?(?:formato|esquema) es|se vería|sería así|parecid[oa]',
    'مثال|مثلا|مثلاً|(?:على )?سبيل المثال|نموذج|قالب|مسودة|(?:ال)?صيغة',
  ],
  signs: [
    ...[
      '例如',
      '比如',
      '譬如',
      '示例',
      '例子',
      '样例',
      '范例',
      '模板',
      '草稿',
      '初稿',
      '占位',
      '看起来像',
      '格式(?:是|为|如下|:|$)',
    ],
    ...[
      '例えば',
      '(?<![事実用慣])例(?:[:はとで]|$)',
      'テンプレート',
      '下書き',
      '見本',
      'サンプル',
      '形式は',
      '書式は',
      'フォーマットは',
    ],
    ...['ឧទាហរណ៍', 'គំរូ', 'ទម្រង់(?:គឺ|ជា)', 'សេចក្តីព្រាង'],
  ],
});
/** An order to whoever answers, and what the answer is to look like: `Please reply in this format:` */
export const ASKS_FOR_FORM =
  /^(?:please,? |you (?:must|should) |always )?(?:reply|respond|answer|use|write|give)(?: \p{L}{2,12}){0,4} (?:format|schema|structure|form|template|shape)(?: \p{L}{2,12}){0,2}\W*$/u;
/** A thing that is only supposed, and what would follow from it. */
export const SUPPOSED =
  /(?:^|[.!?\n] ?)(?:suppose|imagine|assume|assuming|if|let us say|let's say|say|angenommen|supposons|supongamos)[ ,][^.!?\n]{3,200}[.!?] ?(?:so |and )?(?:then|in (?:that|this|which) case|dann|alors|entonces)\W*$/u;
/** A whole lead that names a form and nothing else: `Format:`, `The expected output format`. */
export const IS_FORM =
  /^(?:the |expected |required |output |answer |response |json |das |le |el )*(?:format|schema|structure|template|formato|esquema|schéma|格式|形式|書式|ទម្រង់|الصيغة)[ :=]*$/u;

const KIND =
  '(?:application|applicant|case|customer|client|borrower|request|person|candidate|bank|loan|user|officer|lender|bureau)s?';
/** Somebody else's application, or one of several. */
export const OTHER_CASE = anywhere({
  words: [
    `(?:another|other|next|previous|prior|different|second|third|earlier|similar|future)(?: \\p{L}{2,12})? ${KIND}`,
    "(?:brother|sister|wife|husband|friend|neighbou?r|father|mother|partner|colleague|twin)(?:'s)?",
    '(?:anderen?|nächsten?|vorigen?|vorherigen?|zweiten?) (?:antrag|antragsteller|fall|kunden?|bewerber)s?',
    '(?:autre|prochaine?|précédente?|deuxième) (?:demande|demandeur|cas|client)|(?:demande|demandeur|client|cas) (?:suivante?|précédente?)',
    '(?:otr[oa]|siguiente|próxim[oa]|anterior|segund[oa]) (?:solicitud|solicitante|caso|cliente)|(?:solicitud|solicitante|caso|cliente) (?:siguiente|anterior)',
    '(?:لل|ال)?(?:طلب|متقدم|عميل) (?:ال)?(?:تالي|سابق|آخر|ثاني)',
  ],
  signs: [
    '(?:下一个|下一位|上一个|上一位|另一个|另一位|其他)(?:申请|客户|案)',
    '(?:次|前|別|他)の(?:申請|申込|顧客|ケース)',
    '(?:ពាក្យស្នើសុំ|អតិថិជន|អ្នកស្នើសុំ)(?:ផ្សេង|បន្ទាប់|មុន)',
  ],
});
/** A heading over one of several applications. It says nothing over a single answer, which may have a number. */
export const NUMBERED_CASE = anywhere({
  words: [
    '(?:application|applicant|case|customer|request|example|question|antrag|fall|demande|cas|solicitud|caso|طلب)(?: (?:no|nr|number|id))?[.:]? ?[#№]? ?\\p{N}{1,12}',
  ],
  signs: [
    '申请 ?[#\\p{N}一二三]',
    '申請 ?[#\\p{N}一二三]',
    'ពាក្យស្នើសុំ ?(?:ទី ?)?[#\\p{N}]',
    '#\\p{N}',
    '第[二三2-9]',
  ],
});

const SAYS_EN =
  '(?<!(?:i|you|we|as) )(?:said|says|wrote|writes|answered|replied|replies|claims|claimed|told|asked|asks|wants|wanted|demands|demanded|suggested|recommended|thinks|argued|argues|stated|states|proposes|proposed|insists|believes|hoped|hopes|expects|put it)';
/** Somebody else's words. */
export const SPEAKER = anywhere({
  words: [
    SAYS_EN,
    '(?<!i )(?:would|will|might|could) (?:have )?(?:answer|answered|say|said|write|written|return|returned|reply|replied|respond|responded|get|got|gotten)',
    '(?:was|were) (?:told|asked|answered)|got|gets|(?:applicant|user|customer|client|he|she|they) (?:requested|expected)|agent \\p{N}|received|receives|quote|quoting|quoted|the (?:file|input|prompt|text|document|letter|email|log|message|record|question) (?:contains|was|is|has|had|reads|held)|you (?:told|want|wanted|said)|one might|some would|same for',
    'according to(?! (?:the |my |your |our |this |these |all )?(?:\\p{L}{2,14} ){0,2}(?:data|guidelines?|polic|rules?|requirements?|criteria|information|analysis|above|evidence|numbers|facts|instructions?|standards?|application|profile))',
    '(?<!(?:ich|wie) )(?:sagte|sagt|schrieb|schreibt|antwortete|meinte|meint|denkt|glaubt|behauptet|empfahl)|laut(?! (?:den|der|dem)? ?(?:daten|regeln|richtlinien|angaben|antrag))',
    "(?:a|ont) (?:dit|écrit|répondu|proposé)|(?<!je )(?:dit|écrit|répond|prétend|pense|croit)|selon(?! (?:les? |la |l')?(?:données|règles|critères|informations|demande))",
    'dijo|dice|escribió|respondió|afirma|propuso|piensa|cree|según(?! (?:los |las |la |el )?(?:datos|reglas|criterios|información|solicitud))',
    'قال|قالت|يقول|تقول|كتب|أجاب|وفقا ل(?:ل)?مدير',
  ],
  signs: [
    '(?<!我)(?:说|表示|写道|认为|回答说)(?::|$)',
    '的意见',
    'の意見',
    '(?:言いました|言った|述べ|書きました|答えました)',
    '(?:និយាយ|សរសេរ)',
  ],
});
/** A lead that gives the word to somebody who is not the model. */
export const ROLE =
  /^[ \t>*_#]*(?:user|human|system|applicant|customer|client|borrower|question|prompt|input|reviewer|benutzer|nutzer|kunde|antragsteller|utilisateur|client|demandeur|usuario|cliente|solicitante|用户|用戶|客户|申请人|人类|ユーザー?|利用者|申請者|المستخدم|مستخدم|العميل|مقدم الطلب|អ្នកប្រើប្រាស់|អ្នកប្រើ|អតិថិជន)[ *_]*[::៖]/u;

/** A sentence that asks. */
export const ASKS = anywhere({
  words: [
    'what if|how about|should i|shall i|do i|am i to|is it|could it be|why not|would it be',
    'soll ich|sollte ich|dois-je|devrais-je|est-ce|debo|debería|هل',
  ],
  signs: ['¿', '吗', 'べきですか', 'តើ'],
});
