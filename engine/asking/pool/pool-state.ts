/**
 * What the pool keeps: endpoints, with what is known of them; the tickets of calls that are on their way; and who asks.
 * They name each other, so all are here, with the places that tickets take at endpoints.
 */
import type { Answer, Call } from '../../core/item/call.ts';
import type { Code } from '../../core/item/codes.ts';
import type { Usage } from '../../core/item/item.ts';
import type { Key } from '../endpoints/endpoint-words.ts';
import type { Gpu, GpuSetting } from '../endpoints/gpu.ts';
import { type Clock, noLatencies, type Recent, systemClock } from '../endpoints/pool-clock.ts';
import type { Price } from '../endpoints/price.ts';
import type { Load } from '../endpoints/server-load.ts';
import type { EndpointSetting } from '../endpoints/settings.ts';
import { type Exchange, type OpenWire, openWire } from '../endpoints/wire.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Extent } from './extent.ts';
import { createLearner, ownOf } from './learner.ts';
import type { Ending } from './pool-ending.ts';
import type { KnownAnswers, Recording } from './recording.ts';
import { noSigns, turnFrom } from './signs-of-work.ts';

/** What was seen of an endpoint's load since `from`. */
export interface LoadSeen {
  from: number;
  leastWaiting: number;
  /** calls there at a time */
  mostHere: number;
  preemptions: number;
}

/** Counts of an endpoint. A new one is a line here: pool-stats.ts copies them all, for the account and --metrics. */
const NO_COUNTS = {
  /** answers of the model */
  answered: 0,
  /** of these, those that had the id of their request, and those that had none */
  checked: 0,
  unchecked: 0,
  /** … and those that name another model than the one that was asked for */
  otherModel: 0,
  /** tries here of calls that had failed before */
  retries: 0,
  /** sums of ms: of its tries, and of the places that it had while it could be asked, or that calls took */
  busy: 0,
  places: 0,
};

export type EndpointCounts = typeof NO_COUNTS & {
  /** tries that failed here, by kind: `HTTP 500`, `timeout`, `transport`, `not connected`, `bad answer`, `crossed`, `refused` */
  failed: Record<string, number>;
  /** tokens */
  usage: Required<Usage>;
};

/** What batches have of an endpoint beside live calls (live-share.ts). */
export interface BatchShare {
  /** calls of all kinds that may be there when a batch begins one more; none while it has to wait for its turn */
  readonly most: number;
  state(): BatchShareState;
}

export interface BatchShareState {
  /** places that batches have; null: as many as there are */
  places: number | null;
  /** ms in which a first token is on time, as of the last one; null where nobody knows */
  aim: number | null;
}

export interface EndpointOptions {
  openWire?: OpenWire | undefined;
  maxBody?: number | undefined;
  reserve?: number | undefined;
  /** as in PoolSettings and PoolOptions; a run begins now, and a server lasts */
  overflow?: number | undefined;
  lasting?: boolean | undefined;
  clock?: Pick<Clock, 'now'> | undefined;
}

/**
 * Of an endpoint that is paid by the token, after how many ms it helps the others, and from when on these count; `begun` null:
 * from when a call was asked. Null for the others.
 */
export function helpOf(
  price: Price | undefined,
  { overflow, lasting, clock = systemClock }: EndpointOptions,
) {
  if (price === undefined || price.hour !== null) return null;
  const begun: number | null = lasting ? null : clock.now();
  return { after: overflow ?? Number.POSITIVE_INFINITY, begun };
}

