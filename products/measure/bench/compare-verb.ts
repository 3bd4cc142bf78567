/**
 * bench compare: two benchmarks side by side, and which differences are more than noise.
 *
 *   fw bench compare before.json after.json
 */

import { writePage } from '../../../engine/core/files/ndjson-out.ts';
import { dataError, EXIT, usageError } from '../../../engine/core/item/failure.ts';
import { command } from '../../../engine/flow/command.ts';
import { readResults } from './bench-result.ts';
import { compareBenches } from './compare-benches.ts';
import { comparePage } from './compare-benches-text.ts';

export default command({
  name: 'bench compare',
  summary: 'Compare two files of fw bench --json: which differences are more than noise.',
  positional: 'A.json B.json',
  examples: [
    'fw bench compare before.json after.json',
    "fw bench compare before.json after.json --json | jq '.comparisons[].differences[]'",
  ],
  options: { json: { type: 'boolean', description: 'Write the figures as JSON.' } },

  async run({ json }, paths) {
    const [a, b] = paths;
    if (a === undefined || b === undefined || paths.length > 2)
      throw usageError(
        `expected two files of fw bench --json, found ${paths.length}: fw bench compare A.json B.json`,
      );
    const compared = compareBenches(readResults(a), readResults(b));
    if (compared.comparisons.length === 0)
      throw dataError(
        `expected a load that both have, found in ${a}: ${compared.onlyA.join('; ')}; in ${b}: ${compared.onlyB.join('; ')}`,
      );
    await writePage(
      json ? `${JSON.stringify({ compare: 1, a, b, ...compared }, null, 1)}\n` : comparePage(compared, a, b),
    );
    return EXIT.ok;
  },
});
