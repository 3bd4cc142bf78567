/**
 * Sentences behind an answer that speak of the answer itself, put together from few words: what it is called, that it is
 * wrong or no answer, that it is to be put right or taken back, that nobody is to decide; see answer-words.ts.
 */
import { anywhere, atStart, EN_ANSWER } from './answer-words.ts';

const EN_IT = `(?:(?:that|this|it|the above|above)|(?:that|this|the|my)(?: (?:above|previous|first|last|given))? ${EN_ANSWER}(?: above)?)(?: (?:i|we) (?:gave|wrote|said|returned))?`;
const EN_START = '(?<=^|[,;:—–-] |(?:and|but|so|because|think|sorry|afraid|realize|see|know|yet|however) )';
const EN_LINK =
  "(?:'s|s)?(?: (?:is|was|are|were|looks?|seems?|sounds?|would|be|does|do|did|has|have|been|can|could|doesn't|isn't|wasn't|don't|can't|cannot|not|really|look|seem|sound|only|just|merely|simply|clearly|actually|obviously|probably|all|quite|an?|the|purely|meant|as|to be)){0,6}";
const EN_BAD =
  '(?:wrong|incorrect|invalid|false|void|mistaken|nonsense|rubbish|mistake|error|joke|test|trick|lie|typo|slip|superseded|obsolete|outdated|withdrawn|retracted|revoked|cancell?ed|annulled|overruled|random|arbitrary|(?:pure |wild |random )?guess(?:work)?|coin (?:flip|toss)|shot in the dark|sample|example|placeholder|template|illustration|illustrative|hypothetical|fictional|made up|irresponsible)(?! (?:to|of|about))';
const EN_TRUE =
  '(?:right|correct|true|valid|mine|accurate|serious|genuine|real|hold|my (?:own |real |final )?(?:answer|decision|view|words))';
const EN_NOT = "(?:not|never|n't|hardly|no longer|cannot|can't|isn't|wasn't|doesn't|don't)";
const EN_MEND =
  '(?:correct|revise|reconsider|rethink|re-?think|redo|fix|amend|rectify|re-?read|re-?check|double-?check|think again|think about (?:this|that|it) again|check again|start over|try again|withdraw|retract|revoke|take (?:that|this|it) back|change (?:my|this|that|the) (?:mind|answer|decision))';

