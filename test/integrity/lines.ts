/** Lines as they may come from anywhere: valid JSON in any spelling, items and records of any shape, bytes. */
import fc from 'fast-check';
import { mangled } from './property.ts';

/** Pieces of JSON strings, each legal, none of them what JSON.stringify would write. */
const legal = fc.constantFrom(
  ...['\\"', '\\\\', '\\/', '\\b', '\\f', '\\n', '\\r', '\\t', '\\u0000', '\\u00E9', '\\uD800', '\\udc00'],
  ...[
    '\\ud83d\\ude00',
    '\\frac',
    '😀',
    'é',
    '\u2028',
    '\u007f',
    "'",
    '{',
    '}',
    '[',
    ']',
    ':',
    ',',
    '//',
    '/*',
  ],
  ...['a', 'u12', 'x', ' ', '```', '<think>'],
);
const illegal = fc.constantFrom('\\$', '\\O', '\\ ', "\\'", '\\u12', '\\x41', '\\%', '\\-', '\\u', '\\U0041');

const quoted = (pieces: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  fc.array(pieces, { maxLength: 6 }).map(parts => `"${parts.join('.')}"`);

const number = fc.constantFrom(
  ...['0', '-0', '-0.0', '1.50', '1E+2', '1e400', '-1e-400', '12345678901234567890', '9007199254740993'],
  ...['0.1234567890123456789', '8', '12', '4e-324', '1e21'],
);
/** Some names that JavaScript or fw treats as special; often the same one twice in an object. */
const names = fc.constantFrom(
  ...['"a"', '"a"', '"rate"', '"decision"', '"__proto__"', '"constructor"', '"toString"', '""', '"\\u0061"'],
  ...['"id"', '"prompt"', '"steps"', '"failure"', '"_fw"', '"row"', '"ordering"', '"business_decision"'],
);
const space = fc.constantFrom('', '', '', ' ', '\t', ' \r');

function objectText(strings: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const { object } = fc.letrec<{ value: string; object: string }>(tie => {
    const member = fc
      .tuple(fc.oneof({ weight: 3, arbitrary: names }, strings), space, tie('value'), space)
      .map(([name, before, value, after]) => `${before}${name}${after}:${before}${value}${after}`);
    return {
      value: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.oneof(number, fc.constantFrom('true', 'false', 'null'), strings),
        fc.array(tie('value'), { maxLength: 3 }).map(values => `[${values.join(', ')}]`),
        tie('object'),
      ),
      object: fc.array(member, { maxLength: 4 }).map(members => `{${members.join(',')}}`),
    };
  });
  return fc.tuple(space, object, space).map(parts => parts.join(''));
}

/** A JSON object on one line, spelled in any legal way. */
export const validLine = objectText(quoted(legal));

/** The same with illegal escapes in its strings; now and then none. */
export const brokenLine = objectText(quoted(fc.oneof(legal, illegal)));

const rate = fc.constantFrom(8, 1.5, 99, null, '8.5%', '$12', 'a lot', 12, '85/100', true, [], {});
const verdict = fc.constantFrom('approve', 'deny', 'Approved', 'DENY', 'approve with conditions', null, 7);
/** Records that may need the rules of rate.schema.json and its defaults, with a mark or a failure now and then. */
export const record = fc
  .record(
    {
      decision: verdict,
      rate,
      note: fc.jsonValue({ maxDepth: 1 }),
      _fw: fc.constantFrom<unknown>({ rung: 'repaired', repairs: [] }, { rung: 'best' }, 7, null, []),
      failure: fc.constantFrom<unknown>(
        { stage: 'validate', code: 'schema-mismatch', message: '/rate: …' },
        { stage: 'validate', code: 'null-value', message: '/rate: …' },
        { stage: 'x', code: 'not-json', message: '…', text: '{"a":"\\$"}' },
        { stage: 'x', code: 'not-json', message: '…', text: 5 },
        { code: [] },
        'no',
      ),
    },
    { requiredKeys: [] },
  )
  .map(value => JSON.stringify(value));

const part = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom<unknown>(null, 0, '', 'x', true, [], {}, [null], [7]) },
  {
    weight: 6,
    arbitrary: fc.record(
      {
        agent: fc.constantFrom<unknown>('judge', 'judge', 'judge', 'nobody', 7, { toString: 1 }),
        output: fc.constantFrom<unknown>(
          { decision: 'deny', rate: 8 },
          { rate: '8%' },
          { rate: null },
          null,
          [],
        ),
        raw: fc.oneof(mangled, fc.constantFrom<unknown>('{"rate":"8%"}', '{"rate":3,"note":"\\$"}', 5)),
        rung: fc.constantFrom('clean', 'coerced', 'failed', 'best'),
        saw: fc.constantFrom('clean', 'failed'),
        repairs: fc.constantFrom<unknown>([], [], [], 7, [null]),
        problem: fc.constantFrom<unknown>({ code: 'truncated' }, 7),
      },
      { requiredKeys: ['agent', 'rung'] },
    ),
  },
);
/** Items, most of them with steps that no stage of ours would write. */
export const item = fc
  .record(
    {
      id: fc.constantFrom<unknown>('a', 'a', null, 7, {}),
      prompt: fc.constantFrom<unknown>('?', '?', null, 7),
      steps: fc.oneof(
        { weight: 5, arbitrary: fc.array(part, { maxLength: 3 }) },
        fc.constantFrom<unknown>(null, 7, ''),
      ),
      decision: part,
      failure: fc.constantFrom<unknown>(
        { stage: 'chain', code: 'no-valid-answer', message: '…' },
        { stage: 'chain', code: 'null-value', message: '…' },
        null,
        7,
      ),
    },
    { requiredKeys: ['id', 'prompt'] },
  )
  .map(value => JSON.stringify(value));

const document = fc
  .array(fc.oneof(record, validLine), { maxLength: 3 })
  .map(lines => `{"results":[${lines.join(',')}],"status":"complete"}`);

const line = fc.oneof(validLine, brokenLine, record, item, mangled, document, fc.constantFrom('', ' ', '\r'));
const lines = fc
  .tuple(fc.array(line, { maxLength: 5 }), fc.constantFrom('\n', '\r\n'), fc.constantFrom('', '\ufeff'))
  .map(([texts, end, mark]) => Buffer.from(mark + texts.join(end)));

/** Any bytes at all; most of them nearly lines. */
export const bytes: fc.Arbitrary<Buffer> = fc.oneof(
  { weight: 6, arbitrary: lines },
  { weight: 2, arbitrary: fc.uint8Array({ maxLength: 60 }).map(array => Buffer.from(array)) },
  {
    weight: 2,
    arbitrary: fc.tuple(lines, fc.uint8Array({ maxLength: 4 }), fc.nat()).map(([text, noise, where]) => {
      const at = text.length === 0 ? 0 : where % text.length;
      return Buffer.concat([text.subarray(0, at), noise, text.subarray(at)]);
    }),
  },
);

/** Sizes of the blocks in which bytes come. */
export const sizes = fc.array(fc.integer({ min: 1, max: 150 }), { minLength: 1, maxLength: 4 });
