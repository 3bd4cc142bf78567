/** A worker by hand: it says what a test lets it say, and hands in what it is told to. No queue: `take` is asked for by name. */
import type { Hello, Orders, PartName, Result } from '../../products/workers/protocol.ts';
import { MODEL } from './serving.ts';

export interface Answer {
  status: number;
  text: string;
}

export interface Taken {
  name: PartName;
  lines: string[];
}

let count = 0;

export function workerBy(url: string, key = 'none', more: Partial<Hello> = {}) {
  const worker = `node7-${++count}`;
  async function ask(method: string, path: string, body: string, type = 'application/json'): Promise<Answer> {
    const headers = { authorization: `Bearer ${key}`, 'content-type': type };
    const reply = await fetch(`${url}/shards${path}`, { method, body, headers });
    return { status: reply.status, text: await reply.text() };
  }
  const pathOf = ({ work, root, part }: PartName): string => `/${work}/${root}/${part}`;
  return {
    worker,
    async hello(held: Hello['held'] = [], now: Partial<Hello> = {}): Promise<Orders> {
      const hello: Hello = {
        ...{ worker, host: 'node7', pid: 4711, version: '0.1.0', models: [MODEL], places: 8, rate: 0 },
        endpoints: [{ url: 'http://127.0.0.1:8000/v1', isUp: true, inFlight: 0, limit: 8 }],
        ...{ held, isStopping: false },
        ...more,
        ...now,
      };
      const { status, text } = await ask('POST', '/hello', JSON.stringify(hello));
      if (status !== 200) throw new Error(`${status}: ${text}`);
      return JSON.parse(text);
    },
    /** Until the work is open. */
    async take(work: string, root: number, part = 0): Promise<Taken> {
      const name = { work, root, part };
      for (;;) {
        const { status, text } = await ask('POST', `${pathOf(name)}/take`, JSON.stringify({ worker }));
        if (status === 200) return { name, lines: text.trimEnd().split('\n').slice(1) };
        if (status !== 503 && status !== 410) throw new Error(`${status}: ${text}`);
        await new Promise(resolve => setTimeout(resolve, 5));
      }
    },
    /** Hands in the first lines, each with an answer. */
    async put({ name, lines }: Taken, first = lines.length, tokens = 0): Promise<Answer> {
      const result: Result = {
        ...{ worker, answered: Array.from({ length: first }, (_, at) => at), model: MODEL, seconds: 1 },
        asked: { ...NOTHING, calls: first, promptTokens: tokens },
      };
      const body = [JSON.stringify(result), ...lines.slice(0, first).map(answered)];
      return ask('PUT', pathOf(name), body.map(line => `${line}\n`).join(''), 'application/x-ndjson');
    },
  };
}

const NOTHING = { calls: 0, retries: 0, replayed: 0, promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

/** As `fw request` writes it. */
function answered(line: string): string {
  const item = JSON.parse(line) as { id: string; request: { url: string } };
  const message = { role: 'assistant', content: `answer to ${item.id}` };
  const body = {
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 5 },
  };
  const step = {
    ...{ agent: item.request.url, response: { status_code: 200, body }, rung: 'clean', saw: 'clean' },
    ...{ repairs: [], calls: [item.id], attempts: 1, usage: { prompt: 3, completion: 5 } },
  };
  return JSON.stringify({ ...item, steps: [step] });
}
