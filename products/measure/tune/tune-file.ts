/** tune.yaml: what is started, what is varied, what it is measured with. Whatever is wrong is said with line and column. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { readUrl } from '../../../engine/asking/endpoints/settings.ts';
import { readYaml, type YamlFile } from '../../../engine/core/config/yaml.ts';
import { dataError, type Fatal } from '../../../engine/core/item/failure.ts';
import { durationOf } from '../../../engine/flow/options.ts';

export type Value = number | string;
/** A value for each name of the space. */
export type Setting = Readonly<Record<string, Value>>;

const BOUNDED = ['ttft', 'tpot', 'e2el'] as const;
/** A bound of a percentile, in ms. */
export interface Bound {
  name: string;
  metric: (typeof BOUNDED)[number];
  percentile: number;
  ms: number;
}

export type Goal = 'tokens' | 'requests' | 'goodput' | 'cost';

export interface LoadSpec {
  file?: string;
  agents?: string;
  input_tokens?: number;
  output_tokens?: number;
  prefix_tokens?: number;
  spread?: number;
  concurrency?: number | 'inf';
}

interface TuneFile {
  serve: string;
  endpoint: string;
  model?: string;
  space: Record<string, Value[]>;
  present: Setting;
  load: LoadSpec;
  slo?: Record<string, number>;
  goal?: Goal;
  price?: number;
  gpus?: number | string;
  preset?: string;
  ready?: string;
  block?: string;
  seed?: number;
}

export interface Study {
  path: string;
  serve: string;
  endpoint: string;
  model: string | undefined;
  space: Readonly<Record<string, readonly Value[]>>;
  present: Setting;
  load: LoadSpec;
  slo: readonly Bound[];
  goal: Goal;
  price: number | undefined;
  gpus: number | string;
  preset: string | undefined;
  readyMs: number;
  blockMs: number;
  seed: number;
}

export const SEQS = 'max_num_seqs';
export const TOKENS = 'max_num_batched_tokens';
export const MEMORY = 'gpu_memory_utilization';

/** A name in braces; `${HOME}` is the shell's. */
const PLACE = /(?<!\$)\{([a-z][a-z0-9_]{0,63})\}/g;

/** The command line of a setting. Values have no character that a shell would read. */
export function commandOf({ serve }: Pick<Study, 'serve'>, setting: Setting): string {
  return serve.replace(PLACE, (place, name: string) =>
    Object.hasOwn(setting, name) ? String(setting[name]) : place,
  );
}

/** Exit 65 with file, line and column. */
export function readStudy(path: string): Study {
  const yaml = readYaml(path, 'tune', { plain: true });
  const file = yaml.value as TuneFile;
  const { space, present, load, price, gpus = 1, preset, model, seed = 7, goal = 'tokens' } = file;
  checkNames(yaml, file);
  checkLoad(yaml, load);
  const slo = Object.entries(file.slo ?? {}).map(([name, ms]): Bound => {
    const [metric, percentile] = name.split('_p') as [Bound['metric'], string];
    return { name, metric, percentile: Number(percentile), ms };
  });
  if (goal === 'goodput' && slo.length === 0)
    throw yaml.complain(
      ['goal'],
      'goal: expected bounds in slo, which say what is good, found none: slo: {e2el_p99: 10000}',
    );
  if (goal === 'cost' && price === undefined)
    throw yaml.complain(['goal'], 'goal: expected price, what an hour of a GPU costs, found none');
  if (typeof gpus === 'string' && !isCount(space[gpus]))
    throw yaml.complain(['gpus'], `gpus: expected a number, or a name of space with whole numbers`);
  const base = dirname(path);
  return {
    path,
    serve: file.serve,
    endpoint: readUrl(file.endpoint, message => yaml.complain(['endpoint'], `endpoint: ${message}`)),
    model,
    space,
    present,
    load: {
      ...load,
      ...(load.file !== undefined && { file: resolve(base, load.file) }),
      ...(load.agents !== undefined && { agents: resolve(base, load.agents) }),
    },
    slo,
    goal,
    price,
    gpus,
    preset: preset !== undefined && /[/\\]|\.json$/.test(preset) ? resolve(base, preset) : preset,
    readyMs: timeOf(yaml, 'ready', file.ready ?? '600s'),
    blockMs: timeOf(yaml, 'block', file.block ?? '30s'),
    seed,
  };
}

const isCount = (values: readonly Value[] | undefined): boolean =>
  values?.every(value => Number.isInteger(value) && (value as number) > 0) === true;

