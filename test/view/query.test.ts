/** The address of a page and what it means: there and back, whatever the columns and values are. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  ALL_ROWS,
  addressOf,
  type Query,
  queryOf,
  textOfTest,
  withTests,
  wordsOf,
} from '../../products/view/query.ts';
import type { Test } from '../../products/view/rows/selection.ts';
import { runs } from '../all.ts';

const text = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: 'binary' }).filter(value => !/\p{Cs}/u.test(value)),
  fc.constantFrom(
    '!',
    '\\',
    '!a',
    '\\!',
    '1..2',
    '..',
    '1..',
    '..-3.5',
    'a=b&c',
    '%41',
    '+',
    ' ',
    '#',
    '__proto__',
  ),
);
const column = fc.oneof(
  text.map(name => `in.${name}`),
  fc.constantFrom('rung', 'failure', 'tokens.out', 'in.sort', 'step.a.b', '=', '&'),
);
const numbers = fc.oneof(
  fc.integer(),
  fc
    .double({ noNaN: true, noDefaultInfinity: true, min: -1e9, max: 1e9 })
    .map(value => Number(value.toFixed(6))),
);
const tests: fc.Arbitrary<Test> = fc.oneof(
  fc.record({ isNot: fc.boolean(), value: text }),
  fc
    .record({ isNot: fc.boolean(), from: fc.option(numbers), to: fc.option(numbers) })
    .filter(({ from, to }) => from !== null || to !== null),
);
const queries: fc.Arbitrary<Query> = fc.record({
  filters: fc.uniqueArray(fc.record({ column, tests: fc.array(tests, { minLength: 1, maxLength: 4 }) }), {
    maxLength: 5,
    selector: filter => filter.column,
  }),
  sort: fc.option(fc.record({ column: column.filter(name => !name.startsWith('-')), isDown: fc.boolean() })),
  show: fc.uniqueArray(column, { maxLength: 5 }),
  text,
  from: fc.nat(),
});

/** -0 is 0 in an address. */
const plain = (query: Query): unknown => JSON.parse(JSON.stringify(query));

test('any state is an address, and the address is that state', () => {
  fc.assert(
    fc.property(queries, query => {
      const address = addressOf(query);
      expect(plain(queryOf(address.slice(1)))).toEqual(plain(query));
      expect(addressOf(queryOf(address.slice(1)))).toBe(address);
    }),
    { numRuns: runs(300, 5_000) },
  );
});

test('whatever an address is, it is a query', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), search => {
      const query = queryOf(search);
      expect(plain(queryOf(addressOf(query).slice(1)))).toEqual(plain(query));
    }),
    { numRuns: runs(300, 5_000) },
  );
});

test('what a person writes', () => {
  expect(
    queryOf(
      'rung=failed&rung=coerced&failure=!&tokens.out=100..&in.a=%5C1..2&in.b=&in.c=!x&sort=-seconds&q=late&from=7',
    ),
  ).toEqual({
    filters: [
      {
        column: 'rung',
        tests: [
          { isNot: false, value: 'failed' },
          { isNot: false, value: 'coerced' },
        ],
      },
      { column: 'failure', tests: [{ isNot: true, value: '' }] },
      { column: 'tokens.out', tests: [{ isNot: false, from: 100, to: null }] },
      { column: 'in.a', tests: [{ isNot: false, value: '1..2' }] },
      { column: 'in.b', tests: [{ isNot: false, value: '' }] },
      { column: 'in.c', tests: [{ isNot: true, value: 'x' }] },
    ],
    sort: { column: 'seconds', isDown: true },
    show: [],
    text: 'late',
    from: 7,
  });
  for (const bad of [
    'from=-1',
    'from=x',
    'from=1e9',
    'sort=',
    'sort=-',
    '=x',
    '&&',
    'token=t',
    'show=',
    'q=',
  ])
    expect(queryOf(bad), bad).toEqual(ALL_ROWS);
});

test('tests are said in words, and are put in the place of others', () => {
  const said = (value: string): string =>
    wordsOf(queryOf(`c=${encodeURIComponent(value)}`).filters[0]?.tests[0] as Test);
  expect(['a', '!a', '', '!', '1..2', '1..', '..2', '!1..'].map(said)).toEqual([
    ...['= a', '≠ a', 'has none', 'has a value', 'from 1 to 2', 'at least 1', 'at most 2', 'not at least 1'],
  ]);
  const query = queryOf('a=1&b=2&from=9');
  expect(addressOf(withTests(query, 'a', []))).toBe('?b=2');
  expect(addressOf(withTests(query, 'c', [{ isNot: true, value: '!' }]))).toBe('?a=1&b=2&c=%21%5C%21');
  expect(textOfTest({ isNot: false, from: -1.5, to: null })).toBe('-1.5..');
});
