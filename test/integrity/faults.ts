/**
 * Faulty answers made by rule, each with the rung and the value that it must be read as. The faults are those that
 * models make; the value is always known, because the fault is put onto a whole answer.
 */
import type { Code } from '../../engine/core/item/codes.ts';
import type { Rung } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';

export interface Fault {
  name: string;
  text: string;
  finish: string;
  rung: Rung;
  output?: JsonObject;
  code?: Code;
}

/** The schema of the answers below; the names are of no study. */
export const loanSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  additionalProperties: false,
  required: ['verdict', 'terms', 'rate', 'certainty', 'shares', 'reasons'],
  properties: {
    verdict: { type: 'string', enum: ['approve', 'deny'] },
    terms: { type: 'string', enum: ['STANDARD_TERMS', 'MANUAL_REVIEW', 'DENIAL'] },
    rate: { type: 'number', minimum: 2, maximum: 30 },
    certainty: { type: 'integer', minimum: 0, maximum: 100 },
    amount: { type: 'number', minimum: 0 },
    signed: { type: 'boolean' },
    shares: {
      type: 'object',
      required: ['first', 'second', 'third'],
      properties: {
        first: { type: 'number', minimum: 0, maximum: 1 },
        second: { type: 'number', minimum: 0, maximum: 1 },
        third: { type: 'number', minimum: 0, maximum: 1 },
      },
      'x-fw-sum': { of: ['first', 'second', 'third'], is: 1 },
    },
    reasons: {
      type: 'object',
      additionalProperties: false,
      required: ['verdict_reason', 'rate_reason'],
      properties: { verdict_reason: { type: 'string' }, rate_reason: { type: 'string' } },
    },
  },
};

const REASONS = [
  'The income covers the loan.',
  "The applicant's history isn't long; it's short.",
  'He said "yes", and signed.',
  'Ratio {debt / income} is [0.3], see // policy, /* rule 4 */ and # 5.',
  'Line one\nline two\tand a tab, 50\\50, C:\\dir.',
  'Zażółć gęślą jaźń, 你好, 😀, \u2028.',
  'Commas, colons: braces } and ] closing, ,} trailing.',
  'None of it is True, False or null; ```no fence``` here.',
];

function answer(n: number): JsonObject & { reasons: JsonObject; shares: JsonObject } {
  const approves = n % 3 !== 0;
  return {
    verdict: approves ? 'approve' : 'deny',
    terms: approves ? (n % 2 ? 'STANDARD_TERMS' : 'MANUAL_REVIEW') : 'DENIAL',
    rate: 2 + (n % 112) / 4,
    certainty: n % 101,
    amount: 1000 + n,
    shares: { first: 0.5, second: 0.3, third: 0.2 },
    reasons: { verdict_reason: REASONS[n % 8]!, rate_reason: REASONS[(n * 5 + 3) % 8]! },
  };
}

/** A value as Python prints it: single quotes unless the text holds one, True, False, None. */
function python(value: unknown): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string') {
    const body = JSON.stringify(value).slice(1, -1).replaceAll('\\"', '"');
    return value.includes("'") && !value.includes('"') ? `"${body}"` : `'${body.replaceAll("'", "\\'")}'`;
  }
  return `{${Object.entries(value as JsonObject)
    .map(([key, below]) => `'${key}': ${python(below)}`)
    .join(', ')}}`;
}

type Rule = (n: number) => Omit<Fault, 'name' | 'finish'> & { finish?: string };

const text = (n: number): string => JSON.stringify(answer(n), null, n % 2 ? undefined : 2);
const repaired =
  (mangle: (text: string, n: number) => string): Rule =>
  n => ({ text: mangle(text(n), n), rung: 'repaired', output: answer(n) });
/** The answer with some keys changed, and what it must be read as. */
const changed =
  (
    rung: Rung,
    change: (n: number) => JsonObject,
    read: (n: number) => JsonObject = () => ({}),
    code?: Code,
  ): Rule =>
  n => ({
    text: JSON.stringify({ ...answer(n), ...change(n) }),
    rung,
    ...(rung !== 'failed' && { output: { ...answer(n), ...read(n) } }),
    ...(code && { code }),
  });
const refused =
  (code: Code, make: (n: number) => string): Rule =>
  n => ({ text: make(n), rung: 'failed', code });
const mismatch = (change: (n: number) => JsonObject): Rule =>
  changed('failed', change, undefined, 'schema-mismatch');

