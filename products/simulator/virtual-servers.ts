/**
 * Servers in virtual time: what the pool takes for a connection leads to an engine of the simulator, on one clock. No
 * socket, no thread, no wall clock; requests, answers, metrics and faults are those that the simulator gives on a port.
 */
import type { Exchange, Reply } from '../../engine/asking/endpoints/exchange.ts';
import type { OpenWire, Request } from '../../engine/asking/endpoints/wire.ts';
import { wholeBody } from './answer-wire.ts';
import { repliesOf } from './chat.ts';
import { Engine, type EngineState } from './engine.ts';
import type { Preset } from './presets.ts';
import { Refusal, refusalBody } from './refusal.ts';
import type { Limits } from './scheduler.ts';
import type { Handle } from './sequence.ts';
import { type Prompt, type PromptInput, promptOf } from './tokens.ts';
import type { VirtualClock } from './virtual-clock.ts';

export interface VirtualServers {
  servers: VirtualServer[];
  openWire: OpenWire;
}

export interface VirtualSettings {
  preset: Preset;
  limits?: Partial<Limits>;
  count: number;
  seed: number;
  /** shares of faulty answers, as `fw simulate --faults` takes them */
  faults?: string;
  /** /metrics are served */
  metrics?: boolean;
  /** sees each request as it comes, before it is answered */
  onRequest?: (body: string, server: VirtualServer) => void;
  /** how many ms after the engine has it an answer comes that took so many; at once unless given */
  late?: (took: number) => number;
  /** tokens of prompt and answer together, as /v1/models says them; unsaid unless given */
  context?: number;
  /** the models that are served; the first is the one that the simulator's answers name */
  models?: readonly string[];
  /** instead of the simulator's own answers, which `seed` and `faults` are for */
  answer?: Answering;
}

/** What a request will be answered, before the engine has given it its time. @throws Refusal */
export type Answering = (body: Buffer) => PlannedReply;

export interface PlannedReply {
  prompt: Prompt;
  /** what else the request has computed beside it: further choices, or texts to embed */
  more?: readonly Prompt[];
  /** output tokens of each, at least 1 */
  tokens: number;
  /** lower runs sooner, where the engines schedule by priority (`limits`) */
  priority?: number;
  /** the reply, once it is known how many tokens of the prompt were cached */
  bodyOf(cached: number): Buffer;
}

export const VIRTUAL_MODEL = 'simulated';

export function virtualServers(clock: VirtualClock, settings: VirtualSettings): VirtualServers {
  const answer = settings.answer ?? simulatedAnswers(settings);
  const servers = Array.from(
    { length: settings.count },
    (_, index) => new VirtualServer(`http://virtual-${index + 1}:8000`, clock, settings, answer),
  );
  return {
    servers,
    openWire: origin => {
      const server = servers.find(({ url }) => url === `${origin}/v1`);
      if (server === undefined) throw new Error(`no virtual server at ${origin}`);
      return server.wire;
    },
  };
}

function simulatedAnswers({
  seed,
  faults,
  limits: { byPriority = false } = {},
  models: [model = VIRTUAL_MODEL] = [],
}: VirtualSettings): Answering {
  const replies = repliesOf({ seed, byPriority, ...(faults && { faults }) });
  return body => {
    const reply = replies.reply(body, model);
    return {
      prompt: promptOf(reply.prompts[0] as PromptInput),
      more: reply.prompts.slice(1).map(asked => promptOf(asked)),
      tokens: Math.max(1, reply.usage.completion),
      priority: reply.priority,
      bodyOf: cached => Buffer.from(wholeBody({ ...reply, usage: { ...reply.usage, cached } }, 0)),
    };
  };
}

/** so slow that it is none */
const FROZEN = 1e-9;

type Settle = (outcome: Reply | Error) => void;

export class VirtualServer {
  readonly url: string;
  /** requests beyond so many are answered with 503, as vLLM does where it is told to; null: the queue has no bound */
  admits: number | null = null;
  readonly wire: ReturnType<OpenWire>;
  readonly #clock: VirtualClock;
  readonly #settings: VirtualSettings;
  readonly #answer: Answering;
  #engine: Engine;
  // the engine has a clock of its own: while the server is slow, less of its time passes
  #speed = 1;
  #since = 0;
  #before = 0;
  #reached = 0;
  #isUp = true;
  #isFrozen = false;
  #answered = 0;
  /** sequences of each request, by how it ends */
  readonly #open = new Map<Settle, Handle[]>();

  constructor(origin: string, clock: VirtualClock, settings: VirtualSettings, answer: Answering) {
    this.url = `${origin}/v1`;
    this.#clock = clock;
    this.#settings = settings;
    this.#answer = answer;
    this.#engine = new Engine(settings.preset, settings.limits);
    this.wire = {
      send: (request, settle) => this.#send(request, settle),
      close: async () => {},
    };
    clock.add({
      due: () => {
        const due = this.#engine.due();
        return due === null ? null : this.#since + (due - this.#before) / this.#speed;
      },
      // a moment of one clock is not always one of the other to the last bit
      advance: () => {
        this.#reached = Math.max(this.#now(), this.#engine.due() ?? 0);
        const before = this.#answered;
        this.#engine.advance(this.#reached);
        return this.#answered > before;
      },
    });
  }

  state(): EngineState {
    return this.#engine.state(this.#now());
  }