function timeOf(yaml: YamlFile, key: 'ready' | 'block', text: string): number {
  let ms: number;
  try {
    ms = durationOf(text, key);
  } catch (error) {
    throw yaml.complain([key], (error as Fatal).message);
  }
  if (ms < 1000) throw yaml.complain([key], `${key}: expected a second or more, found '${text}'`);
  return ms;
}

function checkNames(yaml: YamlFile, { serve, space, present }: TuneFile): void {
  const places = new Set([...serve.matchAll(PLACE)].map(([, name]) => name as string));
  for (const name of Object.keys(space)) {
    if (!places.has(name))
      throw yaml.complain(['space', name], `space: expected {${name}} in serve, found none`, 'key');
    if (!Object.hasOwn(present, name))
      throw yaml.complain(['present'], `present: expected the key '${name}', which space has, found none`);
  }
  for (const name of Object.keys(present))
    if (!places.has(name))
      throw yaml.complain(['present', name], `present: expected {${name}} in serve, found none`, 'key');
  for (const name of places)
    if (!Object.hasOwn(present, name))
      throw yaml.complain(['serve'], `serve: expected a value of {${name}} in space and present, found none`);
  for (const name of [SEQS, TOKENS, MEMORY])
    for (const [from, values] of [
      ['space', space[name] ?? []],
      ['present', present[name] === undefined ? [] : [present[name] as Value]],
    ] as const)
      for (const value of values) {
        const isFine =
          typeof value === 'number' &&
          (name === MEMORY ? value > 0 && value <= 1 : Number.isInteger(value) && value > 0);
        if (!isFine)
          throw yaml.complain(
            [from, name],
            `${from}.${name}: expected ${name === MEMORY ? 'a share, above 0 and up to 1' : 'a whole number above 0'}, found ${JSON.stringify(value)}`,
          );
      }
}

function checkLoad(yaml: YamlFile, { file, agents, input_tokens: input, ...load }: LoadSpec): void {
  const complain = (message: string): Fatal => yaml.complain(['load'], `load: ${message}`);
  if (file === undefined) {
    if (input === undefined || load.output_tokens === undefined)
      throw complain('expected file, or input_tokens and output_tokens, found neither');
    if (agents !== undefined) throw complain('expected agents with a file, found it without');
    if ((load.prefix_tokens ?? 0) >= input)
      throw complain(`expected prefix_tokens below input_tokens (${input}), found ${load.prefix_tokens}`);
  } else if (input !== undefined || load.prefix_tokens !== undefined || load.spread !== undefined)
    throw complain('expected file, or input_tokens and what belongs to it, found both');
}

/** Every combination of the values, but for those that vLLM refuses (fewer batched tokens than sequences). */
export function gridOf(space: Study['space'], without: readonly string[] = []): Setting[] {
  let settings: Setting[] = [{}];
  for (const [name, values] of Object.entries(space)) {
    if (without.includes(name)) continue;
    settings = settings.flatMap(setting => values.map(value => ({ ...setting, [name]: value })));
    if (settings.length > MOST_SETTINGS)
      throw dataError(`space: expected at most ${MOST_SETTINGS} combinations, found more: leave values out`);
  }
  return settings.filter(isPossible);
}

const MOST_SETTINGS = 10_000;

function isPossible({ [SEQS]: seqs, [TOKENS]: tokens }: Setting): boolean {
  return typeof seqs !== 'number' || typeof tokens !== 'number' || tokens >= seqs;
}

/** `max_num_seqs 64, max_num_batched_tokens 2048`. */
export function settingWords(setting: Setting): string {
  return Object.entries(setting)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');
}

/** The values alone, for tables whose head has the names. */
export const valuesOf = (setting: Setting): string => Object.values(setting).join(' / ');
export const namesOf = (setting: Setting): string => Object.keys(setting).join(' / ');

export const settingKey = (setting: Setting): string =>
  JSON.stringify(Object.entries(setting).sort(([a], [b]) => (a < b ? -1 : 1)));

export const isSame = (a: Setting, b: Setting): boolean => settingKey(a) === settingKey(b);

/**
 * What two measurements must have in common to be compared: the server's command, and what it was asked. The space, the
 * goal and the preset are left out, so that a study whose space grew goes on from what it knows.
 */
export function studyKey({ serve, endpoint, model, load, slo, blockMs, seed }: Study): string {
  const file = load.file === undefined ? null : createHash('sha256').update(bytesOf(load.file)).digest('hex');
  return hashed({ serve, endpoint, model, load: { ...load, file }, slo, blockMs, seed });
}

function bytesOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw dataError(
      `${path}: expected items or batch requests, found ${code === 'ENOENT' ? 'no file' : code}`,
    );
  }
}

export function hashed(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 16);
}