export function createEndpoint(
  { url, limit, pinned, meant, key: own, gpu, scheduling, price }: EndpointSetting,
  index: number,
  shared: Key | undefined,
  options: EndpointOptions = {},
) {
  const { origin, pathname } = new URL(url);
  const learner = createLearner(limit, pinned, 0, meant, options.reserve);
  const key = own ?? shared;
  return {
    /** the base URL, without a slash at its end */
    url,
    /** the path of the base URL, such as `/v1` */
    prefix: pathname === '/' ? '' : pathname,
    /** the API key that is sent to it, and kept out of what it says */
    key,
    wire: (options.openWire ?? openWire)(origin, key && `Bearer ${key.read()}`, options.maxBody),
    salt: mix(index + 1),
    /** the models that it serves */
    models: new Set() as ReadonlySet<string>,
    /** the calls that have a place there */
    running: [] as Ticket[],

    /**
     * `down`: probed now and then until it answers; `unusable`: it serves other models or refuses the key, and stays out;
     * `drained`: somebody wants it to be asked nothing new, and what it has may finish (membership.ts)
     */
    state: 'down' as 'up' | 'down' | 'unusable' | 'drained',
    /** it is to be forgotten once nothing of it is under way */
    leaving: false,
    /** why it is not up, in words */
    cause: 'not probed yet',
    /** when it was found down, and when a person was told so last */
    lostAt: null as number | null,
    lostToldAt: null as number | null,
    probeAt: 0,
    probeWait: 0,
    probing: false,

    /** what it costs; null: nothing that anybody has said */
    price: price ?? null,
    /** when it helps those that are not paid by the token; null for these */
    helps: helpOf(price, options),
    /** what may be spent there is spent, or may be by what it has (spending.ts): it gets nothing now */
    isShut: false,

    pausedUntil: 0,
    failuresInARow: 0,
    /** when it last failed what was counted among them */
    failedAt: Number.NEGATIVE_INFINITY,
    /** when a person was told that it fails */
    toldAt: Number.NEGATIVE_INFINITY,

    /** calls at a time that it may have from here, as limit.ts moves it */
    get limit() {
      return ownOf(learner);
    },
    learner,
    /** what batches have of it beside live calls; null where there are none */
    share: null as BatchShare | null,
    /** it says that it is a vLLM; whether it takes the priority of a call, as a person has said or a call has shown (priority.ts) */
    isVllm: false,
    priority: (scheduling === undefined ? 'unknown' : scheduling === 'priority' ? 'taken' : 'refused') as
      | 'unknown'
      | 'tried'
      | 'taken'
      | 'refused',
    /** a person has set the limit, and it stays there */
    pinned,
    /** where the limit was before the endpoint went away; 0 once it is there again */
    goal: 0,
    /** what its metrics said last; null where it has none */
    load: null as Load | null,
    /** where its GPUs are seen, and what was said of them last */
    gpuSeen: (gpu ?? null) as GpuSetting | null,
    gpu: null as Gpu | null,
    seen: null as LoadSeen | null,
    /** the queue that never went away while it was last looked at for as long as an answer takes */
    standing: 0,

    /** latencies that still say something: of all its answers, and of those to each agent */
    latencies: noLatencies(),
    /** `checked` and `unchecked` of raw calls, by the URL that was asked */
    checksAt: new Map<string, Pick<EndpointCounts, 'checked' | 'unchecked'>>(),
    byAgent: new Map<string, Recent>(),
    /** tokens of prompt and answer together, by model, where it says so */
    contexts: new Map() as ReadonlyMap<string, number>,
    signs: noSigns(),
    /**
     * what a run does without here: counters and load at /metrics (null: nobody has looked yet); models for which it knows no
     * form of an answer, or only TGI's way to write one, and the tries that went without
     */
    lacks: {
      metrics: null as boolean | null,
      forms: new Set<string>(),
      valued: new Set<string>(),
      formless: 0,
    },
    counts: { ...NO_COUNTS, failed: {}, usage: { prompt: 0, completion: 0, cached: 0 } } as EndpointCounts,
  };
}

export type Endpoint = ReturnType<typeof createEndpoint>;

/** Who shares the places with others: owners in equal parts, and the batches of an owner by weight. */
export interface Share {
  owner: string;
  batch: string;
  /** above 0; one of twice the weight gets two turns where another gets one. Looked at for each turn: it may change. */
  readonly weight: number;
}

/** Where the time of calls went, in ms, over all calls that have ended. */
export interface CallTimes {
  /** from the question until it was first sent: no place was free */
  waiting: number;
  /** at a server, of tries that were answered, and of calls that a stop found there at their first */
  asking: number;
  /** of what was sent again: from the first try to the last one; of what failed, all since the first */
  retrying: number;
  /** until the ledger had an answer */
  writing: number;
  /** what its asker says that it took to find, mend and check the JSON of answers */
  mending: number;
}

/** What a part has asked. */
export interface Sums {
  calls: number;
  /** calls that were answered from the ledger, and are not among the others; null without one */
  replayed: number | null;
  answered: number;
  /** calls that ended without an answer, by the code of their failure */
  failed: Partial<Record<Code, number>>;
  retries: number;
  usage: Required<Usage>;
  times: CallTimes;
  /** ms in which this process waited for writes of the ledger */
  ledger: number;
}

