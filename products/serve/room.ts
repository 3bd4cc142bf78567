/**
 * What clients may take of something that is for all of them: bytes of bodies, uploads at a time. One owner gets half of it,
 * so that whoever takes all that it can get, and never lets go, leaves the other half.
 */
export interface Room {
  /** Whether there was room for so much; only then it is taken. */
  take(owner: string, amount: number): boolean;
  give(owner: string, amount: number): void;
}

export function createRoom(most: number): Room {
  const ofOwner = Math.max(1, Math.floor(most / 2));
  const taken = new Map<string, number>();
  let all = 0;
  return {
    take(owner, amount) {
      const own = (taken.get(owner) ?? 0) + amount;
      if (all + amount > most || own > ofOwner) return false;
      all += amount;
      taken.set(owner, own);
      return true;
    },
    give(owner, amount) {
      const left = (taken.get(owner) ?? 0) - amount;
      all -= amount;
      if (left > 0) taken.set(owner, left);
      else taken.delete(owner);
    },
  };
}
