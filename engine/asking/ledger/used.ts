/** What the calls on record have used, by endpoint: of tries without an answer too, where the server said what they cost it. */
import type { Usage } from '../../core/item/item.ts';
import { holding } from './held.ts';
import { callsOf, type Tell } from './read-ledger.ts';

export interface Used extends Required<Usage> {
  tries: number;
  /** answers of which the server did not say what they used */
  unsaid: number;
  /** how long the endpoint was held, as held.ts counts it */
  ms: number;
}

export function usedIn(paths: readonly string[], tell: Tell): Map<string, Used> {
  const held = holding();
  const sums = new Map<string, Used>();
  for (const [file, path] of paths.entries())
    for (const { call } of callsOf(path, tell)) {
      const { endpoint, outcome, usage, time, ms } = call;
      const sum = sums.get(endpoint) ?? { prompt: 0, cached: 0, completion: 0, tries: 0, unsaid: 0, ms: 0 };
      sums.set(endpoint, sum);
      held.add(file, endpoint, time, ms);
      sum.tries += 1;
      sum.prompt += usage?.prompt ?? 0;
      sum.cached += usage?.cached ?? 0;
      sum.completion += usage?.completion ?? 0;
      // a prompt has a token at least
      if (outcome === 'answer' && !usage?.prompt) sum.unsaid += 1;
    }
  for (const [endpoint, sum] of sums) sum.ms = held.of(endpoint);
  return sums;
}
