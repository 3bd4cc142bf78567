/**
 * What a coordinator tells a worker to do, read as something that a stranger sent: a worker has files and keys that are none
 * of a coordinator's business. A task may name stages that make one line of one line and write nothing; its files lie below
 * the folder that came with it; whom to ask, and what is kept of it, is the worker's own.
 */
import { isAbsolute, join } from 'node:path';
import { isObject } from '../../../engine/core/json/pointer.ts';
import { show } from '../../../engine/core/json/show.ts';
import { ASKING } from '../../../engine/flow/join.ts';
import { type OptionSchema, resolveOptions } from '../../../engine/flow/options.ts';
import { type Stage, stagesOf } from '../../../engine/flow/stage.ts';
import { POOL_OPTIONS } from '../../../engine/running/open-pool.ts';
import { type OptionsOfStage, optionsOf } from '../../../engine/running/stage-options.ts';
import { stages } from '../../../stages/index.ts';
import type { Orders, PartName, Task } from '../protocol.ts';

/** Says what of an order was not understood, and is never carried out. */
export class BadOrder extends Error {
  override name = 'BadOrder';
}

/** One line in, one line out, and nothing written beside it. */
export const STAGES = [
  'agent-step',
  'chain',
  'fix-escapes',
  'null-fix',
  'request',
  'synthesize-decision',
  'validate',
];

const WORK = /^\w[\w.-]{0,99}$/;
/** names in the worker's folder that are no works */
const RESERVED = new Set(['files', 'parts', 'locks']);
const QUEUE = /^[\w.-]{1,200}$/;
const SHA256 = /^[0-9a-f]{64}$/;
const MOST = { stages: 16, models: 1_000, text: 1_000, queues: 1_000 };
/** ms */
const LONGEST = 3_600_000;
const SHORTEST = 10;
/** of a shard or a part; a coordinator has no route for a larger one */
const MOST_NUMBER = 999_999_999;

export function readPartName(value: unknown): PartName {
  const { work, root, part } = isObject(value) ? value : {};
  if (typeof work !== 'string' || !WORK.test(work) || RESERVED.has(work))
    throw new BadOrder(`expected the name of a work, found ${show(work)}`);
  for (const number of [root, part])
    if (!Number.isSafeInteger(number) || (number as number) < 0 || (number as number) > MOST_NUMBER)
      throw new BadOrder(`expected a number of a part, found ${show(number)}`);
  return { work, root: root as number, part: part as number };
}

export function readOrders(value: unknown): Orders {
  const { queues, drop, sharing, every, lease } = isObject(value) ? value : {};
  const ms = (number: unknown, name: string): number => {
    if (typeof number === 'number' && number > 0) return Math.max(SHORTEST, Math.min(LONGEST, number));
    throw new BadOrder(`${name}: expected milliseconds, found ${show(number)}`);
  };
  if (!isTexts(queues, MOST.queues) || !queues.every(name => QUEUE.test(name)))
    throw new BadOrder(`queues: expected names, found ${show(queues)}`);
  if (!Array.isArray(drop)) throw new BadOrder(`drop: expected a list, found ${show(drop)}`);
  const shared = Object.entries(isObject(sharing) ? sharing : {}).filter(([, count]) =>
    Number.isSafeInteger(count),
  );
  return {
    queues,
    drop: drop.map(readPartName),
    sharing: Object.fromEntries(shared) as Orders['sharing'],
    every: ms(every, 'every'),
    lease: ms(lease, 'lease'),
  };
}

