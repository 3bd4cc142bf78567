/**
 * How many connections are let in. A request that goes on to a model takes two descriptors, so those that come when clients
 * have half of them are answered from here alone. When these are many too, the door stands still for some milliseconds
 * after each: Node has no way not to accept, and one that it cannot keep is reset without an answer. What is not accepted
 * waits in the system's queue meanwhile, and those inside have time to say what they want and to hear the 503.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { sockets } from '../pool/wire.ts';

const MOST_SERVED = 10_000;
/** connections beyond those, where descriptors are no bound */
const ROOM = 1_000;
/** ms that the door stands still where the last place was taken */
const LONGEST_PAUSE = 25;
/** ms without a request after which a connection may be closed for another: its client is hardly just about to ask */
const RESTED = 5_000;
/** ms in which one beyond has to have said something */
const SILENT = 2_000;

/** Connections of which nothing goes on to a model. */
export const beyond = new WeakSet<Socket>();

const never = new Int32Array(new SharedArrayBuffer(4));
const standStill = (ms: number): void => void Atomics.wait(never, 0, 0, ms);

export function keepDoor(server: Server, pause = standStill): void {
  const served = Math.min(MOST_SERVED, Math.floor(sockets.all / 2));
  const room = Math.min(ROOM, Math.max(1, sockets.all - served));
  server.maxConnections = served + room;
  /** those that wait for a next request, the one that waits the longest first */
  const idle = new Map<Socket, number>();
  const asking = new WeakMap<Socket, number>();
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    idle.delete(socket);
    asking.set(socket, (asking.get(socket) ?? 0) + 1);
    response.once('close', () => {
      const left = (asking.get(socket) ?? 1) - 1;
      asking.set(socket, left);
      if (left === 0 && !socket.destroyed) idle.set(socket, performance.now());
    });
  });
  server.on('connection', (socket: Socket) => {
    sockets.noteClient(1);
    socket.once('close', () => {
      sockets.noteClient(-1);
      idle.delete(socket);
    });
    const over = sockets.clients - served;
    if (over <= 0) return;
    beyond.add(socket);
    for (const [one, since] of idle) {
      if (performance.now() - since < RESTED) break;
      one.destroy();
    }
    const silent = setTimeout(() => socket.bytesRead === 0 && socket.destroy(), SILENT).unref();
    socket.once('close', () => clearTimeout(silent));
    const ms = Math.ceil(LONGEST_PAUSE * Math.min(1, (2 * over) / room - 1));
    if (ms > 0) pause(ms);
  });
}
