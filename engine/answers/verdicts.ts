/**
 * Sentences that decide: `I deny this loan.`, `Die Entscheidung lautet: Ablehnung.` Where one decides against the object
 * beside it, nobody knows which of the two is the answer. Sentences that weigh (`I would`, `but`, `at first`) decide
 * nothing. Text is as `plain` gives it; see answer-words.ts.
 */
import {
  AR_ANSWER,
  CJK_ANSWER,
  DE_ANSWER,
  EN_ANSWER,
  ES_ANSWER,
  FR_ANSWER,
  KM_ANSWER,
} from './answer-words.ts';

/** Words that decide alike, whatever the schema calls it. The verbs of loans and claims, as sources. */
const ALIKE: readonly { names: ReadonlySet<string>; words: string; signs: string }[] = [
  {
    names: new Set(['deny', 'denied', 'reject', 'rejected', 'decline', 'declined', 'refuse', 'refused']),
    words:
      'den(?:y|ies|ied|ial|ying)|reject(?:s|ed|ion|ing)?|declin(?:e|es|ed|ing)|refus(?:e|es|ed|al)|turn(?:ed)? down|abgelehnt|ablehn(?:en|ung)|lehne|refus(?:e|er|ée?|ons)|rejet(?:er|te|tée?)?|rechaz(?:o|ar|ad[oa]|amos)|den(?:iego|egar|egad[oa]|egación)|(?:ال)?رفض|أرفض|مرفوض(?:ة)?|نرفض',
    signs: '拒绝|拒絕|否决|驳回|不予批准|却下|拒否|否認|お断り|見送|お断り|見送|បដិសេធ',
  },
  {
    names: new Set(['approve', 'approved', 'accept', 'accepted', 'grant', 'granted']),
    words:
      'approv(?:e|es|ed|al|ing)|accept(?:s|ed|ance|ing)?|grant(?:s|ed|ing)?|genehmig(?:e|t|en|ung)|bewillig(?:e|t|en|ung)|approuv(?:e|er|ée?|ons)|accord(?:e|er|ée?|ons)|accepte(?:r|e|ée?)|aprueb(?:o|a|amos)|aprob(?:ar|ad[oa]|ación)|conced(?:o|er|id[oa])|(?:ال)?موافقة|أوافق|نوافق|مقبول(?:ة)?',
    signs: '批准|同意|通过|核准|承認|許可|可決|អនុម័ត|យល់ព្រម',
  },
];

