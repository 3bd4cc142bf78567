/** Words behind an object, and refusals beside it; see answer-words.ts. */
import { ANSWER_WORDS, anywhere, atStart, CJK_ANSWER, KM_ANSWER } from './answer-words.ts';

const QUALIFIED =
  '(?! (?:based|until|without|solely|alone|yet|only|just|lightly|on this basis|before|from (?:this|one)))';
const TASK =
  '(?:help|assist|comply|decide on|(?:evaluate|assess|rate|score|classify|review)(?: \\p{L}{2,10}){0,2} (?:people|persons?|applicants?|individuals?|humans?|them|these)|make (?:this|that|such|these|lending|loan|credit)(?: \\p{L}{2,10})? decisions?|(?:answer|decide|judge|do|fulfil+|complete|process|respond to|provide|give|offer|make|take)(?: \\p{L}{1,12}){0,3} (?:(?:this|that|it)(?=$|[.!,;]| (?:question|request|decision|task|one|kind|sort|for|on))|such|request|question|task|decisions?|answers?|recommendations?|advice|judge?ments?|people|applications?)|answer(?! (?:to|for|with) the applicant)|rate people|judge people|(?:answer|do) (?:this|that|it)|provide (?:this|that|an answer))';
/** A refusal of the task, and not of the application. */
export const REFUSES = anywhere({
  words: [
    `(?:i|we)(?: am|'m| are|'re)?(?: \\p{L}{2,12})? (?:cannot|can't|can not|won't|will not|unable to|not able to|not allowed to|not permitted to|refuse to|decline to|do not|don't|must not|not going to)(?: \\p{L}{3,10}ly)? ${TASK}${QUALIFIED}`,
    `(?:i am|i'm|we are)(?: \\p{L}{2,12})? (?:not|n't)?(?: feel)? (?:comfortable|unable|qualified|authori[sz]ed|allowed|permitted|in a position)(?: (?:to|with|for))?(?: \\p{L}{2,10}){0,2} (?:mak|decid|answer|judg|giv|provid)\\p{L}{0,4}`,
    "(?:i|we) (?:do not|don't|cannot|can't) (?:have|get) (?:enough|sufficient) (?:information|data|context)(?: \\p{L}{1,10}){0,3} (?:decide|answer|make|judge|give)",
    "i (?:do not|don't) feel (?:able|comfortable|qualified)|(?:unethical|wrong|inappropriate|not (?:right|ethical|appropriate|my place)) for me to (?:decide|answer|judge|make)|(?:please )?(?:ask|consult|let) an? (?:human|person|expert|professional)(?: \\p{L}{2,10})? (?:to )?(?:decide|answer|make)",
    '(?:i|we) (?:must|have to|will)(?: \\p{L}{3,12}ly)? (?:decline|refuse) to (?:answer|decide|help|respond|assist|make|take part|judge)',
    `(?:unable|not able) to (?:help|assist|comply|answer|decide|make (?:this|that|such|a|lending|loan|credit)(?: \\p{L}{2,10})? decisions?)${QUALIFIED}`,
    '(?:ich (?:kann|darf|werde|möchte|will)|(?:kann|darf|werde|möchte|will) ich) .{0,40}(?:nicht|keine?[nr]?) .{0,40}(?:helfen|weiterhelfen|antworten|beantworten|entscheiden|entscheidung(?:en)? treffen|beurteilen|auskunft|behilflich|entscheidungen)',
    '(?:ich (?:kann|darf|werde)|(?:kann|darf|werde) ich) (?:\\p{L}{2,14} ){0,3}keine? (?:\\p{L}{2,24} )?(?:entscheidung(?:en)?|auskunft|antwort|kreditentscheidungen)',
    "je refuse (?:\\p{L}{2,12} ){0,2}(?:de |d')(?:décider|juger|répondre|évaluer|statuer|me prononcer|trancher|participer)|je (?:ne |n')(?:\\p{L}{1,10} ){1,4}(?:évaluer|statuer|trancher|donner (?:de |une )?(?:réponse|décision|avis))",
    "je (?:ne |n')(?:\\p{L}{1,10} ){1,3}(?:en mesure de |capable de )?(?:(?:vous|t'|l')? ?aider|répondre à|répondre(?=$|[.!])|décider|me prononcer|juger|prendre (?:\\p{L}{1,6} ){0,2}décisions?)",
    '(?:no (?:puedo|estoy en condiciones de|voy a|debo|quiero|me es posible)|me niego a|rehúso)(?: \\p{L}{1,12}){0,2} ?(?:evaluar|dar|emitir|valorar|opinar|decidir|juzgar|pronunciarme)(?: \\p{L}{1,12}){0,3}? ?(?:personas?|solicitantes?|veredictos?|decisi(?:ón|ones)|juicios?|opini(?:ón|ones)|respuestas?)',
    'no (?:puedo|podría|voy a|me es posible|me corresponde|estoy) (?:\\p{L}{1,12} ){0,3}(?:ayudar(?:te|le|los)?|responder|tomar (?:\\p{L}{1,6} ){0,1}decisi(?:ón|ones)|decidir|juzgar|asistir)',
    '(?:لا|لن) (?:أستطيع|يمكنني|أقدر|أقوم)(?: على)? ?(?:ب)?(?:\\p{L}{1,10} ){0,2}(?:(?:ال)?تقييم|إصدار|إعطاء|تقديم) (?:\\p{L}{1,10} ){0,2}(?:الأشخاص|الناس|قرار|حكم|إجابة|رأي)',
    '(?:ich|wir)(?: \\p{L}{2,12}){0,3} (?:nicht|keine)(?: \\p{L}{2,14}){0,3} (?:bewerten|einschätzen|urteilen|beurteilen|entscheiden)(?=$|[.,;!])',
    '(?:لا|لن) (?:أستطيع|يمكنني|أقدر|أقوم)(?: على)? (?:\\p{L}{1,10} ){0,2}(?:(?:ال)?مساعدة|مساعدت\\p{L}{1,4}|(?:ب)?(?:ال)?إجابة|اتخاذ|(?:ال)?حكم على)',
  ],
  signs: [
    '(?:我)?(?:不能|无法|不可以|不会|拒绝)(?:做出|作出|做这|作这|提供(?:答案|建议|意见|决定|帮助)|帮|协助|回答(?:这|此|该|您|你|$)|替您|代替)',
    '(?:不能|无法|不可以|不会|不便|不应|不该|拒绝)(?:[^。,、;]{0,8})(?:做出|作出|给出|下|进行)(?:[^。,、;]{0,8})(?:决定|判断|结论|裁决|评估|评价|答案)',
    '(?:判断|評価|決定|回答|審査)(?:は|を|すること(?:は|を))?(?:差し控え|控えさせ|辞退|お断り)',
    '(?:質問|これ)に(?:は)?(?:答え|回答)(?:られません|できません|かね)',
    '(?:決定|判断|お手伝い|回答|お答え|対応|支援)(?:は|を|する(?:こと|の)(?:は|が))?(?:行う(?:こと)?(?:は|が))?(?:でき(?:ません|ない|かね)|いたしかね)',
    'មិនអាច(?:ជួយ|ឆ្លើយ|សម្រេច|ធ្វើការសម្រេច)',
  ],
});

