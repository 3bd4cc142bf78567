/**
 * Servers in virtual time: what the pool takes for a connection leads to an engine of the simulator, on one clock. No
 * socket, no thread, no wall clock; requests, answers, metrics and faults are those that the simulator gives on a port.
 */
import type { Exchange, OpenWire, Reply, Request } from '../../engine/asking/endpoints/wire.ts';
import { wholeBody } from '../simulator/answer-wire.ts';
import { replyTo } from '../simulator/chat.ts';
import { createEngine, type Engine, type EngineState } from '../simulator/engine.ts';
import { faultsFrom } from '../simulator/faults.ts';
import type { Preset } from '../simulator/presets.ts';
import { type Prompt, promptOf } from '../simulator/prompt.ts';
import { drawsOf, sha256 } from '../simulator/random.ts';
import { Refusal, refusalBody } from '../simulator/refusal.ts';
import type { Limits } from '../simulator/scheduler.ts';
import { schemaCache } from '../simulator/schemas.ts';
import type { Handle } from '../simulator/sequence.ts';
import type { PromptInput } from '../simulator/tokens.ts';
import type { VirtualClock } from './virtual-clock.ts';

export interface VirtualServer {
  readonly url: string;
  state(): EngineState;
  /** 1 is the preset's own speed; running calls continue at the new one */
  setSpeed(speed: number): void;
  /** The process is gone: what it had breaks off, and nobody can connect. */
  kill(): void;
  /** It is there again, with an empty cache. */
  start(): void;
  /** The process is stopped (`SIGSTOP`): it works on nothing and answers nothing, and its connections stay open. */
  freeze(): void;
  /** It goes on. */
  thaw(): void;
  /** requests beyond so many are answered with 503, as vLLM does where it is told to; null: the queue has no bound */
  admits: number | null;
}

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
  /** output tokens, at least 1 */
  tokens: number;
  /** the reply, once it is known how many tokens of the prompt were cached */
  bodyOf(cached: number): Buffer;
}

export const VIRTUAL_MODEL = 'simulated';

export function virtualServers(clock: VirtualClock, settings: VirtualSettings): VirtualServers {
  const answer = settings.answer ?? simulatedAnswers(settings);
  const opened = Array.from({ length: settings.count }, (_, index) =>
    virtualServer(`http://virtual-${index + 1}:8000`, clock, settings, answer),
  );
  return {
    servers: opened.map(({ server }) => server),
    openWire: origin => {
      const found = opened.find(({ server }) => server.url === `${origin}/v1`);
      if (found === undefined) throw new Error(`no virtual server at ${origin}`);
      return found.wire;
    },
  };
}

function simulatedAnswers({
  seed,
  faults = 'none',
  models: [model = VIRTUAL_MODEL] = [],
}: VirtualSettings): Answering {
  const chat = {
    model,
    maxModelLength: 131_072,
    faults: faultsFrom(faults),
    draws: drawsOf(seed),
    schemaOf: schemaCache(),
  };
  return bytes => {
    const reply = replyTo(bytes.toString(), sha256(bytes), chat);
    return {
      prompt: promptOf(reply.prompts[0] as PromptInput),
      tokens: Math.max(1, reply.usage.completion),
      bodyOf: cached => Buffer.from(wholeBody({ ...reply, usage: { ...reply.usage, cached } }, 0)),
    };
  };
}

