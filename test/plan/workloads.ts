/** Workloads of prompts that begin alike, made from a few numbers: for tests of plans against plans, and against time. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import type { Item } from '../../engine/core/item/item.ts';
import { readPipeline } from '../../engine/running/pipeline.ts';
import { silent } from '../../engine/running/stage-options.ts';
import { GUESSED } from '../../products/plan/lengths.ts';
import type { PlanInput } from '../../products/plan/virtual-run.ts';
import { type PresetFile, presetFrom, presetNamed } from '../../products/simulator/presets.ts';
import { lcg } from '../../products/simulator/random.ts';
import { stages } from '../../stages/index.ts';
import { folder } from '../fw.ts';

export interface Workload {
  groups: number;
  /** items of a group; with `zipf` of the first one, and fewer and fewer of the others */
  each: number;
  zipf: boolean;
  /** tokens that a group begins with, and those that an item has of its own */
  shared: number;
  own: number;
  order: 'by group' | 'by question' | 'shuffled';
  seed: number;
}

export const workloads = (groups: number, each: number): fc.Arbitrary<Workload> =>
  fc.record({
    groups: fc.integer({ min: 1, max: groups }),
    each: fc.integer({ min: 1, max: each }),
    zipf: fc.boolean(),
    shared: fc.integer({ min: 0, max: 3_000 }),
    own: fc.integer({ min: 20, max: 400 }),
    order: fc.constantFrom('by group', 'by question', 'shuffled'),
    seed: fc.integer({ min: 1, max: 1e9 }),
  });

const WORDS =
  'the file holds evidence on this point and none of what it says speaks against a later one'.split(' ');

export function itemsOf({ groups, each, zipf, shared, own, order, seed }: Workload): Item[] {
  const random = lcg(seed);
  const text = (tokens: number): string => {
    let so = '';
    while (so.length < 4 * tokens) so += `${WORDS[Math.floor(random() * WORDS.length)]} `;
    return so.slice(0, 4 * tokens);
  };
  const items: (Item & { group: number; question: number })[] = [];
  for (let group = 0; group < groups; group++) {
    const begin = `${group} ${text(shared)}`;
    const size = zipf ? Math.max(1, Math.round(each / (group + 1))) : each;
    for (let question = 0; question < size; question++)
      items.push({
        id: `${group}/${question}`,
        group,
        question,
        prompt: `${begin} ${question} ${text(own)}`,
      });
  }
  if (order === 'by question') items.sort((a, b) => a.question - b.question || a.group - b.group);
  if (order === 'shuffled') {
    const places = new Map(items.map(item => [item, random()]));
    items.sort((a, b) => (places.get(a) as number) - (places.get(b) as number));
  }
  return items.map(({ id, prompt }) => ({ id, prompt }) as Item);
}

/** A server that is small, so that few items fill its batch and its cache. */
export const SMALL: PresetFile = {
  ...presetNamed('8b-a100-80g').file,
  name: 'small',
  kv_tokens: 48_000,
  max_num_seqs: 16,
  max_num_batched_tokens: 2_048,
};

/** One agent that is asked once about each item, as a pipeline file has it. */
export function pipeline(): string {
  const at = folder();
  const agent = { key: 'reader', short: 'reader', display: 'Reader', role: 'agent', persona: 'You answer.' };
  writeFileSync(
    join(at, 'reader.yaml'),
    JSON.stringify({ ...agent, sampling: { temperature: 0.7, max_tokens: 200 } }),
  );
  const path = join(folder(), 'plan.yaml');
  const steps = [{ ingest: {} }, { 'agent-step': { agent: 'reader', agents: at } }];
  writeFileSync(path, JSON.stringify({ stages: steps }));
  return path;
}

export async function worldOf(path: string, file: PresetFile = SMALL): Promise<PlanInput> {
  const { row, base } = await readPipeline(path, stages, []);
  return {
    row: row.filter(({ stage }) => stage.asks !== undefined).map(silent),
    base,
    pool: undefined,
    model: 'simulated-3b',
    models: [],
    preset: presetFrom(file, 'small'),
    lengths: GUESSED,
    seed: 7,
  };
}
