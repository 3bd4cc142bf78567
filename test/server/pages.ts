/** What looks at the page of a server: fetch as a browser would, a server of models that answers what it is told to. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { MODEL } from './serving.ts';

/** Text that would run, or end an attribute, if a page did not escape it. */
export const HOSTILE =
  '<script>top.ran=1</script>"><img src=x onerror="top.ran=1">\'`{{1}}</pre></textarea>\u202e';

/** An endpoint of one model: `answer` says the text, or gives a status in its place. */
export async function answering(answer: (body: string) => string | number): Promise<string> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      if (request.url === '/v1/models')
        return send(response, 200, { object: 'list', data: [{ id: MODEL, object: 'model' }] });
      const said = request.method === 'POST' ? answer(body) : 404;
      if (typeof said === 'number')
        return send(response, said, {
          error: { message: `${HOSTILE} refused`, type: HOSTILE, param: null, code: null },
        });
      const message = { role: 'assistant', content: said };
      send(response, 200, {
        ...{
          id: `chatcmpl-${request.headers['x-request-id']}`,
          object: 'chat.completion',
          created: 1,
          model: MODEL,
        },
        choices: [{ index: 0, message, finish_reason: 'stop' }],
        usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 },
      });
    });
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

function send(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

export interface Seen {
  status: number;
  headers: Headers;
  text: string;
}

/** A browser without scripts: keeps the cookie, sends the origin with forms, follows nothing. */
export function visitor(url: string) {
  let cookie = '';
  async function ask(path: string, init: RequestInit = {}): Promise<Seen> {
    const headers = { ...(cookie && { cookie }), ...(init.headers as Record<string, string>) };
    const reply = await fetch(url + path, { redirect: 'manual', ...init, headers });
    const given = reply.headers.get('set-cookie');
    if (given !== null) cookie = given.split(';', 1)[0] as string;
    return { status: reply.status, headers: reply.headers, text: await reply.text() };
  }
  const post = (
    path: string,
    fields: Record<string, string> = {},
    origin: string | null = url,
  ): Promise<Seen> =>
    ask(path, {
      method: 'POST',
      body: new URLSearchParams(fields),
      headers: origin === null ? {} : { origin },
    });
  return {
    get: ask,
    post,
    cookie: () => cookie,
    login: (key: string) => post('/ui/login', { key }),
    upload(text: string, fields: Record<string, string>, name = 'in.jsonl', origin = url): Promise<Seen> {
      const form = new FormData();
      for (const [key, value] of Object.entries(fields)) form.append(key, value);
      form.append('file', new Blob([text]), name);
      return ask('/ui/upload', { method: 'POST', body: form, headers: { origin } });
    },
  };
}

export type Visitor = ReturnType<typeof visitor>;

/** The page of a batch, once it is there as `until` says. */
export async function reachedOn(at: Visitor, path: string, until: RegExp): Promise<Seen> {
  for (;;) {
    const seen = await at.get(path);
    if (until.test(seen.text) || seen.status !== 200) return seen;
    await new Promise(resolve => setTimeout(resolve, 5));
  }
}
