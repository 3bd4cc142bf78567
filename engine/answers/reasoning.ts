/**
 * Blocks of reasoning, as servers leave them in the text of an answer: `<think>…</think>`, `[THINK]`, harmony's analysis
 * channel and their like. Text in one is never the answer, closed or not. A server may have taken the opening
 * tag away: then everything before the closing tag is reasoning.
 */

interface Family {
  /** regular expressions without groups or unbounded repeats, matched in any case */
  opens: string;
  closes: string;
  /** the closing tag also ends other things, so that alone it says nothing about the text before it */
  isCommon?: true;
  /** without a closing tag this is a heading, and no block */
  isHeading?: true;
}

const NEVER = '(?!)';
const THINKING = '(?:think(?:ing)?|thoughts?|thought[_-]process|reasoning|chain[_-]of[_-]thought)';
const REFLECTING = '(?:reflection|reflect|scratchpad|(?:inner|internal)[_-](?:monologue|thoughts?))';
const CHINESE = '思考|思考过程|推理|推理过程|分析|草稿|反思';
/** `<name>`, also with a prefix (Seed-OSS has `<seed:think>`), attributes, or its angle written as an entity */
const xml = (name: string): Family => ({
  opens: `(?:<|&lt;)\\s?(?:\\w{1,8}:)?${name}(?![\\w:/-]|\\s?/)`,
  closes: `(?:<|&lt;)\\s?/\\s?(?:\\w{1,8}:)?${name}(?![\\w:-])`,
});

/** The tags of the models' chat templates and of the servers' reasoning parsers. */
const FAMILIES: readonly Family[] = [
  xml(THINKING), // DeepSeek-R1, Qwen3, GLM, EXAONE and most others
  xml(REFLECTING),
  { opens: '\\[think\\]', closes: '\\[/think\\]' }, // Magistral
  {
    opens: '\\[(?:thinking|thoughts?|reasoning)\\]',
    closes: '\\[/(?:thinking|thoughts?|reasoning)\\]',
    isHeading: true,
  },
  // Cohere's <|START_THINKING|>, OpenThinker's <|begin_of_thought|>
  {
    opens: `<\\|(?:(?:start|begin)_(?:of_)?)?${THINKING}(?:_(?:start|begin))?\\|>`,
    closes: `<\\|(?:(?:/|end_(?:of_)?)${THINKING}|${THINKING}_end)\\|>`,
  },
  { opens: `<\\|channel>\\s?${THINKING}`, closes: '<channel\\|>' }, // Gemma
  { opens: `【(?:${CHINESE})】`, closes: `【/(?:${CHINESE})】|(?=【(?:最终|回答|答案|结论|结果|输出))` },
  { opens: '◁think▷', closes: '◁/think▷' }, // Kimi
  // harmony, of gpt-oss: a message of any channel but `final`
  {
    opens: '<\\|channel\\|>\\s?(?:analysis|commentary)',
    closes: '<\\|end\\|>|(?=<\\|channel\\|>\\s?final)',
    isCommon: true,
  },
  { opens: NEVER, closes: '<\\|channel\\|>\\s?final' },
  // the same where the server left the words of the special tokens out
  { opens: NEVER, closes: 'assistantfinal' },
];

const oneOf = (part: (family: Family) => string): RegExp =>
  new RegExp(FAMILIES.map(family => `(${part(family)})`).join('|'), 'iy');
const OPEN = oneOf(({ opens }) => opens);
const CLOSE = oneOf(({ closes, isCommon }) => (isCommon ? NEVER : closes));
/** Where a block ends; what begins in it must end first, or a tag that ends the inner one would end both. */
const CLOSERS = FAMILIES.map(
  ({ opens, closes, isCommon, isHeading }) =>
    new RegExp(isCommon || isHeading ? closes : `${closes}|(?<open>${opens})`, 'gi'),
);
/** `<think>` directly behind `<think>` is the same one: a template gave it, and the model said it again. */
const AGAIN = /^(?:>|&gt;)?\s*$/;
/** What is left of `<|channel|>analysis<|message|>We …` where the special tokens were left out. */
const BARE_ANALYSIS = /^\s{0,8}analysis(?=[A-Z])/;

/** A part of the text that is no answer: up to `end`, from where the question was asked or from the beginning. */
export interface Block {
  end: number;
  fromTheStart: boolean;
  /** nothing closes it: the model came to no answer */
  isOpen: boolean;
}

/**
 * The blocks of one text: the function says which begins, or ends, at an offset; null where none does. Asked from the
 * front to the back, all questions together are linear in the text.
 */
export function blocksOf(text: string): (at: number) => Block | null {
  const unclosed = new Set<number>();
  const closeOf = (family: number, from: number): number => {
    if (unclosed.has(family)) return -1;
    const closer = CLOSERS[family] as RegExp;
    closer.lastIndex = from;
    let depth = 1;
    let behindOpen = from;
    for (let found = closer.exec(text); found !== null; found = closer.exec(text)) {
      const end = found.index + found[0].length;
      if (found.groups?.open === undefined) {
        if (--depth === 0) return end;
        behindOpen = -1;
      } else {
        if (behindOpen === -1 || !AGAIN.test(text.slice(behindOpen, found.index))) depth += 1;
        behindOpen = end;
      }
      if (found[0] === '') closer.lastIndex += 1;
    }
    unclosed.add(family);
    return -1;
  };
  return at => {
    OPEN.lastIndex = at;
    const opened = OPEN.exec(text);
    if (opened !== null) {
      const family = opened.indexOf(opened[0], 1) - 1;
      const end = closeOf(family, at + opened[0].length);
      if (end !== -1) return { end, fromTheStart: false, isOpen: false };
      return FAMILIES[family]?.isHeading ? null : { end: text.length, fromTheStart: false, isOpen: true };
    }
    const end = closingEnd(text, at);
    return end === -1 ? null : { end, fromTheStart: true, isOpen: false };
  };
}

/** Whether reasoning begins or ends at `at`. */
export function isReasoningTag(text: string, at: number): boolean {
  OPEN.lastIndex = at;
  return OPEN.test(text) || closingEnd(text, at) !== -1;
}

/** The end of the closing tag at `at`; -1 where none begins there. */
export function closingEnd(text: string, at: number): number {
  CLOSE.lastIndex = at;
  return CLOSE.test(text) ? CLOSE.lastIndex : -1;
}

/** Where to begin to read: behind bare reasoning that opens the text, which is all of it where nothing ends it. */
export function startOf(text: string): number {
  if (!BARE_ANALYSIS.test(text)) return 0;
  const end = text.indexOf('assistantfinal');
  return end === -1 ? text.length : end;
}
