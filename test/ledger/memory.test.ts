/** What `fw ledger` holds in memory does not grow with the ledger: each verb reads more than its heap could hold. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { keyOf } from '../../engine/asking/agents/request-body.ts';
import { callLine, idOfText } from '../../engine/asking/ledger/ledger-format.ts';
import { slow } from '../all.ts';
import { folder, shell } from '../fw.ts';
import { sealed } from './reading.ts';
import { recordOf } from './records.ts';

const CALLS = 30_000;
/** MiB that the texts of a process may take, of a ledger of some 130 */
const HEAP = 48;

function largeLedger(path: string): void {
  const file = openSync(path, 'wx');
  const { head, tail } = recordOf();
  const texts = [head, tail].map(text => `{"text":"${idOfText(text)}","content":${JSON.stringify(text)}}`);
  const header =
    '{"fw":"ledger 1","version":"0","started":"2026-01-01T00:00:00.000Z","host":"h","pid":1,"label":"chain","files":[],"model":"m","endpoints":["http://gpu1:8005/v1"]}';
  const lines = [header, ...texts].map(sealed);
  for (let n = 0; n < CALLS; n++) {
    const item = `item-${n >> 2}`;
    const record = recordOf({
      says: `${n} ${'of a long prompt '.repeat(120)}`,
      answer: 'an answer '.repeat(200),
      item,
    });
    const { agent, round, attempt, body } = record;
    const key = keyOf(body.toString(), { id: item, agent, round, attempt });
    const { before, bytes, after } = callLine({ ...record, key }, idOfText(head), idOfText(tail));
    lines.push(sealed(`${before}${bytes}${after}}`));
    lines.push(sealed(`{"verdict":"clean","key":"${key}"}`));
    if (lines.length > 1_000) writeSync(file, `${lines.splice(0).join('\n')}\n`);
  }
  writeSync(file, `${lines.join('\n')}\n`);
  closeSync(file);
}

slow(
  `${CALLS} calls by every verb in a heap of ${HEAP} MiB`,
  async () => {
    const at = folder();
    largeLedger(join(at, 'large.ndjson'));
    const fw = (verb: string) =>
      shell(`fw ledger ${verb} --ledger large.ndjson | tail -c 200000`, {
        cwd: at,
        env: { NODE_OPTIONS: `--max-old-space-size=${HEAP}` },
      });
    for (const verb of [
      'ls',
      'check',
      'check --read-data',
      'cost',
      'show item-5',
      'export',
      'repair --out new',
    ]) {
      const ran = await fw(verb);
      expect(ran, `${verb}: ${ran.stderr}`).toMatchObject({ code: 0, stderr: '' });
    }
    const { stdout } = await shell(
      `fw ledger export --ledger large.ndjson | wc -l; fw ledger check --read-data --ledger new`,
      { cwd: at },
    );
    expect(stdout).toMatch(new RegExp(`^${CALLS}\n`));
    expect(stdout).toContain(`keys that fit their requests ${CALLS / 1_000},000 ·`);
  },
  240_000,
);