/** The answer is said to be wrong, no answer, or somebody else's. */
export const CALLS_WRONG = anywhere({
  words: [
    `${EN_START}${EN_IT}${EN_LINK} ${EN_BAD}`,
    `${EN_START}${EN_IT}${EN_LINK.replace('{0,6}', '{0,5}')} ?${EN_NOT}(?: (?:look|seem|sound|be|at all|quite|really|entirely|an?|the)){0,2} ${EN_TRUE}`,
    `${EN_START}${EN_IT}(?:'s| is| was)n't(?: (?:an?|the|quite|really|at all)){0,2} ${EN_TRUE}`,
    `(?:i|we)(?: (?:do|can|could|would|will))? ?(?:not|n't|cannot|can't|don't|won't|wouldn't|never) (?:\\p{L}{2,8} )?(?:agree|share|endorse|support|believe|stand (?:behind|by)|mean|sign|sustain)(?: (?:with |to )?(?:this|that|it|the above|above)(?: (?:view|opinion|answer|decision|assessment))?)?(?=$|[,.;!])`,
    '(?:i|we) (?:strongly |hereby |must |have to )?(?:reject|dispute|contest|disown|oppose) (?:this|that|it)(?=$|[,.;!])',
    'i(?: \\p{L}{2,12}){0,2} disagree',
    '(?:bin (?:damit )?(?:nicht einverstanden|dagegen|anderer (?:meinung|ansicht)))|stimme (?:ich )?(?:dem |dieser (?:antwort|entscheidung|meinung|ansicht) |dir |ihnen |hier )?nicht zu|widerspreche(?: ich)?(?: dem| hier)?(?=$|[,.])|teile (?:ich )?(?:diese|die) (?:meinung|ansicht|antwort) nicht',
    "pas d'accord|ne partage pas|en désaccord|m'oppose|conteste (?:cela|ceci|cette réponse)",
    'no (?:estoy de acuerdo|comparto|coincido)|discrepo|en desacuerdo|me opongo',
    'لا (?:أوافق|أتفق)(?= (?:على|مع) (?:ذلك|هذا|هذه)|$|[.,،])|لا أشارك|أعارض|أعترض|أختلف',
    '(?:das|dies|es|diese (?:antwort|entscheidung)|die (?:antwort|entscheidung)|obiges)(?: \\p{L}{2,10}){0,3} (?:falsch|fehler|irrtum|unsinn|ungültig|scherz|test|platzhalter|beispiel|muster)(?! zu)',
    '(?:das|dies|es|diese (?:antwort|entscheidung)|die (?:antwort|entscheidung))(?: \\p{L}{2,10}){0,2} nicht(?: (?:ganz|so|meine))?(?: (?:richtig|korrekt|wahr|gültig|ernst gemeint|antwort|entscheidung))?(?<=richtig|korrekt|wahr|gültig|gemeint|antwort|stimmt nicht)',
    "(?:c'est|c'était|ce n'est|ceci est|cela est|cette réponse est)(?: \\p{L}{2,12}){0,2} (?:faux|fausse|incorrect|incorrecte|erreur|blague|exemple|modèle|brouillon)",
    "(?:ce|cela|ceci|cette réponse) (?:n'est|n'était) (?:pas|qu'un)(?: \\p{L}{1,8})? (?:juste|vrai|correct|correcte|exact|sérieux|ma réponse|exemple|modèle|test)",
    '(?:eso|esto|esta respuesta|la respuesta|lo anterior)(?: \\p{L}{2,12}){0,2} (?:mal|incorrect[oa]|fals[oa]|error|broma|ejemplo|plantilla|prueba)',
    '(?:eso|esto|esta respuesta|la respuesta) no (?:es|era|está)(?: \\p{L}{2,8})? (?:correct[oa]|ciert[oa]|válid[oa]|verdad|bien|mi respuesta|en serio)',
    '(?:هذا|هذه|ذلك|الإجابة|الجواب)(?: \\p{L}{2,12})? (?:خطأ|خاطئ|خاطئة|مزحة|مثال|نموذج|اختبار)',
    '(?:هذا|هذه|ذلك|الإجابة|الجواب)(?: \\p{L}{2,12})? (?:غير|ليس|ليست) (?:صحيح|صحيحة|صحيحا|دقيق|إجابتي|جوابي|قراري)',
  ],
  signs: [
    '(?:这|那|以上|上面|该|此)(?:个|的)?(?:回答|答案|决定|结果|对象)?(?:是|只是|仅是|并|都|也|有)*(?:不正确|不对|不是我的|错|有误|误|玩笑|例子|示例|模板|测试)',
    '(?:我)?(?:不同意|不赞成|不认同)(?=$|[,.。]|这个(?:答案|回答|决定)|上面|以上|该)|(?<!理由|没有|不)反对(?=$|[,.。])|有异议',
    '(?:反対です|異議|賛成(?:し|でき)ません|違います|違う$)',
    '(?:ជំទាស់|មិនយល់ស្រប|ប្រឆាំង)',
    '(?:答案|回答)(?:是)?(?:不正确|不对|错)',
    '(?:これ|それ|この(?:回答|答え|決定)|上記)(?:の?(?:回答|答え|決定))?(?:は|も)?(?:ただの|単なる|あくまで)?(?:間違|誤|正しく(?:ない|ありません)|違い|冗談|例です|例にすぎ|テスト)',
    '(?:នេះ|នោះ|ចម្លើយ)(?:នេះ|ខាងលើ|មុន|របស់ខ្ញុំ)?(?:គឺ|ជា|គ្រាន់តែជា|ពិតជា){0,2}(?:ខុស|មិនត្រឹមត្រូវ|មិនពិត|ឧទាហរណ៍|គំរូ)',
  ],
});

