/**
 * The user's own requests: lines of an OpenAI batch file, items with a request, or items as agents would be asked about
 * them. Of a chain what is known can be asked: the first agent of an item that has no answers yet, and each agent of one
 * that has them all, with what the earlier ones had said.
 */

import { contextAfter } from '../../../engine/asking/agents/arrangement.ts';
import { inputGuard } from '../../../engine/asking/agents/asking-options.ts';
import type { Agents } from '../../../engine/asking/agents/load-agents.ts';
import { orderingOfItem, resolveOrderings } from '../../../engine/asking/agents/orderings.ts';
import {
  bodies,
  escaped,
  firstSample,
  type Guided,
  openingsOf,
  seedOf,
} from '../../../engine/asking/agents/request-body.ts';
import { pathBelow } from '../../../engine/asking/pool/raw.ts';
import { inputsOf } from '../../../engine/core/files/input-files.ts';
import { readItems } from '../../../engine/core/files/ndjson-in.ts';
import { dataError, ItemFailure } from '../../../engine/core/item/failure.ts';
import { type Item, isAnswered } from '../../../engine/core/item/item.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { show } from '../../../engine/core/json/show.ts';
import { notLines } from '../../../engine/flow/looks-like.ts';
import type { Request } from './bench-wire.ts';
import { streamed } from './bench-workload.ts';

/** More than a benchmark of an hour asks; all are held in memory. */
export const MOST_LINES = 100_000;

export interface OwnLines {
  lines: readonly Item[];
  /** whether any of them is asked by agents */
  needsAgents: boolean;
  /** the input has more than MOST_LINES */
  hasMore: boolean;
}

/** Exit 65 where there is no line, or one that is nothing to ask. `paths`: none means standard input. */
export async function readOwnLines(paths: readonly string[], maxLine: number): Promise<OwnLines> {
  const lines: Item[] = [];
  let hasMore = false;
  let nth = 0;
  const items = readItems(inputsOf(paths), {
    stage: 'bench',
    maxLine,
    stopped: () => hasMore,
    refuses: (block, source) => notLines(block, source, false),
  });
  await new Promise<void>((resolve, reject) => {
    items
      .map((line: Item) => {
        nth++;
        if (line.failure !== undefined)
          throw dataError(
            `line ${nth}: expected something to ask, found a failed line: ${line.failure.code}: ${line.failure.message}`,
          );
        if (lines.length < MOST_LINES) lines.push(line);
        else hasMore = true;
        return line;
      })
      .stopOnError(reject)
      .done(resolve);
  });
  if (lines.length === 0)
    throw dataError(
      'expected items, or lines of a batch file, found none: give --input-tokens and --output-tokens for made-up prompts',
    );
  return { lines, needsAgents: lines.some(line => rawOf(line) === undefined), hasMore };
}

/** A line of a batch file, or the request of an item. */
function rawOf(line: Item): { method: unknown; url: unknown; body: unknown } | undefined {
  if (isObject(line.request)) return line.request as never;
  return 'custom_id' in line && 'body' in line ? (line as never) : undefined;
}

export interface Asking {
  /** absent where no line needs them */
  agents: Agents | undefined;
  guided: Guided;
  seed: number;
  /** path of the endpoints, such as `/v1` */
  prefix: string;
  modelOf(named: string | undefined): string;
  warn(message: string): void;
}

/** Exit 64 or 65 where a line cannot be asked, with its number. */
export async function ownRequests({ lines }: OwnLines, asking: Asking): Promise<Request[]> {
  const ask = asking.agents && (await askerOf(asking.agents, asking));
  return lines.flatMap((line, index) => {
    try {
      const raw = rawOf(line);
      return raw === undefined ? (ask?.(line) ?? []) : [rawRequest(raw, asking.prefix)];
    } catch (error) {
      if (error instanceof ItemFailure) throw dataError(`line ${index + 1}: ${error.message}`);
      throw error;
    }
  });
}

/** Chat and text completions are asked as a stream; what else there is has no tokens to stream. */
const STREAMS = /\/(?:chat\/)?completions$/;
const PATH = /^\/(?!\/)[\w\-.~!$&'()*+,;=:@%/?[\]]{0,2000}$/;

function rawRequest(
  { method, url, body }: { method: unknown; url: unknown; body: unknown },
  prefix: string,
): Request {
  const refuse = (what: string, found: unknown): never => {
    throw new ItemFailure('bad-request', `expected ${what}, found ${show(found)}`);
  };
  if (method !== 'POST') refuse('the method POST', method);
  if (typeof url !== 'string' || !PATH.test(url))
    return refuse('a path of the server, such as /v1/chat/completions', url);
  if (!isObject(body)) return refuse('a body, an object', body);
  const { n } = body;
  if (n !== undefined && n !== 1) refuse('one answer of a request ("n": 1)', n);
  const path = pathBelow(prefix, url);
  return { path, body: STREAMS.test(url) ? streamed(body as JsonObject) : Buffer.from(JSON.stringify(body)) };
}

async function askerOf(
  agents: Agents,
  { guided, seed, prefix, modelOf, warn }: Asking,
): Promise<(item: Item) => Request[]> {
  const guard = inputGuard(agents, warn);
  const openings = await openingsOf(agents, undefined);
  const own = new Map(
    [...agents.byKey].map(([key, agent]) => [key, bodies(agent, modelOf(agent.model), guided)]),
  );
  const [standard = []] = resolveOrderings(undefined, agents);
  return item => {
    guard(item);
    const ordering = item.ordering ? orderingOfItem(item.ordering, agents) : standard;
    const steps = (item.steps ?? []).filter(isAnswered);
    const whole = steps.length >= ordering.length && agents.synthesis !== undefined;
    const keys = [
      ...ordering.slice(0, steps.length + 1),
      ...(whole ? [agents.synthesis?.key as string] : []),
    ];
    return keys.map((key, at) => {
      const agent = agents.byKey.get(key);
      const made = own.get(key);
      if (agent === undefined || made === undefined)
        throw new ItemFailure('unknown-agent', `expected an agent of the agents folder, found '${key}'`);
      if (typeof item.prompt !== 'string' && item.messages === undefined)
        throw new ItemFailure('not-an-item', 'expected a prompt, messages, or a request, found none');
      const before = steps.slice(0, at);
      const identity = { id: String(item.id), agent: key, round: 0, attempt: 1 };
      const { opening } = openings(agent, { ...item, steps: before }, before.length > 0, () => before);
      const { body } = made.bodyOf(
        {
          context: escaped(contextAfter(typeof item.prompt === 'string' ? item.prompt : '', before, agents)),
          opening,
          ...firstSample(agent),
          seed: seedOf(seed, identity),
        },
        identity,
      );
      return { path: `${prefix}/chat/completions`, body: asStream(body) };
    });
  };
}

const ENDING = Buffer.from(',"stream":true,"stream_options":{"include_usage":true}}');

/** The body of a chain, whose bytes are kept as they are, with a stream asked for. */
function asStream(body: Buffer): Buffer {
  return Buffer.concat([body.subarray(0, body.length - 1), ENDING]);
}
