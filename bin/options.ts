/** What a stage understands, in flags and in pipeline files alike: its own options and those that come with its kind. */
import { ASKING, COMMON } from '../engine/flow/join.ts';
import type { OptionSchemas } from '../engine/flow/options.ts';
import type { Stage } from '../engine/flow/stage.ts';
import { POOL_OPTIONS } from './pool.ts';

export function optionsOf(stage: Stage): OptionSchemas {
  return { ...stage.options, ...(stage.asks ? { ...ASKING, ...POOL_OPTIONS } : {}), ...COMMON };
}
