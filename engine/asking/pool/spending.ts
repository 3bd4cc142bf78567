/**
 * What a run spends, and where it has to stop (--max-cost, --max-total-tokens). Before a try is sent, what it may use is
 * reserved: its prompt, by its bytes, and as much as it may write. Once it has ended, what the server says that it used takes
 * the place of that. While spent and reserved together reach a bound, endpoints that count against it get nothing; so they
 * go over it by less than the last call that was sent. Once what is spent reaches it, whatever else would have to be asked
 * there ends the run, and what is at servers finishes.
 *
 * An hour of a server is spent from the first try there to the end of the last one, as `fw ledger cost` counts it.
 */
import { tokensOfBytes } from '../../core/item/dialects.ts';
import { dataError, type Fatal } from '../../core/item/failure.ts';
import type { Usage } from '../../core/item/item.ts';
import { counted, number } from '../../core/item/wording.ts';
import { isFree, moneyWords, timeCost, tokenCost } from '../endpoints/price.ts';
import { ASSUMED_TOKENS, extentOf } from './extent.ts';
import type { Endpoint, Part, Ticket } from './pool-state.ts';
import { serves } from './raw.ts';

export interface Spent {
  /** as price.ts counts money */
  cost: bigint;
  /** of prompts and answers */
  tokens: number;
}

export interface Bounds {
  cost: bigint | null;
  tokens: number | null;
  /** what the ledger has on record already */
  before: Spent;
  /** The same command goes on from its ledger. */
  isResumable: boolean;
}

export type Spending = ReturnType<typeof createSpending>;

/** `bounds` null: nothing is bounded, and only added up. */
export function createSpending(endpoints: readonly Endpoint[], bounds: Bounds | null) {
  const before = bounds?.before ?? { cost: 0n, tokens: 0 };
  const spent: Spent = { ...before };
  const reserved: Spent = { cost: 0n, tokens: 0 };
  const held = new Map<Ticket, { endpoint: Endpoint; most: Usage }>();
  /** when the first try was sent to those that are paid by the hour, and when the last one ended */
  const hours = new Map<Endpoint, { from: number; to: number }>();
  /** answers of which the server did not say what they used: what was reserved for them is counted */
  let unsaid = 0;

  function costBy(now: number): bigint {
    let { cost } = spent;
    for (const [{ price, running }, { from, to }] of hours)
      if (price !== null) cost += timeCost(price, (running.length > 0 ? now : to) - from);
    return cost;
  }

  function look(now: number): void {
    if (bounds === null) return;
    const isAll = bounds.tokens !== null && spent.tokens + reserved.tokens >= bounds.tokens;
    const isPaid = bounds.cost !== null && costBy(now) + reserved.cost >= bounds.cost;
    for (const endpoint of endpoints) endpoint.isShut = isAll || (isPaid && !isFree(endpoint.price));
  }

  const isOver = (now: number): boolean =>
    bounds !== null &&
    ((bounds.tokens !== null && spent.tokens >= bounds.tokens) ||
      (bounds.cost !== null && costBy(now) >= bounds.cost));

  function verdict(now: number, { cost, tokens, isResumable }: Bounds): Fatal {
    const isTokens = tokens !== null && spent.tokens >= tokens;
    const option = isTokens ? '--max-total-tokens' : '--max-cost';
    const [most, found, old] = isTokens
      ? [`use at most ${counted(tokens, 'token')}`, `${number(spent.tokens)} used`, number(before.tokens)]
      : [
          `spend at most ${moneyWords(cost ?? 0n)}`,
          `${moneyWords(costBy(now))} spent`,
          moneyWords(before.cost),
        ];
    const isOld = isTokens ? before.tokens > 0 : before.cost > 0n;
    const how = isResumable
      ? `to go on, run the same command with a higher ${option}: answers in the ledger are not asked for again`
      : 'without --ledger, the answers so far are only in the output';
    return dataError(
      `expected to ${most} (${option}), found ${found}${isOld ? `, ${old} of it on record before this run` : ''}\n${how}`,
    );
  }

  look(0); // no hour of this run has begun

  return {
    /** A try is sent; its place is taken already. */
    sent(ticket: Ticket, endpoint: Endpoint, now: number): void {
      const { price } = endpoint;
      if (price !== null && price.hour !== null && !hours.has(endpoint))
        hours.set(endpoint, { from: now, to: now });
      if (bounds === null) return;
      const { model } = ticket.call;
      const { read, write } = extentOf(ticket.call, endpoint.contexts.get(model));
      // where a prompt has more tokens than its bytes suggest, the run may go over its bound by these
      const most = { prompt: tokensOfBytes(read), completion: write ?? ASSUMED_TOKENS };
      release(ticket); // what it had where it is not asked any more
      held.set(ticket, { endpoint, most });
      reserve(endpoint, most, 1);
      look(now);
    },
    /** Its try has ended. `usage`: what the server says that it used, where it says so; null for no answer. */
    left(ticket: Ticket, endpoint: Endpoint, usage: Usage | null, now: number): void {
      const hour = hours.get(endpoint);
      if (hour !== undefined) hour.to = now;
      const most = release(ticket);
      if (usage !== null) charge(endpoint, usage, most);
      look(now);
    },
    /** Ends the parts once what may be spent is spent, if a call waits that would have to be asked where that counts. */
    end(
      parts: Iterable<Part>,
      waiting: { has(isMeant: (ticket: Ticket) => boolean): boolean },
      now: number,
    ): void {
      if (bounds === null || !isOver(now)) return;
      look(now);
      const isStuck = ({ call }: Ticket): boolean =>
        !endpoints.some(one => !one.isShut && one.state !== 'unusable' && serves(one, call));
      if (!waiting.has(isStuck)) return;
      const why = verdict(now, bounds);
      for (const { ending } of parts) ending.enough(why, 'what it may spend was spent');
    },
    /** Of this run alone, and in words for its end. */
    sum(now: number): Spent & { told: string[] } {
      const cost = costBy(now) - before.cost;
      const told = endpoints.some(({ price }) => price !== null)
        ? [`cost ${moneyWords(cost)}${ofBefore()}`]
        : [];
      if (unsaid > 0 && bounds !== null)
        told.push(
          `${counted(unsaid, 'answer')} came without the tokens that it used: what it might have used is counted`,
        );
      return { cost, tokens: spent.tokens - before.tokens, told };
    },
  };

  function ofBefore(): string {
    return before.cost > 0n ? `, and ${moneyWords(before.cost)} before it` : '';
  }

  function release(ticket: Ticket): Usage | undefined {
    const known = held.get(ticket);
    if (known === undefined) return undefined;
    held.delete(ticket);
    reserve(known.endpoint, known.most, -1);
    return known.most;
  }

  function reserve({ price }: Endpoint, { prompt, completion }: Usage, sign: 1 | -1): void {
    reserved.tokens += sign * (prompt + completion);
    if (price !== null) reserved.cost += BigInt(sign) * tokenCost(price, { prompt, completion });
  }

  function charge({ price }: Endpoint, said: Usage, most: Usage | undefined): void {
    // a prompt has a token at least
    const isSaid = said.prompt > 0 || said.completion > 0;
    if (!isSaid) unsaid += 1;
    const used = isSaid ? said : (most ?? said);
    spent.tokens += used.prompt + used.completion;
    if (price !== null) spent.cost += tokenCost(price, used);
  }
}
