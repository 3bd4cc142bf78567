/**
 * The engine again, written for the reader and not for speed: one step at a time, every sequence and every block an
 * object, preemption in the loop over the running ones as vLLM has it. The tests hold the fast engine to it.
 */
import type { Preset } from '../../products/simulator/presets.ts';
import { computedIn, madeIn } from '../../products/simulator/speculation.ts';
import { stepMs } from '../../products/simulator/steptime.ts';

const BLOCK = 16;

export interface Request {
  at: number;
  tokens: number;
  output: number;
  /** names of its whole blocks */
  blocks: string[];
  progress?: number;
  /** lower runs sooner, where the engine goes by it */
  priority?: number;
  /** when its client goes away */
  removeAt?: number;
}

export interface Told {
  first?: number;
  progress: [at: number, made: number][];
  done?: number;
  cached?: number;
  preemptions?: number;
}

export interface Totals {
  steps: number;
  outputTokens: number;
  preemptions: number;
  prefixQueries: number;
  prefixHits: number;
  busyMs: number;
  kvRead: number;
}

interface Block {
  name: string | null;
  holders: number;
}

interface Running {
  number: number;
  request: Request;
  told: Told;
  made: number;
  computed: number;
  blocks: Block[];
  cached: number;
  preemptions: number;
  gone: boolean;
  /** its prompt is in the cache, and what it made but for the last token */
  decodes: boolean;
}

