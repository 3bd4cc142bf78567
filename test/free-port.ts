import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below those that a system gives to whoever asks for any: Linux from 32768 on, others from 49152. */
const FIRST = 20_000;
const PART = 200;
const PARTS = 60;

/** files that run beside each other in one run of the tests have parts of their own */
const part = FIRST + PART * (Number(process.env.VITEST_POOL_ID ?? 0) % PARTS);
let next = Math.floor(Math.random() * PART);

/**
 * A port that nobody listens on, for a process that is to be told one. It stays free until that process begins, and while it
 * is started again: no connection and no server without a port of its own gets it meanwhile.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < PART; tries++) {
    const port = part + (next++ % PART);
    const server = createServer().listen(port, '127.0.0.1');
    try {
      await once(server, 'listening'); // rejects with its error
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') continue;
      throw error;
    }
    server.close();
    await once(server, 'close');
    return port;
  }
  throw new Error(`expected a free port of ${part} to ${part + PART - 1}, found none`);
}
