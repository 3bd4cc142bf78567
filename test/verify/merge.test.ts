import { linkSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import _ from 'highland';
import { expect, test } from 'vitest';
import { Best } from '../../engine/audit/best.ts';
import { mergeFiles, mergeInto } from '../../engine/audit/merge-files.ts';
import { openLines, openResults } from '../../engine/core/files/line-places.ts';
import { originOf, textOf } from '../../engine/core/files/origin.ts';
import { newAccount } from '../../engine/core/item/account.ts';
import { type Item, RUNGS, rungOf } from '../../engine/core/item/item.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const at = folder();
const paths = { old: join(at, 'old'), new: join(at, 'new') };

async function merged(old: string, newer: string, signal = new AbortController().signal) {
  writeFileSync(paths.old, old);
  writeFileSync(paths.new, newer);
  const account = newAccount('merge');
  const stream = mergeFiles([paths.old, paths.new], {
    maxLine: 1 << 20,
    isRefused: () => false,
    signal,
    account,
  });
  const items = await new Promise<Item[]>((resolve, reject) => stream.stopOnError(reject).toArray(resolve));
  return { items, account };
}

/** The rule of merge, the slow way. */
function byHand(lines: string[]): string[] {
  const best = new Map<string, string>();
  for (const line of lines) {
    const { id } = JSON.parse(line);
    const before = best.get(id);
    const rank = (text: string): number => RUNGS.indexOf(rungOf(JSON.parse(text)));
    if (before === undefined || rank(line) <= rank(before)) best.set(id, line);
  }
  return [...best.values()];
}

const line = fc
  .record({
    id: fc.integer({ min: 0, max: 12 }),
    rung: fc.constantFrom(...RUNGS),
    pad: fc.string({ maxLength: 30 }),
  })
  .map(({ id, rung, pad }) => {
    const steps = [{ agent: 'a', output: { pad }, rung, saw: 'clean' }];
    return JSON.stringify({ id: `item ${id}`, prompt: '?', steps });
  });

test('the better rung stays, of equal ones the newer, and every line leaves as its own bytes', async () => {
  const property = fc.asyncProperty(
    fc.array(line, { maxLength: 30 }),
    fc.array(line, { maxLength: 30 }),
    fc.constantFrom('\n', '\n\n', '\r\n'),
    fc.boolean(),
    async (old, newer, between, hasLast) => {
      const text = (lines: string[]): string => lines.join(between) + (hasLast ? '\n' : '');
      const { items, account } = await merged(text(old), text(newer));
      const texts = items.map(item => textOf(originOf(item) as NonNullable<ReturnType<typeof originOf>>));
      expect(texts).toEqual(byHand([...old, ...newer]));
      // the lines that leave are counted by the flow
      expect(account.read + items.length).toBe(old.length + newer.length);
      expect(account.aside).toBe(account.read);
    },
  );
  await fc.assert(property, { seed: 20261120, numRuns: runs(40, 150) });
});

test('more ids than the first table holds, lines over many blocks, in another order', async () => {
  const ids = Array.from({ length: 5000 }, (_, index) => index);
  const lineOf = (id: number, tag: string): string =>
    JSON.stringify({
      id: `${id}`,
      prompt: '?',
      tag,
      steps: [{ agent: 'a', output: { x: 'é'.repeat(id % 400) }, rung: 'clean', saw: 'clean' }],
    });
  const old = ids.map(id => lineOf(id, 'old'));
  const newer = ids
    .filter(id => id % 3 === 0)
    .reverse()
    .map(id => lineOf(id, 'new'));
  const { items } = await merged(`${old.join('\n')}\n`, `${newer.join('\n')}\n`);
  expect(items.map(item => [item.id, item.tag])).toEqual(
    ids.map(id => [`${id}`, id % 3 === 0 ? 'new' : 'old']),
  );
});

test('a stop signal ends it', async () => {
  const stop = new AbortController();
  stop.abort();
  expect((await merged('{"id":"a","prompt":"?"}\n', '', stop.signal)).items).toEqual([]);
});

const results = fc.uniqueArray(
  fc.record({ row: fc.integer({ min: 1, max: 15 }), said: fc.string({ unit: 'grapheme', maxLength: 30 }) }),
  { maxLength: 12, selector: ({ row }) => row },
);
const resultOf = ({ row, said }: { row: number; said: string }) => ({
  conversation_history: [{ agent: 'a', output: { said } }],
  business_decision: { said },
  prompt_id: row,
  ordering: 'a',
});
const toLines = (all: object[]): string => all.map(each => `${JSON.stringify(each)}\n`).join('');

test('whole documents are merged as their lines would be, in whatever way they are printed', async () => {
  const property = fc.asyncProperty(results, results, fc.nat(3), async (old, newer, indent) => {
    const lines = await merged(toLines(old.map(resultOf)), toLines(newer.map(resultOf)));
    const document = { status: 'complete', results: old.map(resultOf) };
    const whole = await merged(JSON.stringify(document, null, indent), toLines(newer.map(resultOf)));
    const ofLines = old.length > 0 ? lines.items : [...whole.items.slice(0, 1), ...lines.items]; // says that it is empty
    expect(whole.items).toEqual(ofLines);
    const texts = whole.items.flatMap(item => originOf(item) ?? []).map(origin => textOf(origin));
    for (const text of texts) expect(text).not.toContain('\n');
  });
  await fc.assert(property, { seed: 20261120, numRuns: runs(40, 150) });
});

test('what comes as a flow takes the same places as from a file, and the account adds up', async () => {
  const property = fc.asyncProperty(
    fc.array(line, { maxLength: 30 }),
    fc.uniqueArray(line, { maxLength: 12, selector: text => JSON.parse(text).id }),
    async (old, newer) => {
      const { items: all } = await merged(old.join('\n'), newer.join('\n'));
      const account = newAccount('merge');
      const into = await mergeInto([paths.old], { maxLine: 1 << 20, isRefused: () => false, account });
      const flow = _(newer.map(text => JSON.parse(text) as Item));
      const out = await new Promise<Item[]>((resolve, reject) =>
        into(flow).stopOnError(reject).toArray(resolve),
      );
      const byId = (items: Item[]) =>
        [...items].sort((a, b) => ((a.id as string) < (b.id as string) ? -1 : 1));
      expect(byId(out)).toEqual(byId(all));
      // what comes is counted where it comes in
      expect(account.read + newer.length).toBe(out.length + account.aside);
    },
  );
  await fc.assert(property, { seed: 20261120, numRuns: runs(40, 150) });
});

/** Rows of tables that were changed in between: a few ids, each of one prompt or of several. */
const moved = fc.record({
  row: fc.integer({ min: 1, max: 4 }),
  prompt: fc.constantFrom('Ann?', 'Zoë 😀?', 'Zoe\u0308 😀?', ' Ann?'),
  form: fc.constantFrom('item', 'result'),
  said: fc.constantFrom('a', 'b'),
});
const movedLine = ({
  row,
  prompt,
  form,
  said,
}: {
  row: number;
  prompt: string;
  form: string;
  said: string;
}) =>
  JSON.stringify(
    form === 'item'
      ? { id: `item ${row}`, prompt, steps: [{ agent: 'a', output: { said }, rung: 'clean', saw: 'clean' }] }
      : { ...resultOf({ row, said }), initial_prompt: prompt },
  );
const keyOf = (line: Item): string => `${line.id ?? line.prompt_id} ${line.prompt ?? line.initial_prompt}`;

test.each(['files', 'a flow'])(
  'the answer to no prompt is lost to another of the same id, and both are named, from %s',
  async from => {
    const property = fc.asyncProperty(
      fc.array(moved, { maxLength: 12 }),
      fc.array(moved, { maxLength: 12 }),
      async (old, newer) => {
        const [before, after] = [old.map(movedLine), newer.map(movedLine)];
        let out: Item[];
        if (from === 'files') ({ items: out } = await merged(before.join('\n'), after.join('\n')));
        else {
          writeFileSync(paths.old, before.join('\n'));
          const options = { maxLine: 1 << 20, isRefused: () => false, account: newAccount('merge') };
          const into = await mergeInto([paths.old], options);
          const flow = _(after.map(text => JSON.parse(text) as Item));
          out = await new Promise((resolve, reject) => into(flow).stopOnError(reject).toArray(resolve));
        }
        const came = new Set([...before, ...after].map(text => keyOf(JSON.parse(text))));
        expect(new Set(out.map(keyOf))).toEqual(came);
        const unfailed = out.filter(({ failure }) => failure === undefined);
        const ids = unfailed.map(line => line.id ?? line.prompt_id);
        expect(new Set(ids).size).toBe(ids.length);
        for (const { failure } of out) {
          if (failure === undefined) continue;
          expect(failure.code).toBe('other-prompt');
          expect(failure.message).toMatch(
            /^expected the prompt of (?:\S+:\d+|what is merged into them), whose id (?:\S+:\d+|this line) has/,
          );
        }
      },
    );
    await fc.assert(property, { seed: 20261122, numRuns: runs(40, 150) });
  },
);

test('a file that shrinks while it is read ends it with 74, whenever that is', async () => {
  const long = Array.from({ length: 30_000 }, (_line, n) => `{"id":"${n}","prompt":"?"}\n`).join('');
  writeFileSync(paths.old, long);
  for (const open of [openLines, openResults]) {
    const file = open(paths.old, { stage: 'merge', maxLine: 1 << 20 });
    truncateSync(paths.old, 1000);
    expect(() => [...file.scan()]).toThrow(expect.objectContaining({ exit: 74 }));
    writeFileSync(paths.old, long);
  }
  writeFileSync(paths.new, '');
  const account = newAccount('merge');
  const { signal } = new AbortController();
  const stream = mergeFiles([paths.old, paths.new], {
    maxLine: 1 << 20,
    isRefused: () => false,
    signal,
    account,
  });
  let handed = 0;
  const error = await new Promise(resolve => {
    stream
      .map(item => {
        handed += 1;
        truncateSync(paths.old, 1000);
        return item;
      })
      .stopOnError(resolve)
      .done(() => resolve(null));
  });
  expect(error).toMatchObject({ exit: 74, message: expect.stringContaining('found it shorter') });
  expect(handed).toBeLessThan(30_000);
});

test('a line that is another one when it is read again ends it with 74', async () => {
  writeFileSync(paths.old, '{"id":"a","prompt":"?"}\n{"id":"b","prompt":"?"}\n');
  writeFileSync(paths.new, '');
  const options = { maxLine: 1 << 20, isRefused: () => false, account: newAccount('merge') };
  const into = await mergeInto([paths.old], options);
  writeFileSync(paths.old, '{"id":"a","prompt":"?"}\n{"id":"c","prompt":"?"}\n');
  const error = await new Promise(resolve => {
    into(_<Item>([]))
      .stopOnError(resolve)
      .done(() => resolve(null));
  });
  expect(error).toMatchObject({ exit: 74 });
});

test('of 70,000 files each is known by its own name', () => {
  const names = Array.from({ length: 70_000 }, (_name, n) => `file ${n}`);
  const best = new Best(names, () => 0);
  const place = { offset: 0, length: 1, number: 7 };
  for (const [which] of names.entries()) best.note(which, place, { id: `${which}`, prompt: '?' });
  expect(best.at(69_999).file).toBe(69_999);
  expect(best.note(0, place, { id: '69999', prompt: 'another' })).toEqual({ of: 'file 69999:7' });
  best.note(69_999, place, { id: '69999', prompt: '?' });
  expect(best.notes()).toContainEqual('ids more than once in file 69999: 1: 69999');
});

test('more files than may be open at once are merged', async () => {
  const cwd = folder();
  for (let n = 0; n < 300; n++)
    writeFileSync(
      join(cwd, `${n}.ndjson`),
      `{"id":"${n}","prompt":"?"}\n{"id":"all","prompt":"?","tag":${n}}\n`,
    );
  const { code, stdout, stderr } = await fw("ulimit -n 64; fw merge '*.ndjson' | sort", { cwd });
  expect(code, stderr).toBe(0);
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));
  expect(new Set(lines.map(({ id }) => id)).size).toBe(301);
  expect(lines).toHaveLength(301);
  expect(stderr).not.toContain('EMFILE');
});