export function referenceRun(requests: readonly Request[], preset: Preset): { told: Told[]; totals: Totals } {
  const { maxNumSeqs, maxNumBatchedTokens, kvTokens, byPriority = false, speculation } = preset.limits;
  const [width, rate] = [computedIn(speculation), madeIn(speculation)];
  /** In the order of their arrival, which is that of members, or of (priority, arrival). */
  const isSooner = (one: Running, other: Running): boolean => {
    const [mine = 0, theirs = 0] = [one.request.priority, other.request.priority];
    return mine === theirs ? one.number < other.number : mine < theirs;
  };
  const queue = (member: Running): void => {
    const at = waiting.findIndex(other => isSooner(member, other));
    waiting.splice(at < 0 ? waiting.length : at, 0, member);
  };
  const free: Block[] = Array.from({ length: Math.floor(kvTokens / BLOCK) }, () => ({
    name: null,
    holders: 0,
  }));
  const cache = new Map<string, Block>();
  const told: Told[] = requests.map(() => ({ progress: [] }));
  const totals: Totals = {
    steps: 0,
    outputTokens: 0,
    preemptions: 0,
    prefixQueries: 0,
    prefixHits: 0,
    busyMs: 0,
    kvRead: 0,
  };
  let arrived = 0;
  let waiting: Running[] = [];
  let running: Running[] = [];
  const leaving: Running[] = [];
  const arrivals = requests
    .map((request, index) => ({ request, index }))
    .sort((a, b) => a.request.at - b.request.at);
  const members = new Map<Request, Running>();

  const target = ({ request, made }: Running) => request.tokens + made;
  const release = ({ blocks }: Running) => {
    const blanks = blocks.filter(block => block.name === null);
    const named = blocks.filter(block => block.name !== null).reverse();
    for (const block of [...blanks, ...named]) if (--block.holders === 0) free.push(block);
    blocks.length = 0;
  };
  const allocate = (count: number): Block[] =>
    free.splice(0, count).map(block => {
      if (block.name !== null) cache.delete(block.name);
      block.name = null;
      block.holders = 1;
      return block;
    });
  /** False where there are too few blocks for `tokens` more. */
  const grow = (member: Running, tokens: number): boolean => {
    const needed = Math.ceil((member.computed + tokens) / BLOCK) - member.blocks.length;
    if (needed > free.length) return false;
    member.blocks.push(...allocate(needed));
    // a block becomes known when it is filled; one that another has filled before stays nameless
    const [from, to] = [member.computed, member.computed + tokens].map(count => Math.floor(count / BLOCK));
    member.request.blocks.slice(from, to).forEach((name, index) => {
      const block = member.blocks[from! + index]!;
      if (cache.has(name)) return;
      block.name = name;
      cache.set(name, block);
    });
    return true;
  };
  /** What clients did up to now, in the order in which they did it; who goes away goes after those who come. */
  const clients = (now: number) => {
    while (arrivals[0] && arrivals[0].request.at <= now) {
      const { request, index } = arrivals.shift()!;
      const member = {
        number: arrived++,
        request,
        told: told[index]!,
        made: 0,
        computed: 0,
        blocks: [],
        cached: -1,
        preemptions: 0,
        gone: false,
        decodes: false,
      };
      members.set(request, member);
      if (byPriority) queue(member);
      else waiting.push(member);
    }
    const going = [...members.values()].filter(
      ({ request }) => (request.removeAt ?? Number.POSITIVE_INFINITY) <= now,
    );
    for (const member of going.sort((a, b) => a.request.removeAt! - b.request.removeAt!)) {
      members.delete(member.request);
      member.gone = true;
      leaving.push(member);
      waiting = waiting.filter(other => other !== member);
    }
  };

  for (let now = 0; ; ) {
    clients(now);
    // whoever went away during the step has left by now
    for (const member of leaving.splice(0)) if (running.includes(member)) release(member);
    running = running.filter(({ gone }) => !gone);

    const scheduled = new Map<Running, number>();
    let budget = maxNumBatchedTokens;
    let preempted = false;
    for (let index = 0; index < running.length && budget > 0; index++) {
      const member = running[index]!;
      // of what is computed of one that decodes, `rate` is kept: parts of tokens too, which a preemption loses
      const tokens = member.decodes ? rate : Math.min(target(member) - member.computed, budget);
      const asked = member.decodes ? width : tokens;
      while (!grow(member, tokens)) {
        const last = byPriority
          ? running.reduce((one, other) => (isSooner(one, other) ? other : one))
          : running.at(-1)!;
        const place = running.indexOf(last);
        running.splice(place, 1);
        // one that has its tokens of this step gives them back
        if (place < index) index--;
        budget += last.decodes ? (scheduled.has(last) ? width : 0) : (scheduled.get(last) ?? 0);
        scheduled.delete(last);
        release(last);
        last.computed = 0;
        last.decodes = false;
        last.preemptions++;
        totals.preemptions++;
        preempted = true;
        if (byPriority) queue(last);
        else waiting.unshift(last);
        if (last === member) break;
      }
      if (!running.includes(member)) {
        index--;
        continue;
      }
      scheduled.set(member, tokens);
      budget -= asked;
    }
    while (!preempted && waiting.length > 0 && budget > 0 && running.length < maxNumSeqs) {
      const member = waiting[0]!;
      const most = Math.floor((target(member) - 1) / BLOCK);
      const names = member.request.blocks.slice(0, most);
      const missing = names.findIndex(name => !cache.has(name));
      const hits = names.slice(0, missing < 0 ? names.length : missing).map(name => cache.get(name)!);
      const tokens = Math.min(target(member) - hits.length * BLOCK, budget);
      const needed = Math.ceil((hits.length * BLOCK + tokens) / BLOCK) - hits.length;
      if (needed > free.length - hits.filter(block => block.holders === 0).length) break;
      for (const block of hits) if (block.holders++ === 0) free.splice(free.indexOf(block), 1);
      member.blocks.push(...hits);
      member.computed = hits.length * BLOCK;
      grow(member, tokens);
      waiting.shift();
      running.push(member);
      if (member.cached < 0) {
        member.cached = hits.length * BLOCK;
        totals.prefixQueries += target(member);
        totals.prefixHits += member.cached;
      }
      scheduled.set(member, tokens);
      budget -= tokens;
    }

    if (scheduled.size === 0) {
      if (waiting.length > 0) continue;
      if (running.length > 0) throw new Error('running sequences, and nothing to do');
      if (!arrivals[0]) break;
      now = arrivals[0].request.at;
      continue;
    }
    let [kv, attention] = [0, 0];
    for (const [member, tokens] of scheduled) {
      const context = member.computed + tokens;
      kv += context;
      if (!member.decodes) attention += tokens * context;
    }
    const ms = stepMs(preset.step, scheduled.size, maxNumBatchedTokens - budget, kv, attention);
    now += ms;
    totals.steps++;
    totals.busyMs += ms;
    totals.kvRead += kv;
    clients(now);
    const over: Running[] = [];
    for (const [member, tokens] of scheduled) {
      member.computed += tokens;
      const { request, made: before } = member;
      if (member.decodes)
        member.made = Math.min(request.output, Math.floor(member.computed) - request.tokens + 1);
      else if (member.computed < target(member)) continue;
      else member.made++;
      totals.outputTokens += member.made - before;
      if (member.made === 1 && !member.gone) member.told.first = now;
      if (member.made === member.request.output) over.push(member);
      else if (member.gone) continue;
      else if (member.decodes && request.progress !== undefined) {
        const { progress } = request;
        if (Math.floor(member.made / progress) > Math.floor(before / progress))
          member.told.progress.push([now, member.made]);
      }
      member.decodes = true;
    }
    for (const member of over) {
      const { cached, preemptions } = member;
      if (!member.gone) Object.assign(member.told, { done: now, cached, preemptions });
      release(member);
      running = running.filter(other => other !== member);
      members.delete(member.request);
    }
  }
  return { told, totals };
}
