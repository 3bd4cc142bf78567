/** What a run may spend, as its options say, and what its ledger has spent before: whoever asked, as long as it is there. */
import { existsSync } from 'node:fs';
import { isFree, moneyOf, timeCost, tokenCost } from '../asking/endpoints/price.ts';
import type { EndpointSetting } from '../asking/endpoints/settings.ts';
import { ledgerFiles } from '../asking/ledger/read-ledger.ts';
import { type Used, usedIn } from '../asking/ledger/used.ts';
import type { Bounds } from '../asking/pool/part.ts';
import { usageError } from '../core/item/failure.ts';
import type { Say } from '../core/item/say.ts';
import { counted, number } from '../core/item/wording.ts';

export interface BoundFlags {
  'max-cost'?: number | undefined;
  'max-total-tokens'?: number | undefined;
}

/** Null where nothing is bounded. Exit 64 for what is no amount, and for a bound of cost where nothing has a price. */
export function boundsOf(
  { 'max-cost': most, 'max-total-tokens': mostTokens }: BoundFlags,
  { endpoints, ledger, warn }: { endpoints: readonly EndpointSetting[]; ledger?: string; warn: Say },
): Bounds | null {
  const tokens = mostTokens ?? null;
  const cost = most === undefined ? null : moneyOf(String(most));
  if (most !== undefined && (cost === null || cost === 0n))
    throw usageError(`--max-cost: expected an amount above 0, such as 12.50, found ${most}`);
  if (cost !== null && endpoints.every(({ price = null }) => isFree(price)))
    throw usageError(
      '--max-cost: expected an endpoint with a price, found none: name it in a pool file (--pool), such as { url: …, price: 0.15/0.6 }',
    );
  if (cost === null && tokens === null) return null;
  const before = { cost: 0n, tokens: 0 };
  const paths = ledger !== undefined && existsSync(ledger) ? ledgerFiles(ledger, () => {}) : [];
  for (const [url, used] of usedIn(paths, () => {})) {
    before.tokens += used.prompt + used.completion;
    const known = endpoints.find(one => one.url === url);
    if (known?.price) before.cost += tokenCost(known.price, used) + timeCost(known.price, used.ms);
    sayUncounted(url, used, cost !== null && known === undefined, warn);
  }
  return { cost, tokens, before, isResumable: ledger !== undefined };
}

function sayUncounted(url: string, { tries, unsaid }: Used, isUnpriced: boolean, warn: Say): void {
  if (isUnpriced)
    warn(
      `--max-cost: what ${counted(tries, 'try', 'tries')} at ${url} on record cost is not counted: this pool does not name it`,
    );
  if (unsaid > 0)
    warn(
      `${number(unsaid)} of the answers of ${url} on record do not say what they used, and are not counted`,
    );
}
