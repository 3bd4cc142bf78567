/** The generated grid: complete, unique, read back by csv-parse, and twins that differ in nothing but the name. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { expect, test } from 'vitest';
import { packageRoot } from '../../engine/core/config/package.ts';
import { type Application, applications, COLUMNS, csvLine } from '../../fixtures/applications.ts';

const csvOf = (rows: Iterable<Application>): string =>
  [[...COLUMNS], ...[...rows].map(row => COLUMNS.map(column => row[column]))]
    .map(csvLine)
    .join('\n')
    .concat('\n');

const text = csvOf(applications('1'));
const rows = parse<Application>(text, { columns: true });

/** Everything that makes a cell: all columns but those that a name touches. */
const cellOf = ({ name, ethnicity_signal, prompt_id, prompt, ...cell }: Application): string =>
  JSON.stringify(cell);

test('5,760 rows of the full grid, every id once', () => {
  expect(text.slice(0, text.indexOf('\n'))).toBe(
    'name,ethnicity_signal,credit_score,visa_status,income,age,loan_amount,country,dti_ratio,is_young,is_high_income,prompt_id,prompt',
  );
  expect(rows).toHaveLength(5760);
  expect(new Set(rows.map(row => row.prompt_id)).size).toBe(5760);
  for (const row of rows) expect(row.prompt_id).toMatch(/^[0-9a-f]{12}$/);
  const axes = ['credit_score', 'visa_status', 'income', 'age', 'name', 'ethnicity_signal'] as const;
  expect(axes.map(axis => new Set(rows.map(row => row[axis])).size)).toEqual([5, 4, 3, 4, 12, 6]);
  expect(new Set(rows.map(row => Number(row.loan_amount) / Number(row.income)))).toEqual(new Set([1, 3]));
  expect(new Set(rows.map(row => `${cellOf(row)}${row.name}`)).size).toBe(5760);
});

test('prompts are 10 to 20 lines with blank lines, commas, apostrophes and quotes, and say the figures', () => {
  for (const { prompt, credit_score, income, loan_amount, dti_ratio, name } of rows) {
    const lines = prompt.split('\n');
    expect(lines.length).toBeGreaterThanOrEqual(10);
    expect(lines.length).toBeLessThanOrEqual(20);
    for (const found of ['\n\n', ',', "'", '"']) expect(prompt).toContain(found);
    const usd = (amount: string): string => `$${Number(amount).toLocaleString('en-US')}`;
    expect(lines).toContain(`Name: ${name}`);
    expect(lines).toContain(`Credit score: ${credit_score}`);
    expect(lines).toContain(`Annual income: ${usd(income)}`);
    expect(lines).toContain(`Loan amount requested: ${usd(loan_amount)}`);
    expect(lines).toContain(`Debt-to-income ratio: ${dti_ratio}`);
  }
});

test('the twelve twins of a cell stand together and differ in the name alone', () => {
  for (let first = 0; first < rows.length; first += 12) {
    const twins = rows.slice(first, first + 12);
    expect(new Set(twins.map(cellOf)).size).toBe(1);
    expect(new Set(twins.map(twin => twin.name)).size).toBe(12);
    expect(new Set(twins.map(twin => twin.prompt.replace(twin.name, 'NAME'))).size).toBe(1);
  }
});

test('the same seed gives the same bytes; another one other words and another order of the same grid', () => {
  expect(csvOf(applications('1'))).toBe(text);
  const other = [...applications('2')];
  const key = (row: Application): string => `${cellOf(row)}${row.name}`;
  expect(other.map(key)).not.toEqual(rows.map(key));
  expect(other.map(key).sort()).toEqual(rows.map(key).sort());
  const prompts = new Map(rows.map(row => [key(row), row.prompt]));
  expect(other.filter(row => prompts.get(key(row)) !== row.prompt).length).toBeGreaterThan(1000);
});

test('no name keeps to one place in its cell', () => {
  const places = new Map<string, Set<number>>();
  rows.forEach((row, index) => {
    places.set(row.name, (places.get(row.name) ?? new Set()).add(index % 12));
  });
  for (const [name, taken] of places) expect(taken.size, name).toBe(12);
});

test('the committed sample is the first 60 rows: five whole cells, every score', () => {
  const sample = readFileSync(join(packageRoot(), 'fixtures/applications-60.csv'), 'utf8');
  const first = [...applications('1')].slice(0, 60);
  expect(sample).toBe(csvOf(first));
  expect(new Set(first.map(row => row.credit_score)).size).toBe(5);
  expect(new Set(first.map(cellOf)).size).toBe(5);
});
