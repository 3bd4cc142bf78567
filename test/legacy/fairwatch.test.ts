/**
 * Legacy files made with the real commands, held to the written list of what FairWatch's scripts read (docs/legacy.md) by
 * a script that shares no code with fw; and that script, held to finding what is wrong.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';
import { applicantIn, findIn, findInApplicant, writtenList } from './fairwatch.ts';

type Table = { [column: string]: string }[];

const list = writtenList(readFileSync(join(ROOT, 'docs/legacy.md'), 'utf8'));
const PIPELINES = join(ROOT, 'pipelines/fairwatch');
const at = folder();
let calm: Servers;
let rows: Table;

const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;
function writeTable(path: string, table: Table, columns: readonly string[]): void {
  const lines = table.map(row => columns.map(column => quoted(row[column] ?? '')).join(','));
  writeFileSync(join(at, path), `${[columns.join(','), ...lines].join('\n')}\n`);
}
const filesIn = (path: string, ending: string): string[] =>
  readdirSync(join(at, path))
    .filter(name => name.endsWith(ending))
    .sort();
const read = (path: string): string => readFileSync(join(at, path), 'utf8');
const resultsOf = (path: string): JsonObject[] =>
  path.endsWith('.json')
    ? JSON.parse(read(path)).results
    : read(path)
        .split('\n')
        .filter(Boolean)
        .map(line => JSON.parse(line));

/** Whether each result has the row of the table that its prompt_id says; empty fields of a table are empty text. */
function expectApplicants(results: readonly JsonObject[]): void {
  for (const result of results) {
    const applicant = applicantIn(result) as JsonObject;
    expect(findInApplicant(applicant, list)).toEqual([]);
    const { prompt: _prompt, ...row } = rows[(result.prompt_id as number) - 1] as Table[number];
    expect(
      Object.fromEntries(Object.entries(applicant).map(([column, value]) => [column, String(value)])),
    ).toEqual(row);
  }
}

beforeAll(async () => {
  calm = await servers(2);
  rows = parse(readFileSync(join(ROOT, 'fixtures/applications-60.csv')), { columns: true }).slice(
    0,
    6,
  ) as Table;
  Object.assign(rows[0] as object, { name: 'Zoë "Z" O\'Hara, 李 🦊', visa_status: 'a\\b\n"c"' });
  Object.assign(rows[1] as object, { age: '', country: '' });
  const columns = Object.keys(rows[0] as object);
  writeTable('prompts.csv', rows, columns);
  writeTable(
    'noprompts.csv',
    rows,
    columns.filter(column => column !== 'prompt'),
  );
});

const batch = (table: string, more = ''): string =>
  `fw run ${PIPELINES}/batch.yaml ${table} ${calm.flags} --set ingest.orderings=batch4 ${more}`;

describe('their scripts read all of it', () => {
  test('documents of the twelve orderings, from a table without prompts: the applicants too', async () => {
    const ran = await fw(
      batch(
        'noprompts.csv',
        '--set legacy-convert.document=true --set legacy-convert.provenance=out/how.ndjson',
      ),
      { cwd: at },
    );
    expect(ran.code, ran.stderr).toBe(0);
    const files = filesIn('out', '_legacy.json');
    expect(files).toHaveLength(12);
    expect(filesIn('out', '.jsonl')).toEqual([]);
    for (const file of files) {
      expect(findIn(file, read(`out/${file}`), list)).toEqual([]);
      expect(JSON.parse(read(`out/${file}`)).metadata.model).toBe('simulated-3b');
      expectApplicants(resultsOf(`out/${file}`));
    }
    // the model had spelled some in another way, or there would be nothing to see here
    const entries = read('out/how.ndjson').match(/"rule":"agent-name","at":"\/agent_name"/g) ?? [];
    expect(entries.length).toBeGreaterThan(10);
    const verified = await fw("fw verify --expect 72 'out/*_legacy.json'", { cwd: at });
    expect(verified.code, verified.stderr).toBe(0);
  });

  test('lines of the same, and lines and documents of one run are the same results', async () => {
    const ran = await fw(batch('noprompts.csv', "--output 'lines/sequential_{ordering}_legacy.jsonl'"), {
      cwd: at,
    });
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stderr).toContain(' 0 calls'); // all answers are in the ledger
    const files = filesIn('lines', '_legacy.jsonl');
    expect(files).toHaveLength(12);
    for (const file of files) {
      expect(findIn(file, read(`lines/${file}`), list)).toEqual([]);
      const lines = resultsOf(`lines/${file}`);
      expectApplicants(lines);
      const timeless = (results: readonly JsonObject[]): unknown[] =>
        results
          .map(({ timestamp: _timestamp, ...result }) => result)
          .sort((a, b) => Number(a.prompt_id) - Number(b.prompt_id));
      expect(timeless(lines)).toEqual(timeless(resultsOf(`out/${file.replace('.jsonl', '.json')}`)));
    }
  });

  test('a document of a pipe, from a table with prompts: what was asked is the prompt, and they find no applicant in it', async () => {
    mkdirSync(join(at, 'pipe'));
    const name = 'pipe/sequential_risk_data_regulatory_consumer_legacy.json';
    const ran = await fw(
      `cat prompts.csv | fw ingest | fw chain ${calm.flags} | fw legacy --document --model simulated-3b > ${name}`,
      { cwd: at },
    );
    expect(ran.code, ran.stderr).toBe(0);
    expect(findIn(name, read(name), list)).toEqual([]);
    for (const result of resultsOf(name)) {
      expect(result.initial_prompt).toBe(rows[(result.prompt_id as number) - 1]?.prompt);
      expect(applicantIn(result)).toBeNull();
    }
  });
});

