/** fw init and fw demo: what a new user begins with. test/package runs the starters from the packed package. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { filesOf, STARTERS } from '../../bin/starters.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';

const COLUMNS = `Ticket ID;Kunde;text;"a ""b"""\n`;
const TABLE = `${COLUMNS}7;Meier;"Es brennt;\nsofort";x\n8;Kurz;"Danke, schön";y\n`;

/** A folder with a table, and what `fw init desk` says there. */
async function initWith(table: string | Buffer, options = '', name = 'rows.csv') {
  const at = folder();
  writeFileSync(join(at, name), table);
  const ran = await fw(`fw init desk --from ${name} ${options}`, { cwd: at });
  return { ...ran, at, read: (path: string) => readFileSync(join(at, 'desk', path), 'utf8') };
}

test('the starters are the folders of pipelines/starters', () => {
  const folders = readdirSync(join(ROOT, 'pipelines', 'starters')).filter(name => name !== 'common');
  expect(folders.sort()).toEqual([...STARTERS].sort());
});

describe.each(STARTERS)('%s', starter => {
  test('makes a folder whose pipeline is ready, with ten rows', async () => {
    const at = folder();
    expect(await fw(`fw init desk --starter ${starter}`, { cwd: at })).toMatchObject({ code: 0, stderr: '' });
    const { code, stdout } = await fw('fw run pipeline.yaml --dry-run', { cwd: join(at, 'desk') });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^items +10$/m);
    expect(stdout).toMatch(/^output +out\/answers.ndjson$/m);
  });

  test('names a schema in each file of YAML, which is there', async () => {
    const at = folder();
    await fw(`fw init desk --starter ${starter}`, { cwd: at });
    for (const path of [...filesOf(starter).keys()].filter(path => path.endsWith('.yaml'))) {
      const file = join(at, 'desk', path);
      const [, schema = ''] =
        /^# yaml-language-server: \$schema=(\S+)\n/.exec(readFileSync(file, 'utf8')) ?? [];
      expect(existsSync(join(file, '..', schema)), path).toBe(true);
    }
  });
});

