/** What a verdict says of the making of a result: only what stands beside it, of these very answers. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Item, Rung, Step } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { itemOf, withSaw } from './results.ts';

const RUNGS: Rung[] = ['clean', 'repaired', 'coerced', 'defaulted'];
const COUNT = 40;
const linesOf = (all: readonly unknown[]): string => all.map(line => `${JSON.stringify(line)}\n`).join('');
const read = (path: string): JsonObject[] =>
  readFileSync(join(at, path), 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));

/** Items of which every fourth is on each rung, by one step. */
const items = Array.from({ length: COUNT }, (_, i): Item => {
  const item = itemOf(i);
  const rung = RUNGS[i % 4] as Rung;
  return withSaw({
    ...item,
    steps: item.steps?.map((step, nth) => (nth === i % 3 ? { ...step, rung } : step)) as Step[],
  });
});
const ALL = '--accept clean,repaired,coerced,unknown,defaulted';
const KNOWN = 'in 40 = 10 clean + 10 repaired + 10 coerced + 10 defaulted + 0 failed';
const UNKNOWN = 'in 40 = 0 clean + 0 repaired + 0 coerced + 40 unknown + 0 defaulted + 0 failed';

let at: string;
const run = (line: string) => fw(line, { cwd: at });
beforeEach(async () => {
  at = folder();
  writeFileSync(join(at, 'items.ndjson'), linesOf(items));
  const made = await run(`fw legacy-convert ${ALL} --provenance how.ndjson items.ndjson > out.jsonl`);
  expect(made.code, made.stderr).toBe(0);
});

test('without a word of it every result is unknown: it passes, and no --accept that does not name it lets it', async () => {
  for (const accept of ['', '--accept clean,unknown', ALL]) {
    const { code, stderr } = await run(`fw verify ${accept} out.jsonl`);
    expect(stderr).toContain(UNKNOWN);
    expect(code).toBe(0);
  }
  for (const accept of ['clean', 'clean,repaired,coerced', 'clean,repaired,coerced,defaulted']) {
    const { code, stderr } = await run(`fw verify --accept ${accept} out.jsonl`);
    expect(stderr).toContain('40 failed');
    expect(stderr).toContain(
      `/_fw/rung: expected one of ${accept.replaceAll(',', ', ')} (--accept), got "unknown"`,
    );
    expect(code).toBe(1);
  }
  const piped = await run(
    'fw validate < out.jsonl | fw null-fix | fw verify --expect 40 --report report.json',
  );
  expect([piped.code, piped.stderr]).toEqual([0, expect.stringContaining(UNKNOWN)]);
  const report = JSON.parse(readFileSync(join(at, 'report.json'), 'utf8'));
  expect(report).toMatchObject({ in: 40, clean: 0, unknown: 40, failed: 0, ok: true });
});

