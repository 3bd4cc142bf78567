/**
 * What admins did: DIR/audit.jsonl, a line an act, only ever appended to, and the log. It has who, when, from where and what,
 * and no key.
 */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { OWNER_ONLY } from '../../../engine/core/files/durable.ts';
import type { Say } from '../../../engine/core/item/say.ts';
import type { Caller } from '../access.ts';

/** Who did it: a request, of the API or of the page. */
export interface Actor {
  caller: Pick<Caller, 'owner' | 'key'>;
  /** of the request */
  id: string;
  ip: string;
}

export type Detail = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

export interface Act extends Record<string, unknown> {
  /** ISO 8601 in UTC */
  time: string;
  act: string;
  by: string;
  /** the id of the key, null without keys */
  key: string | null;
  from: string;
  request_id: string;
}

export const actsPath = (data: string): string => join(data, 'audit.jsonl');

export interface Acts {
  /** Puts an act on record. `words`: as the log says it, behind who did it. */
  note(actor: Actor, act: string, words: string, detail: Detail): void;
}

export function createActs(data: string, { now, say }: { now(): number; say: Say }): Acts {
  const path = actsPath(data);
  return {
    note({ caller, id, ip }, act, words, detail) {
      const line: Act = {
        ...{ time: new Date(now()).toISOString(), act, by: caller.owner, key: caller.key },
        ...{ from: ip, request_id: id, ...detail },
      };
      say(`admin ${caller.owner} (${caller.key ?? 'no keys'}, ${ip}, ${id}): ${words}`, {
        ...{ event: `admin-${act.replace('.', '-')}`, owner: caller.owner, key: caller.key, request: id },
      });
      try {
        appendFileSync(path, `${JSON.stringify(line)}\n`, { mode: OWNER_ONLY.file, flush: true });
      } catch (error) {
        // it is done, and the line of the log stays
        say(
          `${path}: expected to be written, found ${(error as Error).message}; that act is in this log alone`,
        );
      }
    },
  };
}
