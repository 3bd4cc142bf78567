import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  applyEdits,
  editsOf,
  replay,
  spanBefore,
  trace,
  valueEntries,
} from '../../engine/answers/entries.ts';
import { readAnswer } from '../../engine/answers/read-answer.ts';
import { compileSchema } from '../../engine/answers/schema.ts';
import type { Repair } from '../../engine/core/item/item.ts';
import { differenceIn, getAt, type JsonObject, join, same, setAt } from '../../engine/core/json/pointer.ts';
import { spanOf } from '../../engine/core/json/span.ts';
import { FAULTS, loanSchema } from './faults.ts';
import { holds } from './property.ts';

const key = fc.constantFrom('a', 'b/c', '~', '__proto__', 'constructor', '"', '\\', '0', 'é😀', '');
const json = fc.letrec(tie => ({
  value: fc.oneof({ depthSize: 'small' }, fc.jsonValue({ maxDepth: 0 }), tie('array'), tie('object')),
  array: fc.array(tie('value'), { maxLength: 4 }),
  object: fc.dictionary(key, tie('value'), { maxKeys: 4 }),
})).value;

function placesIn(value: unknown, at: string[] = []): string[][] {
  const below = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  return [at, ...below.flatMap(([name, inner]) => placesIn(inner, [...at, name]))];
}

describe('spanOf', () => {
  it('finds every value of a JSON text, however it is spaced', () => {
    holds(fc.tuple(json, fc.constantFrom(0, 1, '\t')), ([value, space]) => {
      const text = ` ${JSON.stringify(value, null, space)}\n`;
      for (const tokens of placesIn(JSON.parse(text))) {
        const span = spanOf(text, tokens);
        expect(span && JSON.parse(text.slice(span.from, span.to))).toEqual(getAt(JSON.parse(text), tokens));
      }
    });
  });

  it('finds nothing where nothing is', () => {
    for (const tokens of [['b'], ['a', '2'], ['a', '0', 'x'], ['a', '-1'], ['a', '01x']])
      expect(spanOf('{"a": [1, 2]}', tokens)).toBe(null);
  });
});

describe('spanBefore', () => {
  it('leads from a value of the mended text to the words of the model', () => {
    const said = "Sure:\n```json\n{'a': 'it\\'s \\$5', b: [True, 2,], \"c\": {\"d\": 1";
    const { edits } = {
      edits: editsOf(readAnswer(said, compileSchema(true, 'any'), { finish: 'stop' }).repairs),
    };
    const mended = applyEdits(said, edits);
    const words = (tokens: string[]): [string, string[]] => {
      const { from, to, edits: inside } = spanBefore(edits, spanOf(mended, tokens) ?? { from: 0, to: 0 });
      return [said.slice(from, to), inside.map(({ rule }) => rule)];
    };
    expect(words(['a'])).toEqual([
      "'it\\'s \\$5'",
      ['single-quotes', 'single-quotes', 'illegal-escape', 'single-quotes'],
    ]);
    expect(words(['b'])).toEqual(['[True, 2,]', ['python-literal', 'trailing-comma']]);
    expect(words(['b', '0'])).toEqual(['True', ['python-literal']]);
    expect(words(['b', '1'])).toEqual(['2', []]);
    expect(words(['c', 'd'])).toEqual(['1', []]);
    expect(words(['c'])[0]).toBe('{"d": 1');
  });

  it('gives back the same text where nothing was changed inside', () => {
    holds(json, value => {
      const raw = `Here: ${JSON.stringify({ value })} – done`;
      const { repairs } = readAnswer(raw, compileSchema(true, 'any'), { finish: 'stop' });
      const edits = editsOf(repairs);
      const span = spanOf(applyEdits(raw, edits), ['value']);
      if (repairs.length === 0 || span === null) return; // refused: a number that no double keeps
      const { from, to, edits: inside } = spanBefore(edits, span);
      expect([raw.slice(from, to), inside]).toEqual([JSON.stringify(value), []]);
    });
  });
});

describe('trace', () => {
  const entries: Repair[] = [
    { rule: 'flat-to-nested', at: '/x', from: '8%' },
    { rule: 'flat-to-nested', at: '/y', from: 2 },
    { rule: 'flat-to-nested', at: '/deep', to: { x: '8%', y: 2 } },
    { rule: 'percent', at: '/deep/x', from: '8%', to: 8 },
    { rule: 'null-default', at: '/made', to: {} },
    { rule: 'null-default', at: '/made/z', to: 1 },
    { rule: 'null-default', at: '/gone', from: null, to: 3 },
  ];
  const at = (...tokens: string[]) => {
    const { at: from, changes, inside } = trace(entries, tokens);
    return [from, changes.map(({ at }) => at), inside.map(({ at }) => at)];
  };

  it('follows a value through every change of it, to where the model said it', () => {
    expect(at('deep', 'x')).toEqual([['x'], ['/deep', '/deep/x'], []]);
    expect(at('deep', 'y')).toEqual([['y'], ['/deep'], []]);
    expect(at('plain')).toEqual([['plain'], [], []]);
    expect(at('gone')).toEqual([['gone'], ['/gone'], []]);
  });

  it('ends where the model said nothing', () => {
    expect(at('deep')).toEqual([null, ['/deep'], ['/deep/x']]);
    expect(at('made', 'z')).toEqual([null, ['/made/z'], []]);
    expect(at('made')).toEqual([null, ['/made'], ['/made/z']]);
  });

  it('replays, and every place of every faulty answer is traced to what was said there', () => {
    const check = compileSchema(loanSchema, 'loan');
    for (const { text, finish, name } of FAULTS) {
      const { output, repairs, rung } = readAnswer(text, check, { finish });
      if (output === undefined || rung === 'failed') continue;
      const said: unknown = JSON.parse(applyEdits(text, editsOf(repairs)));
      expect(same(replay(said, valueEntries(repairs)), output), name).toBe(true);
      for (const tokens of placesIn(output)) {
        const { at: from, changes, inside } = trace(valueEntries(repairs), tokens);
        if (from === null) continue;
        const was = getAt(said, from);
        expect(was, `${name} at ${tokens.reduce(join, '')}`).not.toBe(undefined);
        if (changes.length === 0 && inside.length === 0) expect(was).toEqual(getAt(output, tokens));
      }
    }
  });
});

describe('same', () => {
  const shuffled = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(shuffled);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .reverse()
        .map(([name, below]) => [name, shuffled(below)]),
    );
  };

  it('sees values, not the order of keys', () => {
    holds(json, value => {
      expect(same(value, shuffled(structuredClone(value)))).toBe(true);
      expect(differenceIn(value, structuredClone(value))).toBe(null);
    });
  });

  it('finds the one place that was changed', () => {
    holds(fc.tuple(json, fc.nat()), ([value, pick]) => {
      const places = placesIn(value);
      const place = places[pick % places.length] as string[];
      const changed = setAt(value, place, { other: 'x' });
      const before = (getAt(value, place) as JsonObject | null)?.other;
      if (before === 'x') return;
      expect(same(value, changed)).toBe(false);
      expect(differenceIn(value, changed)?.startsWith(place.reduce(join, ''))).toBe(true);
    });
  });

  it('takes what nests too deep for the same as nothing, and does not fall over it', () => {
    const deep = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000));
    expect(same(deep, structuredClone(JSON.parse('['.repeat(600) + ']'.repeat(600))))).toBe(false);
  });
});
