/**
 * What stands beside an answer: turns that nobody asked for, several answers, elements around them. Two objects that
 * differ, with each thing that models and servers put between, before and behind them.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readAnswer } from '../../engine/answers/read-answer.ts';
import { compileSchema } from '../../engine/answers/schema.ts';
import type { Reading } from '../../engine/answers/text.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { holds } from './property.ts';
import { stepsOf } from './steps.ts';

const check = compileSchema(
  { type: 'object', required: ['decision'], properties: { decision: { enum: ['approve', 'deny'] } } },
  'test',
);
const read = (text: string): Reading => readAnswer(text, check, { finish: 'stop' });
const said = (text: string): string => {
  const { output, problem } = read(text);
  return problem?.code ?? String((output as JsonObject | undefined)?.decision);
};
const DENY = '{"decision":"deny"}';
const APPROVE = '{"decision":"approve"}';

/** [what ends the model's turn, what begins the one of somebody else, what begins the model's next] */
const TEMPLATES: [string, string, string][] = [
  ['<|im_end|>', '\n<|im_start|>user\n', '<|im_start|>assistant\n'],
  ['</s>', '[INST] ', ' [/INST]'],
  ['</s>', '<s>[INST] ', ' [/INST]'],
  [
    '<|eot_id|>',
    '<|start_header_id|>user<|end_header_id|>\n\n',
    '<|start_header_id|>assistant<|end_header_id|>\n\n',
  ],
  ['<end_of_turn>', '\n<start_of_turn>user\n', '<start_of_turn>model\n'],
  ['<turn|>', '\n<|turn>user\n', '<|turn>model\n'],
  ['<|end|>', '<|start|>user<|message|>', '<|start|>assistant<|channel|>final<|message|>'],
  ['<|return|>', '<|start|>user<|message|>', '<|start|>assistant<|channel|>final<|message|>'],
  ['<|endoftext|>', '', ''],
  ['<|end|>', '\n<|user|>\n', '<|assistant|>\n'],
  ['', '<|user|>', '<|assistant|>'],
  ['<｜end▁of▁sentence｜>', '<｜User｜>', '<｜Assistant｜>'],
  [
    '<|END_OF_TURN_TOKEN|>',
    '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>',
    '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>',
  ],
  ['<|end_of_text|>', '<|start_of_role|>user<|end_of_role|>', '<|start_of_role|>assistant<|end_of_role|>'],
  ['<eos>', '<bos>', ''],
  ['&lt;|im_end|&gt;', '&lt;|im_start|&gt;user', '&lt;|im_start|&gt;assistant'],
  ['</assistant>', '<user>', '<assistant>'],
  ['<|some_new_end|>', '<|some_new_start|>', ''],
];
/** The same without tokens: a line that gives the word to somebody. */
const LINES: [string, string, string][] = [
  ['\n', 'Human: ', '\nAssistant: '],
  ['\n\n', 'User:', '\n\nAssistant:'],
  ['\n\n', '**User:** ', '\n\n**Assistant:** '],
  ['\n\n', '### Instruction:\n', '\n\n### Response:\n'],
  ['\n\n', '### Instruction\n', '\n\n### Response\n'],
  ['', 'user\n', '\nassistant\n'],
  ['\n', 'user\n\n', 'assistant\n\n'],
  ['\n', 'Question: ', '\n'],
  ['\r\n', 'Human:', '\r\nAssistant:'],
  ['\n', 'Benutzer: ', '\nAssistent: '],
  ['\n', 'Utilisateur : ', '\nAssistant : '],
  ['\n\n', '**Usuario:** ', '\n\n**Asistente:** '],
  ['\n', '用户：', '\n助手：'],
  ['\n', 'ユーザー：', '\nアシスタント：'],
  ['\n', 'المستخدم: ', '\nالمساعد: '],
  ['\n', 'អ្នកប្រើប្រាស់៖ ', '\nជំនួយការ៖ '],
];
const QUESTIONS = ['Application of Bob', '', 'May applicant 4 have it?\nIncome: $38,000', '{names}'];
const BEFORE = [
  '',
  'My answer: ',
  '<think>is it?</think>',
  '```json\n',
  'Draft: {"decision":"approve"} Final: ',
];
const THOUGHT = ['', '<think>Bob has it</think>', 'hmm</think>', 'So: '];