describe('the script that reads', () => {
  const file = 'sequential_risk_data_consumer_regulatory_legacy.json';
  const found = (change: (document: JsonObject) => void): string[] => {
    const document = JSON.parse(read(`out/${file}`));
    change(document);
    return findIn(file, JSON.stringify(document), list);
  };
  /** The object that holds the first value of a field, and its key there. */
  const holderOf = (document: JsonObject, field: string): [JsonObject, string] => {
    const steps = field.split('.');
    const last = steps.pop() as string;
    const holder = steps.reduce<unknown>((value, step) => {
      const below = (value as JsonObject)[step.replace('[]', '')];
      return step.endsWith('[]') ? (below as unknown[])[0] : below;
    }, document);
    return [holder as JsonObject, last];
  };

  test.each(list.fields.map(({ field }) => field))('misses %s, and sees another type there', field => {
    const wrong: readonly unknown[] = [null, -1, '', [], {}, true];
    const changes = [(holder: JsonObject, key: string) => delete holder[key]];
    for (const value of wrong)
      changes.push((holder, key) => {
        holder[key] = value;
        return true;
      });
    for (const change of changes) {
      expect(
        found(document => void change(...holderOf(document, field))),
        field,
      ).not.toEqual([]);
    }
  });

  interface Result {
    all_agent_outputs: JsonObject[];
    business_decision: { reasoning: JsonObject; agent_influence: { regulatory_weight: number } };
    timestamp: string;
  }
  interface Document extends JsonObject {
    metadata: JsonObject;
    results: [Result, ...Result[]];
  }
  const damages: { [what: string]: (document: Document) => unknown } = {
    'another order': ({ results }) => results.reverse(),
    'a result less': ({ results }) => results.pop(),
    'another ordering': ({ metadata }) => Object.assign(metadata, { ordering: 'risk_manager,data_science' }),
    'an agent under the name of another': ({ results: [{ all_agent_outputs: outputs }] }) =>
      Object.assign(outputs[0] as JsonObject, { agent_name: 'Regulatory' }),
    'a display name where the own name belongs': ({ results: [{ all_agent_outputs: outputs }] }) =>
      Object.assign(outputs[3] as JsonObject, { agent_name: 'Regulatory Compliance' }),
    'the text of an error': ({ results: [{ business_decision: decision }] }) =>
      Object.assign(decision.reasoning, { risk_assessment: 'System Error' }),
    'weights that make 1.02': ({ results: [{ business_decision: decision }] }) => {
      decision.agent_influence.regulatory_weight += 0.02;
    },
    'a time with a zone': ({ results: [result] }) => {
      result.timestamp += 'Z';
    },
  };

  test.each(Object.entries(damages))('sees %s', (_what, change) => {
    expect(found(() => {})).toEqual([]);
    expect(found(document => void change(document as Document))).not.toEqual([]);
  });
});

test('the list names the agents as the packaged folder has them', async () => {
  for (const { key, short, name, display } of list.agents) {
    const file = readFileSync(join(PIPELINES, `agents/${key}.yaml`), 'utf8');
    const said = (field: string): string | undefined =>
      new RegExp(`^${field}: ([^#\\n]*)`, 'm').exec(file)?.[1]?.trim();
    expect([said('short'), said('agent_name') ?? said('display'), said('display')]).toEqual([
      short,
      name,
      display,
    ]);
  }
});
