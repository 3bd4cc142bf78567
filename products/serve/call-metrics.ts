/**
 * Calls to model servers for Prometheus: how many, how they ended, how long they took, their tokens; by endpoint and model,
 * and by whether somebody waits (live) or a batch asks. Who asks is no label, since that has no bound.
 */
import { Counter, Histogram, type Registry } from 'prom-client';
import { type Price, tokenCost } from '../../engine/asking/endpoints/price.ts';
import type { CallRecord } from '../../engine/asking/ledger/ledger-format.ts';
import type { Usage } from '../../engine/core/item/item.ts';

export type Kind = 'live' | 'batch';

/** seconds */
const TIMES = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
/** Pairs of endpoint and model that are told apart. */
const MOST = 1_000;
const OTHER = 'other';

interface Seen {
  endpoint: string;
  model: string;
  kind: Kind;
  /** by outcome */
  outcomes: Map<string, number>;
  answered: ReturnType<Histogram['labels']>;
  /** of calls that are paid by the token, as price.ts counts money; null where none was */
  money: bigint | null;
}

/** parts of a unit of money */
const MONEY = 1e15;

interface Tokens {
  model: string;
  kind: Kind;
  used: Required<Usage>;
}

export class CallMetrics {
  /** Looked up for each call: what prom-client does with labels takes ten times as long. */
  readonly #seen = new Map<string, Seen>();
  readonly #tokens = new Map<string, Tokens>();
  readonly #times: Histogram;
  /** What an endpoint costs; null where nobody said. Set once the endpoints are known. */
  priceOf: (endpoint: string) => Price | null = () => null;

  constructor(registry: Registry) {
    const { seen, used } = { seen: this.#seen, used: this.#tokens };
    const registers = [registry];
    new Counter({
      name: 'fw_calls_total',
      help: 'Calls to an endpoint that have ended, by how: answer, timeout, transport, HTTP and a status, …',
      labelNames: ['endpoint', 'model', 'kind', 'outcome'],
      registers,
      collect() {
        this.reset();
        for (const { endpoint, model, kind, outcomes } of seen.values())
          for (const [outcome, count] of outcomes) this.inc({ endpoint, model, kind, outcome }, count);
      },
    });
    new Counter({
      name: 'fw_tokens_total',
      help: 'Tokens of answers, of which cached is a part of prompt.',
      labelNames: ['model', 'kind', 'direction'],
      registers,
      collect() {
        this.reset();
        for (const { model, kind, used: sums } of used.values())
          for (const [direction, count] of Object.entries(sums)) this.inc({ model, kind, direction }, count);
      },
    });
    new Counter({
      name: 'fw_cost_total',
      help: 'What calls cost that are paid by the token, in the currency in which the prices of the pool file are.',
      labelNames: ['endpoint', 'model', 'kind'],
      registers,
      collect() {
        this.reset();
        for (const { endpoint, model, kind, money } of seen.values())
          if (money !== null) this.inc({ endpoint, model, kind }, Number(money) / MONEY);
      },
    });
    this.#times = new Histogram({
      name: 'fw_call_seconds',
      help: 'Time of answered calls at an endpoint, from sending to the end of the answer.',
      labelNames: ['endpoint', 'model', 'kind'],
      buckets: TIMES,
      registers,
    });
  }

  tried(kind: Kind, { endpoint, model, outcome, ms, usage }: CallRecord): void {
    const call = this.#of(endpoint, model, kind);
    const { outcomes, answered, model: named } = call;
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    if (outcome === 'answer') answered.observe(ms / 1000);
    if (usage === undefined) return;
    this.tokens(kind, named, usage);
    const price = this.priceOf(endpoint);
    if (price !== null && price.hour === null) call.money = (call.money ?? 0n) + tokenCost(price, usage);
  }

  tokens(kind: Kind, model: string, { prompt, completion, cached = 0 }: Usage): void {
    const name = `${kind} ${model}`;
    let tokens = this.#tokens.get(name);
    if (tokens === undefined) {
      tokens = { model, kind, used: { prompt: 0, completion: 0, cached: 0 } };
      this.#tokens.set(name, tokens);
    }
    tokens.used.prompt += prompt;
    tokens.used.completion += completion;
    tokens.used.cached += cached;
  }

  #of(endpoint: string, model: string, kind: Kind): Seen {
    const name = `${kind} ${endpoint} ${model}`;
    const known = this.#seen.get(name);
    if (known !== undefined) return known;
    if (this.#seen.size >= MOST && model !== OTHER) return this.#of(OTHER, OTHER, kind);
    const answered = this.#times.labels({ endpoint, model, kind });
    const seen = { endpoint, model, kind, outcomes: new Map(), answered, money: null };
    this.#seen.set(name, seen);
    return seen;
  }
}