/** The beginning of a sentence behind an answer that takes it back. */
export const RETRACTS_AT_START = atStart({
  words: [
    '(?:oh |hmm,? |but |ah,? )?(?:wait|hold on|hang on)(?=[ ]?(?:$|[,.!:;—–-]|\\.\\.\\.|…|no|that|i|the|this))',
    '(?:actually|hmm|well|oh|sorry|wait),? no(?=[ ]?(?:$|[,.!;:—–-]))',
    "(?:hmm,? |well,? )?(?:maybe|perhaps|or maybe|or perhaps|better|or|rather) not(?=$|[.!,])|(?:an? )?(?:just |only )?(?:an? )?(?:example|illustration|hypothetical|sample|draft|template|placeholder)(?: only)?(?=$|[.!)])|that is what i would|no(?=[ ]?[,!;:—–-])|no way|not(?=[ ]?(?:$|[.!]))|not (?:really|at all|quite|so fast|exactly|yet)(?=$|[,.!])|(?:please )?(?:withdraw|retract|revoke|forget|ignore|disregard|discard|scrap|undo|delete) (?:this|that|it|the above|what i|my|everything)(?! (?:application|loan|request|applicant))|let me (?:reconsider|correct|fix|rephrase|revise|redo|rethink|start over|try again)|(?:i apologi[sz]e|apologies|sorry|my apologies)(?=.{0,60}(?:error|mistake|confusion|wrong|that should|should be|should have|i meant|right decision|correct decision))|on reflection|replace|fill in|scratch that|strike that|never ?mind|oops|whoops|my bad|just kidding|kidding|correction(?=[ ]?[:,.—–-])|edit(?=[ ]?:)|erratum|on (?:second|further) (?:thought|thoughts|reflection|consideration)|i (?:take (?:that|this|it) back|retract|withdraw|disagree|meant|misread|misspoke|misjudged)|(?:i have|i|i've) changed my mind|ignore|disregard|(?:this|the answer|that) (?:should|must) (?:have been|be|say|read)|it should (?:have been|be|say|read)",
    'moment(?=[ ]?[,.!:])|warte|halt(?=[ ]?[,.!:])|korrektur(?=[ ]?[:,.])|nein(?=[ ]?[,.!:])|doch nicht|vergiss|ignorier\\p{L}{0,3}|ich (?:meinte|widerspreche)',
    'attend(?:s|ez)|correction(?=[ ]?[:,.])|non(?=[ ]?[,.!:])|en fait,? non|oubliez|ignorez|je (?:voulais dire|me suis trompée?|retire)',
    'espera|espere|un momento|corrección(?=[ ]?[:,.])|en realidad,? no|olvida|olvide|ignora|ignore|me (?:he )?equivo\\p{L}{2,5}|quise decir|no(?=[ ]?[,:!])',
    'انتظر|مهلا|تصحيح|تجاهل|كلا|لا(?=[ ]?[,،])|لقد أخطأت|أخطأت',
  ],
  signs: [
    '不(?=[,，、])',
    'いいえ(?=[,、])',
    '間違え',
    'ទេ(?= |,)',
    '等等',
    '等一下',
    '更正[:,：]?',
    '不对',
    '纠正',
    '忽略',
    '待って',
    'いや、',
    '訂正',
    '無視して',
    'ចាំ(?:បន្តិច|សិន)',
    'កែតម្រូវ',
  ],
});
const ITS =
  '(?<=^|[,;:—–-] |(?:and|but|so|because|think|sorry|afraid|realize|see) )(?:that|this|it|which|the (?:above|(?:previous |first )?(?:answer|decision|json|object|response|output))(?: above)?|my (?:previous |first )?(?:answer|decision)(?: above)?)';
