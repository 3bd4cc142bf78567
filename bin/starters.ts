/**
 * The folders that `fw init` makes: pipelines/starters/, which the build puts into one file of the package, and how one
 * of them is fitted to a table of the user's.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Scalar } from 'yaml';
import { library, packageRoot } from '../engine/core/config/package.ts';
import type { Look } from '../engine/tables/look.ts';

export const STARTERS = ['classify', 'extract', 'chain', 'translate'] as const;
type Starter = (typeof STARTERS)[number];

/** Texts by their paths in the folder. */
export type Files = Map<string, string>;

/** The files of a starter and those that all have, with the schemas that its YAML names for editors. */
export function filesOf(starter: Starter): Files {
  const all: Record<string, Record<string, string>> = JSON.parse(
    readFileSync(join(packageRoot(), 'dist', 'starters.json'), 'utf8'),
  );
  const files: Files = new Map();
  for (const [path, text] of Object.entries({ ...all.common, ...all[starter] })) {
    const up = '../'.repeat(path.split('/').length - 1);
    const own = text.replace(/\$schema=(?:\.\.\/)+schemas\/(\S+)/, (_, name: string) => {
      files.set(`.schemas/${name}`, readFileSync(join(packageRoot(), 'schemas', name), 'utf8'));
      return `$schema=${up || './'}.schemas/${name}`;
    });
    files.set(path === 'gitignore' ? '.gitignore' : path, own);
  }
  return files;
}

/** The table that comes with a starter. */
export function ownTable(files: Files): string {
  return [...files.keys()].find(path => path.endsWith('.csv')) as string;
}

/** The same starter for the table at `path`, as seen from the folder: its pipeline reads it, its template has the columns. */
export function fitTo(
  files: Files,
  { path, encoding }: { path: string; encoding: string | undefined },
  look: Look,
): { files: Files; id: string | undefined } {
  const id = idColumn(look);
  const fitted = new Map(files);
  fitted.delete(ownTable(files));
  fitted.set('prompt.liquid', templateOf(look, files.get('prompt.liquid') as string));
  const { isMap, parseDocument } = library('yaml');
  const document = parseDocument(files.get('pipeline.yaml') as string);
  document.set('input', path);
  const ingest = document.getIn(['stages', 0, 'ingest']);
  if (!isMap(ingest)) throw new Error('a starter without ingest at its beginning');
  if (encoding !== undefined) ingest.set('encoding', encoding);
  if (look.delimiter !== undefined) ingest.set('delimiter', quoted(look.delimiter));
  if (id !== undefined && id !== 'id' && id !== 'prompt_id') ingest.set('id', id); // which it takes by itself
  fitted.set('pipeline.yaml', document.toString({ lineWidth: 0, flowCollectionPadding: true }));
  return { files: fitted, id };
}

function quoted(text: string): Scalar {
  const { Scalar } = library('yaml');
  const scalar = new Scalar(text);
  scalar.type = Scalar.QUOTE_SINGLE; // where a backslash is one
  return scalar;
}

/** The column that names a row, by its name and its values: none of the first rows has one that another has. */
function idColumn({ columns, rows }: Look): string | undefined {
  const named = ['id', 'prompt_id'].find(name => columns.includes(name));
  if (named !== undefined) return named;
  return columns.find((name, at) => {
    if (!/(?:^|[\s_.-])(?:id|key|number|nr|no)\.?$/i.test(name) && !/[a-z]I[Dd]$/.test(name)) return false;
    const texts = rows.flatMap(({ fields }) => fields?.[at] ?? []);
    return (
      texts.length > 0 && texts.every(text => text.trim() !== '') && new Set(texts).size === texts.length
    );
  });
}

/**
 * A line for each column under the comment of the starter's own; the prompt alone where there is one; the row as JSON
 * where a template cannot have such a name. Where some row lacks a column (a null of JSON or Parquet is no value), any may.
 */
function templateOf({ columns, rows }: Look, own: string): string {
  const [comment = ''] = /^.*?endcomment -%}\n/s.exec(own) ?? [];
  if (columns.includes('prompt')) return `${comment}{{ prompt }}\n`;
  const mayLack = rows.some(row => !row.trouble && row.columns.length < columns.length);
  const lines = columns.map(name => {
    const variable = variableOf(name);
    return variable === null
      ? null
      : `${name.replace(/[\s:]+$/, '')}: {{ ${variable}${mayLack ? ' | default: ""' : ''} }}`;
  });
  return `${comment}${lines.includes(null) ? '{% row_as_json %}' : lines.join('\n')}\n`;
}

const WORDS = new Set(['true', 'false', 'nil', 'null', 'empty', 'blank', 'and', 'or', 'not', 'contains']);

/** How a template names a column: as it is, or in quotes; null where no quotes hold it. */
function variableOf(name: string): string | null {
  if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !WORDS.has(name)) return name;
  if (name.trim() === '' || /[{}%\\\p{Cc}]/u.test(name)) return null;
  const quote = name.includes('"') ? "'" : '"';
  return name.includes(quote) ? null : `[${quote}${name}${quote}]`;
}
