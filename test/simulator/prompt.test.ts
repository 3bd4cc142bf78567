/** Prompts as the prefix cache sees them, and presets as data. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PRESETS, presetFrom, presetNamed } from '../../products/simulator/presets.ts';
import { promptOf, promptTokensOf } from '../../products/simulator/tokens.ts';
import { ROOT } from '../fw.ts';

const messages = (system: string, user: string) => [
  { role: 'system', content: system },
  { role: 'user', content: user },
];
const blocksOf = (system: string, user: string) => {
  const { blocks } = promptOf(messages(system, user));
  return Array.from(
    { length: blocks.length / 2 },
    (_, index) => `${blocks[2 * index]} ${blocks[2 * index + 1]}`,
  );
};

describe('promptOf', () => {
  test('counts tokens as usage does, and has a hash for each whole block', () => {
    fc.assert(
      fc.property(
        fc.string({ maxLength: 300 }),
        fc.string({ maxLength: 900, unit: 'binary' }),
        (system, user) => {
          const { tokens, blocks } = promptOf(messages(system, user));
          expect(tokens).toBe(promptTokensOf(messages(system, user)));
          expect(blocks.length).toBe(2 * Math.floor(tokens / 16));
        },
      ),
    );
  });

  test('texts share the blocks before the first character that differs, and none after', () => {
    const text = fc.string({ minLength: 1, maxLength: 600 });
    fc.assert(
      fc.property(text, text, text, fc.nat(), (system, user, rest, place) => {
        const at = place % user.length;
        const other = `${user.slice(0, at)}${user[at] === 'x' ? 'y' : 'x'}${user.slice(at + 1)}${rest}`;
        const [one, two] = [blocksOf(system, user), blocksOf(system, other)];
        // four tokens before each text, four characters a token, sixteen tokens a block
        const token = 4 + Math.ceil(system.length / 4) + 4 + Math.floor(at / 4);
        const shared = Math.min(Math.floor(token / 16), one.length, two.length);
        expect(two.slice(0, shared)).toEqual(one.slice(0, shared));
        const after = new Set(one.slice(shared));
        expect(two.slice(shared).some(block => after.has(block))).toBe(false);
      }),
    );
  });

  test('a text longer than what is read at once', () => {
    const text = Array.from({ length: 20_000 }, (_, index) => `${index} `).join('');
    const at = 100_000;
    const [one, two] = [blocksOf('', text), blocksOf('', `${text.slice(0, at)}x${text.slice(at + 1)}`)];
    expect(new Set(one).size).toBe(one.length);
    // eight tokens of templates stand before the text
    const differs = Math.floor((8 + at / 4) / 16);
    expect(one.map((block, index) => block !== two[index])).toEqual(one.map((_, index) => index >= differs));
    expect(blocksOf('', text.slice(0, 70_000)).slice(0, 1_090)).toEqual(one.slice(0, 1_090));
  });

  test('roles and the border between two messages count', () => {
    const content = 'x'.repeat(100);
    const [first] = blocksOf(content, '');
    expect(promptOf([{ role: 'user', content }]).blocks[0]).not.toBe(Number(first!.split(' ')[0]));
    const whole = promptOf([{ role: 'system', content: content.repeat(2) }]).blocks.slice(0, 14);
    const parted = promptOf(messages(content, content)).blocks.slice(0, 14);
    expect(whole.slice(0, 2)).toEqual(parted.slice(0, 2));
    expect(whole).not.toEqual(parted);
  });

  test('no two of twenty thousand like prompts have a block in common', () => {
    const seen = new Set<string>();
    for (let number = 0; number < 20_000; number++)
      seen.add(blocksOf(`${number}`, 'the same text, '.repeat(6))[0]!);
    expect(seen.size).toBe(20_000);
  });
});

describe('presets', () => {
  test('every file is listed under its name, and none else', () => {
    const files = readdirSync(join(ROOT, 'products/simulator/presets')).map(file =>
      file.replace('.json', ''),
    );
    expect(PRESETS.map(preset => preset.name).sort()).toEqual(files.sort());
  });

  test.each(PRESETS.map(preset => preset.name))('%s is one', name => {
    const preset = presetNamed(name);
    expect(preset.limits.maxNumBatchedTokens).toBeGreaterThanOrEqual(preset.limits.maxNumSeqs);
    expect(preset.file.basis).toMatch(/^\[(measured|fitted|scaled)\] /);
  });

  test('an unknown name and a wrong file are refused', () => {
    expect(() => presetNamed('70b-toaster')).toThrow(
      /expected a preset among 3b-a100-80g,.* found "70b-toaster"/,
    );
    expect(() => presetFrom({ ...PRESETS[0], weights_ms: -1 }, 'my.json')).toThrow(
      /my\.json: expected a preset, found: it\/weights_ms must be > 0/,
    );
  });
});
