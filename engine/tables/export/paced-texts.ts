/** Texts on their way out: some at a time in one write, and none longer than until the event loop comes round. */
import { type Drain, type OnBroken, onceATurn } from '../../core/files/ndjson-out.ts';

export interface Texts {
  put(text: string): void;
  /** the reader takes more without waiting */
  readonly isOpen: boolean;
  ready(act: () => void): void;
  end(): Promise<void>;
}

/** Characters that leave in one write. */
const ROOM = 128 * 1024;

export function textsInto(drain: Drain, onBroken: OnBroken): Texts {
  let waiting: string[] = [];
  let characters = 0;
  const flushSoon = onceATurn(flush, onBroken);
  let isOpen = true;

  function flush(): void {
    if (characters === 0) return;
    const bytes = Buffer.from(waiting.join(''));
    waiting = [];
    characters = 0;
    isOpen = drain.put(bytes);
  }

  return {
    put(text) {
      waiting.push(text);
      characters += text.length;
      if (characters >= ROOM) flush();
      flushSoon();
    },
    get isOpen() {
      return isOpen;
    },
    ready: act =>
      drain.ready(() => {
        isOpen = true;
        act();
      }),
    async end() {
      flush();
      await drain.end();
    },
  };
}
