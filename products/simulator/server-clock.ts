/** Time as a simulated server sees it, injected so that tests decide when it passes. */
export interface Clock {
  /** milliseconds that never go back */
  now(): number;
  /** runs once after `ms`; the returned function calls it off */
  after(ms: number, run: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};
