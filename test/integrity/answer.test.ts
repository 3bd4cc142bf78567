import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyEdits, editsOf, undoEdits } from '../../engine/answers/entries.ts';
import { MENDS } from '../../engine/answers/mend.ts';
import { FIXES, readAnswer } from '../../engine/answers/read-answer.ts';
import { compileSchema } from '../../engine/answers/schema.ts';
import type { Reading } from '../../engine/answers/text.ts';
import { COERCIONS } from '../../engine/answers/written-forms.ts';
import { parsePointer, setAt } from '../../engine/core/json/pointer.ts';
import { runs } from '../all.ts';
import { FAULTS, loanSchema } from './faults.ts';
import { holds, mangled } from './property.ts';

const check = compileSchema(loanSchema, 'loan');
const anything = compileSchema({ type: 'object' }, 'anything');
/** Each faulty answer with its reading. */
const READ = FAULTS.map(fault => ({
  ...fault,
  reading: readAnswer(fault.text, check, { finish: fault.finish }),
}));
const read = (text: string, fixes = FIXES): Reading => readAnswer(text, anything, { finish: 'stop', fixes });

describe('faulty answers made by rule', () => {
  it('are a thousand', () => {
    expect(FAULTS.length).toBeGreaterThan(1_000);
    expect(new Set(FAULTS.map(({ text }) => text)).size).toBeGreaterThan(900);
  });

  it('get the rung, the code and the answer that they should', () => {
    const got = READ.map(({ name, reading: { rung, problem, output } }) => ({
      ...{ name, rung, code: problem?.code, output: rung === 'failed' ? undefined : output },
    }));
    const expected = READ.map(({ name, rung, code, output }) => ({
      ...{ name, rung, code, output: rung === 'failed' ? undefined : output },
    }));
    expect(got).toEqual(expected);
  });

  it('meet every rule', () => {
    const met = READ.flatMap(({ reading }) => reading.repairs);
    expect([...new Set(met.map(({ rule }) => rule))].sort()).toEqual(
      [...Object.keys(MENDS), ...Object.keys(COERCIONS)].sort(),
    );
  });

  it('are put right by one rule at a time: without it they fail', () => {
    for (const { text, finish, reading } of READ) {
      if (reading.rung === 'failed') continue;
      for (const { rule } of reading.repairs) {
        const fixes = new Set([...FIXES].filter(fix => fix !== rule));
        const without = readAnswer(text, check, { finish, fixes });
        // another object in the text may do without the rule, but then the reading is another
        if (without.rung !== 'failed') expect(without.repairs.map(one => one.rule)).not.toContain(rule);
      }
    }
  });
});

