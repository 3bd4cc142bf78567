/** Reads a pipeline file into a row of stages. Whatever does not fit is said with file, line and column. */
import { dirname, resolve } from 'node:path';
import { type PoolFile, poolOfPipeline, readPoolFile } from '../asking/endpoints/settings.ts';
import { readYaml, type YamlFile } from '../core/config/yaml.ts';
import { usageError } from '../core/item/failure.ts';
import { didYouMean } from '../core/item/wording.ts';
import { type OptionSchemas, resolveOptions, type Values } from '../flow/options.ts';
import { type Stage, type StageList, stagesOf } from '../flow/stage.ts';
import { type OptionsOfStage, optionsOf } from './stage-options.ts';

export interface Pipeline {
  /** agents, schemas, templates and defaults resolve from here */
  base: string;
  input: string[];
  row: OptionsOfStage[];
  output?: string;
  pool?: PoolFile;
  /** the folder of the ledger, from the current folder: the file's, else FW_LEDGER, else ledger/; false for none */
  ledger: string | false;
  /** what was read for this: the pipeline file, and the pool file that it names */
  reads: string[];
}

/** `sets` are `stage.option=value` texts; they win over the file. */
export async function readPipeline(
  path: string,
  stages: StageList,
  sets: readonly string[] = [],
): Promise<Pipeline> {
  const file = readYaml(path, 'pipeline');
  const {
    input = '-',
    stages: places,
    output,
    pool,
    ledger = process.env.FW_LEDGER || 'ledger/',
  } = file.value as {
    input?: string | string[];
    stages: Record<string, Values>[];
    output?: string;
    pool?: string | object;
    ledger?: string | false;
  };
  const overrides = sets.map(setOf);
  const row: Pipeline['row'] = [];
  for (const [index, place] of places.entries()) {
    const [name = '', given = {}] = Object.entries(place)[0] ?? [];
    const load = Object.hasOwn(stages, name) ? stages[name] : undefined;
    if (load === undefined) {
      const known = Object.keys(stages).join(', ');
      throw file.complain(
        ['stages', index, name],
        `expected a stage (${known}), found '${name}'${didYouMean(name, Object.keys(stages))}`,
        'key',
      );
    }
    const set = overrides.filter(override => override.stage === name);
    for (const override of set) override.used = true;
    row.push(...placed(stagesOf((await load()).default), given, set, file, ['stages', index, name]));
  }
  const unused = overrides.find(({ used }) => !used);
  if (unused)
    throw usageError(
      `--set ${unused.text}: expected a stage of ${path} (${row.map(({ stage }) => stage.name).join(', ')}), found '${unused.stage}'`,
    );
  return {
    base: dirname(resolve(path)),
    input: [input].flat(),
    row,
    ...(output !== undefined && { output }),
    ...(pool !== undefined && { pool: poolOf(pool, file) }),
    ledger,
    reads: [path, ...(typeof pool === 'string' ? [poolPath(pool, file)] : [])],
  };
}

interface Override {
  text: string;
  stage: string;
  option: string;
  value: string;
  used: boolean;
}

function setOf(text: string): Override {
  const equals = text.indexOf('=');
  const dot = text.indexOf('.');
  if (dot < 1 || equals < dot + 2) {
    throw usageError(`--set: expected STAGE.OPTION=VALUE, such as chain.in-flight=512, found '${text}'`);
  }
  const [stage, option, value] = [text.slice(0, dot), text.slice(dot + 1, equals), text.slice(equals + 1)];
  return { text, stage, option, value, used: false };
}

function placed(
  row: readonly Stage[],
  given: Values,
  set: readonly Override[],
  file: YamlFile,
  segments: (string | number)[],
): Pipeline['row'] {
  const options: OptionSchemas = Object.assign({}, ...row.map(optionsOf));
  // from entries, since an assignment to `__proto__` sets no key
  const sets = set.map(({ option, value }) => [option, value]);
  const values: Values = Object.fromEntries([...Object.entries(given), ...sets]);
  const resolved = resolveOptions(options, values, (name, message) => {
    const override = set.find(({ option }) => option === name);
    if (override) throw usageError(`--set ${override.text}: ${message}`);
    throw file.complain(
      [...segments, name],
      `${name}: ${message}`,
      Object.hasOwn(options, name) ? 'value' : 'key',
    );
  });
  return row.map(stage => ({ stage, options: resolved }));
}

const poolPath = (pool: string, file: YamlFile): string => resolve(dirname(file.path), pool);

function poolOf(pool: string | object, file: YamlFile): PoolFile {
  if (typeof pool === 'string') return readPoolFile(poolPath(pool, file));
  return poolOfPipeline(file);
}

/** The output that a pipeline file names: for lines as it is written there, `.json` where its stages write a document. */
export function outputOf({ output, row }: Pick<Pipeline, 'output' | 'row'>): string | undefined {
  const isDocument = row.some(({ stage, options }) => stage.frame?.(options)?.isDocument === true);
  return isDocument ? output?.replace(/\.(?:jsonl|ndjson)$/, '.json') : output;
}
