/** How long a load would take on an engine with given constants. */
import { Engine } from '../../simulator/engine.ts';
import type { Preset } from '../../simulator/presets.ts';

/** A load as it was: what the server said of its requests, and how long they took, in ms. */
export interface Measured {
  name: string;
  requests: readonly { prompt: number; output: number }[];
  /** from sending to the end of the answer, as a mean over the requests */
  took: number;
}

/** The mean time of a request of the load, in ms: without what passes before and after the engine. */
export function engineMs(preset: Preset, { requests }: Pick<Measured, 'requests'>): number {
  const engine = new Engine(preset);
  const nothingShared = new Int32Array(0);
  let sum = 0;
  for (const { prompt, output } of requests) {
    engine.add(
      {
        prompt: { tokens: prompt, blocks: nothingShared },
        output,
        done: at => {
          sum += at;
        },
      },
      0,
    );
  }
  for (let due = engine.due(); due !== null; due = engine.advance(due));
  return sum / requests.length;
}