/** Words anywhere in such a sentence. */
export const RETRACTS = anywhere({
  words: [
    `${ITS}(?:'s| is| was| would be| seems| looks)(?: \\p{L}{2,10})? (?:wrong|incorrect|false|invalid|void|not (?:right|correct|true|valid|my|real|serious|meant|the answer(?=$|[,;])|what i|an? (?:real|actual|valid|genuine|final|binding))|a mistake|an error|a test|irresponsible)(?! to)`,
    `${ITS} (?:isn't|wasn't|can't be|cannot be) (?:right|correct|true|valid|my|real|the answer(?=$|[,;])|what i)`,
    "(?:is|was) (?:not|never) my(?: \\p{L}{2,10})? (?:answer|decision)|i (?:do not|don't|cannot|can't) agree|i(?: strongly| respectfully)? disagree|i made (?:a mistake|an error)|i was (?:wrong|mistaken)|my real answer|do(?:n't| not) (?:use|take|give|count|trust|rely on)(?: \\p{L}{2,8}){0,2} (?:answer|object|json|decision|it|this|that)(?= seriously|$|[,.;!])|i (?:do not|don't) (?:give|mean|stand by) (?:this|that)|please (?:ignore|disregard)|ignore (?:the|my) (?:above|answer|previous|json)|changed my mind|that is what i would|(?:i|we) (?:see|saw) (?:it|this|that|things) differently|(?:not|n't|never|cannot) (?:\\p{L}{2,8} )?(?:endorse|sign|support|stand (?:behind|by)|believe|use|return|submit|send|represent|share|trust|be (?:used|returned|submitted|taken|sent))(?: (?:this|that|it|my (?:decision|answer|view)|the above|seriously))?(?=$|[,;])|not mine|(?:this|that)(?:'s| is) (?:the )?(?:\\p{L}{2,14} )?\\p{L}{2,14}'s (?:answer|decision|view|opinion|words|json)|(?:this|that)(?:'s| is) what (?:the|my|a|they|he|she|you|everybody|everyone)|(?:manager|regulator|advocate|scientist|colleague|user|applicant|boss) (?:said|wrote|answered|suggested) (?:this|that|it|so)|(?:this|the above|it) (?:only |just |merely )?(?:shows|illustrates|demonstrates) (?:the|what|how)|use (?:this|the above) (?:format|template|structure|form)|i(?:'m| am) wrong|i meant|i (?:\\p{L}{2,8} ){0,3}(?:withdraw|retract|revoke|discard|recant|undo|cancel) (?:this|that|it|the|my)(?! (?:application|loan|request|applicant))|take (?:that|it|this) back",
    '(?:this|that|it|the above|above)(?: \\p{L}{2,8})? is(?: (?:only|just|merely|simply))? (?:an? )?(?:example|template|placeholder|illustration|draft|hypothetical|sample)|(?:is|was|isn.t) (?:that|this|it) (?!(?:all|everything|clear|enough)(?!\\p{L})).{1,60}[?]|is that (?:right|correct)|am i right|not my (?:own )?(?:answer|decision)',
    'ich meinte|je voulais dire|quise decir|(?:esa|ese|esta) no es mi|قصدت|أقصد|(?:هذه|هذا) (?:ليست|ليس)',
    '(?:das|dies|es|diese antwort|die antwort)(?: \\p{L}{2,10})? (?:stimmt|passt|gilt)(?: \\p{L}{2,8})? nicht(?=$|[,.!])|(?:ziehe|nehme|widerrufe) (?:ich )?(?:das|dies|es|diese antwort|meine antwort|die antwort)|ist das (?:richtig|korrekt|so|in ordnung)',
    "(?:ce n'est|cela n'est|ceci n'est|ça n'est|cette réponse n'est) pas (?:correct|juste|vrai|exact|bon|valable)e?|(?:je|j') ?(?:retire|annule|reviens sur)|est-ce (?:correct|bien|juste)",
    '(?:eso|esto|esta respuesta|la respuesta) no es (?:correct[oa]|ciert[oa]|válid[oa]|verdad|así)|(?:retiro|anulo|retracto|cancelo) (?:esta|esto|eso|la|mi)|es correcto[?]',
    '(?:أسحب|أتراجع عن|ألغي) (?:هذه|هذا|ال|إجابتي|جوابي)|(?:هذا|هذه|ذلك)(?: \\p{L}{2,12})? (?:غير|ليس|ليست) (?:صحيح|صحيحة|دقيق)',
    '(?:das|dies|es|die antwort|oben)(?: \\p{L}{2,10})? (?:ist|war|wäre)(?: \\p{L}{2,10})? (?:falsch|nicht richtig|nicht korrekt|ein fehler|ein irrtum)|nicht meine antwort|(?:das|dies|es) ist (?:nur|lediglich|bloß) ein(?:e)? (?:beispiel|vorlage|muster|entwurf)|bin anderer meinung|nehme (?:das|es|dies) zurück|habe mich geirrt',
    "c'(?:est|était) (?:faux|incorrect|une erreur|inexact)|(?:ne suis pas|pas) d'accord|(?:n'est|ce n'est) pas ma réponse|(?:ceci|ce|cela|c') ?n'est qu'un(?:e)? (?:exemple|modèle|brouillon)|(?:c'est|ceci est) (?:juste |seulement |simplement )?un exemple|me suis trompée?|changé d'avis|je retire",
    '(?:eso|esto|la respuesta)(?: \\p{L}{2,10})? (?:está mal|es incorrect[oa]|es fals[oa]|es un error|no es correct[oa])|no estoy de acuerdo|no es mi respuesta|esto es (?:solo|sólo|solamente|únicamente) un(?:a)? (?:ejemplo|plantilla|borrador)|me equivoqué|cambié de opinión',
    '(?:هذا|هذه|ذلك) (?:خطأ|خاطئ|غير صحيح|ليس صحيحا|ليست إجابتي)|(?:هذا|هذه) (?:مجرد|فقط) مثال|غيرت رأيي',
  ],
  signs: [
    ...[
      '(?:这|那|以上|上面|答案)(?:个)?(?:是|有)?(?:错|不对|不正确|误)',
      '(?:这|那|以上|上面|该|此|答案|回答)(?:个)?(?:回答|答案|决定)?(?:是|并)?不(?:正确|对|是我的|成立|准确)',
      '(?:收回|撤回|撤销|取消|忽略|忘记|作废)(?:这|那|该|此|我的|上面|以上)',
      '(?:对|正确|是这样)吗',
      '不是我的(?:答案|回答|决定)',
      '(?:这|以上|上面)(?:只|仅|仅仅)?是(?:一个)?(?:例子|示例|模板|草稿)',
      '我(?:是说|的意思是|改口)',
      '我改变主意',
      '我弄错',
    ],
    ...[
      '(?:間違い|誤り|間違って)(?:です|でした|だ|いま)',
      '同意(?:しません|できません|しかね)',
      '私の(?:回答|答え)ではありません',
      '(?:これは|上記は)(?:単なる|ただの|あくまで)?例(?:です|だ|に)',
      '取り消し(?:ます|です)',
      '(?:回答|答え|決定|これ|それ|上記).{0,4}(?:撤回|取り消|取り下げ|無視|忘れ)',
      '(?:これ|それ|この(?:回答|答え|決定)|上記).{0,3}正しく(?:ありません|ない)',
      '(?:合って|正しい)(?:い|です).{0,4}か',
      '撤回し',
      'の意味でした',
      'つもりでした',
    ],
    ...[
      '(?:នេះ|នោះ)(?:គឺ)?ខុស',
      'មិនយល់ព្រម',
      'មិនឯកភាព',
      '(?:គ្រាន់តែ)ជាឧទាហរណ៍',
      'មិនមែនជាចម្លើយ',
      '(?:នេះ|នោះ|ចម្លើយ).{0,6}មិន(?:ត្រឹមត្រូវ|ពិត)',
      '(?:ដក|លុប)ចម្លើយ',
      'ខ្ញុំច្រឡំ',
      'ចង់និយាយ',
      'ខ្ញុំខុស',
    ],
  ],
});
/** The first sentence behind an answer where it makes the answer one of two, or one under a condition. */
export const ELSE_AT_START = atStart({
  words: [
    'otherwise|(?<!-)or(?= |:|,|$)|else|(?:but |and )?only (?:if|with|when|after|once|for)|but (?:if|unless|with|after|when|not)|unless|if not|if so|provided (?:that|the|it)|assuming|as long as|without|except|until|option \\p{L}',
    'sonst|andernfalls|ansonsten|oder|nur wenn|sofern|vorausgesetzt|falls nicht|alternativ',
    'sinon|ou|seulement si|à condition|à moins|pourvu',
    'de lo contrario|o|sólo si|solo si|siempre que|a menos|si no',
    'وإلا|أو|فقط إذا|بشرط|إلا إذا',
  ],
  signs: [
    '否则',
    '或者',
    '或',
    '除非',
    'そうでなければ',
    'または',
    'あるいは',
    'さもなければ',
    'បើមិន',
    'ឬ',
    'លុះត្រា',
  ],
});
/** How a sentence goes on behind an answer in it, to say why. */
export const REASON_AT_START = atStart({
  words: [
    'because|since|as(?! (?:soon|long|if))|due to|given|based on|for (?:the|these|this|two|three|several|following)|which (?:means|is|reflects|indicates|shows|follows)|that is|ie|meaning|owing to|considering|thanks to|reflecting|with (?:high|low|full|great|medium|moderate|\\p{N})',
    'weil|da|denn|aufgrund|wegen|angesichts|nach',
    "parce que?|parce qu'\\p{L}{1,9}|car|puisque?|en raison|vu|étant donné",
    'porque|ya que|debido a|dado que|pues|por',
    'لأن\\p{L}{0,3}|بسبب|نظرا|نظراً|حيث',
  ],
  signs: ['因为', '由于', '理由', 'なぜなら', '理由は', 'ព្រោះ', 'ដោយសារ', 'ដោយហេតុ'],
});
/** A copula that ends a sentence behind its answer, as Japanese has it. */
export const ENDS_WITH =
  /^(?:です|だ|である|になります|となります|とします|と判断します|と(?:回答|お答え)します|と答えます|作为答案)(?=[。.!]|$)/u;
/** A word before a verdict that says it is one. */
export const LABEL = `(?:correction|revised|revision|updated?|changed? to|therefore|alternatively|actually|no|instead|edit|rather|i meant|i mean|i say|it should (?:be|say|read|have been)|should be|(?:it|this|that|answer|decision) (?:must|should|has to|ought to|needs to|can only)(?: have)? (?:be|been|say|read)|${[...ANSWER_WORDS].join('|')}|korrektur|sondern|corrección|تصحيح|更正|訂正|កែតម្រូវ|${KM_ANSWER}|${CJK_ANSWER})`;
