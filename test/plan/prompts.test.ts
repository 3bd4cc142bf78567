/** Prompts of a plan have the tokens of the simulator's, and share the blocks that those share. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BLOCK, prefixOf, promptAfter, promptOf, promptTokensOf } from '../../products/simulator/tokens.ts';

const unit = fc.constantFrom(...'abcd \n"\\', '\u2028', 'é', '😀', '\u0001');
const words = fc.string({ unit, maxLength: 400, size: 'max' });
const roles = ['user', 'assistant'];
const messagesOf = (turns: readonly string[]) =>
  turns.map((content, index) => ({ role: roles[index % 2] as string, content }));

/** A prompt as a plan makes it: the system message read before. */
function planned(system: string, turns: readonly string[], shared?: number, charactersPerToken = 4) {
  const prefix = prefixOf([{ role: 'system', content: system }], charactersPerToken);
  return promptAfter(prefix, messagesOf(turns), charactersPerToken, shared);
}

function simulated(system: string, turns: readonly string[]) {
  return promptOf([{ role: 'system', content: system }, ...messagesOf(turns)]);
}

function sharedBlocks(a: Int32Array, b: Int32Array): number {
  let block = 0;
  while (
    2 * block < Math.min(a.length, b.length) &&
    a[2 * block] === b[2 * block] &&
    a[2 * block + 1] === b[2 * block + 1]
  )
    block++;
  return block;
}

test('tokens and shared blocks are those of the simulator', () => {
  const pair = fc.record({
    system: words,
    begin: words,
    ends: fc.tuple(words, words),
    answers: fc.tuple(fc.array(words, { maxLength: 2 }), fc.array(words, { maxLength: 2 })),
  });
  let shared = 0;
  fc.assert(
    fc.property(pair, ({ system, begin, ends, answers }) => {
      const [first, second] = ends.map((end, at) => [`${begin}${end}`, ...(answers[at] as string[])]);
      const mine = [planned(system, first as string[]), planned(system, second as string[])] as const;
      const theirs = [simulated(system, first as string[]), simulated(system, second as string[])] as const;
      for (const at of [0, 1] as const) {
        expect(mine[at].tokens).toBe(theirs[at].tokens);
        expect(mine[at].blocks.length).toBe(theirs[at].blocks.length);
      }
      const both = sharedBlocks(theirs[0].blocks, theirs[1].blocks);
      expect(sharedBlocks(mine[0].blocks, mine[1].blocks)).toBe(both);
      shared += both;
    }),
    { numRuns: 500 },
  );
  // otherwise this test would have shown little
  expect(shared).toBeGreaterThan(1_000);
});

test('behind what prompts can have in common nothing is hashed, and all before it is', () => {
  fc.assert(
    fc.property(words, words, fc.nat(400), (system, turn, shared) => {
      const whole = planned(system, [turn]);
      const bounded = planned(system, [turn], shared);
      expect(bounded.tokens).toBe(whole.tokens);
      expect(whole.blocks.slice(0, bounded.blocks.length)).toEqual(bounded.blocks);
      // every block that ends within the shared characters is there
      const common = planned(system, [turn.slice(0, shared)]);
      const certain = Math.floor(
        (promptTokensOf([
          { role: '', content: system },
          { role: '', content: '' },
        ]) -
          3 +
          Math.floor(Math.min(shared, turn.length) / 4)) /
          BLOCK,
      );
      expect(bounded.blocks.length / 2).toBeGreaterThanOrEqual(Math.min(certain, common.blocks.length / 2));
    }),
  );
});

test('with any number of characters a token, what two prompts share is the blocks before the first that differs', () => {
  const perToken = fc.double({ min: 0.3, max: 12, noNaN: true });
  fc.assert(
    fc.property(words, words, words, perToken, (begin, one, two, charactersPerToken) => {
      const texts = [`${begin}<${one}`, `${begin}>${two}`] as const;
      const [first, second] = texts.map(text => planned('', [text], undefined, charactersPerToken).blocks);
      let whole = 0;
      // eight tokens of templates stand before the text
      while (Math.ceil((BLOCK * (whole + 1) - 8) * charactersPerToken) <= begin.length) whole++;
      expect(sharedBlocks(first as Int32Array, second as Int32Array)).toBe(whole);
    }),
    { numRuns: 500 },
  );
});

test('a token may have any number of characters', () => {
  const text = 'x'.repeat(1_000);
  expect(planned('', [text], undefined, 4).tokens).toBe(3 + 8 + 250);
  expect(planned('', [text], undefined, 3.2).tokens).toBe(3 + 8 + 313);
});