describe('with a file of provenance', () => {
  test('beside the results, or named, the real rung counts, in whatever order its lines are', async () => {
    const how = read('how.ndjson');
    writeFileSync(join(at, 'shuffled.ndjson'), linesOf([{ other: 1 }, ...how.toReversed()]));
    const named = await run(`fw verify ${ALL} --provenance shuffled.ndjson < out.jsonl`);
    expect([named.code, named.stderr]).toEqual([0, expect.stringContaining(KNOWN)]);
    await run('cp shuffled.ndjson out.provenance.ndjson');
    for (const verb of ['verify', 'validate', 'select']) {
      const { stderr } = await run(`fw ${verb} ${verb === 'verify' ? ALL : ''} out.jsonl`);
      expect(stderr).toContain(KNOWN);
    }
    const clean = await run("fw select --rung clean 'out*' | wc -l");
    expect(clean.stdout.trim()).toBe('10');
    const merged = await run('fw merge --old out.jsonl out.jsonl');
    expect(merged.stderr).toContain('10 clean + 10 repaired + 10 coerced + 10 defaulted');
    const back = await run('fw ingest --format legacy out.jsonl | jq -c .steps[].repairs[]');
    expect(back.stdout).not.toContain('read-back');
  });

  test.each([
    [
      'of other results',
      (how: JsonObject[]) => how.map(line => ({ ...line, prompt_id: 9000 + Number(line.prompt_id) })),
    ],
    [
      'of an older run with the same ids',
      (how: JsonObject[]) => how.map(line => ({ ...line, sha256: 'f'.repeat(64) })),
    ],
    [
      'of version 0.1.0, which named no answers',
      (how: JsonObject[]) => how.map(({ sha256: _, ...line }) => line),
    ],
    ['whose rungs are none', (how: JsonObject[]) => how.map(line => ({ ...line, rung: 'best' }))],
    [
      'whose answers failed',
      (how: JsonObject[]) =>
        how.map(line => ({
          ...line,
          agents: (line.agents as JsonObject[]).map(agent => ({ ...agent, rung: 'failed' })),
        })),
    ],
    [
      'with each hash at another result',
      (how: JsonObject[]) => how.map((line, i) => ({ ...line, sha256: how[(i + 1) % how.length]?.sha256 })),
    ],
    [
      'of hostile lines',
      () => [
        { agents: [null], ordering: 'x', sha256: 7 },
        { agents: {}, rung: 'clean' },
        { agents: [], ordering: 'a', rung: 'clean', sha256: 'x' },
      ],
    ],
  ])('%s nothing is believed', async (_name, damage) => {
    writeFileSync(join(at, 'out.provenance.ndjson'), linesOf(damage(read('how.ndjson'))));
    const { code, stderr } = await run(`fw verify ${ALL} out.jsonl`);
    expect(stderr).toContain(UNKNOWN);
    expect(code).toBe(0);
  });

  test('lines and documents of one name have each their own, and what was written before is found', async () => {
    const stages = (document: boolean): string =>
      `stages:\n  - legacy-convert: { document: ${document}, accept: [${RUNGS.join(', ')}] }\noutput: all.jsonl\n`;
    writeFileSync(join(at, 'lines.yaml'), stages(false));
    writeFileSync(join(at, 'document.yaml'), stages(true));
    await run('head -20 items.ndjson > some.ndjson');
    const made = await run('fw run lines.yaml items.ndjson; fw run document.yaml some.ndjson; ls all*');
    expect(made.stdout.trim().split('\n')).toEqual([
      'all.json',
      'all.json.provenance.ndjson',
      'all.jsonl',
      'all.jsonl.provenance.ndjson',
    ]);
    expect((await run(`fw verify ${ALL} all.jsonl`)).stderr).toContain(KNOWN);
    const some = 'in 20 = 5 clean + 5 repaired + 5 coerced + 5 defaulted + 0 failed';
    expect((await run(`fw verify ${ALL} all.json`)).stderr).toContain(some);
    await run('rm *.provenance.ndjson; cp how.ndjson all.provenance.ndjson');
    expect((await run(`fw verify ${ALL} all.jsonl`)).stderr).toContain(KNOWN);
    expect((await run(`fw verify ${ALL} all.json`)).stderr).toContain(some);
    // a whole name is believed before the older one
    await run('head -4 how.ndjson > all.jsonl.provenance.ndjson');
    expect((await run(`fw verify ${ALL} all.jsonl`)).stderr).toContain('36 unknown');
  });

  test.each(['out.jsonl.provenance.ndjson', 'out.provenance.ndjson'])(
    'in a list of files %s is read with its results, and alone it is refused',
    async beside => {
      await run(`mkdir in; cp out.jsonl in; cp how.ndjson in/${beside}`);
      for (const paths of ['in/*', "'in/*'", `in/${beside} ./in/out.jsonl`]) {
        for (const verb of [`verify ${ALL}`, 'validate', 'select', 'ingest --format legacy'])
          expect((await run(`fw ${verb} ${paths}`)).stderr, `${verb} ${paths}`).toContain(KNOWN);
        const merged = await run(`fw merge ${paths} out.jsonl | wc -l`);
        expect(merged.stdout.trim(), merged.stderr).toBe(String(COUNT));
        const told = await run(`fw explain 10/ ${paths} --value /business_decision/approval_decision`);
        expect(told.stdout, told.stderr).toMatch(/yes: business_decision said this/);
      }
      writeFileSync(join(at, 'p.yaml'), 'stages:\n  - select: {}\n');
      for (const line of ['fw verify', 'fw validate', 'fw merge --old how.ndjson', 'fw run p.yaml']) {
        const alone = await run(`${line} in/*.provenance.ndjson`);
        expect(alone.code, alone.stderr).toBe(65);
        expect(alone.stderr).toContain('expected results, found only the provenance file beside them');
      }
    },
  );

  test('a missing line leaves its result unknown, and a result that was changed since', async () => {
    writeFileSync(join(at, 'out.provenance.ndjson'), linesOf(read('how.ndjson').slice(4)));
    const out = read('out.jsonl');
    const changed = out.map((line, i) =>
      i === 39 ? { ...line, initial_prompt: `${line.initial_prompt} ` } : line,
    );
    writeFileSync(join(at, 'out.jsonl'), linesOf(changed));
    const { stderr } = await run(`fw verify ${ALL} out.jsonl`);
    expect(stderr).toContain('in 40 = 9 clean + 9 repaired + 9 coerced + 5 unknown + 8 defaulted + 0 failed');
    expect(stderr).toContain(
      'results that do not match their line of provenance: 1; those lines were ignored',
    );
  });

  describe('that is named, of other answers', () => {
    test('each result that it has with other answers is refused, and counted', async () => {
      const edited = items.map((item, i) => (i % 10 === 0 ? { ...item, prompt: `${item.prompt} ` } : item));
      writeFileSync(join(at, 'others.ndjson'), linesOf(edited));
      await run(`fw legacy-convert ${ALL} --provenance others.how.ndjson others.ndjson > others.jsonl`);
      const { code, stderr } = await run(
        `cat out.jsonl > piped.jsonl; fw verify ${ALL} --provenance others.how.ndjson piped.jsonl`,
      );
      expect(code).toBe(1);
      expect(stderr).toContain('refused: 4 other answers than its provenance');
      expect(stderr).toContain('legacy results: 36 accepted, 4 refused');
    });

    test('one of results that are not there at all is said', async () => {
      const moved = read('how.ndjson').map(line => ({ ...line, prompt_id: Number(line.prompt_id) + 9000 }));
      writeFileSync(join(at, 'moved.ndjson'), linesOf(moved));
      const line = `cp out.jsonl piped.jsonl; fw verify ${ALL} --provenance moved.ndjson piped.jsonl`;
      const { code, stderr } = await run(line);
      expect(code).toBe(1);
      expect(stderr).toContain('--provenance: expected lines of these results, found lines of others only');
    });

    test('results that a stage has changed since say so themselves', async () => {
      const marked = read('out.jsonl').map(line => ({
        ...line,
        initial_prompt: `${line.initial_prompt}!`,
        _fw: { rung: 'coerced', repairs: [] },
      }));
      const kept = linesOf([...marked.slice(0, 3), ...read('out.jsonl').slice(3)]);
      writeFileSync(join(at, 'piped.jsonl'), kept);
      const { stderr } = await run(`fw verify ${ALL} --provenance how.ndjson piped.jsonl`);
      expect(stderr).not.toContain('other answers than its provenance');
    });
  });

  test('documents and lines, printed in any way, are known by their answers', async () => {
    await run(
      'cp how.ndjson doc.provenance.ndjson; jq -s "{results: ., status: \\"complete\\"}" out.jsonl > doc.json',
    );
    const { stderr } = await run(`fw verify ${ALL} doc.json`);
    expect(stderr).toContain(KNOWN);
    const both = await run(`fw verify ${ALL} --provenance how.ndjson items.ndjson doc.json`);
    expect(both.stderr).toContain('in 80 = 20 clean + 20 repaired + 20 coerced + 20 defaulted + 0 failed');
  });
});