/** The one who answered is about to put the answer right, or to take it back. */
export const IS_ABOUT_TO_MEND = anywhere({
  words: [
    `(?:i|we)(?:'d|'ll|'ve)?(?: (?:\\p{L}{2,8})){0,3} (?:need|have|want|ought|must|should|will|like|going|wish)(?: to)? ${EN_MEND}`,
    `(?:let me|let us|let's|i must|i'll|i will) (?:\\p{L}{2,8} )?${EN_MEND}`,
    'i should have (?:said|written|answered|put|returned|decided)|i (?:meant|mean to say)|i said \\p{L}{2,20},? but',
    '(?:ich|wir)(?: \\p{L}{2,10}){0,2} (?:muss|möchte|sollte|will)(?: \\p{L}{2,10}){0,3} (?:korrigieren|berichtigen|ändern|zurücknehmen|zurückziehen|überdenken)|(?:ich )?(?:muss|möchte) (?:ich )?(?:das|dies|mich|meine antwort) (?:korrigieren|berichtigen|zurücknehmen|überdenken)|(?:korrigiere|berichtige|widerrufe) (?:ich )?(?:mich|das|dies)|nehme (?:ich )?(?:das|dies|es) zurück|ziehe (?:ich )?(?:das|dies|die antwort|diese antwort) zurück',
    '(?:je dois|je vais|je souhaite|permettez-moi de|laissez-moi|il faut que je)(?: \\p{L}{1,10}){0,2} (?:corriger|rectifier|réviser|revoir|retirer|reconsidérer)|je (?:retire|corrige|rectifie|annule|reviens sur)',
    '(?:debo|tengo que|quiero|voy a|déjame|permítame|necesito)(?: \\p{L}{1,10}){0,2} (?:corregir|rectificar|revisar|retirar|reconsiderar)(?:lo|la)?|(?:retiro|corrijo|rectifico|anulo)(?: \\p{L}{2,10})?',
    '(?:يجب أن|علي أن|أريد أن|دعني|أود أن)(?: \\p{L}{2,10})? ?(?:أصحح|أعدل|أسحب|أراجع)|(?:أصحح|أسحب|ألغي|أتراجع عن) (?:هذا|هذه|ال|إجابتي|جوابي)',
  ],
  signs: [
    '(?:我)?(?:需要|要|得|必须|应该|想|来)(?:更正|纠正|修正|收回|撤回|重新考虑|改正)',
    '(?:更正|收回|撤回|撤销)(?:一下|这|那|我的|该|上面|以上)',
    '(?:訂正|修正|撤回|取り消)(?:し|させて|す)',
    '(?:考え直|見直)(?:し|さ|す)',
    '(?:ត្រូវ|ចង់|សូម)(?:កែ|ដក|លុប|គិតឡើងវិញ)',
  ],
});