function virtualServer(
  origin: string,
  clock: VirtualClock,
  { preset, limits, metrics = true, models = [VIRTUAL_MODEL], context, onRequest }: VirtualSettings,
  answer: Answering,
) {
  let engine: Engine = createEngine(preset, limits);
  // the engine has a clock of its own: while the server is slow, less of its time passes
  let speed = 1;
  let since = 0;
  let before = 0;
  let isUp = true;
  let isFrozen = false;
  const open = new Map<Handle, (outcome: Reply | Error) => void>();
  let reached = 0;
  let answered = 0;
  const engineNow = (): number => Math.max(reached, before + (clock.now() - since) * speed);

  clock.add({
    due() {
      const due = engine.due();
      return due === null ? null : since + (due - before) / speed;
    },
    // a moment of one clock is not always one of the other to the last bit
    advance() {
      reached = Math.max(engineNow(), engine.due() ?? 0);
      const before = answered;
      engine.advance(reached);
      return answered > before;
    },
  });

  const server: VirtualServer = {
    url: `${origin}/v1`,
    admits: null,
    state: () => engine.state(engineNow()),
    setSpeed(to) {
      before = engineNow();
      since = clock.now();
      speed = to;
    },
    kill() {
      isUp = false;
      const broken = [...open.values()];
      open.clear();
      engine = createEngine(preset, limits);
      before = 0;
      reached = 0;
      since = clock.now();
      for (const settle of broken) settle(errorOf('ECONNRESET', 'read ECONNRESET'));
    },
    start() {
      isUp = true;
    },
    freeze() {
      server.setSpeed(FROZEN);
      isFrozen = true;
    },
    thaw() {
      server.setSpeed(1);
      isFrozen = false;
    },
  };

  function ask({ body, id }: Request, settle: (outcome: Reply | Error) => void): Exchange {
    let told: PlannedReply;
    try {
      told = answer(body as Buffer);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const { status } = error;
      return later(() => settle({ status, retryAfter: undefined, body: Buffer.from(refusalBody(error)) }));
    }
    const { admits } = server;
    if (admits !== null && open.size >= admits) {
      return later(() => settle({ status: 503, retryAfter: undefined, body: FULL }));
    }
    const handle = engine.add(
      {
        prompt: told.prompt,
        output: told.tokens,
        done(_at, { cachedTokens }) {
          if (!open.delete(handle)) return; // it broke off when the server died in this very moment
          answered++;
          settle({ status: 200, retryAfter: undefined, requestId: id, body: told.bodyOf(cachedTokens) });
        },
      },
      engineNow(),
    );
    open.set(handle, settle);
    return {
      received: null,
      overrun: null,
      abort(reason) {
        if (!open.delete(handle)) return;
        engine.remove(handle, engineNow());
        settle(reason);
      },
    };
  }

  /** An answer comes after the request has been sent, never while it is. */
  function later(act: () => void): Exchange {
    return { received: null, overrun: null, abort: clock.after(0, act) };
  }

  function get(path: string): Reply {
    if (path === '/v1/models') {
      const data = models.map(id => ({ id, object: 'model', root: id, max_model_len: context }));
      const body = Buffer.from(JSON.stringify({ object: 'list', data }));
      return { status: 200, retryAfter: undefined, body };
    }
    if (!metrics || path !== '/metrics') return { status: 404, retryAfter: undefined, body: Buffer.alloc(0) };
    const { running, waiting, kvUsage, preemptions, promptTokens, prefixHits, outputTokens } = server.state();
    const page =
      `vllm:num_requests_running ${running}\nvllm:num_requests_waiting ${waiting}\n` +
      `vllm:kv_cache_usage_perc ${kvUsage}\nvllm:num_preemptions_total ${preemptions}\n` +
      `vllm:prompt_tokens_total ${promptTokens}\nvllm:generation_tokens_total ${outputTokens}\n` +
      `vllm:prefix_cache_hits_total ${prefixHits}\n`;
    return { status: 200, retryAfter: undefined, body: Buffer.from(page) };
  }

  return {
    server,
    wire: {
      send(request: Request, settle: (outcome: Reply | Error) => void) {
        const { method, path, body } = request;
        if (!isUp) return later(() => settle(errorOf('ECONNREFUSED', 'connect ECONNREFUSED')));
        // whoever asks has given up long before it goes on
        if (method === 'GET' && isFrozen) return { received: null, overrun: null, abort: settle };
        if (method === 'GET') return later(() => settle(get(path)));
        const exchange = ask(request, settle);
        onRequest?.(String(body), server);
        return exchange;
      },
      close: async () => {},
    },
  };
}

/** so slow that it is none */
const FROZEN = 1e-9;

const FULL = Buffer.from(
  refusalBody(
    new Refusal(503, 'Service Unavailable', 'The engine is currently busy and cannot accept new requests.'),
  ),
);

const errorOf = (code: string, message: string): Error => Object.assign(new Error(message), { code });
