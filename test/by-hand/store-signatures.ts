/** Signs the requests of standard input as fw does and prints them as they arrive, a line each; see store-signatures.py. */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { newAsking } from '../../engine/core/remote/exchange.ts';
import { Bucket } from '../../engine/core/remote/s3.ts';

const server = createServer((request, response) => {
  const headers = request.headers;
  request.resume().on('end', () => {
    response.end();
    console.log(JSON.stringify({ headers, path: request.url, host: headers.host }));
  });
});
await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
for (const { env, body, ...request } of JSON.parse(readFileSync(0, 'utf8'))) {
  const bucket = new Bucket('bucket', newAsking({ HOME: '/nowhere', ...env, AWS_ENDPOINT_URL: endpoint }));
  const answer = await bucket.ask({ ...request, ...(body !== '' && { body: Buffer.from(body) }) });
  await new Promise(resolve => answer.resume().on('end', resolve));
}
server.close();
