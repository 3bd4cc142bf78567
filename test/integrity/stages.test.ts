/**
 * What the text stages promise of bytes from outside, 100,000 cases each (RUNS): they pass through the stages as these
 * run, not through their functions alone. What mending promises is in mending.test.ts.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Mark } from '../../engine/core/item/item.ts';
import { wrongShape } from '../../engine/core/item/line-shape.ts';
import { lossless } from '../../engine/core/json/lossless.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { brokenLine, bytes, sizes, validLine } from './lines.ts';
import { LONG, one, run, STAGES } from './placed.ts';
import { promises } from './property.ts';

describe('the text stages promise that', () => {
  it(
    'a valid line passes fix-escapes byte for byte',
    () =>
      promises(fc.tuple(validLine, sizes), async ([line, chunks]) => {
        const { lines } = await run(Buffer.from(`${line}\n`), 'fix-escapes', chunks);
        const [left] = lines.map(String);
        expect(left).toBe(line);
        expect(lines).toHaveLength(1);
      }),
    LONG,
  );

  it(
    'illegal escapes become parseable, and equal but for the mended backslashes',
    () =>
      promises(brokenLine, async line => {
        // the oracle: legal escapes as they are, an escaped apostrophe without its backslash, every other one doubled
        let mended = 0;
        const doubled = line.replace(/\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\'?/g, found => {
          if (found !== '\\' && found !== "\\'") return found;
          mended += 1;
          return found === '\\' ? '\\\\' : "'";
        });
        const out: JsonObject = JSON.parse(await one(line, 'fix-escapes'));
        const expected: JsonObject = JSON.parse(doubled);
        const loss = lossless(doubled);
        if (doubled === line) {
          expect(out).toEqual(expected);
        } else if (loss) expect(out).toMatchObject({ failure: { code: loss.code, text: line } });
        else if (Object.hasOwn(expected, '_fw') || isOdd(doubled)) {
          expect(out).toMatchObject({ failure: { code: 'not-json', text: line } });
        } else {
          const { _fw, ...rest } = out as JsonObject & { _fw: Mark };
          expect(rest).toEqual(expected);
          expect(_fw.rung).toBe('repaired');
          expect(_fw.repairs).toHaveLength(mended);
        }
      }),
    LONG,
  );

  it(
    'no stage throws on any bytes: each line in is one JSON line out, and what is no JSON is kept whole',
    () =>
      promises(
        fc.tuple(bytes, sizes, fc.constantFrom(...Object.keys(STAGES))),
        async ([input, chunks, stage]) => {
          const ran = await run(input, stage, chunks).catch((error: Error) => error);
          if (ran instanceof Error) {
            // a table, or one value over many lines, is refused as a whole, with what to do
            expect(ran.message).toMatch(
              /^stdin: expected (?:items, a JSON object a line, found what looks like |text in UTF-8, found )/,
            );
            return;
          }
          const { lines, read } = ran;
          for (const line of lines) expect(JSON.parse(line.toString())).toBeTypeOf('object');
          if (!stage.includes('--rung')) expect(lines).toHaveLength(read);
          // verify takes a whole document apart, so its lines are not those of the input
          const came = physical(input);
          if (!stage.startsWith('verify')) expect(read).toBe(came.length);
          if (stage === 'select') came.forEach((line, at) => void keeps(withoutMark(line), lines[at]!));
        },
      ),
    LONG,
  );
});

const isOdd = (line: string): boolean => wrongShape(JSON.parse(line)) !== null;

/** The lines of an input, found in another way than the reader does: as Latin-1, a character a byte. */
function physical(input: Buffer): Buffer[] {
  const [first = '', ...rest] = input.toString('latin1').split('\n');
  const isEmpty = (text: string): boolean => text === '' || text === '\r';
  const mark = first.startsWith('\xef\xbb\xbf') && isEmpty(first.slice(3));
  return [...(mark ? [] : [first]), ...rest]
    .filter(text => !isEmpty(text))
    .map(text => Buffer.from(text, 'latin1'));
}

const MARK = Buffer.from('\ufeff');
const withoutMark = (line: Buffer): Buffer => (line.subarray(0, 3).equals(MARK) ? line.subarray(3) : line);

/** Either the same bytes, or a failed line that holds them. */
function keeps(line: Buffer, left: Buffer): void {
  if (left.equals(line)) return;
  const { failure } = JSON.parse(left.toString());
  const held = Buffer.from(failure.base64 ?? failure.text, failure.base64 === undefined ? 'utf8' : 'base64');
  expect(withoutMark(held).toString('latin1')).toBe(line.toString('latin1'));
}
