/**
 * A worker's way to its coordinator: HTTP, each answer bounded in time and size. What it throws says whether to ask again:
 * `Unheard` may be heard the next time, what was `Refused` is refused again.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { causeOf, TooLong } from '../../../engine/asking/endpoints/endpoint-words.ts';
import { backoff } from '../../../engine/asking/endpoints/pool-clock.ts';
import { readUrl } from '../../../engine/asking/endpoints/settings.ts';
import { openWire, type Request, sendWithin, type Wire } from '../../../engine/asking/endpoints/wire.ts';
import { usageError } from '../../../engine/core/item/failure.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import { visible } from '../../../engine/core/json/visible.ts';
import type { Given, Hello, PartName } from '../protocol.ts';
import { WORKER_KEY } from '../queue-options.ts';

/** No answer, or one that may be another in a moment: 408, 429, 5xx. */
export class Unheard extends Error {
  override name = 'Unheard';
}

/** An answer that stays the same, by its status. */
export class Refused extends Error {
  override name = 'Refused';
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

interface ClientOptions {
  /** of the coordinator; it may have a path. Without a slash at its end */
  url: string;
  /** none where the coordinator has no keys */
  key?: string | undefined;
}

/** Where the coordinator is, as flags and variables say it. Exit 64 for what cannot be. */
export function coordinatorOf(flag: string | undefined, env: NodeJS.ProcessEnv): ClientOptions {
  const text = flag ?? env.FW_SERVER;
  if (!text) throw usageError('expected the URL of the coordinator, found none: --server URL, or FW_SERVER');
  const complain = (message: string): Error => usageError(`--server: ${message}`);
  const url = readUrl(text, complain, 'the URL of a coordinator, such as http://head:8080');
  const key = env[WORKER_KEY]?.trim();
  if (key && !/^[\x21-\x7e]+$/.test(key))
    throw usageError(`${WORKER_KEY}: expected a key, found characters that no HTTP header can carry`);
  return { url, key: key || undefined };
}

const MIB = 1024 * 1024;
/** bytes of an answer, by what it is. Files are 16 MiB before they are base64; a part has a MiB of lines, but a line alone may be longer */
const MOST = { said: MIB, task: 4 * MIB, files: 40 * MIB, lines: 64 * MIB } as const;
/** of a part: a coordinator takes no result of more, and 64 MiB of newlines would be as many */
const MOST_LINES = 100_000;
/** ms for an answer as a whole: a hello is short, and what has lines may come over a slow line */
const WITHIN = { hello: 10_000, other: 120_000 } as const;

export type CoordinatorClient = ReturnType<typeof createClient>;

export function createClient({ url, key }: ClientOptions) {
  const { origin, pathname } = new URL(url);
  const base = pathname.replace(/\/{1,9}$/, '');
  const authorization = key && `Bearer ${key}`;
  const wires = Object.fromEntries(
    Object.entries(MOST).map(([what, most]) => [what, openWire(origin, authorization, most)]),
  ) as Record<keyof typeof MOST, Wire>;

  async function ask(
    what: keyof typeof MOST,
    { path, ...request }: Request,
    within: number = WITHIN.other,
  ): Promise<Buffer> {
    const reply = await sendWithin(wires[what], { ...request, path: base + path }, within);
    if (reply instanceof TooLong && reply.isBody)
      throw new Refused(0, `expected an answer of at most ${MOST[what] / MIB} MiB, found a longer one`);
    if (reply instanceof Error) throw new Unheard(causeOf(reply, undefined));
    const { status, body } = reply;
    if (status >= 200 && status < 300) return body;
    const message = `HTTP ${status}${saidIn(body)}`;
    throw status === 408 || status === 429 || status >= 500
      ? new Unheard(message)
      : new Refused(status, message);
  }

  const post = (path: string, value: unknown) =>
    ({ method: 'POST', path, body: Buffer.from(JSON.stringify(value)) }) as const;
  const get = (path: string) => ({ method: 'GET', path }) as const;
  const partOf = ({ work, root, part }: PartName): string => `/shards/${work}/${root}/${part}`;
  return {
    /** for messages */
    url,
    /** what it answers, as JSON */
    hello: async (hello: Hello) => parsed(await ask('said', post('/shards/hello', hello), WITHIN.hello)),
    task: async (work: string) => parsed(await ask('task', get(`/shards/${work}/task`))),
    files: (work: string) => ask('files', get(`/shards/${work}/files`)),
    async take(name: PartName, worker: string): Promise<Given & { lines: Buffer }> {
      const body = await ask('lines', post(`${partOf(name)}/take`, { worker }));
      const end = body.indexOf('\n');
      const given = parsed(body.subarray(0, end));
      if (end < 0 || !isObject(given) || typeof given.isAlone !== 'boolean')
        throw new Refused(0, 'expected isAlone in the first line of a part, found none');
      const lines = body.subarray(end + 1);
      if (hasTooMany(lines))
        throw new Refused(0, `expected a part of at most ${MOST_LINES} lines, found more`);
      return { isAlone: given.isAlone, lines };
    },
    /** `body` is the result and its lines; resolves to the number of lines that are left of the part. */
    async put(name: PartName, body: Buffer): Promise<number> {
      const request = { method: 'PUT', path: partOf(name), body, type: 'application/x-ndjson' } as const;
      const said = parsed(await ask('said', request));
      return isObject(said) && Number.isSafeInteger(said.rest) ? (said.rest as number) : 0;
    },
    async close() {
      await Promise.all(Object.values(wires).map(wire => wire.close()));
    },
  };
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    throw new Refused(0, `expected JSON, found ${visible(bytes.toString('utf8', 0, 80))}`);
  }
}

function hasTooMany(lines: Buffer): boolean {
  let count = 0;
  for (let at = lines.indexOf('\n'); at >= 0; at = lines.indexOf('\n', at + 1))
    if (++count > MOST_LINES) return true;
  return false;
}

/** What the server says of a refusal. */
function saidIn(bytes: Buffer): string {
  let text = bytes.toString('utf8', 0, 4096);
  try {
    const value: unknown = JSON.parse(bytes.toString());
    const said = isObject(value) ? (isObject(value.error) ? value.error.message : value.error) : undefined;
    if (typeof said === 'string') text = said;
  } catch {
    // it is no JSON of ours: its first words
  }
  const words = visible(text.trim().slice(0, 300));
  return words === '' ? '' : `: ${words}`;
}

/** ms between two tries, at first and at most */
const FIRST = 200;
const LAST = 5_000;

/** Asks until it is heard, or refused; what is not heard `within` ms, or when `signal` is aborted, is thrown. */
export async function persist<T>(
  ask: () => Promise<T>,
  { signal, within = Number.POSITIVE_INFINITY }: { signal: AbortSignal; within?: number },
): Promise<T> {
  const begun = performance.now();
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Unheard)) throw error;
      const wait = backoff(tries, FIRST, LAST, Math.random);
      if (signal.aborted || performance.now() + wait - begun > within) throw error;
      await pause(wait, undefined, { signal }).catch(() => {});
      if (signal.aborted) throw error;
    }
  }
}