/** What makes of a decision a thought, another one's, or one of another time. */
const WEIGHS =
  /(?<![\p{L}\p{N}])(?:if|unless|when|once|would|could|might|may|can|cannot|but|however|although|though|while|whereas|first|initial(?:ly)?|tempt(?:ed|ing)|inclin(?:ed|ation)|lean(?:s|ing)?|some|others?|not|never|no|nothing|neither|nor|hardly|or|whether|asked|question|reasons?|arguments?|against|for denying|for approving|previous(?:ly)?|prior|earlier|past|last|before|bank|lenders?|said|says|policy|rules?|usually|normally|typically|instead of|rather than|until|only|risk|appeal|wenn|falls|würde|könnte|aber|jedoch|obwohl|zuerst|zunächst|nicht|kein\p{L}{0,2}|oder|ob|grund|gründe|nur|si|mais|cependant|bien que|d'abord|pas|aucune?|ou|raisons?|pourrait|serait|pero|aunque|primero|razones|motivos?|ningún|podría|sería|لكن|إذا|لو|لا|لم|لن|سبب|أو)(?![\p{L}\p{N}])|n't|[?？¿؟]|如果|若|但|虽然|本来|起初|不(?!予)|没有|理由(?!から|により)|还是|或|可能|もし|しかし|ただし|最初|ない|ません|理由(?!から|により)|場合|か[、。]|បើ|ប៉ុន្តែ|មិន|មូលហេតុ|ឬ/u;

/** Where a clause begins. */
const BEGINS = '(?<=^|[,;:] |(?:so|and|therefore|thus|hence|then|that) )';
/** … and where one denies what it then says. */
const DENIED =
  "(?:i|we) (?:(?:do|will|would|must|should|can|could) not|don't|won't|can't|cannot|shouldn't)(?: \\p{L}{2,12}){0,1} (?:V)(?: (?:it|this|that|the \\p{L}{3,14}))?(?= ?[.,;!]|$)";

const THING =
  '(?:application|loan|request|credit|applicant|claim|case|mortgage|antrag|kredit|darlehen|demande|prêt|crédit|solicitud|préstamo|crédito)';

/** Sources with the words of a verdict in the place of V. */
const DECIDING = [
  `${BEGINS}(?:i|we)(?: (?:must|will|shall|should|have|had|hereby|therefore|thus|now|am|are|do|going|decide|decided|choose|chose|recommend|conclude|vote|want|need|ought|to|that|a|an|for|it|this|the)){0,5} (?:V)`,
  `(?:this|the|his|her|their|your)(?: \\p{L}{2,14}){0,2} ${THING}(?: (?:therefore|thus))? (?:is|must be|should be|has to be|needs to be|will be|ought to be|has been)(?: (?:hereby|therefore|thus|clearly|to be)){0,2} (?:V)`,
  `(?:${EN_ANSWER}|${DE_ANSWER}|${FR_ANSWER}|${ES_ANSWER})(?: (?:for|on|of) (?:this|the) \\p{L}{2,14})?(?: (?:is|must be|should be|has to be|will be|ist|lautet|est|es|finale|final|definitiva))*(?: to| a| an| the| de| eine?| un| una| la)? ?[:=—–-]? ?["'*_\`]{0,3}(?:V)`,
  `(?:(?:der|dieser|den|diesen) (?:antrag|kredit)|(?:das|dieses) darlehen)(?: (?:wird|ist|muss|lehne|genehmige|bewillige))(?: \\p{L}{2,12}){0,3} (?:V)`,
  'ich (?:V)(?: \\p{L}{2,12}){0,4}',
  '(?:daher|deshalb|somit|also|folglich|deswegen|hiermit) (?:V) (?:ich|wir)',
  '(?:ihr|der|dieser) (?:antrag|kredit)(?: \\p{L}{2,12}){0,2} (?:wurde|ist|wird) (?:V)',
  '(?:je|nous)(?: (?:dois|vais|décide de|choisis de|donc)){0,2} (?:V)',
  '(?:la|cette) (?:demande|requête)(?: de \\p{L}{2,10})? (?:est|doit être|sera)(?: donc)? (?:V)',
  '(?<=^|[,;:] |(?:debo|decido|voy a|por lo tanto|así que|por eso) )(?:V)(?: (?:la|el|esta|este|su) \\p{L}{2,12})?',
  '(?:la|esta) solicitud (?:es|queda|debe ser|será)(?: por lo tanto)? (?:V)',
  '(?:تم(?:ت)?|جرى|يتم|نأسف ل) (?:V)',
  '(?:su|tu) (?:solicitud|préstamo|crédito) (?:ha sido|fue|está) (?:V)|(?:votre) (?:demande|prêt|crédit) (?:a été|est) (?:V)',
  `(?:${AR_ANSWER}(?: \\p{L}{2,10})?(?: (?:هو|هي))? ?:? ?|(?:قررت|قررنا|يجب|لذلك|لذا)(?: \\p{L}{2,6})? |^)(?:V)`,
];
const SIGNED = [
  `(?:${CJK_ANSWER}|${KM_ANSWER})(?:是|为|は|គឺ|[:：៖])?\\s?(?:S)`,
  '(?:我|我们|本行)(?:们)?(?:因此|决定|选择|只能|必须|应该|应当|建议)*(?:S)',
  '(?:因此|所以|故|综上|应该?|应予|必须|予以)(?:S)',
  '(?:贷款|申请|借款)(?:请求)?(?:已经?|被|获得?|得到|予以|不幸|遗憾地)*(?:S)',
  '(?:融資|申請|お申し込み|ローン)(?:は|を)(?:S)',
  '(?:S)(?:します|とします|する|と判断|すべき)',
  '(?:ខ្ញុំ(?:សម្រេច)?|ដូច្នេះ)(?:S)',
];

/** Of one text of an enum: its plain forms in English, and what means the same where that is known. */
function sourcesOf(texts: readonly string[]): { words: string; signs: string } {
  const words: string[] = [];
  const signs: string[] = [];
  for (const text of texts) {
    const alike = ALIKE.find(({ names }) => names.has(text));
    if (alike === undefined) words.push(text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&'));
    else {
      words.push(alike.words);
      signs.push(alike.signs);
    }
  }
  return { words: words.join('|'), signs: signs.join('|') };
}

const known = new Map<string, RegExp>();

/** What is made of texts of an enum is made once: to build such a pattern takes longer than to use it. */
export function remembered(key: string, make: () => RegExp): RegExp {
  const before = known.get(key);
  if (before) return before;
  if (known.size > 200) known.clear();
  const made = make();
  known.set(key, made);
  return made;
}

function decidingFor(texts: readonly string[]): RegExp {
  return remembered(texts.join('\n'), () => {
    const { words, signs } = sourcesOf(texts);
    const sources = DECIDING.map(one => one.replaceAll('(?:V)', `["'*_\`]{0,3}(?:${words})`));
    const bounded = `(?<![\\p{L}\\p{N}])(?:${sources.join('|')})(?![\\p{L}\\p{N}])`;
    const signed = SIGNED.map(one => one.replaceAll('(?:S)', `(?:${signs})`));
    return new RegExp(signs === '' ? bounded : [bounded, ...signed].join('|'), 'u');
  });
}

/** `I do not approve it.` */
function denying(said: readonly string[]): RegExp {
  return remembered(`not ${said.join('\n')}`, () => {
    const denied = DENIED.replace('(?:V)', `(?:${sourcesOf(said).words})`);
    return new RegExp(said.length === 0 ? '(?!)' : `(?<![\\p{L}\\p{N}])${denied}`, 'u');
  });
}

const SENTENCE = /[^.!?;。؟؛។\n]{3,600}[.!?;。؟؛។]?/g;
/** Sentences that are looked at, from the end. */
const MOST = 12;

/**
 * Whether the last sentence of `text` that decides says one of `others`, and none of `said`; all in lower case, the text
 * as `plain` gives it.
 */
export function decidesAgainst(text: string, said: readonly string[], others: readonly string[]): boolean {
  if (others.length === 0) return false;
  const against = decidingFor(others);
  const sentences = text.match(SENTENCE)?.slice(-MOST) ?? [];
  for (const sentence of sentences.reverse()) {
    if (denying(said).test(sentence)) return true;
    if (WEIGHS.test(sentence)) continue;
    const is = against.test(sentence);
    const isFor = said.length > 0 && decidingFor(said).test(sentence);
    if (is || isFor) return is && !isFor;
  }
  return false;
}
