/**
 * The report agrees with rates, ratios and z that were counted independently, on real tables. The tables are not ours to
 * ship: FW_DATA=folder npx vitest run test/study/real-data.test.ts runs it where somebody has them.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Report } from '../../products/report/report.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const DATA = process.env.FW_DATA ?? '';

interface Oracle {
  n: number;
  approved: number;
  rate: number;
  air: number;
  spd: number;
  z: number | null;
}
/** The name of an oracle is: file, outcome, column, reference. `of` makes the column where the file has none. */
interface Case {
  name: string;
  file: string;
  outcome: string;
  approve: string;
  /** where it is no opposite that everybody knows */
  deny?: string;
  group: string;
  reference: string;
  of?: (row: { [column: string]: string }) => string;
}
const CASES: Case[] = [
  {
    name: 'AER_HMDA.csv approve=(deny==no) by afam ref=no',
    file: 'AER_HMDA.csv',
    outcome: 'deny',
    approve: 'no',
    group: 'afam',
    reference: 'no',
  },
  {
    name: 'loanapp.csv approve by black/hispan/white ref=white',
    file: 'loanapp.csv',
    outcome: 'approve',
    approve: '1',
    group: 'race',
    reference: 'white',
    of: ({ black, hispan }) => (black === '1' ? 'black' : hispan === '1' ? 'hispan' : 'white'),
  },
  {
    name: 'loanapp.csv approve by male (blank dropped) ref=1',
    file: 'loanapp.csv',
    outcome: 'approve',
    approve: '1',
    group: 'male',
    reference: '1',
  },
  {
    name: 'hmda_dc_2023_derived.csv outcome by derived_race ref=White',
    file: 'hmda_dc_2023_derived.csv',
    outcome: 'outcome',
    approve: '1',
    group: 'derived_race',
    reference: 'White',
  },
  {
    name: 'hmda_dc_2023_derived.csv outcome by derived_sex ref=Male',
    file: 'hmda_dc_2023_derived.csv',
    outcome: 'outcome',
    approve: '1',
    group: 'derived_sex',
    reference: 'Male',
  },
  {
    name: 'german_credit_statlog.csv good=(Result==1) by sex (A92=female) ref=male',
    file: 'german_credit_statlog.csv',
    outcome: 'Result',
    approve: '1',
    deny: '2',
    group: 'sex',
    reference: 'male',
    of: row => (row.Personal_status === 'A92' ? 'female' : 'male'),
  },
  {
    name: 'german_credit_statlog.csv good by Age<=25 ref=>25',
    file: 'german_credit_statlog.csv',
    outcome: 'Result',
    approve: '1',
    deny: '2',
    group: 'young',
    reference: '>25',
    of: row => (Number(row.Age) <= 25 ? '<=25' : '>25'),
  },
];

test.runIf(existsSync(join(DATA, 'oracles.json')) && DATA !== '').each(CASES)('$name', async each => {
  const { name, file, outcome, approve, deny, group, reference, of } = each;
  const oracles: { [name: string]: { [value: string]: Oracle } } = JSON.parse(
    readFileSync(join(DATA, 'oracles.json'), 'utf8'),
  );
  const at = folder();
  const [header = '', ...rows] = readFileSync(join(DATA, file), 'utf8').trim().split(/\r?\n/);
  const columns = header.replaceAll('"', '').split(',');
  const withColumn = rows.map(row => {
    const fields = row.replaceAll('"', '').split(',');
    return `${row},${of?.(Object.fromEntries(columns.map((column, nth) => [column, fields[nth] ?? ''])))}`;
  });
  writeFileSync(
    join(at, file),
    of ? [`${header},${group}`, ...withColumn, ''].join('\n') : [header, ...rows, ''].join('\n'),
  );
  const line = `fw report ${file} --outcome ${outcome} --approve ${approve}${deny ? ` --deny ${deny}` : ''} --group ${group} --reference '${reference}' --json`;
  const { stdout, stderr } = await fw(line, { cwd: at });
  expect(stdout, stderr).not.toBe('');
  const { groups } = JSON.parse(stdout) as Report;
  const oracle = oracles[name] as { [value: string]: Oracle };
  const found = new Map(groups[0]?.rows.map(row => [row.value, row]));
  expect([...found.keys()].sort()).toEqual(Object.keys(oracle).sort());
  for (const [value, { n, approved, rate, air, spd, z }] of Object.entries(oracle)) {
    const row = found.get(value);
    expect([row?.n, row?.approved], value).toEqual([n, approved]);
    // the oracles have six decimals, of z four
    const off = [
      [row?.rate?.value, rate, 1e-6],
      [row?.ratio?.value ?? 1, air, 1e-6],
      [row?.difference?.value ?? 0, spd, 1e-6],
      [row?.z ?? 0, z ?? 0, 1e-4],
    ] as [number, number, number][];
    for (const [is, wanted, within] of off) expect(Math.abs(is - wanted), value).toBeLessThanOrEqual(within);
  }
});
