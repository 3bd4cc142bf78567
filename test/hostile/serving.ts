/**
 * A server on a real port whose every byte a behaviour decides: no HTTP library stands between it and the client. It lists
 * its model as it should, since one that does not is never asked.
 */
import { createServer, type Socket } from 'node:net';

/** One request for a completion, and the connection that it came over. */
export interface Ask {
  /** 1-based, over the completions that this server was asked for */
  n: number;
  socket: Socket;
  /** the body of the right reply */
  right: string;
  /** runs once after `ms`, unless the connection is gone by then */
  after(ms: number, run: () => void): void;
  /** runs now and every `ms` until the connection is gone */
  every(ms: number, run: (times: number) => void): void;
  /** writes what `next` gives, as fast as it is read, until the connection is gone */
  flood(next: () => string | Buffer): void;
}

export interface Serving {
  model: string;
  behave(ask: Ask): void;
  rightTo(body: string): string | Promise<string>;
  after(ms: number, run: () => void): () => void;
}

export interface HostileServer {
  url: string;
  /** completions that were asked for */
  readonly asked: number;
  close(): Promise<void>;
}

export async function serveHostile({ model, behave, rightTo, after }: Serving): Promise<HostileServer> {
  const sockets = new Set<Socket>();
  let asked = 0;
  const server = createServer(socket => {
    sockets.add(socket);
    const timers = new Set<() => void>();
    let buffered = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.on('close', () => {
      sockets.delete(socket);
      for (const callOff of timers) callOff();
    });
    const later: Ask['after'] = (ms, run) => {
      if (socket.destroyed) return;
      const callOff = after(ms, () => {
        timers.delete(callOff);
        if (!socket.destroyed) run();
      });
      timers.add(callOff);
    };
    const every: Ask['every'] = (ms, run) => {
      let times = 0;
      const once = (): void => {
        run(times++);
        later(ms, once);
      };
      once();
    };
    const flood: Ask['flood'] = next => {
      const more = (): void => {
        while (!socket.destroyed && socket.write(next()));
      };
      socket.on('drain', more);
      more();
    };
    const answer = async (line: string, body: string): Promise<void> => {
      if (line.startsWith('GET')) {
        const list = JSON.stringify({ object: 'list', data: [{ id: model, max_model_len: 8192 }] });
        const isModels = line.includes('/models');
        socket.write(
          `HTTP/1.1 ${isModels ? '200 OK' : '404 Not Found'}\r\ncontent-length: ${isModels ? list.length : 0}\r\n\r\n${isModels ? list : ''}`,
        );
        return;
      }
      const n = ++asked;
      behave({ n, socket, right: await rightTo(body), after: later, every, flood });
    };
    socket.on('data', chunk => {
      buffered = Buffer.concat([buffered, chunk]);
      const end = buffered.indexOf('\r\n\r\n');
      if (end < 0) return;
      const head = buffered.toString('latin1', 0, end);
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (buffered.length < end + 4 + length) return;
      const body = buffered.toString('utf8', end + 4, end + 4 + length);
      buffered = buffered.subarray(end + 4 + length);
      void answer(head, body);
    });
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/v1`,
    get asked() {
      return asked;
    },
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
