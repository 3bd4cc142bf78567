// A server for tests that behaves as its first argument says: node server.mjs MODE PORT. It prints what it does.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';

const [mode, port] = process.argv.slice(2);
const stay = () => setInterval(() => {}, 1_000);

console.log(`begins as ${mode}`);
if (mode === 'crash') {
  console.log('ValueError: no such model');
  process.exit(3);
}
if (mode === 'memory') {
  console.log('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.');
  process.exit(1);
}
if (mode === 'silent') stay();
else {
  if (mode === 'stubborn') process.on('SIGTERM', () => console.log('not yet'));
  if (mode === 'children')
    // out of the group, and deaf to TERM
    spawn(process.execPath, ['-e', "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)"], {
      detached: true,
      stdio: 'ignore',
    }).unref();
  const answers = {
    '/health': () => (mode === 'loading' ? [503, ''] : [200, '']),
    '/v1/models': () => [200, '{"object":"list","data":[{"id":"m","object":"model"}]}'],
    '/metrics': () => [
      200,
      mode === 'old'
        ? 'process_start_time_seconds 1000\n'
        : `process_start_time_seconds ${Date.now() / 1000}\n`,
    ],
    '/die': () => process.exit(9),
  };
  createServer((request, response) => {
    const [status, body] = answers[request.url]?.() ?? [404, ''];
    response.writeHead(status).end(body);
  }).listen(Number(port), '127.0.0.1');
}