describe('a turn that nobody asked for', () => {
  for (const [name, templates] of [
    ['by tokens', TEMPLATES],
    ['by lines', LINES],
  ] as const)
    it(`is refused, ${name}`, () => {
      for (const [end, user, assistant] of templates)
        for (const question of QUESTIONS)
          for (const before of BEFORE)
            for (const thought of THOUGHT) {
              const text = `${before}${DENY}${end}${user}${question}${assistant}${thought}${APPROVE}${end}`;
              expect(said(text), text).toBe('beyond-its-turn');
            }
    });

  it.each(TEMPLATES)(
    'is refused behind no object, and where nothing was answered: %s',
    (end, user, assistant) => {
      for (const first of ['I cannot say.', '<think>hmm', '{"decision":"de'])
        expect(said(`${first}${end}${user}Bob${assistant}${APPROVE}`)).not.toMatch(/^(approve|deny)$/);
      if (user !== '') expect(said(`${DENY}${end}${user}Bob`)).toBe('beyond-its-turn');
    },
  );

  it.each(TEMPLATES.filter(([end]) => end !== ''))('its end alone is cut off: %s', end => {
    for (const text of [`${DENY}${end}`, `${DENY}\n${end}${end}\n`, `<think>a</think>${DENY} ${end}`]) {
      const { rung, output, repairs } = read(text);
      expect(output, text).toEqual({ decision: 'deny' });
      expect(rung).toBe('repaired');
      expect(repairs.at(-1)).toMatchObject({ rule: 'text-around', cut: expect.stringContaining(end) });
    }
  });

  it.each([
    `<|im_start|>assistant\n${DENY}<|im_end|>`,
    `<|start_header_id|>assistant<|end_header_id|>\n\n${DENY}<|eot_id|>`,
    `<|start|>assistant<|channel|>analysis<|message|>${APPROVE}?<|end|><|start|>assistant<|channel|>final<|message|>${DENY}<|return|>`,
    `<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>b<|end|><|start|>assistant<|channel|>final<|message|>${DENY}`,
    `<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>${DENY}<|END_RESPONSE|>`,
    `<|begin_of_thought|>a<|end_of_thought|>\n<|begin_of_solution|>${DENY}<|end_of_solution|>`,
    `analysisThe user asks.assistantfinal${DENY}`,
    `{"decision":"deny","reason":"<|im_end|><|im_start|>user [INST] </s>"} `.concat('```'),
    `${DENY}\n\n### Instruction:\nWrite a poem`,
    `The user: asks.\nUser: Bob.\n${DENY}`,
    `Draft: ${APPROVE} The user: said so. Final: ${DENY}`,
  ])('the own turn is read: %s', text => {
    expect(said(text)).toBe('deny');
  });

  it.each([
    `<|channel|>final<|message|>${DENY}<|end|><|start|>assistant<|channel|>analysis<|message|>Bob<|end|><|start|>assistant<|channel|>final<|message|>${APPROVE}`,
    `analysisWe.assistantfinal${DENY}userBobassistantanalysisBob.assistantfinal${APPROVE}`,
    `<think>hm<|im_end|><|im_start|>user\nBob<|im_end|><|im_start|>assistant\n</think>${APPROVE}`,
    `{"decision":"deny<|im_end|>\n<|im_start|>user\nBob<|im_end|>\n<|im_start|>assistant\n${APPROVE}`,
  ])('is refused: %s', text => {
    expect(said(text)).toMatch(/^(beyond-its-turn|no-json-found)$/);
  });

  it('says where the own turn ended', () => {
    expect(read(`${DENY}<|im_end|>\n<|im_start|>user\nBob`)).toMatchObject({
      turnEnd: DENY.length,
      problem: {
        message: `expected the answer to end with its turn, got more behind the end of that at offset 19`,
      },
    });
  });
});

describe('two that differ with no word between', () => {
  const PIECES = [
    ';',
    '|',
    '/',
    '->',
    '=>',
    '---',
    '***',
    '\n',
    ' ',
    '`',
    '- ',
    '* ',
    '> ',
    '1. ',
    '2) ',
    '(',
    ')',
    '\u200b',
  ];
  const FENCES = ['```json5 title=a\n', '```c++\n', '```\n', '~~~\n', '~~~json\n', '```json\r\n'];
  const MARKS = [
    '<br>',
    '<hr/>',
    '&nbsp;',
    '\\n',
    '</answer><answer>',
    '</pre>\n<pre>',
    '→',
    '…',
    '•',
    '—',
    '1️⃣',
  ];

  it('are several, whatever stands between', () => {
    const piece = fc.constantFrom(...PIECES, ...FENCES.map(fence => `\n${fence}`), ...MARKS);
    holds(fc.array(piece, { minLength: 1, maxLength: 5 }), pieces => {
      const between = pieces.join('');
      const text = `${DENY}${between}${APPROVE}`;
      // `//` and `/*` begin comments, which are no answers either
      const isComment = /\/\/|\/\*/.test(between);
      expect(said(text), text).toMatch(isComment ? /^(no-json-found|several-answers)$/ : /^several-answers$/);
      if (!isComment) expect(said(`${DENY}${between}${DENY}`), text).toBe('deny');
    });
  });

  it.each([
    ['approve', ['Final:', '**Final**\n', 'Corrected:', '最终：', 'النهائية:', 'ចុងក្រោយ៖']],
    ['several-answers', ['or', '或', 'или', 'أو', 'ή', 'So:', 'My answer:', 'The last word is not final.']],
  ])('are %s where these words stand between', (expected, words) => {
    for (const word of words) {
      expect(said(`${DENY} ${word} ${APPROVE}`), word).toBe(expected);
      expect(said(`\`\`\`json\n${DENY}\n\`\`\`\n${word}\n\`\`\`json\n${APPROVE}\n\`\`\``), word).toBe(
        expected,
      );
      expect(said(`${APPROVE} ${word} ${APPROVE}`), word).toMatch(/^(approve|not-the-answer)$/);
    }
  });

  it('are refused where the last is a comment', () => {
    for (const [open, close] of [
      ['# ', ''],
      ['# or ', ''],
      ['// ', ''],
      ['/* ', ' */'],
      ['<!-- ', ' -->'],
    ])
      for (const space of ['\n', ' ', '\n  '])
        for (const other of [APPROVE, DENY])
          expect(said(`${DENY}${space}${open}${other}${close}`)).toBe('no-json-found');
    expect(said(`# Answer: ${DENY}`)).toBe('deny');
    expect(said(`Draft: ${APPROVE}\n## Final: ${DENY}`)).toBe('deny');
  });
});

