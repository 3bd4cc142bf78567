/**
 * The file of provenance beside a file of results has the whole name of that file, so that no two share one:
 * `out.jsonl.provenance.ndjson` beside `out.jsonl`. Version 0.1.0 wrote `out.provenance.ndjson` for `out.jsonl` and for
 * `out.json`; it is still read where there is none of the whole name. A line vouches for its own result alone (its hash
 * says which), so that reading such a file for the wrong results does no harm.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { dataError } from '../item/failure.ts';

const ENDING = '.provenance.ndjson';

/** The path beside a file of results; null for what is beside one itself. */
export function besideOf(path: string): string | null {
  return path.endsWith(ENDING) ? null : `${path}${ENDING}`;
}

function namesBeside(path: string): string[] {
  const own = besideOf(path);
  const older = path.replace(/\.(?:jsonl|ndjson|json)$/, '') + ENDING;
  return own === null ? [] : [...new Set([own, older])];
}

/** Without the files that are beside others of the list: who reads the results finds them there. */
export function withoutBesides(paths: readonly string[]): string[] {
  const besides = new Set(paths.flatMap(namesBeside).map(path => resolve(path)));
  return paths.filter(path => !besides.has(resolve(path)));
}

/** The files beside `paths` that are there. */
export function besidesOf(paths: readonly string[]): string[] {
  const found = paths.flatMap(path => {
    const beside = path === '-' ? undefined : namesBeside(path).find(name => existsSync(name));
    return beside === undefined ? [] : [beside];
  });
  return [...new Set(found)]; // the older name may be beside several
}

/** `paths`, all of which are to be read as lines; exit 65 where one is a file of provenance without its results. */
export function expectResults(paths: readonly string[]): readonly string[] {
  const alone = paths.find(path => path.endsWith(ENDING));
  if (alone === undefined) return paths;
  throw dataError(
    `${alone}: expected results, found a file of provenance without them; name those too, or leave it out`,
  );
}
