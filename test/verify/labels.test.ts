/** What a file says of its results, by its name or in the metadata of a document, is held against them. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const OWN = 'risk_manager,data_science,regulatory,consumer_advocate';
const OTHER = 'data_science,risk_manager,regulatory,consumer_advocate';

const results = async (): Promise<object[]> => {
  const { stdout } = await fw('fw legacy-convert fixtures/decided.ndjson');
  return stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
};

const document = (results: object[], ordering: unknown): string =>
  JSON.stringify({ metadata: { model: 'm', ordering, count: results.length }, results, status: 'complete' });

test.each<[string, unknown, boolean]>([
  ['results.json', OWN, true],
  ['results.json', undefined, true],
  ['results.json', 'mixed', true],
  ['results.json', 'unknown', true],
  ['results.json', 'an order of ours', true],
  ['results.json', 7, true],
  ['results.json', 'risk,data,regulatory,consumer', true],
  ['results.json', 'Risk Manager -> Data Science -> Regulatory Compliance -> Consumer Advocate', true],
  ['sequential_risk_data_regulatory_consumer_legacy.json', undefined, true],
  ['sequential_whole_legacy.json', undefined, true],
  ['results.json', OTHER, false],
  ['results.json', 'data,risk,regulatory,consumer', false],
  ['sequential_data_risk_regulatory_consumer_legacy.json', undefined, false],
  ['sequential_data_risk_regulatory_consumer_legacy.json', OWN, false],
  ['sequential_risk_data_regulatory_consumer_legacy.json', OTHER, false],
])('%s, whose metadata say %j: %j', async (name, ordering, isRight) => {
  const at = folder();
  writeFileSync(join(at, name), document(await results(), ordering));
  const { code, stderr } = await fw(`fw verify ${name}`, { cwd: at });
  expect(code, stderr).toBe(isRight ? 0 : 1);
  expect(stderr.includes('refused: 1 ordering'), stderr).toBe(!isRight);
});

test('lines in a file of another ordering are refused by name', async () => {
  const at = folder();
  const name = 'sequential_data_risk_regulatory_consumer_legacy.jsonl';
  const line = JSON.stringify((await results())[0]);
  writeFileSync(join(at, name), `${line}\n`);
  const { code, stdout } = await fw(`fw verify --pass ${name}`, { cwd: at });
  expect(code).toBe(1);
  expect(JSON.parse(stdout).failure.message).toContain(
    `/ordering: expected ${OTHER}, as in the name of its file, ${name}, got "${OWN}"`,
  );
});

test('documents end to end have a label each', async () => {
  const at = folder();
  const all = await results();
  writeFileSync(join(at, 'both.json'), document(all, OWN) + document(all, OTHER));
  const { code, stderr } = await fw('fw verify both.json', { cwd: at });
  expect(code).toBe(1);
  expect(stderr).toContain('1 accepted, 1 refused');
});
