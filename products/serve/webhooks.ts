/**
 * Webhooks: whoever the config names is told when a batch has ended, as OpenAI tells it, signed by Standard Webhooks. A
 * delivery is a file until it has arrived, so that a restart continues it. Addresses come from the config alone; no redirect
 * is followed.
 */
import { createHmac, hash } from 'node:crypto';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { readRetryAfter } from '../../engine/asking/endpoints/pool-clock.ts';
import { openWire, sendWithin } from '../../engine/asking/endpoints/wire.ts';
import {
  DISK,
  OWNER_ONLY,
  removeFile,
  removeUnfinished,
  replaceFile,
} from '../../engine/core/files/durable.ts';
import { dataError } from '../../engine/core/item/failure.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { readRecord } from './small-files.ts';

export const EVENTS = ['batch.completed', 'batch.failed', 'batch.expired', 'batch.cancelled'] as const;
export type WebhookEvent = (typeof EVENTS)[number];

/** One of `webhooks:` in the config. */
export interface WebhookTarget {
  /** the name of a key: whose batches are told of */
  owner: string;
  url: string;
  /** environment variables of the secrets; several while one takes the place of another */
  secret_env: string | readonly string[];
  /** all unless given */
  events?: readonly WebhookEvent[];
}

interface Delivery {
  id: string;
  url: string;
  owner: string;
  body: string;
  tries: number;
  /** ms since 1970 */
  next: number;
}

export interface WebhookOptions {
  /** of the deliveries */
  folder: string;
  targets: readonly WebhookTarget[];
  env: Readonly<Record<string, string | undefined>>;
  now(): number;
  say: Say;
  random?: () => number;
  /** ms before each try */
  waits?: readonly number[];
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
/** Standard Webhooks' schedule, for a day. */
const WAITS = [0, 5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 8 * HOUR, 8 * HOUR];
const TIMEOUT = 20 * SECOND;
/** bytes of an answer, of which nothing is used */
const MOST_REPLY = 65_536;
/** A machine that slept wakes up late: a delivery is looked at that often. */
const LOOK = HOUR;
const PREFIX = 'whsec_';
const EVENT_ID = /^evt_[0-9a-f]{32}$/;

/** The header `webhook-signature` of Standard Webhooks: one `v1,` and the base64 of an HMAC-SHA256 for each secret. */
export function signatureOf(secrets: readonly Buffer[], id: string, seconds: number, body: string): string {
  return secrets
    .map(secret => `v1,${createHmac('sha256', secret).update(`${id}.${seconds}.${body}`).digest('base64')}`)
    .join(' ');
}

/** The bytes of `whsec_…`. Exit 65 where they are none, or not 24 to 64. */
export function secretIn(text: string | undefined, name: string): Buffer {
  const bytes = Buffer.from(
    (text ?? '').startsWith(PREFIX) ? (text as string).slice(PREFIX.length) : '',
    'base64',
  );
  if (bytes.length >= 24 && bytes.length <= 64) return bytes;
  throw dataError(
    `webhooks: expected ${PREFIX} and 24 to 64 bytes in base64 in ${name}, found ${text === undefined ? 'nothing' : 'something else'}; ` +
      `make one: echo ${PREFIX}$(openssl rand -base64 32)`,
  );
}

type Secrets = ReadonlyMap<string, readonly Buffer[]>;

export class Webhooks {
  readonly #options: WebhookOptions;
  #targets: readonly WebhookTarget[];
  /** by target */
  #secrets: Secrets;
  /** of the deliveries that have not arrived */
  readonly #timers = new Map<string, NodeJS.Timeout>();
  /** targets that said 410: they want no more */
  readonly #gone = new Set<string>();
  #delivered = 0;
  #givenUp = 0;
  #isStopped = false;

  constructor(options: WebhookOptions) {
    const { folder, targets, say, waits = WAITS } = options;
    this.#options = options;
    this.#targets = targets;
    this.#secrets = this.secretsOf(targets);
    mkdirSync(folder, { recursive: true, mode: OWNER_ONLY.folder });
    removeUnfinished(folder);
    for (const name of readdirSync(folder).filter(each => each.endsWith('.json'))) {
      const path = join(folder, name);
      const delivery = readRecord<Delivery>(path, one => isDelivery(one, name));
      if (delivery === null) {
        say(`${path}: expected a delivery of this server, found something else; it is left as it is`, {
          ...{ event: 'file-ignored', level: 'error' },
        });
        continue;
      }
      this.#wait(delivery, Math.max(HOUR, 1.1 * (waits[delivery.tries] ?? 0)));
    }
  }

  /** Exit 65 where one of them has none. */
  secretsOf(targets: readonly WebhookTarget[]): Secrets {
    const { env } = this.#options;
    return new Map(
      targets.map(({ owner, url, secret_env: names }) => [
        nameOf(owner, url),
        [names].flat().map(name => secretIn(env[name], name)),
      ]),
    );
  }

  /** From now on these are told. What waits for one that is named no more is given up. */
  follow(targets: readonly WebhookTarget[], secrets: Secrets): void {
    this.#targets = targets;
    this.#secrets = secrets;
  }

  /** Keeps what is to be told on disk, and tells it from then on. Told twice, the id of the event is the same. */
  tell(owner: string, event: WebhookEvent, batch: string): void {
    const { now } = this.#options;
    this.#targets.forEach((target, index) => {
      if (target.owner !== owner || !(target.events ?? EVENTS).includes(event)) return;
      const id = `evt_${hash('sha256', `${batch}\n${event}\n${index}`, 'hex').slice(0, 32)}`;
      if (this.#timers.has(id)) return;
      const created_at = Math.floor(now() / 1000);
      const body = JSON.stringify({ id, object: 'event', type: event, created_at, data: { id: batch } });
      const delivery = { id, url: target.url, owner, body, tries: 0, next: now() };
      this.#keep(delivery);
      this.#wait(delivery, 0);
    });
  }