/** The answer is said to count no more, to be made up, or still to come. */
export const IS_VOID = anywhere({
  words: [
    `(?:strike|scratch|void|annul|nullify|overrule|overturn|cross out|throw (?:out|away)|set aside|skip|drop|scrap|delete|discard|retract|withdraw|ignore|disregard) (?:${EN_IT}|that|this|it|(?:all|everything|anything|what (?:i|was)|whatever)(?: \\p{L}{2,8}){0,2}|the (?:above|previous|first|last|preceding|json|earlier)(?: (?:\\p{L}{2,10}))?)(?! (?:application|loan|request|applicant|payment)s?)`,
    `${EN_IT} (?:no longer|does not|doesn't|cannot|can't|should not|shouldn't|will not|won't|must not|never)(?: (?:really|actually|be))? (?:stands?|holds?|appl(?:y|ies)|counts?|valid|reflects?|used|relied|trusted|taken)`,
    `(?:final|actual|real|official|binding|true|definitive|proper|correct|corrected|revised|right)(?: (?:and )?(?:final|binding|official))? ${EN_ANSWER}(?: (?:will|is|comes|to|still|shall|below|later|now))* (?:follows?|to follow|to come|comes|pending|below|later|next|underneath|tbd|not this)`,
    '(?:picked|chose|chosen|selected|guessed|decided|answered|generated|invented|made (?:it|this|that) up|said|wrote|filled (?:it|this|that) in)(?: (?:this|it|that|one|the (?:answer|value|decision)))? (?:at random|randomly|by (?:chance|lot|coin \\p{L}{2,8}|rolling)|blindly|arbitrarily|without (?:reading|looking|checking|knowing))|(?:flipped|tossed|rolled) (?:a|the) (?:coin|dice|die)',
    `${EN_IT} (?:belongs? to|is for|was for|was meant for|is meant for|is about|refers to) (?:another|a different|an other|the (?:other|wrong|next|previous)|somebody else|someone else)`,
    '(?:concerne|appartient à|correspond à) un(?:e)? autre|(?:corresponde|pertenece) a otr[oa]|(?:تخص|تعود ل) \\p{L}{2,12} آخر',
    '(?:diese|meine|die|obige|vorige|letzte)?(?: ?(?:obige|vorherige|letzte))? ?(?:antwort|entscheidung|ausgabe|obiges|das obige|das|dies)(?: oben)? (?:ist|wird|war|gilt)(?: \\p{L}{2,10}){0,2} (?:hinfällig|ungültig|überholt|gegenstandslos|nichtig|verworfen|zurückgenommen|widerrufen|aufgehoben|geraten|zufällig|erfunden|nicht mehr|falsch zugeordnet|ein scherz|nur ein scherz|nicht (?:gültig|verbindlich|verwenden))|(?:streiche|verwerfe|vergiss|vergessen sie) (?:ich )?(?:das|dies|obiges|die antwort|meine antwort)|(?:war|ist) (?:nur )?(?:ein )?(?:scherz|spaß|witz)|(?:antwort|obige[sn]?|entscheidung|ausgabe|das|dies)(?: \\p{L}{2,10}){0,2} nicht (?:verwenden|benutzen|beachten|übernehmen|nutzen|werten)|gehör(?:t|te) zu (?:einem|einer) anderen|geraten|gewürfelt|(?:endgültige|eigentliche|richtige|verbindliche) (?:antwort|entscheidung) (?:folgt|kommt|steht noch)',
    "(?:cette|ma|la|ce qui|ceci|cela|le (?:résultat|verdict))(?: (?:réponse|décision|précède|résultat))?(?: (?:ci-dessus|précédente?))? (?:est|était|devient|n'est plus|ne vaut|ne compte)(?: \\p{L}{2,10}){0,2} ?(?:null?e?(?: et non avenue?)?|caduque|caduc|obsolète|périmée?|annulée?|retirée?|valable|rien|aléatoire|inventée?|au hasard)|(?:biffez|rayez|annulez|oubliez|ignorez) (?:ce|cette|la|le|tout)|c'était (?:une blague|pour rire|une plaisanterie)|au hasard|(?:décision|réponse) (?:finale|définitive|réelle) (?:suit|suivra|viendra|à venir)",
    '(?:esta|mi|la|lo|el)(?: (?:respuesta|decisión|resultado))?(?: (?:anterior|de arriba))? (?:queda|es|era|está|ya no)(?: \\p{L}{2,10}){0,2} ?(?:sin efecto|anulad[oa]|nul[oa]|inválid[oa]|obsolet[oa]|descartad[oa]|retirad[oa]|cancelad[oa]|vale|válid[oa]|cuenta|al azar|inventad[oa])|(?:era|es|fue) (?:una )?(?:broma|chiste)|al azar|(?:tache|borre|descarte|olvide) (?:eso|esto|lo|la)|(?:decisión|respuesta) (?:final|definitiva|real) (?:sigue|seguirá|vendrá|a continuación)',
    '(?:هذه|هذا|ال)(?:إجابة| الإجابة|قرار| القرار|جواب| الجواب|نتيجة| النتيجة)?(?: \\p{L}{2,10})? ?(?:لاغية|لاغي|ملغاة|ملغى|باطلة|باطل|عشوائية|عشوائي)|كنت أمزح|مزحة|(?:اشطب|احذف|تجاهل) (?:ما سبق|ذلك|هذا)',
  ],
  signs: [
    '(?:以上|上述|上面|该|此|这个?|前述)(?:的)?(?:内容|回答|答案|决定|结果|结论|输出)?(?:均|都|已|全部|一律)*(?:作废|无效|失效|取消|撤销|作罢|不算|不作数|是随机|是随便)',
    '(?:随机|随便|瞎|胡乱)(?:选|猜|写|填|给)|开玩笑|(?:最终|正式|真正)(?:的)?(?:决定|答案|结果)(?:待定|稍后|随后|后续|另行)',
    '(?:上記|以上|これ|この(?:回答|決定|結果)|前述)(?:の(?:回答|決定|結果|内容))?(?:は|を)?(?:すべて|全て)?(?:無効|破棄|取り下げ|取消|なかったことに|適当|ランダム|冗談)',
    '(?:適当に|ランダムに|でたらめに)(?:選|書|答)|(?:最終|正式な)(?:回答|決定|判断)は(?:後|追って|別途|未定)',
    '(?:属于|是|针对)(?:另一|别的|其他)(?:个|份|位)?(?:申请|客户|人)|(?:別|他)の(?:申請|案件|顧客)(?:の|に対する)',
    '(?:ចម្លើយ|នេះ|ខាងលើ)(?:នេះ|ខាងលើ)?(?:គឺ|ជា|ត្រូវ(?:បាន)?)?(?:មោឃៈ|លុបចោល|លែងមានសុពលភាព|អត់មានន័យ|និយាយលេង)',
  ],
});

