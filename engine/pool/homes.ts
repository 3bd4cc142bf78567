/**
 * Where each chain is at home: the endpoint that answered its last call, whose prefix cache may hold what its next one
 * begins with. A table of fixed size: who forgets a home loses a preference and nothing else.
 */
import type { Endpoint } from './health.ts';

export interface Homes {
  /** `hash` is that of the item's id, 32 bits */
  of(hash: number): Endpoint | null;
  note(hash: number, endpoint: Endpoint): void;
}

/** several times the items that anyone keeps in flight */
const SLOTS = 1 << 16;

export function createHomes(endpoints: readonly Endpoint[]): Homes {
  const hashes = new Uint32Array(SLOTS);
  const homes = new Uint16Array(SLOTS); // 1 + index; 0 is none
  return {
    of(hash) {
      const at = hash & (SLOTS - 1);
      if (hashes[at] !== hash) return null;
      return endpoints[(homes[at] as number) - 1] ?? null;
    },
    note(hash, endpoint) {
      const at = hash & (SLOTS - 1);
      hashes[at] = hash;
      homes[at] = endpoints.indexOf(endpoint) + 1;
    },
  };
}
