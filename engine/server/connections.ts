/**
 * The connections of clients. Where there are many, those of nobody known make room for those that come: one that asks
 * nothing, or shows no key, or takes its time to say what it asks. One that does not read what it asked for is ended. So
 * neither costs others a descriptor, a place at a model, or memory for long.
 */
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { sockets } from '../pool/wire.ts';

const MOST = 10_000;
/** Beyond this share of the connections that there may be, silent ones are ended. */
const CROWDED = 0.9;
/** ms in which a client has to take some of what waits for it */
const LOOK = 60_000;

export interface Connections {
  /** Somebody who is known asks something on this connection: it stays until it is answered. */
  asks(socket: Socket, response: ServerResponse): void;
  /**
   * Whether there was no descriptor for the other side of what this connection asks, when it came: a request that goes on to
   * a model takes two. These are answered from here alone.
   */
  isBeyond(socket: Socket): boolean;
  /** Ends those that have taken nothing since the last look, while something waits for them. */
  look(): void;
}

export function watchConnections(server: Server): Connections {
  const most = Math.min(MOST, sockets.all);
  /** each connection, with the requests of somebody known that are under way on it */
  const open = new Map<Socket, number>();
  /** those without one, in the order in which they came, or had their last answer */
  const silent = new Set<Socket>();
  const beyond = new WeakSet<Socket>();
  /** bytes that each had taken at the last look, of those that bytes wait for */
  let before = new Map<Socket, number>();

  server.maxConnections = most;
  server.on('connection', (socket: Socket) => {
    sockets.noteClient(1);
    open.set(socket, 0);
    silent.add(socket);
    socket.once('close', () => {
      sockets.noteClient(-1);
      open.delete(socket);
      silent.delete(socket);
    });
    if (isCrowded() && !endOldest(socket)) beyond.add(socket);
  });
  const timer = setInterval(look, LOOK).unref();
  server.on('close', () => clearInterval(timer));

  const isCrowded = (): boolean => 2 * sockets.clients > sockets.all || open.size > CROWDED * most;

  /** Ends the one that has been silent the longest, for `come`; false where all others have something under way. */
  function endOldest(come: Socket): boolean {
    for (const socket of silent) {
      if (socket === come) continue;
      silent.delete(socket);
      socket.destroy();
      return true;
    }
    return false;
  }

  function look(): void {
    const now = new Map<Socket, number>();
    for (const socket of open.keys()) {
      if (socket.writableLength === 0) continue;
      const taken = socket.bytesWritten - socket.writableLength;
      if (before.get(socket) === taken) socket.destroy();
      else now.set(socket, taken);
    }
    before = now;
  }

  return {
    asks(socket, response) {
      open.set(socket, (open.get(socket) ?? 0) + 1);
      silent.delete(socket);
      response.once('close', () => {
        const asked = open.get(socket);
        if (asked === undefined) return; // it has closed
        open.set(socket, asked - 1);
        if (asked === 1) silent.add(socket);
      });
    },
    isBeyond: socket => beyond.has(socket),
    look,
  };
}
