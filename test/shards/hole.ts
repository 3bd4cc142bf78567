/** What lies between a client and a server, and may swallow all that comes by, as a firewall does that has forgotten a connection. */
import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface Hole {
  url: string;
  /** From now on nothing arrives, neither way; connections stay open, and new ones are taken. */
  swallow(): void;
  /** New connections pass again. Those that lost something stay dead. */
  open(): void;
}

export async function holeTo(port: number): Promise<Hole> {
  let isOpen = true;
  const sockets = new Set<Socket>();
  const server = createServer(near => {
    const far = createConnection(port, '127.0.0.1');
    let isDead = !isOpen;
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('data', data => {
        isDead ||= !isOpen;
        if (!isDead) to.write(data);
      });
      from.on('error', () => {});
      from.on('close', () => {
        sockets.delete(from);
        if (!isDead || from === near) to.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    swallow: () => {
      isOpen = false;
    },
    open: () => {
      isOpen = true;
    },
  };
}
