/** Where those wait who can go on only when something has changed. */
export interface Gate {
  /** Something has changed. */
  tell(): void;
  /** The next time that something changes. */
  next(): Promise<void>;
  /** After `ms`, or as soon as `isEnough` when something changes. */
  pause(ms: number, isEnough: () => boolean): Promise<void>;
  onTell(act: () => void): void;
}

export function createGate(): Gate {
  let waiting: (() => void)[] = [];
  const listeners: (() => void)[] = [];
  const next = (): Promise<void> => new Promise(resolve => waiting.push(resolve));
  return {
    tell() {
      for (const act of listeners) act();
      const now = waiting;
      waiting = [];
      for (const resolve of now) resolve();
    },
    next,
    async pause(ms, isEnough) {
      let timer: NodeJS.Timeout | undefined;
      const over = new Promise<true>(resolve => {
        timer = setTimeout(resolve, ms, true);
      });
      while (!isEnough()) if ((await Promise.race([over, next()])) === true) break;
      clearTimeout(timer);
    },
    onTell: act => void listeners.push(act),
  };
}
