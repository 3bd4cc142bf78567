/** Tells the operator once of a model that an alias stands for and nobody has served for long: its name may be mistyped. */
import type { Names } from './served-models.ts';

export interface Unserved {
  /** What was seen of a model just now; returns it. */
  note(model: string, isUp: boolean): boolean;
}

/** ms. A server that is started again needs minutes. */
const LONG = 10 * 60_000;

export function createUnserved(
  names: Names,
  { now, say }: { now(): number; say(message: string): void },
): Unserved {
  /** since when each was seen to be served by nobody; only models of the config get here */
  const since = new Map<string, number>();
  const told = new Set<string>();
  return {
    note(model, isUp) {
      const from = since.get(model) ?? now();
      if (isUp) {
        since.delete(model);
        told.delete(model);
      } else {
        since.set(model, from);
        if (now() - from >= LONG && !told.has(model)) {
          told.add(model);
          const aliases = names.aliases.filter(alias => names.modelsOf(alias).includes(model));
          say(
            `models: no server has had ${JSON.stringify(model)} for ${LONG / 60_000} minutes; other models get its share of ` +
              `${aliases.map(alias => JSON.stringify(alias)).join(', ')}; ` +
              'start a server that has it, or correct the name',
          );
        }
      }
      return isUp;
    },
  };
}
