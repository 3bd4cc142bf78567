/** What all endpoints are told, such as to load an adapter, and what each of them serves after that. */

import { causeOf, NoAnswerInTime, seconds, serverWords } from '../endpoints/endpoint-words.ts';
import { type Reply, type Request, sendWithin } from '../endpoints/wire.ts';
import type { Endpoint } from './pool-state.ts';
import { type Prober, probe, settle } from './probe.ts';
import { pathBelow } from './raw.ts';

/** Loading takes a server some seconds, or the time to fetch what is loaded. */
const WITHIN_MS = 120_000;
/** … while it answers other requests: one that answers nothing for so long is not at work on it. */
const SILENT_MS = 30_000;
const LOOK_MS = 5_000;

export interface Told {
  url: string;
  /** in words, where it was refused or was not heard */
  refusal: string | null;
  /** what it serves now */
  models: readonly string[];
}

/** `onChange` is called when an endpoint may serve something else than before. */
export function createTelling(endpoints: readonly Endpoint[], prober: Prober, onChange: () => void) {
  const up = (): Endpoint[] => endpoints.filter(({ state }) => state === 'up');
  return {
    /** Posts `body` to `path` of each endpoint that is up and `isMeant`, and looks at their models again. Never rejects. */
    async tell(path: string, body: Buffer, isMeant: (url: string) => boolean = () => true): Promise<Told[]> {
      const meant = up().filter(({ url }) => isMeant(url));
      const all = meant.map(async endpoint => {
        const request = { method: 'POST', path: pathBelow(endpoint.prefix, path), body } as const;
        const got = await askWhileAlive(endpoint, request, prober);
        if (!(got instanceof NoAnswerInTime)) await lookAtModels(endpoint, prober);
        return { url: endpoint.url, refusal: refusalIn(got, endpoint), models: [...endpoint.models] };
      });
      const told = await Promise.all(all);
      onChange();
      return told;
    },
    /** Looks again at what is served. */
    async lookAtModels(): Promise<void> {
      await Promise.all(up().map(endpoint => lookAtModels(endpoint, prober)));
      onChange();
    },
  };
}

export type Telling = ReturnType<typeof createTelling>;

/** Settles as sendWithin does, or sooner where the server answers neither this nor GET …/models meanwhile. */
function askWhileAlive(endpoint: Endpoint, request: Request, prober: Prober): Promise<Reply | Error> {
  const { clock, timing } = prober;
  const models = { method: 'GET', path: `${endpoint.prefix}/models` } as const;
  return new Promise(resolve => {
    const sentAt = clock.now();
    let heardAt = sentAt;
    let isOver = false;
    let callOff = (): void => {};
    const exchange = endpoint.wire.send(request, got => {
      isOver = true;
      callOff();
      resolve(got);
    });
    const giveUp = (words: string): void => {
      exchange.abort(new NoAnswerInTime(words));
    };
    async function look(): Promise<void> {
      const now = clock.now();
      if (now - sentAt >= WITHIN_MS) return giveUp(`no answer within ${seconds(WITHIN_MS)}`);
      if (now - heardAt >= SILENT_MS)
        return giveUp(`no answer within ${seconds(SILENT_MS)}, to GET ${models.path} neither`);
      const until = Math.min(LOOK_MS, timing.probeTimeout);
      const got = await sendWithin(endpoint.wire, models, until, clock);
      if (isOver) return;
      if (!(got instanceof Error)) heardAt = clock.now();
      const next = Math.min(now + LOOK_MS, sentAt + WITHIN_MS, heardAt + SILENT_MS);
      callOff = clock.after(Math.max(1, next - clock.now()), () => void look());
    }
    if (!isOver) callOff = clock.after(LOOK_MS, () => void look());
  });
}

function refusalIn(got: Reply | Error, { key }: Endpoint): string | null {
  if (got instanceof Error) return causeOf(got, key);
  if (got.status < 300) return null;
  const words = serverWords(got.body, key, 200);
  return `HTTP ${got.status}${words && `: ${words}`}`;
}

/** One that does not answer is left as it was: whether it is down is found out by its calls. */
async function lookAtModels(endpoint: Endpoint, prober: Prober): Promise<void> {
  const result = await probe(endpoint, prober);
  if (result.cause === undefined && endpoint.state === 'up') settle(result, null);
}