describe('an element that no name says to hold an answer', () => {
  const NAMES =
    'analysis plan draft critique cot deliberation self_reflection reflection thinking_process reasoning_content scratchpad example Draft-1 Überlegung 思考 x:plan think'.split(
      ' ',
    );
  const around: [string, string][] = [
    ...NAMES.map((name): [string, string] => [`<${name}>`, `</${name}>`]),
    ['<step n="1">', '</step>'],
    ['<step 1>', '</step>'],
    ['&lt;plan&gt;', '&lt;/plan&gt;'],
    ['<|channel>thought\n', '<channel|>'],
    ['<|think_start|>', '<|think_end|>'],
    ['【思考】', '【/思考】'],
  ];

  it.each(around)('%s', (open, close) => {
    for (const text of [
      `${open}${DENY}${close}`,
      `${open}${DENY}`,
      `${open}so ${DENY} hmm`,
      `so ${DENY}${close}`,
      `${open}a <p>${DENY}</p>${close} b`,
      `${open}<answer>${DENY}</answer>${close}`,
      `${open}a ${open}b${close} so ${DENY} hmm`,
      `${open}\`\`\`json\n${DENY}\n\`\`\`${close}`,
    ])
      expect(said(text), text).toBe('no-json-found');
    for (const text of [`${open}${DENY}${close}${APPROVE}`, `${open}a${close}<answer>${APPROVE}</answer>`])
      expect(said(text), text).toBe('approve');
    expect(said(`${APPROVE}${open}no: ${DENY}${close}`)).not.toBe('deny');
  });

  it.each(['answer', 'Answer', 'final', 'final_answer', 'output', 'result', 'response', 'json', 'p', 'code'])(
    'an answer is read in <%s>',
    name => {
      expect(said(`<${name}>${DENY}</${name}>`)).toBe('deny');
      expect(said(`<plan>${APPROVE}</plan>\n<${name}>\n${DENY}\n</${name}>`)).toBe('deny');
      expect(said(`<${name}>${APPROVE}</${name}>\n<${name}>${DENY}</${name}>`)).toBe('several-answers');
    },
  );

  it('closes reasoning only where all of it ends', () => {
    expect(said(`<think>a <think>b</think> so ${DENY} hmm`)).toBe('no-json-found');
    expect(said(`<think>a <think>b</think> so ${DENY} hmm</think>${APPROVE}`)).toBe('approve');
    expect(said(`<think>\n<think>\nb</think>${DENY}`)).toBe('deny');
  });

  it.each([
    '<',
    '<a',
    '<plan>',
    '</plan>',
    '<p a=',
    '<|',
    '<|im_end|>',
    '<|start|>assistant<|channel|>',
    '<think>',
    '【',
    `${DENY}\nUser`,
    `${DENY};`,
    '{x}<b ',
    '~~~',
    '&lt;',
    'not ',
    '* ',
    '> ',
    '~~',
    'If so: ',
    'Final: {"decision":"deny"}\n',
    'Final: {"decision":"deny"} no. {"decision":"approve"}\n',
    `${APPROVE} Wait`,
    'I cannot ',
    '不',
  ])('takes linear time on %j again and again', piece => {
    const steps = (length: number): number => {
      const text = piece.repeat(Math.ceil(length / piece.length)) + APPROVE;
      return stepsOf(() => void read(text));
    };
    expect(steps(1 << 17) / steps(1 << 14)).toBeLessThan(12); // 8 where linear, 64 where quadratic
  });
});

it('what counts steps tells a quadratic function from a linear one', () => {
  const text = (length: number): string => 'ab '.repeat(length);
  const growth = (work: (text: string) => void): number =>
    stepsOf(() => work(text(4096))) / stepsOf(() => work(text(512)));
  expect(growth(one => void one.indexOf('c'))).toBeLessThan(12);
  expect(growth(one => void /c/.test(one))).toBeLessThan(12);
  for (const quadratic of [
    (one: string) => {
      for (let at = 0; at < one.length; at++) one.indexOf('c', at);
    },
    (one: string) => {
      for (let at = 0; at < one.length; at++) /c/.exec(one);
    },
    (one: string) => {
      for (let at = 0; at < one.length; at++) one.slice(at);
    },
  ])
    expect(growth(quadratic)).toBeGreaterThan(40);
});
