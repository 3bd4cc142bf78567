/**
 * The endpoints of a pool that lasts come and go while it works: a server is told others, or an operator takes one out. What
 * such an endpoint has in flight may finish; it is forgotten, with its connections, once that is over.
 */
import type { Call } from '../../core/item/call.ts';
import type { Clock } from '../endpoints/pool-clock.ts';
import { type EndpointSetting, FIRST_LIMIT } from '../endpoints/settings.ts';
import { setLimit } from './learner.ts';
import { type Endpoint, helpOf } from './pool-state.ts';

export type Change =
  | { url: string; what: 'added' | 'removed' | 'key' }
  /** null: it is learned */
  | { url: string; what: 'limit'; limit: number | null };

export interface MembershipOptions {
  /** of the whole pool: changed in its place, and what was said of them */
  endpoints: Endpoint[];
  settings: readonly EndpointSetting[];
  clock: Clock;
  /** `index`: another one for each */
  make(setting: EndpointSetting, index: number): Endpoint;
  /** places at each that are kept free for live calls */
  reserve?: number | undefined;
  overflow?: number | undefined;
  /** told what live calls' time to the first token is to be */
  onTtft(ms: number | null): void;
  /** of outage.ts and call-queue.ts */
  outages: { join(endpoint: Endpoint, cause: string): void };
  queue: { leaveHome(endpoint: Endpoint): void; forget(at: number): void };
  /** There are others, or other limits. */
  onChange(): void;
}

const GONE = 'it is no longer named';
/** Models that a pool remembers to have had, and ms for which it does: what asks for one later is told that there is none. */
const MOST_MODELS = 1_000;
const REMEMBERED = 24 * 3_600_000;

export function createMembership(options: MembershipOptions) {
  const { endpoints, settings: first, clock, make, outages, queue, onChange, onTtft } = options;
  let { reserve = 0 } = options;
  let made = endpoints.length;
  const said = new WeakMap(endpoints.map((one, at) => [one, first[at] as EndpointSetting]));
  const gone = new GoneModels();
  const find = (url: string): Endpoint | undefined => endpoints.find(one => one.url === url);

  function stop(endpoint: Endpoint, cause: string): void {
    Object.assign(endpoint, { state: 'drained', cause, load: null });
    queue.leaveHome(endpoint);
  }

  function add(setting: EndpointSetting): Change[] {
    const known = find(setting.url);
    if (known === undefined) {
      const endpoint = make(setting, made++);
      said.set(endpoint, setting);
      endpoint.learner.reserve = reserve;
      endpoints.push(endpoint);
      outages.join(endpoint, endpoint.cause);
      return [{ url: setting.url, what: 'added' }];
    }
    const changes = adjust(known, { before: said.get(known), now: setting }, options);
    said.set(known, setting);
    if (!known.leaving) return changes;
    known.leaving = false;
    outages.join(known, 'it is named again, and not probed yet');
    return [{ url: setting.url, what: 'added' }];
  }

  return {
    /** From now on these are the endpoints. Returns what is another than before. */
    setEndpoints(settings: readonly EndpointSetting[]): Change[] {
      const named = new Set(settings.map(({ url }) => url));
      const out = endpoints.filter(({ url, leaving }) => !leaving && !named.has(url));
      for (const endpoint of out) {
        gone.note(endpoint.models, clock.now());
        endpoint.leaving = true;
        stop(endpoint, GONE);
      }
      const changes = settings.flatMap(add);
      onChange();
      return [...changes, ...out.map(({ url }) => ({ url, what: 'removed' as const }))];
    },
    /** Places at each endpoint that are kept free for live calls, at most half; and ms to their first token, as `liveTtft`. */
    setLive(places: number, ttft: number | null): void {
      reserve = places;
      for (const { learner } of endpoints) learner.reserve = places;
      onTtft(ttft);
      onChange();
    },
    /** Nothing new is asked there; calls in flight finish. False where no such endpoint is there. */
    drain(url: string, cause: string): boolean {
      const endpoint = find(url);
      if (endpoint === undefined || endpoint.leaving) return false;
      stop(endpoint, cause);
      onChange();
      return true;
    },
    /** False where it is not there, or nobody drained it. */
    resume(url: string): boolean {
      const endpoint = find(url);
      if (endpoint?.state !== 'drained' || endpoint.leaving) return false;
      outages.join(endpoint, 'it is asked again, and not probed yet');
      return true;
    },
    /** Whether an endpoint served it that was taken out, and none does now: what asks for it may wait. */
    wasServed: (model: string): boolean =>
      gone.has(model, clock.now()) && !endpoints.some(one => !one.leaving && one.models.has(model)),
    /** Somebody waits for a live call; a batch has its window, in which a model that is out may be back. */
    mayWait({ live, model }: Pick<Call, 'live' | 'model'>): boolean {
      return live === undefined && this.wasServed(model);
    },
    /** Forgets those that were taken out and have nothing under way. */
    sweep(): void {
      gone.sweep(clock.now());
      for (let at = endpoints.length - 1; at >= 0; at--) {
        const endpoint = endpoints[at] as Endpoint;
        // most looks end here
        if (!endpoint.leaving || endpoint.running.length > 0 || endpoint.probing) continue;
        endpoints.splice(at, 1);
        queue.forget(at);
        void endpoint.wire.close();
      }
    },
  };
}

/** `now` is said of an endpoint that is there, and `before` was. */
function adjust(
  endpoint: Endpoint,
  { before, now }: { before: EndpointSetting | undefined; now: EndpointSetting },
  { clock, make, overflow }: Pick<MembershipOptions, 'clock' | 'make' | 'overflow'>,
): Change[] {
  const { url, learner } = endpoint;
  const changes: Change[] = [];
  endpoint.gpuSeen = now.gpu ?? null;
  endpoint.price = now.price ?? null;
  endpoint.helps = helpOf(now.price, { lasting: true, overflow });
  if (now.pinned !== before?.pinned || (now.pinned && now.limit !== before.limit)) {
    const limit = now.pinned ? now.limit : null;
    Object.assign(endpoint, { pinned: now.pinned, goal: 0 });
    Object.assign(learner, { pinned: now.pinned, climb: null, isRecalled: false });
    // one that nobody sets any more is learned from where it is
    if (limit === null) learner.phase = 'grow';
    setLimit(learner, limit ?? Math.max(FIRST_LIMIT, learner.limit), clock.now());
    changes.push({ url, what: 'limit', limit });
  }
  if (now.key?.name !== before?.key?.name) {
    const { wire } = endpoint;
    const { key, wire: fresh } = make(now, 0);
    Object.assign(endpoint, { key, wire: fresh });
    void wire.close(); // once its calls have ended
    changes.push({ url, what: 'key' });
  }
  return changes;
}

/** Models of endpoints that were taken out, and when that was. Times in ms. */
class GoneModels {
  readonly #gone = new Map<string, number>();

  note(models: Iterable<string>, now: number): void {
    for (const model of models)
      if (this.#gone.size < MOST_MODELS || this.#gone.has(model)) this.#gone.set(model, now);
  }

  has(model: string, now: number): boolean {
    return now - (this.#gone.get(model) ?? Number.NEGATIVE_INFINITY) < REMEMBERED;
  }

  sweep(now: number): void {
    for (const [model, at] of this.#gone) if (now - at >= REMEMBERED) this.#gone.delete(model);
  }
}

export type Membership = Omit<ReturnType<typeof createMembership>, 'sweep' | 'mayWait'>;
