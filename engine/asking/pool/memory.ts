/** What a server learned of its endpoints and begins with after a restart: their limits, and the models of those that are away. */
import type { Clock } from '../endpoints/pool-clock.ts';
import { setLimit } from './learner.ts';
import type { Endpoint } from './pool-state.ts';

export interface KeptEndpoint {
  url: string;
  /** calls at a time; null while that is still being learned */
  limit: number | null;
  models: readonly string[];
}

export function createMemory(endpoints: readonly Endpoint[], clock: Clock, onChange: () => void) {
  return {
    /** A limit that a person has set stays, and what an endpoint says now goes before what it said then. */
    recall(kept: readonly KeptEndpoint[]): void {
      for (const { url, limit, models } of kept) {
        const endpoint = endpoints.find(one => one.url === url);
        if (endpoint === undefined) continue;
        if (endpoint.models.size === 0) endpoint.models = new Set(models);
        const { learner, pinned } = endpoint;
        if (pinned || limit === null || learner.phase !== 'grow') continue;
        learner.phase = 'hold';
        learner.isRecalled = true;
        setLimit(learner, limit, clock.now());
      }
      onChange();
    },
    kept: (): KeptEndpoint[] =>
      endpoints.map(({ url, learner, models, goal, pinned }) => {
        const { phase, climb, limit } = learner;
        const isLearned = !pinned && phase !== 'grow';
        // of one that has just come back, or throttles, what it had before
        const known = climb ? climb.known : Math.max(limit, goal);
        return { url, limit: isLearned ? known : null, models: [...models] };
      }),
  };
}

export type Memory = ReturnType<typeof createMemory>;