describe('entries', () => {
  it('on syntax give the parsed text when applied, and the raw text when undone', () => {
    for (const { text, reading } of READ) {
      const { rung, repairs, output } = reading;
      const edits = editsOf(repairs);
      const mended = applyEdits(text, edits);
      expect(undoEdits(mended, edits)).toBe(text);
      if (rung === 'repaired') expect(JSON.parse(mended)).toEqual(output);
      for (const { offset, cut } of edits) expect(text.slice(offset, offset + cut.length)).toBe(cut);
    }
  });

  it('on values lead back to what the model said', () => {
    for (const { text, reading } of READ) {
      const { rung, repairs, output, compact } = reading;
      if (rung !== 'coerced') continue;
      expect(compact).toBe(JSON.stringify(output));
      const said = JSON.parse(applyEdits(text, editsOf(repairs)));
      const values = repairs.filter(({ at }) => at !== undefined);
      const undone = values.reduceRight<unknown>(
        (value, { at, from }) => setAt(value, parsePointer(at!), from),
        output,
      );
      expect(undone).toEqual(said);
    }
  });

  it('of every reading restore the raw text, and never overlap', () => {
    holds(mangled, text => {
      const { rung, repairs, output } = read(text);
      const edits = editsOf(repairs);
      const mended = applyEdits(text, edits);
      expect(undoEdits(mended, edits)).toBe(text);
      let end = 0;
      for (const { offset, cut } of edits) {
        expect(offset).toBeGreaterThanOrEqual(end);
        expect(text.slice(offset, offset + cut.length)).toBe(cut);
        end = offset + cut.length;
      }
      if (rung !== 'failed') {
        expect(JSON.parse(mended)).toEqual(output);
        // read twice is read once
        expect(read(mended)).toEqual({ rung: 'clean', output, compact: JSON.stringify(output), repairs: [] });
      }
    });
  });

  it('are none where the text is valid', () => {
    holds(fc.dictionary(fc.string(), fc.jsonValue()), value => {
      // numbers that JSON.stringify cannot write back are another test's subject
      const text = JSON.stringify(value);
      const output = JSON.parse(text);
      expect(read(text)).toEqual({ rung: 'clean', output, compact: JSON.stringify(output), repairs: [] });
    });
  });

  it('never change a scalar: an object wrapped in talk is the same object, or none', () => {
    const prose = fc.string({ unit: fc.constantFrom(...'ab .:\n"\'!'.split('')) });
    let accepted = 0;
    holds(fc.tuple(prose, fc.dictionary(fc.string(), fc.jsonValue()), prose), ([before, value, after]) => {
      const text = JSON.stringify(value);
      const talk = `${before}${text}${after}`;
      // what looks like a key behind the object goes on with it
      if (isJsonText(talk) || /^\s*["'][^\n]*["']\s*:/.test(after)) return;
      const { output, rung, problem } = read(talk);
      if (problem?.code === 'not-the-answer') {
        // only beside words
        expect(before + after).toMatch(/[ab]/);
        return;
      }
      accepted += 1;
      expect(rung === 'clean' || rung === 'repaired').toBe(true);
      expect(output).toEqual(JSON.parse(text));
    });
    expect(accepted).toBeGreaterThan(0);
  });
});

/** `"{}"` is no object in talk, but a text. */
function isJsonText(talk: string): boolean {
  try {
    return typeof JSON.parse(talk) === 'string';
  } catch {
    return false;
  }
}

describe('reading', () => {
  it('finds no object in JSON that is another value, unless that is a list of objects', () => {
    for (const text of [
      '"{a:2}"',
      '"{}"',
      '[1,{"a":2}]',
      '[[{"a":2}]]',
      '[]',
      '7',
      'null',
      '"so: {\\"a\\":1}"',
    ]) {
      expect(read(text)).toMatchObject({ rung: 'failed', repairs: [], problem: { code: 'no-json-found' } });
    }
    expect(read('[{"a":2}]')).toMatchObject({ rung: 'repaired', output: { a: 2 } });
  });

  it('never throws', () => {
    holds(fc.oneof(mangled, fc.string({ unit: 'binary' }), fc.uint8Array()), text => {
      const { rung, problem } = read(typeof text === 'string' ? text : Buffer.from(text).toString('latin1'));
      expect(rung === 'failed').toBe(problem !== undefined);
    });
  });

  const megabyte = 1 << 20;
  const length = runs(1 << 16, megabyte, 'LENGTH');
  it.each([
    '[',
    '{',
    '\\',
    '"',
    '{"',
    "{'",
    '{"a":',
    '{"a":1}',
    '{"a":{',
    '{/*',
    '{//',
    '{#',
    '{a',
    '{1',
    '```',
    '```{',
    '<think>',
    '</think>',
    '{"a":"\\"',
    '{"\\"',
    '}{',
    '{"a":1,}',
    '{"a":[],',
    "{'a':'b' ",
    '{"a":x"\\"',
    '{"a":x{"',
    ' ',
    '{ ',
    '{"a":1 "',
    '{}',
    '{},"',
    '"a":{}',
    '[think]',
    '[reasoning]{}',
    '<|channel|>analysis',
    'assistantfinal',
    '&lt;/',
    '{{',
    '\u00a0{',
    "{'a':'b'c'",
    '{"a":+1.',
    '/*{}',
    '"',
    '.)',
  ])('is linear in many times %s', piece => {
    for (const text of [
      piece.repeat(length / piece.length),
      `{"a":x${piece.repeat(length / piece.length - 9)}`,
      `{"a":1}\nThis is x${piece.repeat(length / piece.length - 30)}x`,
    ]) {
      const { rung } = read(text);
      expect(['failed', 'repaired', 'clean']).toContain(rung);
    }
  });

  it('refuses what is larger than a megabyte, JSON or not', () => {
    const long = 'x'.repeat(megabyte);
    expect(read(`{"a":"${long}"}`).problem?.message).toMatch(/at most/);
    expect(read(`so: {"a":"${long}"}`).problem?.message).toMatch(/at most 1048576 characters/);
  });

  it('refuses what is nested too deep', () => {
    const nested = (levels: number): string => `{"a":${'['.repeat(levels)}${']'.repeat(levels)}}`;
    expect(read(nested(511)).rung).toBe('clean');
    expect(read(nested(512)).problem?.code).toBe('too-deep');
    expect(read(nested(100_000)).problem?.code).toBe('too-deep');
    expect(read(`so: ${nested(512)}`).problem?.message).toMatch(/at most 512 levels/);
  });

  it('says what is wrong, where, and no more than a handful', () => {
    const message = (text: string): string | undefined =>
      readAnswer(text, check, { finish: 'stop' }).problem?.message;
    expect(message('{"verdict":"maybe","rate":1e3,"reasons":{"x":1}}')).toBe(
      '/terms: expected a value, got nothing; /certainty: expected a value, got nothing; /shares: expected a value, ' +
        'got nothing; /verdict: expected one of "approve", "deny", got "maybe"; /rate: expected a number <= 30, got 1000; ' +
        'and 3 more',
    );
    expect(message('no')).toBe('expected a JSON object, got "no"');
    expect(message('[1]')).toBe('expected a JSON object, got an array of 1');
    expect(message('{"a": 1 b')).toBe(
      'expected a JSON object, and one breaks: expected "," or a closing bracket at offset 8, got "b"',
    );
  });

  it('hands on what it could read of an answer that failed', () => {
    const { rung, output, repairs } = readAnswer('```{"certainty": "85%", "rate": null,}```', check, {
      finish: 'stop',
    });
    expect(rung).toBe('failed');
    expect(output).toEqual({ certainty: 85, rate: null });
    expect(repairs.map(({ rule }) => rule)).toEqual(['fence', 'trailing-comma', 'fence', 'percent']);
  });

  it('keeps keys that JavaScript treats as special', () => {
    const text = '{"__proto__": {"a": 1}, "constructor": 2, "toString": null,}';
    const { output } = read(text);
    expect(JSON.stringify(output)).toBe('{"__proto__":{"a":1},"constructor":2,"toString":null}');
    expect(({} as { a?: number }).a).toBeUndefined();
  });
});