  /** 1 is the preset's own speed; running calls continue at the new one */
  setSpeed(speed: number): void {
    this.#before = this.#now();
    this.#since = this.#clock.now();
    this.#speed = speed;
  }

  /** The process is gone: what it had breaks off, and nobody can connect. */
  kill(): void {
    this.#isUp = false;
    const broken = [...this.#open.keys()];
    this.#open.clear();
    this.#engine = new Engine(this.#settings.preset, this.#settings.limits);
    this.#before = 0;
    this.#reached = 0;
    this.#since = this.#clock.now();
    for (const settle of broken) settle(errorOf('ECONNRESET', 'read ECONNRESET'));
  }

  /** It is there again, with an empty cache. */
  start(): void {
    this.#isUp = true;
  }

  /** The process is stopped (`SIGSTOP`): it works on nothing and answers nothing, and its connections stay open. */
  freeze(): void {
    this.setSpeed(FROZEN);
    this.#isFrozen = true;
  }

  /** It goes on. */
  thaw(): void {
    this.setSpeed(1);
    this.#isFrozen = false;
  }

  /** of the engine */
  #now(): number {
    return Math.max(this.#reached, this.#before + (this.#clock.now() - this.#since) * this.#speed);
  }

  #send(request: Request, settle: Settle): Exchange {
    const { method, path, body } = request;
    if (!this.#isUp) return this.#later(() => settle(errorOf('ECONNREFUSED', 'connect ECONNREFUSED')));
    // whoever asks has given up long before it goes on
    if (method === 'GET' && this.#isFrozen) return { received: null, overrun: null, abort: settle };
    if (method === 'GET') return this.#later(() => settle(this.#get(path)));
    const exchange = this.#ask(request, settle);
    this.#settings.onRequest?.(String(body), this);
    return exchange;
  }

  /** A sink hears of the first token and of the end: what comes between is no event of virtual time. */
  #ask({ body, id, sink }: Request, settle: Settle): Exchange {
    let planned: PlannedReply;
    try {
      planned = this.#answer(body as Buffer);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return this.#later(() => settle(replyOf(error.status, refusalBody(error))));
    }
    if (this.admits !== null && this.#open.size >= this.admits) return this.#later(() => settle(FULL));
    const { prompt, more = [], tokens: output, priority = 0 } = planned;
    const { late } = this.#settings;
    const asked = this.#clock.now();
    let left = 1 + more.length;
    let cached = 0;
    const done = (_at: number, { cachedTokens }: Handle): void => {
      cached += cachedTokens;
      if (--left > 0) return;
      if (!this.#open.delete(settle)) return; // it broke off when the server died in this very moment
      this.#answered++;
      const come = (): void => settle({ ...replyOf(200, planned.bodyOf(cached)), requestId: id });
      if (sink !== undefined) settle(replyOf(200, ''));
      else if (late === undefined) come();
      else this.#clock.after(late(this.#clock.now() - asked), come);
    };
    const firstToken = (): void => {
      if (sink === undefined || !this.#open.has(settle)) return;
      exchange.passedOn = true;
      sink.head({}, FLOWS);
      sink.data(FIRST_TOKEN);
      this.#answered++;
    };
    const added = [prompt, ...more].map(one =>
      this.#engine.add({ prompt: one, output, priority, firstToken, done }, this.#now()),
    );
    this.#open.set(settle, added);
    const exchange = {
      received: null,
      overrun: null,
      passedOn: false,
      abort: (reason: Error) => {
        if (!this.#open.delete(settle)) return;
        for (const handle of added) this.#engine.remove(handle, this.#now());
        settle(reason);
      },
    };
    return exchange;
  }

  /** An answer comes after the request has been sent, never while it is. */
  #later(act: () => void): Exchange {
    return { received: null, overrun: null, abort: this.#clock.after(0, act) };
  }

  #get(path: string): Reply {
    const { models = [VIRTUAL_MODEL], context, metrics = true } = this.#settings;
    if (path === '/v1/models') {
      const data = models.map(id => ({ id, object: 'model', root: id, max_model_len: context }));
      return replyOf(200, JSON.stringify({ object: 'list', data }));
    }
    if (!metrics || path !== '/metrics') return replyOf(404, '');
    const { running, waiting, kvUsage, preemptions, promptTokens, prefixHits, outputTokens } = this.state();
    return replyOf(
      200,
      `vllm:num_requests_running ${running}\nvllm:num_requests_waiting ${waiting}\n` +
        `vllm:kv_cache_usage_perc ${kvUsage}\nvllm:num_preemptions_total ${preemptions}\n` +
        `vllm:prompt_tokens_total ${promptTokens}\nvllm:generation_tokens_total ${outputTokens}\n` +
        `vllm:prefix_cache_hits_total ${prefixHits}\n`,
    );
  }
}

const replyOf = (status: number, body: string | Buffer): Reply => ({
  status,
  retryAfter: undefined,
  body: typeof body === 'string' ? Buffer.from(body) : body,
});

const FLOWS = { pause() {}, resume() {} };
const FIRST_TOKEN = Buffer.from('data: {}\n\n');

const FULL = replyOf(
  503,
  refusalBody(
    new Refusal(503, 'Service Unavailable', 'The engine is currently busy and cannot accept new requests.'),
  ),
);

const errorOf = (code: string, message: string): Error => Object.assign(new Error(message), { code });
