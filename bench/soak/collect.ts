/** Reads the items that come out of a run as they come, and keeps no more of them than their numbers. */
import { createInterface } from 'node:readline';

export interface Collected {
  items: number;
  failed: number;
  /** keys of answers that the items name */
  calls: number;
  /** rows that came, by the number in their id */
  rows: Set<number>;
  twice: number;
}

interface Step {
  calls?: string[];
}

/** Grows as the items come. */
export function collect(stream: NodeJS.ReadableStream): Collected {
  const collected: Collected = { items: 0, failed: 0, calls: 0, rows: new Set(), twice: 0 };
  createInterface({ input: stream }).on('line', line => {
    const { id, steps, decision, failure } = JSON.parse(line) as {
      id: string;
      steps: Step[];
      decision?: Step;
      failure?: object;
    };
    const row = Number(/^soak-(\d+)$/.exec(id)?.[1] ?? -1);
    if (collected.rows.has(row)) collected.twice++;
    collected.rows.add(row);
    collected.items++;
    if (failure) collected.failed++;
    for (const { calls = [] } of decision ? [...steps, decision] : steps) collected.calls += calls.length;
  });
  return collected;
}
