/**
 * Where the model's own turn ends. A server that does not stop there gives more with the answer: a question that nobody
 * asked, about an applicant who does not exist, and the answer to that. The special tokens of the chat template are
 * between them, or only the names of the roles, where the server left the tokens out.
 */
import { isReasoningTag } from './reasoning.ts';

const LT = '(?:<|&lt;)';
const GT = '(?:>|&gt;)';
/** Any token with a bar in it, whatever the template calls it, and those without one that are known. */
const TOKEN = [
  `${LT}[|｜][^|｜<>&\\s]{1,40}[|｜]?${GT}`,
  `${LT}[^|｜<>&\\s]{1,40}[|｜]${GT}`,
  `${LT}/?(?:s|bos|eos|eot|eod|im_start|im_end|(?:start|end)_of_(?:turn|text|utterance|role)|user|human|assistant|bot|system)${GT}`,
  '\\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|BOS|EOS)\\]',
  '<</?SYS>>',
].join('|');
const AT = new RegExp(TOKEN, 'iy');
const ANY = new RegExp(TOKEN, 'ig');
const SPACE = /\s*/y;
/** What a server leaves before the answer: the beginning of the turn that it asked for. */
const LEAD =
  /<s>|<bos>|\[BOS\]|\[\/INST\]|<assistant>|<(?:\|begin_of_text\||｜begin▁of▁sentence｜|\|START_OF_TURN_TOKEN\||\|CHATBOT_TOKEN\||\|assistant\||｜Assistant｜)>|<(?:\|im_start\||\|start\|)>\s?assistant|<(?:start_of_turn|\|turn)>\s?model|<\|start_header_id\|>\s?assistant\s?<\|end_header_id\|>|<\|start_of_role\|>\s?assistant\s?<\|end_of_role\|>/iy;
/** Tokens within a turn. */
const WITHIN =
  /<\|(?:channel|message|constrain|(?:start|begin|end)_(?:of_)?(?:response|answer|solution|output|final))\|>/iy;
/** Harmony: the assistant continues in another channel. */
const GOES_ON = /(?:<\|end\|>\s?)?<\|start\|>\s?assistant\s?<\|channel\|>/iy;
/** A line that gives the word to somebody, in the languages of answer-words.ts: `用户：`. */
const ROLE_ELSEWHERE =
  /^[ \t>*_#]{0,8}(?:benutzer(?:in)?|nutzer|assistent|utilisateur|utilisatrice|usuari[oa]|asistente|用户|用戶|助手|助理|ユーザー?|アシスタント|المستخدم|مستخدم|المساعد|អ្នកប្រើប្រាស់|អ្នកប្រើ|ជំនួយការ)[ \t*_]{0,4}[:：៖]/im;
/** The same in English: `User:`, `**Human:**`, `### Instruction`, or the role alone. */
const ROLE =
  /^[ \t>*_]{0,8}(?:(?:human|user|assistant|model|system)[ \t*_]{0,4}(?::|$)|(?:ai|bot|question|input|prompt|q)[ \t*_]{0,4}:|#{1,6}[ \t*_]{0,4}(?:human|user|assistant|system|instructions?|input|question|response|prompt)[ \t*_]{0,4}(?::|$))/im;
const BARE_FINAL = 'assistantfinal';

export interface Turns {
  /** where the text begins that the model said */
  readonly start: number;
  /**
   * The first token in `from` to `to` that ends the turn or begins another; -1 where there is none. Asked with growing
   * offsets, all questions together are linear in the text.
   */
  tokenIn(from: number, to: number): number;
  /** The first line in `from` to `to`, between two objects, that gives the word to somebody; -1 where there is none. */
  roleIn(from: number, to: number): number;
  /** whether nothing but tokens and space follows */
  isEnd(at: number): boolean;
}

export function turnsOf(text: string): Turns {
  const start = behind(LEAD, text, 0);
  const bareFinal = text.indexOf(BARE_FINAL);
  let known = -1; // the first token at `knownFrom` or later
  let knownFrom = -1;
  const tokenFrom = (from: number): number => {
    if (knownFrom !== -1 && (known === text.length || known >= from)) return known;
    ANY.lastIndex = from;
    let found = ANY.exec(text);
    while (found !== null && isWithin(text, found.index)) {
      // the next token may begin within the continuation
      ANY.lastIndex = goesOnEnd(text, found.index) ?? found.index + found[0].length;
      found = ANY.exec(text);
    }
    knownFrom = from;
    known = found?.index ?? text.length;
    return known;
  };
  return {
    start,
    tokenIn(from, to) {
      const at = tokenFrom(Math.max(from, start));
      return at < to ? at : -1;
    },
    roleIn(from, to) {
      const between = text.slice(from, to);
      const final = bareFinal !== -1 && bareFinal < from ? between.indexOf(BARE_FINAL) : -1;
      const roles = [between.search(ROLE), between.search(ROLE_ELSEWHERE), final].filter(at => at !== -1);
      return roles.length === 0 ? -1 : from + Math.min(...roles);
    },
    isEnd: at => behind(AT, text, at) === text.length,
  };
}

/** Whether there is a token of a chat template at `at`. */
export function isToken(text: string, at: number): boolean {
  AT.lastIndex = at;
  return AT.test(text);
}

function isWithin(text: string, at: number): boolean {
  WITHIN.lastIndex = at;
  return WITHIN.test(text) || isReasoningTag(text, at) || goesOnEnd(text, at) !== undefined;
}

/** Behind `<|end|><|start|>assistant<|channel|>`, unless that follows the channel `final`, which is the last of a turn. */
function goesOnEnd(text: string, at: number): number | undefined {
  GOES_ON.lastIndex = at;
  if (!GOES_ON.test(text)) return undefined;
  const end = GOES_ON.lastIndex;
  const channel = text.lastIndexOf('<|channel|>', at);
  return /^<\|channel\|>\s?final/i.test(text.slice(channel, channel + 24)) && channel !== -1
    ? undefined
    : end;
}

/** The offset behind the text of this kind at `from`, and behind the space that follows. */
function behind(pattern: RegExp, text: string, from: number): number {
  for (let at = from; ; at = pattern.lastIndex) {
    SPACE.lastIndex = at;
    SPACE.test(text);
    pattern.lastIndex = SPACE.lastIndex;
    if (!pattern.test(text)) return SPACE.lastIndex;
  }
}
