/** Simulated endpoints for a test, and the flags that name them. */
import { afterAll } from 'vitest';
import { type Simulator, startSimulator } from '../../products/simulator/simulator.ts';

export interface Servers {
  all: Simulator[];
  /** `--endpoint URL --endpoint URL …` */
  flags: string;
  /** requests that came in, over all of them */
  requests(): number;
}

/** Servers of one seed answer alike, whichever is asked; they are closed after the tests of the file. */
export async function servers(
  count: number,
  options: Parameters<typeof startSimulator>[0] = {},
): Promise<Servers> {
  const all = await Promise.all(
    Array.from({ length: count }, (_, index) =>
      startSimulator({ port: 0, seed: 7, name: `server ${index}`, ...options }),
    ),
  );
  afterAll(() => Promise.all(all.map(server => server.close())));
  return {
    all,
    flags: all.map(({ url }) => `--endpoint ${url}`).join(' '),
    requests: () => all.reduce((sum, server) => sum + server.counts().requests, 0),
  };
}