describe('with a table of the user’s', () => {
  test('finds the delimiter and the column of the id, and the template has the columns', async () => {
    const { code, stdout, at, read } = await initWith(TABLE);
    expect(code).toBe(0);
    expect(stdout).toContain("with 4 columns (between them ';')");
    expect(stdout).toContain("The id of a row is its column 'Ticket ID'.");
    expect(read('pipeline.yaml')).toContain(
      "ingest: { template: prompt.liquid, delimiter: ';', id: Ticket ID }",
    );
    expect(existsSync(join(at, 'desk', 'tickets.csv'))).toBe(false);
    const dry = await fw('fw run pipeline.yaml --dry-run', { cwd: join(at, 'desk') });
    expect(dry.stdout).toContain('Ticket ID: 7\nKunde: Meier\ntext: Es brennt;\nsofort\na "b": x\n');
    expect(dry.stdout).toMatch(/^items +2$/m);
  });

  test.each([
    ['a tab', 'id\ttext\n1\ta, b\n', "delimiter: '\\t'"],
    ['a bar', 'id|text\n1|a, b\n', "delimiter: '|'"],
    ['a comma, though there are more semicolons', 'id,text\n1,a;b;c\n2,d;e;f\n', 'template: prompt.liquid }'],
    ['no delimiter', 'text\nhello\n', 'template: prompt.liquid }'],
  ])('%s', async (_, table, line) => {
    const { code, read } = await initWith(table);
    expect(code).toBe(0);
    expect(read('pipeline.yaml')).toContain(line);
  });

  test('a column that is called prompt is the prompt', async () => {
    const { read } = await initWith('id,prompt,text\n1,What?,x\n');
    expect(read('prompt.liquid')).toMatch(/endcomment -%}\n{{ prompt }}\n$/);
  });

  test('names that no template can hold leave the whole row', async () => {
    const { read } = await initWith('id,"a }} b"\n1,x\n');
    expect(read('prompt.liquid')).toMatch(/endcomment -%}\n{% row_as_json %}\n$/);
  });

  test('NDJSON is a table too', async () => {
    const { at, code } = await initWith('{"id":"1","text":"a"}\n{"id":"2","text":"b"}\n', '', 'rows.ndjson');
    expect(code).toBe(0);
    const dry = await fw('fw run pipeline.yaml --dry-run', { cwd: join(at, 'desk') });
    expect(dry.stdout).toContain('id: 1\ntext: a\n');
  });

  test('where rows have no value for a column, the template takes an empty text', async () => {
    const { at, read } = await initWith('{"id":"1","ok":true}\n{"id":"2","ok":null}\n', '', 'rows.ndjson');
    expect(read('prompt.liquid')).toContain('ok: {{ ok | default: "" }}\n');
    const ran = await fw('fw ingest --template desk/prompt.liquid rows.ndjson', { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
  });

  test('text in another encoding, where it is said', async () => {
    const table = Buffer.from('id;text\n1;Grüße\n', 'latin1');
    const { at, read } = await initWith(table, '--encoding windows-1252');
    expect(read('pipeline.yaml')).toContain("encoding: windows-1252, delimiter: ';'");
    const dry = await fw('fw run pipeline.yaml --dry-run', { cwd: join(at, 'desk') });
    expect(dry.stdout).toContain('text: Grüße\n');
  });

  test.each([
    ['nothing', '', 'found nothing: it is empty'],
    ['an archive', Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0, 0]), 'found xz, which is compressed'],
    ['bytes', Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\rIHDR', 'latin1'), 'found bytes of a binary file'],
    ['a header alone', 'id,text\n', 'expected rows under the header, found none'],
    ['prose', 'Dear all, we have, at last, met.\nYours\nMe\n', 'no row that fits its header'],
    ['items of fw', '{"id":"1","prompt":"p","steps":[]}\n', 'found items of fw'],
  ])('%s is refused, and nothing is made', async (what, table, message) => {
    const name = what === 'items of fw' ? 'rows.ndjson' : 'rows.csv';
    const { code, stderr, at } = await initWith(table, '', name);
    expect(code).toBe(65);
    expect(stderr).toContain(message);
    expect(existsSync(join(at, 'desk'))).toBe(false);
  });

  test('says which rows do not fit', async () => {
    const { stdout } = await initWith('id,text\n1,a\n2\n3,c\n');
    expect(stdout).toContain(
      'Of its first 3 rows, 1 do not fit its header, and will be failed items; line 3:',
    );
  });
});

test('a folder that holds something, or a file, is left alone', async () => {
  const at = folder();
  mkdirSync(join(at, 'desk'));
  writeFileSync(join(at, 'desk', '.hidden'), 'x');
  writeFileSync(join(at, 'file'), 'x');
  for (const name of ['desk', 'file', 'file/in']) {
    const { code, stderr } = await fw(`fw init ${name}`, { cwd: at });
    expect([code, stderr.split(':')[0]]).toEqual([name === 'file/in' ? 74 : 64, 'fw init']);
  }
  expect(readdirSync(join(at, 'desk'))).toEqual(['.hidden']);
});

test('fw demo answers for sixty rows, says what to look at, and a second one asks nothing', async () => {
  const at = folder();
  const first = await fw('fw demo', { cwd: at });
  expect(first.code, first.stderr).toBe(0);
  expect(first.stderr).toContain('in 60 = ');
  const [, explain = ''] = /^ {2}(fw explain .*?) {2}/m.exec(first.stdout) ?? [];
  const told = await fw(explain, { cwd: at });
  expect(told.code, explain).toBe(0);
  expect(told.stdout).toContain('repaired');
  const again = await fw('fw demo', { cwd: at });
  expect(again.stderr).toContain('0 calls');
  writeFileSync(join(at, 'fw-demo', 'applications.csv'), 'mine');
  expect(await fw('fw demo', { cwd: at })).toMatchObject({ code: 64 });
});