test.each(['x.ndjson x.ndjson', 'x.ndjson ./x.ndjson', 'a.ndjson x.ndjson sub/../x.ndjson'])(
  'one file twice is refused: fw merge %s',
  async files => {
    const at = folder();
    for (const name of ['a.ndjson', 'x.ndjson']) writeFileSync(join(at, name), '{"id":"a","prompt":"?"}\n');
    const ran = await fw(`mkdir sub; fw merge ${files}`, { cwd: at });
    expect(ran.code).toBe(64);
    expect(ran.stderr).toMatch(/expected different files, found \S*x\.ndjson twice/);
  },
);

test.each(['fw merge', 'fw merge --old x.ndjson --old'])(
  '… by whatever link it is reached: %s',
  async command => {
    const at = folder();
    for (const name of ['a.ndjson', 'x.ndjson']) writeFileSync(join(at, name), '{"id":"a","prompt":"?"}\n');
    symlinkSync('x.ndjson', join(at, 'soft.ndjson'));
    linkSync(join(at, 'x.ndjson'), join(at, 'hard.ndjson'));
    symlinkSync('.', join(at, 'folder'));
    for (const name of ['soft.ndjson', 'hard.ndjson', 'folder/x.ndjson']) {
      const files = command.endsWith('--old') ? name : `x.ndjson a.ndjson ${name}`;
      const ran = await fw(`${command} ${files} < a.ndjson`, { cwd: at });
      expect(ran.stderr).toMatch(new RegExp(`found x\\.ndjson twice: ${name} is another name of it`));
      expect(ran.code).toBe(64);
    }
  },
);

test('chat messages are compared as prompts are', async () => {
  const asked = (content: string, rung: string): string =>
    `${JSON.stringify({ id: 'x', messages: [{ role: 'user', content }], steps: [{ agent: 'a', output: 'b', rung, saw: 'clean' }] })}\n`;
  const same = await merged(asked('one', 'repaired'), asked('one', 'clean'));
  expect(same.items.map(({ failure }) => failure?.code)).toEqual([undefined]);
  const other = await merged(asked('one', 'repaired'), asked('two', 'clean'));
  expect(other.items.map(({ failure }) => failure?.code)).toEqual([undefined, 'other-prompt']);
});
