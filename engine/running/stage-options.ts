/** What a stage understands, in flags and in pipeline files alike: its own options and those that come with its kind. */

import { usageError } from '../core/item/failure.ts';
import { ASKING, COMMON } from '../flow/join.ts';
import { type OptionSchemas, resolveOptions, type Values } from '../flow/options.ts';
import type { Stage } from '../flow/stage.ts';
import { POOL_OPTIONS } from './open-pool.ts';

export function optionsOf(stage: Stage): OptionSchemas {
  return { ...stage.options, ...(stage.asks ? { ...ASKING, ...POOL_OPTIONS } : {}), ...COMMON };
}

/** A stage with options as flags would give them. Exit 64 for what it does not understand. */
export function placed(stage: Stage, given: Values): { stage: Stage; options: Values } {
  const options = resolveOptions(optionsOf(stage), given, (name, message) => {
    throw usageError(`--${name}: ${message}`);
  });
  return { stage, options };
}