/** Who asks (part.ts). */
export interface Part {
  readonly ledger: Ledger | undefined;
  /** the model that its requests mean that name none; null where the pool says it */
  readonly unnamed: string | null;
  readonly share: Share;
  /** of the names of its items, which another part may give to others; 32 bits */
  readonly salt: number;
  readonly known: KnownAnswers;
  readonly recording: Recording;
  readonly ending: Ending;
  readonly counts: { calls: number; outstanding: number; retries: number };
  readonly times: CallTimes;
  /** `ticket` was answered at `now`, by the try that is under way. */
  answered(ticket: Ticket, answer: Answer, now: number): void;
  /** A try at `endpoint` gave no answer, and used tokens all the same. */
  paid(endpoint: Endpoint, used: Usage): void;
  /** `ticket` ended without an answer. */
  failed(ticket: Ticket, reason: Error, now: number): void;
  /** A copy, free to keep. */
  sums(): Sums;
}

/** Of calls that have not been sent: each has its own from then on. */
const NO_TURN = turnFrom(0, 0);

/** A call on its way: what was asked, what became of it so far, and who waits for it. */
export class Ticket {
  readonly call: Call;
  /** who asks */
  readonly part: Part;
  /** of the row that several items have in common, else of the item's id: breaks ties between endpoints, finds the home */
  readonly hash: number;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (reason: Error) => void;
  /** the endpoint of its chain's last answer; null for the first call of a chain */
  home: Endpoint | null = null;

  /** tries that count, as reactions.ts says */
  tries = 0;
  /** times that a server was full and sent it away, or failed it as every other call */
  throttled = 0;
  /** the status of the last reply by which a server sent it away; null where none did since it was last taken */
  sentAwayWith: number | null = null;
  /** ms that servers had it, over the tries that have ended */
  atServers = 0;
  /** how many tries ended in each code; where all ended in the same, it is the code of the call's failure */
  codes: Partial<Record<Code, number>> | null = null;
  /** the last cause at each endpoint by its URL; null until something went wrong */
  causes: Map<string, string> | null = null;
  /** the endpoint that failed it last */
  avoid: Endpoint | null = null;
  /** those that left it unanswered; null where none did */
  unanswered: Endpoint[] | null = null;
  /** the endpoint that refused it, while another one is asked */
  refusedAt: Endpoint | null = null;
  notBefore = 0;

  /** the endpoint that has it, its index among those running there, when it was sent, and how to stop it */
  at: Endpoint | null = null;
  index = -1;
  sentAt = 0;
  exchange: Exchange | null = null;
  turn = NO_TURN;
  extent: Extent | null = null;
  /** whether its try carries a priority, and is the first there that does */
  carries: 'known' | 'trial' | null = null;
  /** its try goes without the form of its answer */
  isFormless = false;
  /** … or has it as TGI writes it */
  isValued = false;
  /** calls at its endpoint when it was sent, itself among them */
  among = 0;
  /** of that endpoint's limit, as learner.ts counts them */
  round = 0;
  /** ms that this process had been late by then, as lag.ts counts them */
  lateAtSent = 0;
  /** when its answer was seen to begin, the bytes that had come at the last look, and when there were more of them */
  begunAt: number | null = null;
  received = 0;
  receivedAt = 0;

  /** when it was asked, and when it was first sent; null until then */
  askedAt: number;
  firstSentAt: number | null = null;

  constructor(
    call: Call,
    part: Part,
    askedAt: number,
    resolve: (answer: Answer) => void,
    reject: (reason: Error) => void,
  ) {
    this.call = call;
    this.part = part;
    this.askedAt = askedAt;
    this.resolve = resolve;
    this.reject = reject;
    this.hash = (hashOf(call.row ?? call.item) ^ part.salt) >>> 0;
  }
}

/** Takes a place; the caller has seen that there is one. */
export function enter(endpoint: Endpoint, ticket: Ticket, now: number): void {
  ticket.at = endpoint;
  ticket.sentAt = now;
  ticket.turn = turnFrom(now, endpoint.signs.steps);
  ticket.extent = null;
  ticket.firstSentAt ??= now;
  ticket.begunAt = null;
  ticket.among = endpoint.running.push(ticket);
  ticket.index = ticket.among - 1;
}

/**
 * Gives the place back. The last one moves into the gap, so that this costs the same at any number in flight. Returns
 * the exchange that the ticket had there.
 */
export function leave(endpoint: Endpoint, ticket: Ticket): Exchange | null {
  const { exchange } = ticket;
  const last = endpoint.running.pop() as Ticket;
  if (last !== ticket) {
    endpoint.running[ticket.index] = last;
    last.index = ticket.index;
  }
  ticket.at = null;
  ticket.exchange = null;
  return exchange;
}

/**
 * A hash that spreads well, by which ties are broken and homes are found. It is no secret and no checksum: FNV-1a with a
 * last mix (Fowler, Noll, Vo; the mix of MurmurHash3), over UTF-16 units; 32 bits, unsigned.
 */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mix(hash);
}

export function mix(value: number): number {
  let hash = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
