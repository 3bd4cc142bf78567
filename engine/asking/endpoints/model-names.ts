/**
 * The name by which a server lists the model that a person means: vLLM takes Hugging Face's names, Ollama has its own.
 * pipelines/models.yaml says which are names of one model, and a file of the user's (--model-map) says it before that.
 */
import { join } from 'node:path';
import { packageRoot } from '../../core/config/package.ts';
import { readYaml } from '../../core/config/yaml.ts';
import { usageError } from '../../core/item/failure.ts';
import { nearest } from '../../core/item/wording.ts';

/** Names of one model in each. */
export type ModelMap = readonly (readonly string[])[];

/** Reads a file of names. Exit 65, with file, line and column, for whatever is wrong with it. */
export function readModelMap(path: string): ModelMap {
  const { value } = readYaml(path, 'models');
  return Object.entries(value as Record<string, string[]>).map(([name, others]) => [name, ...others]);
}

/**
 * Of the names `served` the one that means `wanted`: itself, or one that `map` or the packaged file calls a name of the
 * same model; null where there is none. Exit 64 where several are.
 */
export function servedNameOf(wanted: string, served: readonly string[], map: ModelMap = []): string | null {
  if (served.includes(wanted)) return wanted;
  for (const groups of [() => [[wanted]], () => map, packaged]) {
    const names = new Set(
      groups()
        .filter(group => group.some(name => plain(name) === plain(wanted)))
        .flat()
        .map(plain),
    );
    const found = [...new Set(served.filter(name => names.has(plain(name))))];
    if (found.length > 1) {
      throw usageError(
        `--model: expected one served name of ${wanted}, found ${found.join(', ')}: say which is meant`,
      );
    }
    if (found[0] !== undefined) return found[0];
  }
  return null;
}

function packaged(): ModelMap {
  return readModelMap(join(packageRoot(), 'pipelines', 'models.yaml'));
}

/** As Ollama reads a name: `library/` and `:latest` go without saying. Nobody tells two models apart by capitals. */
function plain(name: string): string {
  return name
    .toLowerCase()
    .replace(/^library\//, '')
    .replace(/:latest$/, '');
}

/** A served name that was probably meant: one that has the last part of the other in it, or is nearly the same. */
export function nearModel(wanted: string, served: readonly string[]): string | null {
  const last = (name: string): string => plain(name).split('/').at(-1) as string;
  const word = last(wanted);
  const within = served.find(name => last(name).includes(word) || word.includes(last(name)));
  if (within !== undefined) return within;
  const near = nearest(word, served.map(last));
  return near === null ? null : (served.find(name => last(name) === near) ?? null);
}
