/** What a stage understands, in flags and in pipeline files alike: its own options and those that come with its kind. */
import { ASKING, COMMON } from '../flow/join.ts';
import type { OptionSchemas } from '../flow/options.ts';
import type { Stage } from '../flow/stage.ts';
import { POOL_OPTIONS } from './open-pool.ts';

export function optionsOf(stage: Stage): OptionSchemas {
  return { ...stage.options, ...(stage.asks ? { ...ASKING, ...POOL_OPTIONS } : {}), ...COMMON };
}
