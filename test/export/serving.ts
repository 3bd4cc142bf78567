/** A server of one's own for batch files: what it says to each request, by the path and the body. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

export interface Asked {
  path: string;
  body: { custom?: string; model?: string } & Record<string, unknown>;
  /** the bytes that came */
  bytes: Buffer;
}

export async function serve(
  models: readonly string[],
  answer: (asked: Asked, response: ServerResponse) => void,
): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', chunk => chunks.push(chunk));
    request.on('end', () => {
      const path = request.url as string;
      if (path === '/v1/models') {
        response.end(JSON.stringify({ object: 'list', data: models.map(id => ({ id, object: 'model' })) }));
        return;
      }
      if (request.method !== 'POST') {
        response.writeHead(404).end();
        return;
      }
      const bytes = Buffer.concat(chunks);
      const one = { path, bytes, body: JSON.parse(bytes.toString()) as Asked['body'] };
      asked.push(one);
      answer(one, response);
    });
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, asked };
}

/** Lines of a batch file. */
export function linesOf(bodies: readonly object[], url = '/v1/completions'): string {
  const lines = bodies.map((body, n) =>
    JSON.stringify({ custom_id: `line-${n}`, method: 'POST', url, body }),
  );
  return lines.map(line => `${line}\n`).join('');
}