/** The answer is said to hold under a condition. */
export const ONLY_IF = anywhere({
  words: [
    `(?:${EN_IT}|valid|approval|approved)(?: (?:is|would be|will be|should be))? (?:holds? |applies |stands? |valid |true |counts? |effective |correct )?only (?:if|when|once|after|as long as|provided|with)`,
    '(?:das|dies|die entscheidung|die antwort|gültig)(?: \\p{L}{2,10})? nur,? (?:wenn|falls|sofern)',
    "(?:cela|ceci|cette (?:décision|réponse)|valable)(?: \\p{L}{1,10}){0,2} (?:que|seulement|uniquement) (?:si|s'il)",
    '(?:esto|esta (?:decisión|respuesta)|válid[oa])(?: \\p{L}{2,10})? (?:solo|sólo|solamente|únicamente) si',
  ],
  signs: [
    '(?:此|这|该)(?:决定|答案|结果)?(?:仅|只)(?:在|有|当|适用)',
    '(?:場合|とき)(?:に限り|のみ)(?:有効|成立)',
  ],
});

/** A look back at the answer: how a check of it may begin. */
export const CHECKS = anywhere({
  words: [
    "(?:wait|hold on|hmm+|let me|let us|let's|i'll|double-?check\\p{L}{0,3}|re-?check\\p{L}{0,3})",
    'moment|lass(?:en sie)? mich|attendez?|vérifions|espera|déjame|verifiquemos',
  ],
  signs: ['等等', '等一下', '让我', '待って', '確認'],
});
/** … and how it may end. */
export const HOLDS = anywhere({
  words: [
    `(?:the|my|this|that) ?(?:${EN_ANSWER})?(?: above)? (?:still )?(?:stands|holds|remains|is (?:right|correct|fine|confirmed|unchanged))|(?:i|we) (?:stand by|confirm|stick with|keep) (?:it|this|that|my \\p{L}{4,9}|the \\p{L}{4,9})|all (?:correct|good|fine)`,
    'bleibt (?:dabei|bestehen)|stimmt(?= |$|[.,])|est (?:bien )?(?:correcte?|confirmée?)|se mantiene|es correct[oa]',
  ],
  signs: ['没错', '(?:仍|依然|还是)(?:成立|有效|正确)', '(?:正しい|間違いない|変わりません)'],
});
export const IS_RIGHT = anywhere({
  words: [
    '(?:is|was|remains|seems) (?:still )?(?:right|correct|fine|justified)|ist richtig|est correcte?|es correct[oa]',
  ],
  signs: ['(?:是)?(?:对|正确)的'],
});