export function readTask(value: unknown): Task {
  const { label, row, files, models, owner, weight } = isObject(value) ? value : {};
  const text = (said: unknown, name: string): string => {
    if (typeof said === 'string' && said.length <= MOST.text) return said;
    throw new BadOrder(`${name}: expected a text, found ${show(said)}`);
  };
  if (!Array.isArray(row) || row.length === 0 || row.length > MOST.stages)
    throw new BadOrder(`row: expected 1 to ${MOST.stages} stages, found ${show(row)}`);
  if (files !== null && !(typeof files === 'string' && SHA256.test(files)))
    throw new BadOrder(`files: expected a SHA-256 or null, found ${show(files)}`);
  if (!(typeof weight === 'number' && weight > 0))
    throw new BadOrder(`weight: expected a number above 0, found ${show(weight)}`);
  if (!isTexts(models, MOST.models)) throw new BadOrder(`models: expected names, found ${show(models)}`);
  return {
    label: text(label, 'label'),
    row: row.map((each: unknown) => {
      const { stage, options } = isObject(each) ? each : {};
      if (!isObject(options)) throw new BadOrder(`options: expected a map, found ${show(options)}`);
      return { stage: text(stage, 'stage'), options };
    }),
    files,
    models,
    owner: text(owner, 'owner'),
    weight,
  };
}

const isTexts = (value: unknown, most: number): value is string[] =>
  Array.isArray(value) &&
  value.length <= most &&
  value.every(text => typeof text === 'string' && text.length <= MOST.text);

/** What a worker says of the stages of others: where the files of the task are, and the grace of calls in ms. */
type Own = { base: string; grace: number };

/** The row as it is run here: in order, and with all lines of a part on their way at once, since the pool has them wait. */
export async function rowOf(task: Task, own: Own): Promise<OptionsOfStage[]> {
  return Promise.all(task.row.map(each => placed(each, own)));
}

async function placed({ stage: name, options }: Task['row'][number], own: Own): Promise<OptionsOfStage> {
  const load = STAGES.includes(name) ? stages[name] : undefined;
  if (load === undefined) throw new BadOrder(`expected a stage of ${STAGES.join(', ')}, found ${show(name)}`);
  const [stage] = stagesOf((await load()).default) as [Stage];
  const given = Object.fromEntries(Object.entries(options).filter(([option]) => !isOwn(option)));
  const schemas = optionsOf(stage);
  const values = resolveOptions(schemas, given, (option, message) => {
    throw new BadOrder(`${name}.${option}: ${message}`);
  });
  for (const [option, schema] of Object.entries(schemas)) {
    if (!('file' in schema) || schema.file === undefined || isOwn(option)) continue;
    // the folder that a worker would look into by itself has nothing to do with this work
    if (values[option] === undefined && option === 'agents')
      throw new BadOrder(
        `${name}.agents: expected a folder of agent files among those of the task, found none`,
      );
    if (option === 'schema' && values[option] === 'legacy') continue; // a word of its own
    values[option] = located(schema, values[option], own.base, path => `${name}.${option}: ${path}`);
  }
  // whether too many fail is for the run to say, which sees all parts
  const asking = stage.asks
    ? { ordered: true, grace: `${own.grace}ms`, 'in-flight': IN_FLIGHT, 'max-failed': 'none' }
    : {};
  return { stage, options: { ...values, ...asking } };
}

/** All of them: a part has some hundred lines. */
const IN_FLIGHT = 1_000_000;

/** Whom to ask and how, where to keep it, and what becomes of failures, is not for others to say; but for the model. */
const isOwn = (option: string): boolean =>
  option !== 'model' && (option in POOL_OPTIONS || option in ASKING || option === 'failures');

function located(
  schema: OptionSchema,
  value: unknown,
  base: string,
  at: (message: string) => string,
): unknown {
  if (value === undefined) return undefined;
  const paths = [value].flat() as string[];
  for (const path of paths)
    if (!isInside(path))
      throw new BadOrder(at(`expected a path among the files of the task, found ${show(path)}`));
  const there = paths.map(path => join(base, path));
  return schema.type === 'array' ? there : there[0];
}

/** Relative, with / alone, and never upwards. */
export function isInside(path: string): boolean {
  return (
    path.length <= MOST.text &&
    !isAbsolute(path) &&
    !/[\\\0]/.test(path) &&
    path
      .split('/')
      .every(name => name !== '' && name !== '.' && name !== '..' && Buffer.byteLength(name) <= 255)
  );
}
