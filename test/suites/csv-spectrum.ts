/** csv-spectrum, from npm: each table through `fw ingest`, its columns against the rows that the suite expects. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { conclude, fromNpm, fw, jsonFiles, nameOf, temporary, type Verdict, wrongEnd } from './suite.ts';

const EXCEPTIONS = {
  location_coordinates:
    'the suite contradicts itself: it expects one object, not a list of rows, with a phone number that its table does not have',
};

const folder = fromNpm('csv-spectrum@2.0.0');
const template = join(temporary('template'), 'prompt.liquid');
writeFileSync(template, 'row');

const verdicts: Verdict[] = jsonFiles(join(folder, 'json')).map(file => {
  const name = nameOf(file);
  const ran = fw(['ingest', '--template', template, join(folder, 'csvs', `${name}.csv`)]);
  const found = ran.lines.map(line => JSON.parse(line.toString()).input);
  const expected: unknown = JSON.parse(readFileSync(file, 'utf8'));
  const problem = isDeepStrictEqual(found, expected)
    ? null
    : `expected ${JSON.stringify(expected)}, found ${ran.lines.join(' ').slice(0, 400)}`;
  return { name, problem: wrongEnd(ran) ?? problem };
});
conclude('csv-spectrum 2.0.0', verdicts, EXCEPTIONS);
