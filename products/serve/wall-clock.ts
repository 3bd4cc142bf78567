/**
 * The time of day as a server believes it. A clock that is wrong for a moment would end batches and remove files for good,
 * so a jump is believed once it has lasted, and until then time goes on as it did.
 */

/** ms: less is a correction, and is followed at once */
const JUMP = 60_000;
/** ms that a jump has to last */
const LASTS = 5 * 60_000;

/** Milliseconds since 1970. `wall` is the clock that may jump, `elapsed` one that only goes on. */
export function believedClock(wall = Date.now, elapsed = () => performance.now()): () => number {
  let offset = wall() - elapsed();
  let jumped = { to: offset, at: 0 };
  return () => {
    const now = elapsed();
    const said = wall() - now;
    if (Math.abs(said - jumped.to) >= JUMP) jumped = { to: said, at: now };
    if (Math.abs(said - offset) < JUMP || now - jumped.at >= LASTS) offset = said;
    return offset + now;
  };
}
