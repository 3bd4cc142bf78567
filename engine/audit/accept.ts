/** `--accept`: the rungs that count, for the stages that judge rungs. */

import { usageError } from '../core/item/failure.ts';
import { ACCEPTED, RUNGS, type Rung } from '../core/item/item.ts';
import { namesIn, type OptionSchemas } from '../flow/options.ts';

const KNOWN: readonly Rung[] = RUNGS.filter(rung => rung !== 'failed');

export const ACCEPT_OPTION = {
  accept: {
    type: 'array',
    items: { type: 'string' },
    default: ACCEPTED,
    description: `Rungs that count, also comma-separated: ${KNOWN.join(', ')}.`,
  },
} as const satisfies OptionSchemas;

/** Exit 64 for what is no rung. A list that is given says all: without `unknown` in it, unknown results are refused. */
export function acceptedRungs(texts: readonly string[]): ReadonlySet<Rung> {
  const rungs = new Set(namesIn(texts) as Rung[]);
  for (const rung of rungs) {
    if (!KNOWN.includes(rung)) {
      throw usageError(`--accept: expected some of ${KNOWN.join(', ')}, found '${rung}'`);
    }
  }
  return rungs;
}
