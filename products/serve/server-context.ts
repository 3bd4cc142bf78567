/** What the parts of a server share: made in serve.ts, handed to the routes of files, batches and the gateway. */
import type { FastifyInstance } from 'fastify';
import type { EndpointPool } from '../../engine/asking/pool/part.ts';
import type { Disk } from '../../engine/core/files/durable.ts';
import type { Dialect } from '../../engine/core/item/dialects.ts';
import type { Say } from '../../engine/core/item/say.ts';
import type { Access, Caller } from './access.ts';
import type { Acts } from './admin/acts.ts';
import type { Scope } from './api-keys.ts';
import type { BudgetJournal } from './budget-journal.ts';
import type { EndpointList } from './endpoint-list.ts';
import type { Room } from './keep/room.ts';
import type { Settings } from './serve-config.ts';
import type { ServerMetrics } from './serve-metrics.ts';
import type { Workers } from './serve-workers.ts';
import type { Tracer } from './traces/tracer.ts';
import type { Webhooks } from './webhooks.ts';

export interface Parts {
  /** DIR: all that the server keeps */
  data: string;
  /** what changes its state: only while DIR is ours */
  disk: Disk;
  settings: Settings;
  /** of who asks; http.ts has checked the caller of each route before its handler runs */
  access: Access;
  /** of what keys have used */
  journal: Pick<BudgetJournal, 'note' | 'settleBatch' | 'settle' | 'flush'>;
  /** of all batches and of the gateway: each has a part of it, with a ledger and a share */
  pool: EndpointPool;
  /** those that are named, found and drained */
  endpoints: EndpointList;
  /** how often an adapter was loaded or unloaded here, by name: what a name means may be another one since */
  adapters: Map<string, number>;
  /** the record of what admins do */
  acts: Acts;
  metrics: ServerMetrics;
  /** of the disk of DIR */
  room: Room;
  /** tells owners that their batches have ended; told before the state of the batch says so, for a crash between */
  webhooks: Webhooks;
  /** null where all batches are done over the pool */
  workers: Workers | null;
  /** aborted when the server is told to stop: take nothing new */
  closing: AbortSignal;
  /** aborted when what is under way ends too: the grace is over, or it was told to stop at once */
  over: AbortSignal;
  /** null where no collector is named */
  tracer: Tracer | null;
  /** ms since 1970, as they are believed; and of what is made and will expire (wall-clock.ts) */
  now(): number;
  stamp(): number;
  /** whether DIR is ours still, which it may not be after this process stood still */
  isOurs(surely?: boolean): boolean;
  /** one line to the operator */
  say: Say;
}

/** Adds routes; what it returns ends them: it resolves when nothing of them is under way. */
export type Routes = (app: FastifyInstance, parts: Parts) => Promise<{ drain(): Promise<void> }>;

declare module 'fastify' {
  interface FastifyRequest {
    /** who asks; set before the handler of a route that has a scope */
    caller: Caller;
    /** Ends what the route does for this request, which answers it then; null where it can be answered from outside. */
    ends: (() => void) | null;
  }
  interface FastifyContextConfig {
    /** what a key must be allowed; null for any key; absent where no key is asked for */
    scope?: Scope | null;
    /** bytes of the body; `limits.body` of the config unless given */
    most?: number;
    /** the shape of what it says where it refuses; OpenAI's unless given */
    errors?: Dialect['errors'];
    /** a body may be a form, which is read as JSON; any other form is left to the route */
    isForm?: true;
  }
}