  /** deliveries that have not arrived, and those that were given up since the start */
  counts(): { waiting: number; delivered: number; givenUp: number } {
    return { waiting: this.#timers.size, delivered: this.#delivered, givenUp: this.#givenUp };
  }

  stop(): void {
    this.#isStopped = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }

  /** For `most` ms, whatever a clock says that was set back meanwhile. */
  #wait(delivery: Delivery, most: number): void {
    if (this.#isStopped) return;
    const left = Math.min(most, Math.max(0, delivery.next - this.#options.now()));
    const timer = setTimeout(
      () => {
        if (left > LOOK) this.#wait(delivery, left - LOOK);
        else void this.#deliver(delivery).catch(error => this.#leave(delivery, error));
      },
      Math.min(LOOK, left),
    );
    this.#timers.set(delivery.id, timer.unref());
  }

  async #deliver(delivery: Delivery): Promise<void> {
    const { id, url, owner, body } = delivery;
    const { now, say, random = Math.random, waits = WAITS } = this.#options;
    const target = nameOf(owner, url);
    const keys = this.#secrets.get(target);
    if (keys === undefined || this.#gone.has(target))
      return this.#giveUp(delivery, 'the config no longer names it');
    const seconds = Math.floor(now() / 1000);
    const { refusal, status, retryAfter } = await this.#post(url, body, {
      'webhook-id': id,
      'webhook-timestamp': String(seconds),
      'webhook-signature': signatureOf(keys, id, seconds, body),
    });
    if (refusal === null) {
      this.#delivered++;
      return this.#end(delivery);
    }
    if (status === 410) {
      this.#gone.add(target);
      return this.#giveUp(delivery, 'HTTP 410: it wants no more, and gets none until a restart');
    }
    delivery.tries++;
    const next = waits[delivery.tries];
    if (next === undefined) return this.#giveUp(delivery, `${refusal}, after ${delivery.tries} tries`);
    const ms = Math.max(next * (1 + random() / 10), retryAfter);
    delivery.next = now() + ms;
    if (delivery.tries === 1)
      say(`webhook to ${originOf(url)} of ${owner}: ${refusal}; retrying for a day`, {
        ...{ event: 'webhook-refused', level: 'warn', webhook: delivery.id, owner },
      });
    this.#onDisk(() => this.#keep(delivery));
    this.#wait(delivery, ms);
  }

  async #post(url: string, body: string, headers: Record<string, string>) {
    const { origin, pathname, search } = new URL(url);
    const wire = openWire(origin, undefined, MOST_REPLY);
    const request = {
      method: 'POST' as const,
      path: pathname + search,
      body: Buffer.from(body),
      headers: Object.entries({ ...headers, 'user-agent': 'fw' }).flat(),
    };
    const reply = await sendWithin(wire, request, TIMEOUT);
    void wire.close();
    if (reply instanceof Error)
      return { refusal: (reply as NodeJS.ErrnoException).code ?? reply.name, status: 0, retryAfter: 0 };
    const { status } = reply;
    if (status >= 200 && status < 300) return { refusal: null, status, retryAfter: 0 };
    const retryAfter = readRetryAfter(reply.retryAfter, this.#options.now(), HOUR) ?? 0;
    return { refusal: `HTTP ${status}`, status, retryAfter };
  }

  #giveUp(delivery: Delivery, why: string): void {
    const { id, url, owner } = delivery;
    this.#givenUp++;
    this.#options.say(`webhook to ${originOf(url)} of ${owner} was given up (${id}): ${why}`, {
      ...{ event: 'webhook-given-up', level: 'error', webhook: id, owner },
    });
    this.#end(delivery);
  }

  /** What nobody thought of ends no server: the delivery stays on disk, and the next start tries it again. */
  #leave({ id, owner }: Delivery, error: unknown): void {
    this.#timers.delete(id);
    const why = (error as Error).stack ?? error;
    this.#options.say(`webhook ${id} of ${owner} waits for the next start, a bug, please report it: ${why}`, {
      ...{ event: 'bug', level: 'error', webhook: id, owner },
    });
  }

  #end(delivery: Delivery): void {
    this.#timers.delete(delivery.id);
    this.#onDisk(() => removeFile(this.#pathOf(delivery), DISK));
  }

  #keep(delivery: Delivery): void {
    replaceFile(this.#pathOf(delivery), JSON.stringify(delivery));
  }

  #pathOf({ id }: Delivery): string {
    return join(this.#options.folder, `${id}.json`);
  }

  /** What the disk does not take ends no server: the delivery continues, and a restart finds it as it was. */
  #onDisk(act: () => void): void {
    const { folder, say } = this.#options;
    try {
      act();
    } catch (error) {
      say(`webhooks: expected to write to ${folder}, found ${(error as Error).message}`, {
        ...{ event: 'disk', level: 'warn' },
      });
    }
  }
}

/** Whether it is what `#keep` writes under that name. */
function isDelivery(one: Delivery | null, name: string): boolean {
  if (!EVENT_ID.test(one?.id ?? '') || `${one?.id}.json` !== name) return false;
  const { url, owner, body, tries, next } = one as Delivery;
  if (![url, owner, body].every(text => typeof text === 'string') || !URL.canParse(url)) return false;
  return Number.isSafeInteger(tries) && tries >= 0 && Number.isFinite(next);
}

const nameOf = (owner: string, url: string): string => `${owner}\n${url}`;

/** Paths of hooks are often secrets. */
function originOf(url: string): string {
  return new URL(url).origin;
}