test('fw run writes it beside each output, and a merge keeps what the old files had', async () => {
  writeFileSync(
    join(at, 'convert.yaml'),
    `input: items.ndjson\nstages:\n  - legacy-convert: { accept: [clean, repaired, coerced, unknown, defaulted] }\noutput: "made/{ordering}_legacy.jsonl"\n`,
  );
  const made = await run('fw run convert.yaml');
  expect(made.code, made.stderr).toBe(0);
  const verified = await run(`fw verify ${ALL} --expect 40 'made/*'`);
  expect([verified.code, verified.stderr]).toEqual([0, expect.stringContaining(KNOWN)]);
  writeFileSync(
    join(at, 'merge.yaml'),
    `input: new.ndjson\nstages:\n  - legacy-convert: {}\n  - merge: { old: ["made/*_legacy.jsonl"] }\noutput: "made/{ordering}_legacy.jsonl"\n`,
  );
  writeFileSync(join(at, 'new.ndjson'), linesOf([itemOf(3)]));
  const again = await run('fw run merge.yaml');
  expect(again.code, again.stderr).toBe(0);
  const all = await run(`fw verify ${ALL} --expect 40 'made/*'`);
  expect(all.stderr).toContain('in 40 = 11 clean + 10 repaired + 10 coerced + 9 defaulted + 0 failed');
  const pipeline = join(ROOT, 'pipelines/fairwatch/revalidate.yaml');
  await run(`fw run ${pipeline} 'made/*_legacy.jsonl' --output again.jsonl`);
  const revalidated = await run(`fw verify --accept clean,repaired,coerced again.jsonl`);
  expect(revalidated.stderr).toContain('11 clean + 10 repaired + 10 coerced');
});
