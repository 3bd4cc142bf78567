/** What was seen of one endpoint, before anybody judges it. Texts are as the server sent them: hide and shorten to show. */

import { hide, type Key, oneLine } from '../../../engine/asking/endpoints/endpoint-words.ts';
import type { KindName } from '../../../engine/asking/endpoints/server-kinds.ts';
import type { Page } from '../../../engine/asking/endpoints/server-load.ts';
import type { EndpointSetting } from '../../../engine/asking/endpoints/settings.ts';
import type { Hindrance, Served } from '../../../engine/asking/pool/probe.ts';
import { visible } from '../../../engine/core/json/visible.ts';

export type Kind = KindName | 'unknown';

/** A completion that a run would have accepted. */
export interface Answer {
  text: string;
  /** as it was sent, before anything was read into it */
  finish: string | undefined;
  usage:
    | { prompt: number | undefined; completion: number | undefined; cached: number | undefined }
    | undefined;
  /** the server kept the thinking of a reasoning model apart from the text */
  thought: boolean;
  /** ms from sending to the last byte */
  took: number;
}

export interface Streamed extends Answer {
  /** ms from sending to the first text, and to the last; undefined where there was no text */
  first: number | undefined;
  last: number | undefined;
}

/** Why there is no completion. */
export interface Silence {
  cause: string;
  /** of the answer, where there was one */
  status: number | undefined;
  /** nothing came in time, or there was no time left to ask */
  late: boolean;
}

export type Outcome<A = Answer> = A | Silence;

export const isSilence = (outcome: Outcome<unknown> | undefined): outcome is Silence =>
  typeof outcome === 'object' && outcome !== null && 'cause' in outcome;

/** An answer to a schema that the model could not guess. */
export interface Guided {
  outcome: Outcome;
  /** the one key that the schema has, and the values that it takes */
  key: string;
  words: readonly string[];
}

export interface Facts {
  setting: EndpointSetting;
  key: Key | undefined;
  /** the model that a person named */
  wanted: string | undefined;
  /** why it cannot be used at all; everything below is then missing */
  hindrance: { kind: Hindrance; cause: string } | undefined;
  models: readonly Served[];
  /** the one that was asked; undefined where none of them could be meant */
  model: Served | undefined;
  kind: Kind;
  version: string | undefined;
  /** tokens of prompt and answer together */
  context: number | undefined;
  /** requests that the server computes at once: max_num_seqs, or slots */
  batch: number | undefined;
  metrics: { before: Page | undefined; after: Page | undefined; status: number | undefined };
  /** ms by which the server's clock is ahead of ours, give or take a second */
  skew: number | undefined;
  /** ms of the quickest exchange that asked no model */
  roundTrip: number | undefined;
  trivial: Outcome | undefined;
  guided: readonly Guided[];
  /** the same request twice */
  same: readonly Outcome[];
  /** with a priority: whether it was answered, and what it said where it was not; undefined where it was not asked */
  prioritised: Outcome | undefined;
  /** the same request with another seed, streamed */
  streamed: Outcome<Streamed> | undefined;
  /** the same long prompt twice */
  prefix: readonly Outcome[];
  /** requests that were sent */
  calls: number;
}

/** The answers among the outcomes. */
export function answers<A>(outcomes: readonly (Outcome<A> | undefined)[]): A[] {
  return outcomes.filter((one): one is A => one !== undefined && !isSilence(one));
}

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
