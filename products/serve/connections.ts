/**
 * The connections of clients: how many are let in, and which make room for others.
 *
 * A request that goes on to a model takes two descriptors, so those that come when clients have half of them are answered
 * from here alone. Where there are many, those of nobody known that have rested give way to those that come: one that asks
 * nothing, or shows no key, or takes its time to say what it asks. When none has, and few descriptors are left, the door
 * stands still for some milliseconds after each: Node has no way not to accept, and one that it cannot keep is reset
 * without an answer. What is not accepted waits in the system's queue meanwhile, and those inside have time to say what they
 * want and to hear the 503. That is for a burst: who keeps the door full is reset, since others would wait with him. Where all
 * places are taken Node tells of nobody who comes, so half of the last ones are made free each second. One that does not read
 * what it asked for is ended, so that it costs no memory for long.
 */
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { sockets } from '../../engine/asking/endpoints/wire.ts';

const MOST_SERVED = 9_000;
/** connections beyond those, where descriptors are no bound */
const ROOM = 1_000;
/** ms that the door stands still where the last place was taken */
const LONGEST_PAUSE = 100;
/** ms that it may stand still at a time, and what comes back of them each ms: all else stands still with it */
const MOST_PAUSES = 2_000;
const PAUSES_BACK = 0.2;
/** ms without a request of somebody known after which a connection gives way: its client is hardly just about to ask */
const RESTED = 5_000;
/** ms in which one beyond has to have said something */
const SILENT = 2_000;
/** ms in which a client has to take some of what waits for it */
const LOOK = 60_000;
/** ms between two looks at whether there is room for who comes next */
const MAKE_ROOM = 1_000;

const never = new Int32Array(new SharedArrayBuffer(4));
const standStill = (ms: number): void => void Atomics.wait(never, 0, 0, ms);

export function watchConnections(
  server: Server,
  pause = standStill,
  elapsed: () => number = () => performance.now(),
) {
  const served = Math.min(MOST_SERVED, Math.floor(sockets.all / 2));
  const room = Math.min(ROOM, Math.max(1, sockets.all - served));
  /** each connection, with the requests of somebody known that are under way on it */
  const open = new Map<Socket, number>();
  /** those without one, with the ms at which they came or had their last answer, the one that rests the longest first */
  const resting = new Map<Socket, number>();
  const beyond = new WeakSet<Socket>();
  /** bytes that each had taken at the last look, of those that bytes wait for */
  let before = new Map<Socket, number>();
  const pauses = { left: MOST_PAUSES, at: elapsed() };
  let isEnding = false;

  server.maxConnections = served + room;
  server.on('connection', (socket: Socket) => {
    sockets.noteClient(1);
    open.set(socket, 0);
    socket.once('close', () => {
      sockets.noteClient(-1);
      open.delete(socket);
      resting.delete(socket);
    });
    const over = sockets.clients - served;
    const hasRoom = over <= 0 || endRested();
    resting.set(socket, elapsed());
    if (hasRoom) return;
    beyond.add(socket);
    const silent = setTimeout(() => endSilent(socket), SILENT).unref();
    socket.once('close', () => clearTimeout(silent));
    pauses.left = Math.min(MOST_PAUSES, pauses.left + PAUSES_BACK * (elapsed() - pauses.at));
    const ms = Math.floor(Math.min(pauses.left, LONGEST_PAUSE * Math.min(1, (2 * over) / room - 1)));
    if (ms > 0) pause(ms);
    pauses.left -= Math.max(0, ms);
    pauses.at = elapsed();
  });
  const timer = setInterval(look, LOOK).unref();
  const making = setInterval(makeRoom, MAKE_ROOM).unref();
  server.on('close', () => {
    clearInterval(timer);
    clearInterval(making);
  });

  /** What it has said may still lie in the system where this process was late: it is read before setImmediate. */
  function endSilent(socket: Socket): void {
    setImmediate(() => socket.bytesRead === 0 && socket.destroy());
  }

  /** Ends the one that has rested the longest; false where none has for long enough. */
  function endRested(): boolean {
    for (const [socket, since] of resting) {
      if (elapsed() - since < RESTED) return false;
      resting.delete(socket);
      socket.destroy();
      return true;
    }
    return false;
  }

  /** Leaves room for those that come next; when the server ends, nobody comes, and all that rest go. */
  function makeRoom(): void {
    let over = sockets.clients - (isEnding ? 0 : served + Math.ceil(room / 2));
    while (over > 0 && endRested()) over -= 1;
  }

  /** Ends those that have taken nothing since the last look, while something waits for them. */
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
    /** Somebody who is known asks something on this connection: it stays until it is answered. */
    asks(socket: Socket, response: ServerResponse): void {
      open.set(socket, (open.get(socket) ?? 0) + 1);
      resting.delete(socket);
      response.once('close', () => {
        const asked = open.get(socket);
        if (asked === undefined) return; // it has closed
        open.set(socket, asked - 1);
        if (asked === 1) resting.set(socket, elapsed());
      });
    },
    /** Whether there was no descriptor for the other side of what this connection asks, when it came. */
    isBeyond: (socket: Socket): boolean => beyond.has(socket),
    /**
     * The server ends. Node closes connections that rest behind an answer, and waits for those that have not said anything
     * yet, as for a request: one that a client made beforehand would hold up the end for all of its grace. So would one that
     * says what it asks a letter a second, since Node does not look at the time of those any more either.
     */
    stop(): void {
      for (const socket of open.keys()) endSilent(socket);
      server.on('connection', endSilent);
      isEnding = true;
      makeRoom();
    },
    look,
    makeRoom,
  };
}

export type Connections = ReturnType<typeof watchConnections>;
