/** Where a server listens: its URL, and what it says where it cannot. */
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { usageError } from '../../engine/core/item/failure.ts';
import type { Settings } from './serve-config.ts';

type Place = Pick<Settings, 'host' | 'port'>;

/**
 * Connections that are made before this process takes them. Node's own 511 turn the rest of a thousand callers away, whose
 * systems try again after a second; the system's own limit (`somaxconn`) is 4,096 as well.
 */
export const BACKLOG = 4_096;

/** Exit 64 for an address that cannot be listened on; any other error as it is. */
export function listenError(error: unknown, { host, port }: Place): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE')
    return usageError(`--listen: expected a free port of ${host}, found ${port} in use; 0 takes any`);
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return usageError(`--listen: expected an address to listen on, found ${host}:${port} (${code})`);
  return error;
}

export function urlOf(server: Server, { host }: Place): string {
  const { port } = server.address() as AddressInfo;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

export async function listen(app: FastifyInstance, place: Place): Promise<string> {
  try {
    await app.listen({ host: place.host, port: place.port, backlog: BACKLOG });
  } catch (error) {
    throw listenError(error, place);
  }
  return urlOf(app.server, place);
}