/** Nobody, or somebody else, is to decide. `I do not decide this lightly` says something else. */
export const WILL_NOT_DECIDE = anywhere({
  words: [
    "(?:i|we)(?:'d| would)?(?: \\p{L}{2,8}){0,2} (?:rather not|prefer not to|not going to|refuse to|decline to|won't|will not|cannot|can't|do not|don't|must not|should not|shouldn't) (?:decide|judge|answer|rule)(?: (?:this|that|it|on (?:this|that|it)|here))?(?=$|[,.;!])",
    '(?:not|never|hardly) (?:\\p{L}{2,8} )?(?:my (?:place|job|role|call|decision)|up to me|for me)(?: to (?:decide|judge|answer|make|say))?(?=$|[,.;!])',
    '(?:only|just) (?:an? )?(?:human|person|bank|expert|professional|officer|people|humans)(?: \\p{L}{2,10})? (?:can|should|may|must) (?:decide|judge|answer|make)',
    "(?:as an?|i'm|i am)(?: (?:just|only|merely|an?)){0,3} (?:ai|language model|llm|machine|program|chatbot|ai (?:language )?model|ai assistant)(?: \\p{L}{2,10}){0,2},?(?: and| so| i| that){0,2} (?:cannot|can't|am not able to|am unable to|don't|do not|must not|should not|won't) (?:approve|deny|decide|make|judge|answer|give|provide|grant)(?! (?:you )?(?:legal|financial|investment|medical) advice)",
    '(?:das|darüber|dazu|hierüber|dies) (?:entscheide|beurteile|beantworte|urteile) ich nicht|(?:nicht an mir|nicht meine (?:aufgabe|sache|entscheidung))',
    '(?:pas à moi|pas mon rôle|pas ma décision)(?: de (?:décider|juger|répondre))?',
    'no me (?:corresponde|toca|compete)(?: (?:decidir|juzgar|responder))?|no es mi (?:decisión|papel|trabajo)',
    '(?:ليس من شأني|لا يعود لي|ليس قراري)',
  ],
  signs: [
    '不(?:该|应|应该|能|是)由我(?:来)?(?:决定|判断)',
    '(?:私|わたし|AI|ai)が(?:決め|判断す|決定す|答え)る?(?:こと|もの|べき)?(?:では|じゃ)(?:あり|ない)',
    '(?:មិនមែនជា)(?:តួនាទី|សិទ្ធិ)',
  ],
});

/** Thinking aloud, or instructions for whoever reads, behind an answer. */
export const GOES_BACK_AT_START = atStart({
  words: [
    'hmm+|h[mu]h|erm|uh|read|insert|substitute|put|replace|fill in|ignore|disregard|forget|delete|discard|(?:cancel|undo|drop|strike) (?:that|this|it)|(?:is|was) (?:what|wrong|not|an?|the)(?! there)|would (?:be|have)|isn.t|wasn.t',
    'hm+|äh|setzen sie|ersetzen sie|ersetze|vergessen sie|ignorieren sie',
    'euh|remplacez|insérez|oubliez|ignorez',
    'eh|reemplace|sustituya|inserte|olvide|ignore',
    'استبدل|أدخل|تجاهل|انس',
  ],
  signs: ['嗯', '请(?:替换|填写|忽略)', 'うーん', '置き換えて', 'សូម(?:ជំនួស|បំពេញ)'],
});