export const RULES: { [name: string]: Rule } = {
  clean: n => ({ text: ` \n${text(n)}\n`, rung: 'clean', output: answer(n) }),

  // repaired
  fence: repaired(json => `\`\`\`json\n${json}\n\`\`\``),
  'fence without a language': repaired(json => `\`\`\`\n${json}\n\`\`\`\n`),
  'fence and talk': repaired(
    json => `Sure, {you}! Here it is:\n\n\`\`\`json\n${json}\n\`\`\`\nAnything else you need?`,
  ),
  'text before': repaired(json => `Based on the file, my answer {as JSON} is: ${json}`),
  'text after': repaired(json => `${json}\n\nI hope that this helps; it's "final".`),
  thinking: repaired(json => `<think>Is it {"verdict": "deny"}? No.</think>\n${json}`),
  'thinking without its opening': repaired(json => `Maybe ${text(3)}. Or not.\n</think>\n\n${json}`),
  'an earlier draft': repaired((json, n) => `Draft: ${text(n + 1)}\nFinal: ${json}`),
  'an empty object before': repaired(json => `The tool took {} as its input.\n${json}`),
  'a fenced draft': repaired((json, n) => `\`\`\`json\n${text(n + 1)}\n\`\`\`\nNo. Corrected: ${json}`),
  'the same again': repaired(json => `\`\`\`json\n${json}\n\`\`\`\n\`\`\`json\n${json}\n\`\`\``),
  'reasoning in capitals': repaired((json, n) => `[THINK]Perhaps ${text(n + 1)}[/THINK]${json}`),
  'reasoning of harmony': repaired(
    (json, n) =>
      `<|channel|>analysis<|message|>${text(n + 1)}<|end|><|start|>assistant<|channel|>final<|message|>${json}<|return|>`,
  ),
  'reasoning of harmony, bare': repaired(
    (json, n) => `analysisThe applicant ${text(n + 1)}assistantfinal${json}`,
  ),
  'reasoning after the answer': repaired((json, n) => `${json}\n<reasoning>Not ${text(n + 1)}</reasoning>`),
  'tags of reasoning in a string': n => {
    const output = {
      ...answer(n),
      reasons: { ...answer(n).reasons, rate_reason: 'a <think> and </THINK> [think]' },
    };
    return { text: `\`\`\`\n${JSON.stringify(output)}\n\`\`\``, rung: 'repaired', output };
  },
  'no-break spaces': repaired(json =>
    json.replace(/([:,{])(?= ?"(?:verdict|terms|rate|reasons|approve|deny)")/g, '$1\u00a0'),
  ),
  'a point without a digit': n => ({
    text: JSON.stringify(answer(n))
      .replace('0.5', n % 2 ? '.5' : '+.5')
      .replace(/("certainty":\d+)/, '$1.'),
    rung: 'repaired',
    output: answer(n),
  }),
  'a plus': repaired(json => json.replace(/"amount": ?/, '$&+')),
  'an escaped apostrophe': n => {
    const output = { ...answer(n), reasons: { ...answer(n).reasons, rate_reason: "it's the applicant's" } };
    return {
      text: JSON.stringify(output).replace(/it's the applicant's/, "it\\'s the applicant\\'s"),
      rung: 'repaired',
      output,
    };
  },
  'a format that breaks, then the answer': repaired(
    json => `The format is {"verdict": "approve" | "deny", "shares": {"first": 1}}.\n${json}`,
  ),
  'an array of one': repaired(json => `[${json}]`),
  'double braces': repaired(json => `{${json}}`),
  'trailing commas': repaired(json => json.replace(/\}\}$|\n {2}\}\n\}$/, ',}, }')),
  'line comment': repaired(json => json.replace('{', '{ // the answer: {"a": 1}\n')),
  'block comment': repaired(json => json.replace(/,(?=\s*"rate")/, ', /* "rate": 3, */')),
  'python comment': repaired(json => json.replace(/,(?=\s*"rate")/, ', # yearly\n')),
  python: n => ({ text: python(answer(n)), rung: 'repaired', output: answer(n) }),
  'python in a sentence': n => ({
    text: `It's decided: ${python(answer(n))} - that's it`,
    rung: 'repaired',
    output: answer(n),
  }),
  'bare keys': repaired(json => json.replace(/"(verdict|rate|reasons|first)":/g, '$1:')),
  'missing bracket': repaired(json => json.trimEnd().slice(0, -1)),
  'missing brackets': repaired(json => json.replace(/\s*\}\s*\}$/, '')),
  'missing bracket in a fence': repaired(json => `\`\`\`json\n${json.replace(/\s*\}$/, '')}\n\`\`\`\nDone.`),
  'raw line break': n => {
    const output = { ...answer(n), reasons: { ...answer(n).reasons, rate_reason: 'one\ntwo\tthree' } };
    return { text: JSON.stringify(output).replace('one\\ntwo\\t', 'one\ntwo\t'), rung: 'repaired', output };
  },
  'illegal escape': n => {
    const rate_reason = 'costs \\$5, \\O, \\ \\u12, \\p{x}';
    const output = { ...answer(n), reasons: { ...answer(n).reasons, rate_reason } };
    return { text: JSON.stringify(output).replace(/\\\\(?=[$O up])/g, '\\'), rung: 'repaired', output };
  },

  // coerced
  'number in text': changed('coerced', n => ({ rate: String(2 + (n % 112) / 4) })),
  percent: changed('coerced', n => ({ rate: `${2 + (n % 112) / 4}${n % 2 ? ' ' : ''}%` })),
  'share of 100': changed('coerced', n => ({ certainty: `${n % 101}/100` })),
  'out of 100': changed('coerced', n => ({ certainty: `${n % 101} out of 100` })),
  money: changed('coerced', n => ({ amount: `$${(1000 + n).toLocaleString('en-US')}` })),
  'other case': changed('coerced', n => ({ verdict: n % 3 ? 'APPROVE' : 'Deny' })),
  inflection: changed('coerced', n => ({ verdict: n % 3 ? 'Approved.' : 'denied' })),
  spacing: changed('coerced', n => ({
    terms: n % 3 ? (n % 2 ? 'Standard Terms' : 'manual-review') : ' denial',
  })),
  'weights off their sum': changed(
    'coerced',
    () => ({ shares: { first: 0.33, second: 0.33, third: 0.33 } }),
    () => ({ shares: { first: 0.333334, second: 0.333333, third: 0.333333 } }),
  ),
  'a boolean in text': changed(
    'coerced',
    n => ({ signed: n % 2 ? 'true' : 'False' }),
    n => ({ signed: n % 2 === 1 }),
  ),
  'weights as percentages': changed('coerced', () => ({
    shares: { first: '50%', second: '30 %', third: 0.2 },
  })),
  flat: n => {
    const { reasons, ...rest } = answer(n);
    return { text: JSON.stringify({ ...rest, ...reasons }), rung: 'coerced', output: answer(n) };
  },
  'chatty and coerced': n => ({
    text: `Well:\n\`\`\`json\n${JSON.stringify({ ...answer(n), certainty: String(n % 101) })}\n\`\`\``,
    rung: 'coerced',
    output: answer(n),
  }),

  // failed
  prose: refused('no-json-found', n => `I would ${n % 2 ? 'approve' : 'deny'} it, for ${REASONS[n % 8]}`),
  empty: refused('no-json-found', n => ' '.repeat(n % 5)),
  'only thinking': refused('no-json-found', n => `<think>${text(n)}`),
  'a fenced draft, and not a word of which is final': refused(
    'several-answers',
    n => `\`\`\`json\n${text(n + 1)}\n\`\`\`\nNo, rather: ${text(n)}`,
  ),
  'a draft, and reasoning after it': refused(
    'several-answers',
    n => `${text(n + 1)}<think>Sure?</think>${text(n)}`,
  ),
  'a draft, then prose': refused('no-json-found', n => `<think>${text(n)}</think> I would rather not say.`),
  'unclosed reasoning': refused(
    'no-json-found',
    n =>
      `${['<Reasoning>', '<thought>', '[THINK]', '◁think▷', '<|START_THINKING|>', '<|channel|>analysis<|message|>'][n % 6]}${text(n)}`,
  ),
  'reasoning without its opening, and no more': refused('no-json-found', n => `${text(n)}</think>`),
  'a draft, and the answer cut off': refused(
    'no-json-found',
    n => `\`\`\`json\n${text(n)}\n\`\`\`\nFinal: ${text(n + 1).slice(0, 1 + (n % 15))}`,
  ),
  'a draft, and a bad value': n => ({
    text: `Draft: ${text(n)}. Final: ${JSON.stringify({ ...answer(n), verdict: 'maybe' })}`,
    rung: 'failed',
    code: 'schema-mismatch',
  }),
  'a draft, and a null': n => ({
    text: `Draft: ${text(n)}. Final: ${JSON.stringify({ ...answer(n), verdict: null })}`,
    rung: 'failed',
    code: 'null-value',
  }),
  'a draft, and an empty object': n => ({
    text: `Draft: ${text(n)}. Final: {}`,
    rung: 'failed',
    code: 'schema-mismatch',
  }),
  'a brace after the answer': refused('no-json-found', n => `${text(n)} Final: {${n % 2 ? 'deny' : '...'}}`),
  'a format after the answer': refused('no-json-found', n => `${text(n)} I used {"verdict": ...}.`),
  'another one in a comment': refused(
    'no-json-found',
    n => `${text(n)} ${['/* not', '<!--', '// or'][n % 3]} ${text(n + 1)}${[' */', ' -->', ''][n % 3]}`,
  ),
  'a list of two': refused('several-answers', n => `[${text(n)}, ${text(n + 1)}]`),
  'two lines': refused(
    'several-answers',
    n => `${JSON.stringify(answer(n))}\n${JSON.stringify(answer(n + 1))}\n`,
  ),
  'two fences': refused(
    'several-answers',
    n => `\`\`\`json\n${text(n)}\n\`\`\`\n\n\`\`\`json\n${text(n + 1)}\n\`\`\``,
  ),
  'an early brace': refused('no-json-found', n =>
    text(n).replace(/,(\s*)"rate"/, n % 3 ? '},$1"rate"' : '}$1"rate"'),
  ),
  'a lost brace': refused('no-json-found', n => JSON.stringify(answer(n)).slice(1)),
  'a string put together': refused('no-json-found', n =>
    python(answer(n)).replace("'approve'", "'app' + 'rove'").replace("'deny'", "'den' 'y'"),
  ),
  'cut inside a string': refused('no-json-found', n => text(n).slice(0, text(n).lastIndexOf('"') - 1)),
  'cut after a comma': refused('no-json-found', n => text(n).slice(0, text(n).indexOf('"rate"')).trimEnd()),
  'quotes inside a string': refused('no-json-found', n =>
    text(n).replace('"verdict_reason":', '"verdict_reason": "he said "no" to it", "x":'),
  ),
  'missing comma': refused('no-json-found', n => text(n).replace(/,(\s*"rate")/, '$1')),
  'a nested object is no answer': refused('no-json-found', n => `{"broken": ${text(n)} oops}`),
  'cut at the limit': n => ({
    text: text(n).slice(0, -9),
    rung: 'failed',
    code: 'truncated',
    finish: 'length',
  }),
  'whole, and yet cut': n => ({ text: text(n), rung: 'failed', code: 'truncated', finish: 'length' }),
  filtered: n => ({ text: text(n), rung: 'failed', code: 'truncated', finish: 'content_filter' }),
  null: changed(
    'failed',
    n => ({ [n % 2 ? 'rate' : 'verdict']: null, certainty: null }),
    undefined,
    'null-value',
  ),
  'none in python': n => ({
    text: python({ ...answer(n), rate: null }),
    rung: 'failed',
    code: 'null-value',
  }),
  'null and worse': mismatch(() => ({ rate: null, verdict: 'maybe' })),
  conditions: mismatch(() => ({ verdict: 'approve with conditions' })),
  negation: mismatch(() => ({ verdict: 'not approved' })),
  synonym: mismatch(() => ({ verdict: 'reject' })),
  'share of another whole': mismatch(() => ({ certainty: '8/10' })),
  'a fraction for a percentage': mismatch(() => ({ certainty: 0.85 })),
  'a percentage of two readings': mismatch(n => ({ amount: `${1 + n}%` })),
  'a share of two readings': mismatch(n => ({ rate: n % 2 ? `${2 + (n % 7)}/30` : '10/30' })),
  'a point between thousands': mismatch(() => ({ amount: '€1.200' })),
  'a comma alone': mismatch(n => ({ amount: `${n},345` })),
  'weights far off': mismatch(n => ({ shares: { first: 0.9, second: n % 2 ? 0 : 0.12, third: 0 } })),
  'weights in percent': mismatch(() => ({ shares: { first: 50, second: 30, third: 20 } })),
  'yes for a boolean': mismatch(() => ({ signed: 'yes' })),
  'comma or point': mismatch(() => ({ rate: '8,5' })),
  'a range': mismatch(() => ({ rate: '8-9%' })),
  'out of bounds': mismatch(() => ({ rate: '85%' })),
  'all weights zero': mismatch(() => ({ shares: { first: 0, second: 0, third: 0 } })),
  'a negative weight': mismatch(() => ({ shares: { first: -0.5, second: 1, third: 1 } })),
  'flat, and one missing': n => {
    const { reasons, ...rest } = answer(n);
    return {
      text: JSON.stringify({ ...rest, rate_reason: reasons.rate_reason }),
      rung: 'failed',
      code: 'schema-mismatch',
    };
  },
  'a key too many': mismatch(() => ({ note: 'x' })),
  'two values for a key': refused('value-not-kept', n => text(n).replace('{', '{"verdict": "deny",')),
  'a number too long': refused('value-not-kept', n =>
    text(n).replace(/"amount": ?\d+/, '"amount": 12345678901234567890'),
  ),
  'minus zero': refused('value-not-kept', n => text(n).replace(/"certainty": ?\d+/, '"certainty": -0')),
  'beyond a double': refused('value-not-kept', n => text(n).replace(/"amount": ?\d+/, '"amount": 1e400')),
};

const EACH = 16;

export const FAULTS: Fault[] = Object.entries(RULES).flatMap(([name, rule]) =>
  Array.from({ length: EACH }, (_, index) => ({
    name: `${name} (${index})`,
    finish: 'stop',
    ...rule(index * 7 + 1),
  })),
);
