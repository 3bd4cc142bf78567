/** What mending promises, 100,000 cases each (RUNS): once is enough, and the entries lead back to what came in. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyEdits, editsOf, undoEdits } from '../../engine/answers/entries.ts';
import { standsAsText } from '../../engine/audit/recheck.ts';
import { type Item, isItem, type Mark, type Repair, type Step } from '../../engine/core/item/item.ts';
import { type JsonObject, parsePointer, setAt } from '../../engine/core/json/pointer.ts';
import { brokenLine, item, record } from './lines.ts';
import { LONG, mending, one } from './placed.ts';
import { promises } from './property.ts';

describe('fix-escapes, validate and null-fix promise that', () => {
  it(
    'repairing twice is repairing once',
    () =>
      promises(fc.tuple(fc.oneof(brokenLine, record, item), mending), async ([line, stage]) => {
        const once = await one(line, stage);
        expect(await one(once, stage)).toBe(once);
      }),
    LONG,
  );

  it(
    'undoing the entries restores what came in',
    () =>
      promises(fc.tuple(fc.oneof(brokenLine, record, item), mending), async ([line, stage]) => {
        const left = await one(line, stage);
        if (left === line) return;
        const before = parsed(line);
        const out: Item = JSON.parse(left);
        const kept = out.failure?.text;
        if (typeof kept === 'string' && kept !== before?.failure?.text) {
          // what could not be rewritten without a loss is held whole
          expect(kept.trimEnd()).toBe(line.trimEnd());
        } else if (before === undefined || standsAsText(before)) {
          restoresText(before?.failure?.text ?? line, left, out);
        } else if (isItem(before)) restoresSteps(before, out);
        else restoresValues(before, out);
      }),
    LONG,
  );
});

const parsed = (line: string): Item | undefined => {
  try {
    return JSON.parse(line) as Item;
  } catch {
    return undefined;
  }
};

/** The mark stands behind the other bytes of the line, and its entries lead back to the line as it came. */
function restoresText(line: string, left: string, { _fw }: JsonObject): void {
  const mark = `,"_fw":${JSON.stringify(_fw)}}`;
  expect(left.endsWith(mark)).toBe(true);
  const mended = `${left.slice(0, -mark.length)}}`;
  expect(undoEdits(mended, editsOf((_fw as Mark).repairs))).toBe(line.trimEnd());
}

function restoresValues(before: Item, out: Item): void {
  const { _fw: mark, failure: _failure, ...value } = before as Item & { _fw?: Mark };
  const { _fw, failure: _after, ...left } = out as Item & { _fw?: Mark };
  const earlier = Array.isArray(mark?.repairs) ? mark.repairs.length : 0;
  expect(undone(left, (_fw?.repairs ?? []).slice(earlier))).toEqual(value);
}

function restoresSteps(before: Item, out: Item): void {
  const { steps = [], decision, failure: _failure, ...rest } = before;
  const { steps: mended = [], decision: decided, failure: _after, ...left } = out;
  expect(left).toEqual(rest);
  if (!Array.isArray(steps)) return void expect(mended).toEqual(steps);
  expect(mended).toHaveLength(steps.length);
  for (const [index, step] of [...steps, decision].entries()) {
    restoresStep(step, index < steps.length ? mended[index] : decided);
  }
}

function restoresStep(before: Step | undefined, after: Step | undefined): void {
  const earlier = Array.isArray(before?.repairs) ? before.repairs.length : 0;
  if (JSON.stringify(after) === JSON.stringify(before)) return;
  const isUnknown = before?.raw === undefined && before?.sha256 === undefined;
  if (after?.repairs && after.raw === undefined && isUnknown && before?.output !== undefined) {
    // without a text and without its hash the model's is not known, and none is made up
    return void expect(undone(after.output, after.repairs.slice(earlier))).toEqual(before.output);
  }
  if (after?.raw === undefined) return void expect(after).toEqual(before);
  const { raw, output, repairs = [] } = before as Step;
  const added = after.repairs.slice(output === undefined ? 0 : repairs.length);
  const edits = editsOf(added);
  expect(after.raw).toBe(raw ?? JSON.stringify(output));
  const text = output === undefined ? applyEdits(after.raw, edits) : JSON.stringify(output);
  if (output === undefined) expect(undoEdits(text, edits)).toBe(raw);
  expect(
    undone(
      after.output,
      added.filter(({ at }) => at !== undefined),
    ),
  ).toEqual(JSON.parse(text));
}

function undone(value: unknown, repairs: readonly Repair[]): unknown {
  return repairs.reduceRight<unknown>((left, { at, from }) => setAt(left, parsePointer(at!), from), value);
}
