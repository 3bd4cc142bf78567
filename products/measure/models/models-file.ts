/** The file of a choice of models: which pipeline, which items, which pools, and what to agree with. */
import { dirname, resolve } from 'node:path';
import { type PoolFile, poolAt, readPoolFile } from '../../../engine/asking/endpoints/settings.ts';
import { readYaml, type YamlFile } from '../../../engine/core/config/yaml.ts';

export interface Candidate {
  name: string;
  pool: PoolFile;
  gpus: number;
  /** of one GPU for an hour; null where none is named */
  price: number | null;
}

export interface Choice {
  /** paths as they can be opened */
  pipeline: string;
  input: string[] | null;
  limit: number | null;
  set: string[];
  outcome: string | null;
  label: string | null;
  reference: string | null;
  out: string | null;
  models: Candidate[];
}

interface Written extends Partial<Omit<Choice, 'input' | 'models'>> {
  pipeline: string;
  input?: string | string[];
  models: { name: string; pool: string | object; gpus?: number; price?: number }[];
}

/** Exit 65 with line and column for whatever is wrong with it. */
export function readChoice(path: string): Choice {
  // a pool may have a key in it
  const file = readYaml(path, 'bench-models', { secretive: true });
  const { pipeline, input, models, ...rest } = file.value as Written;
  const { limit = null, set = [], outcome = null, label = null, reference = null, out = null } = rest;
  for (const [at, { name }] of models.entries())
    if (models.findIndex(other => other.name.toLowerCase() === name.toLowerCase()) < at)
      throw file.complain(['models', at, 'name'], `expected different names, found '${name}' twice`);
  return {
    pipeline: resolve(dirname(path), pipeline),
    input: input === undefined ? null : [input].flat(),
    limit,
    set,
    outcome,
    label,
    reference,
    out,
    models: models.map(({ name, pool: written, gpus, price = null }, at) => {
      const pool = poolOf(file, written, ['models', String(at), 'pool']);
      return { name, pool, gpus: gpus ?? pool.endpoints.length, price };
    }),
  };
}

function poolOf(file: YamlFile, pool: string | object, at: readonly string[]): PoolFile {
  return typeof pool === 'string' ? readPoolFile(resolve(dirname(file.path), pool)) : poolAt(file, at);
}
