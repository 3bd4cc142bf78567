/** A finding, and how text of a server is shown in one. */

import { hide, type Key, oneLine } from '../../../engine/asking/endpoints/endpoint-words.ts';
import { visible } from '../../../engine/core/json/visible.ts';
import type { Facts } from './endpoint-facts.ts';

/**
 * `trouble`: a run would fail, or its results or most of its speed are at stake. `note`: worth knowing, or worth
 * changing, and a run works without it.
 */
export type Mark = 'ok' | 'note' | 'trouble';

/** What a check saw. */
export interface Observation {
  mark: Mark;
  found: string;
  /** what to change, with the exact flag or setting */
  advice?: string;
}

export interface Finding extends Observation {
  check: string;
  expected: string;
}

/** Looks at what was seen of one endpoint; undefined where there was nothing to look at. */
export interface Check {
  name: string;
  expected: string;
  look(facts: Facts): Observation | undefined;
}

export const ok = (found: string): Observation => ({ mark: 'ok', found });
export const note = (found: string, advice?: string): Observation => ({
  mark: 'note',
  found,
  ...(advice && { advice }),
});
export const trouble = (found: string, advice: string): Observation => ({ mark: 'trouble', found, advice });

/** Words of a server on one line, without the key and without what would steer a terminal. */
export function shown(text: string, key: Key | undefined, most = 80): string {
  return visible(oneLine(hide(text, key), most));
}

export function quoted(text: string, key: Key | undefined, most = 60): string {
  return `"${shown(text, key, most)}"`;
}

export const listed = (texts: readonly string[], key: Key | undefined, most = 5): string => {
  const some = texts.slice(0, most).map(text => shown(text, key));
  return texts.length > most ? `${some.join(', ')} and ${texts.length - most} more` : some.join(', ');
};
