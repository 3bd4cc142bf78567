/** What stands beside the results of `fw run` says of each how it was made, whatever the results are written as. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';

const CSV = join(ROOT, 'fixtures/applications-60.csv');
const PIPELINES = join(ROOT, 'pipelines/fairwatch');

const calm = await servers(1);
const faulty = await servers(1, { faults: 'chatty=0.1,null=0.05,truncated=0.05' });

describe.each(['document', 'lines'])('as %s', kind => {
  const as = kind === 'document' ? '--set legacy-convert.document=true' : '';
  const results = kind === 'document' ? 'out/*_legacy.json' : 'out/*_legacy.jsonl';

  test.each([
    ['a file for each ordering', ''],
    ['one file', "--output 'out/all_legacy.jsonl'"],
  ])('%s: every rung is known, also after a recovery', async (_name, output) => {
    const cwd = folder();
    const isOne = output !== '';
    const file = isOne && kind === 'document' ? output.replace('jsonl', 'json') : output;
    const run = (what: string) => fw(what, { cwd });
    const ran = await run(
      `fw run ${PIPELINES}/batch.yaml ${CSV} ${faulty.flags} --limit 24 --set ingest.orderings=risk,data --set chain.attempts=1 ${as} ${file}`,
    );
    expect(ran.code, ran.stderr).toBe(1);
    const before = provenanceIn(cwd);
    const made = sumsOf((await run(`fw verify '${results}'`)).stderr);
    expect(made.unknown, JSON.stringify(made)).toBe(0);
    expect(before.size).toBe((made.clean ?? 0) + (made.repaired ?? 0) + (made.coerced ?? 0));
    expect(before.size).toBeGreaterThan(5);
    expect(before.size).toBeLessThan(24);

    const old = isOne ? `--set 'merge.old=${results}'` : '';
    const again = await run(`fw run ${PIPELINES}/recover.yaml ${calm.flags} ${as} ${old} ${file}`);
    expect(again.code, again.stderr).toBe(0);
    const verified = await run(`fw verify --expect 24 '${results}'`);
    expect(verified.code, verified.stderr).toBe(0);
    expect(sumsOf(verified.stderr)).toMatchObject({ in: 24, unknown: 0 });
    const after = provenanceIn(cwd);
    expect(after.size).toBe(24);
    for (const [name, line] of before) expect(after.get(name)).toBe(line);
  });
});

/** The lines beside all results, by the result that they are of. */
function provenanceIn(cwd: string): Map<string, string> {
  const names = readdirSync(join(cwd, 'out')).filter(name => name.endsWith('.provenance.ndjson'));
  const lines = names.flatMap(name =>
    readFileSync(join(cwd, 'out', name), 'utf8')
      .trimEnd()
      .split('\n'),
  );
  return new Map(
    lines.map(line => {
      const { prompt_id, ordering }: JsonObject = JSON.parse(line);
      return [`${prompt_id}/${ordering}`, line];
    }),
  );
}

/** `in 60 = 50 clean + … ` of the closing line, by name; what it does not name is 0. */
function sumsOf(stderr: string): Record<string, number> {
  const [, read = '', sums = ''] = /in ([\d,]+) = (.*)/.exec(stderr) ?? [];
  const parts = [...sums.matchAll(/([\d,]+) (\w+)/g)].map(([, count = '', rung = '']) => [rung, count]);
  const all = [['unknown', '0'], ['in', read], ...parts];
  return Object.fromEntries(all.map(([name = '', count = '']) => [name, Number(count.replaceAll(',', ''))]));
}
