/**
 * init: a folder to begin with, for the rows that come with it or for a table of the user's.
 *
 *   fw init desk --from tickets.csv && cd desk && make try
 */
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { encodingNamed } from '../../engine/core/files/decoded.ts';
import { dataError, EXIT, ioError, usageError } from '../../engine/core/item/failure.ts';
import { counted } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { COMMON } from '../../engine/flow/join.ts';
import { lookAtTable, quotedNames } from '../../engine/tables/look.ts';
import { type Files, filesOf, fitTo, ownTable, STARTERS } from '../starters.ts';

export default command({
  name: 'init',
  summary: 'Create a starter folder: agents, a schema, a template, a pipeline, and sample rows.',
  positional: 'FOLDER',
  examples: [
    'fw init desk',
    'fw init desk --from tickets.csv',
    'fw init facts --starter extract --from mails.csv',
    'fw init french --starter translate --from texts.csv',
  ],
  options: {
    starter: {
      type: 'string',
      enum: STARTERS,
      default: 'classify',
      description:
        'Kind of task: a category for each row (classify), facts from each row (extract), several agents (chain), or a new text for each row (translate).',
    },
    from: {
      type: 'string',
      file: 'read',
      description: 'Your table (CSV, TSV, JSON, NDJSON or Parquet), read in place. Default: ten sample rows.',
    },
    encoding: {
      type: 'string',
      description: 'Encoding of that table, e.g. utf-16le or windows-1252. Default: UTF-8.',
    },
  },

  async run({ starter, from, encoding }, [folder, ...more]) {
    if (folder === undefined || more.length > 0) {
      const found = folder === undefined ? 'none' : `also ${visible(more.join(' '))}`;
      throw usageError(`expected one folder to make, found ${found}: fw init FOLDER [--from TABLE]`);
    }
    refuseUsed(folder);
    const made = filesOf(starter);
    const { files, said } =
      from === undefined
        ? { files: made, said: `Its table is ${ownTable(made)}, with ten rows; --from FILE takes yours.` }
        : await fitted(made, folder, { from, encoding });
    write(folder, files);
    process.stdout.write(`${page(folder, files, said)}\n`);
    return EXIT.ok;
  },
});

/** Exit 64 where the folder holds anything, or is none. */
function refuseUsed(folder: string): void {
  const stat = statSync(folder, { throwIfNoEntry: false });
  if (stat === undefined) return;
  const holds = stat.isDirectory() ? readdirSync(folder) : undefined;
  if (holds?.length === 0) return;
  const found =
    holds === undefined ? 'a file' : `${counted(holds.length, 'file')} in it, such as ${holds[0]}`;
  throw usageError(`expected a folder that is new or empty, found ${visible(found)}: ${visible(folder)}`);
}

async function fitted(
  made: Files,
  folder: string,
  { from, encoding }: { from: string; encoding: string | undefined },
) {
  if (existsSync(from) && !statSync(from).isFile())
    throw dataError(`--from: expected a regular file, found something else: ${from}`);
  if (encoding !== undefined) encodingNamed(encoding);
  const look = await lookAtTable(from, { maxLine: COMMON['max-line'].default, encoding });
  const path = isAbsolute(from) ? from : relative(resolve(folder), resolve(from));
  const { files, id } = fitTo(made, { path, encoding }, look);
  const bad = look.rows.filter(({ trouble }) => trouble);
  const said = [
    `Its table is ${path}, with ${counted(look.columns.length, 'column')}${between(look.delimiter)}: ${quotedNames(look.columns)}.`,
    id === undefined
      ? `The id of a row is a hash of it. If a column names the rows, such as '${look.columns[0]}', pipeline.yaml may say so: ingest: { id: ${look.columns[0]}, … }`
      : `The id of a row is its column '${id}'.`,
    `${made.has('answer.schema.json') ? 'agents/ and answer.schema.json still speak' : 'agents/ still speaks'} of the rows that come with fw: say there what yours are.`,
  ];
  if (bad.length > 0) {
    const { line, trouble } = bad[0]!;
    said.push(
      `Of its first ${look.rows.length} rows, ${bad.length} do not fit its header, and will be failed items; line ${line}: ${trouble?.message}.`,
    );
  }
  return { files, said: said.join('\n') };
}

const between = (delimiter: string | undefined): string =>
  delimiter === undefined ? '' : ` (between them ${delimiter === '\\t' ? 'a tab' : `'${delimiter}'`})`;

/** Exit 74 where a file cannot be written; none is written over. */
function write(folder: string, files: Files): void {
  for (const [path, text] of files) {
    const to = join(folder, path);
    try {
      mkdirSync(dirname(to), { recursive: true });
      writeFileSync(to, text, { flag: 'wx' });
    } catch (error) {
      throw ioError(`expected to write ${to}, found ${(error as NodeJS.ErrnoException).code}`);
    }
  }
}

function page(folder: string, files: Files, said: string): string {
  const shown = [...files.keys()].filter(path => !path.startsWith('.')).sort();
  return visibleLinesOf(`Made ${folder}: ${shown.join(', ')}.
${said}

  cd ${folder}
  make try                                                   on a simulated server: no GPU, no model
  fw run pipeline.yaml --dry-run                             the first prompt; asks nothing
  fw run pipeline.yaml --endpoint http://gpu1:8005/v1        on your server, or name it in pool.yaml`);
}

const visibleLinesOf = (text: string): string => text.split('\n').map(visible).join('\n');
