/**
 * An endpoint that remembers: every request as it came, and every answer as it left, which holds a number that no other
 * answer has. Several listen as one, share the memory, and can be made to fail in the ways that servers do.
 */
import { createHash } from 'node:crypto';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { freePort } from '../free-port.ts';

export const AGENTS = ['first', 'second', 'third'] as const;

/** A folder's worth of agents, who answer `{"word": …, "nonce": …}` one after the other. */
export function agentFile(key: string): string {
  const schema =
    '{ type: object, required: [word, nonce], properties: { word: { type: string }, nonce: { type: string } } }';
  return `key: ${key}\nshort: ${key}\ndisplay: The ${key}\nrole: agent\npersona: You are the ${key}.\nschema: ${schema}\nsampling: { temperature: 0.5, max_tokens: 50 }\n`;
}

export interface Sent {
  item: string;
  agent: string;
  /** SHA-256 of the request's body */
  body: string;
}

/** What may happen to a request in place of a right answer. */
export const TROUBLES = ['500', '503', '429', 'drop', 'cut', 'html', 'empty', 'slow'] as const;
export type Trouble = (typeof TROUBLES)[number];

export interface Endpoints {
  urls: string[];
  /** requests that came in */
  received: number;
  /** right answers that were handed to the system to their end, by their nonce */
  sent: Map<string, Sent>;
  /** the nonces that requests held: of answers that were used to ask on */
  used: Set<string>;
  /** Takes an endpoint away, connections and all, and brings it back on the same port. */
  down(index: number): void;
  up(index: number): Promise<void>;
  /** told of each request, after it was counted, and of the item that it is about */
  onRequest: (item?: string) => void;
  /** what happens to the next request */
  trouble: () => Trouble | null;
  close(): Promise<void>;
}

/** Nonces are numbered behind `from`: several of these do not share one. */
export async function startEndpoints(count: number, latency: () => number, from = 0): Promise<Endpoints> {
  const sent = new Map<string, Sent>();
  let serial = from;
  const handler = (body: string, response: ServerResponse): void => {
    endpoints.received += 1;
    for (const [nonce] of body.matchAll(/n\d+\./g)) endpoints.used.add(nonce);
    const trouble = endpoints.trouble();
    endpoints.onRequest(askedIn(body).item);
    const say = (): void => {
      if (trouble !== null && trouble !== 'slow') return fail(response, trouble);
      const nonce = `n${++serial}.`;
      const { item, agent } = askedIn(body);
      response.on('finish', () => sent.set(nonce, { item, agent, body: sha256(body) }));
      response
        .setHeader('content-type', 'application/json')
        .end(completion(JSON.stringify({ word: wordOf(item, agent), nonce })));
    };
    setTimeout(say, trouble === 'slow' ? 20 * latency() : latency()).unref();
  };
  const make = (): Server =>
    createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('error', () => {});
      response.on('error', () => {});
      request.on('data', chunk => chunks.push(chunk));
      request.on('end', () => {
        if (request.method === 'POST') return handler(Buffer.concat(chunks).toString(), response);
        const isModels = request.url === '/v1/models';
        response.statusCode = isModels ? 200 : 404;
        response.end(isModels ? '{"object":"list","data":[{"id":"m","root":"m","max_model_len":8192}]}' : '');
      });
    });
  const ports = await Promise.all(Array.from({ length: count }, freePort));
  const servers = await Promise.all(ports.map(port => listening(make(), port)));
  const endpoints: Endpoints = {
    urls: ports.map(port => `http://127.0.0.1:${port}/v1`),
    received: 0,
    sent,
    used: new Set(),
    onRequest: () => {},
    trouble: () => null,
    down(index) {
      servers[index]?.close();
      servers[index]?.closeAllConnections();
    },
    async up(index) {
      servers[index] = await listening(make(), ports[index] as number);
    },
    close: () =>
      Promise.all(
        servers.map(
          server =>
            new Promise<void>(resolve => {
              server.close(() => resolve());
              server.closeAllConnections();
            }),
        ),
      ).then(() => {}),
  };
  return endpoints;
}

async function listening(server: Server, port: number): Promise<Server> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return server;
}

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** What the same agent always says of the same item. */
export const wordOf = (item: string, agent: string): string => `é ${sha256(`${item} ${agent}`).slice(0, 8)}`;

/** Whose request a body is, by the name of its schema and the prompt. */
function askedIn(body: string): { item: string; agent: string } {
  const { messages, response_format } = JSON.parse(body);
  return {
    item: `item-${/This is item (\d+)\./.exec(messages[1].content)?.[1]}`,
    agent: response_format.json_schema.name,
  };
}

function completion(content: string | null): string {
  const message = { role: 'assistant', content };
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  return JSON.stringify({
    id: 'c',
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage,
  });
}

function fail(response: ServerResponse, trouble: Trouble): void {
  if (trouble === 'drop') return void response.destroy();
  if (trouble === 'cut') {
    const whole = Buffer.from(completion('é'));
    response.setHeader('content-length', whole.length);
    // in the middle of a character
    return void response.write(whole.subarray(0, whole.indexOf(0xc3) + 1), () => response.destroy());
  }
  if (trouble === 'html') return void response.end('<html><body>nginx</body></html>');
  if (trouble === 'empty') return void response.end('{"object":"chat.completion","choices":[],"usage":{}}');
  response.statusCode = Number(trouble);
  if (trouble === '429') response.setHeader('retry-after', '0');
  response.end('{"error":{"message":"busy"}}');
}
