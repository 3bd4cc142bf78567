/** The tries of one item, or of one call, over all files: only their places are kept. */

import type { Place } from '../../engine/asking/ledger/key-index.ts';
import type { Header } from '../../engine/asking/ledger/ledger-format.ts';
import { callsOf, type Tell } from '../../engine/asking/ledger/read-ledger.ts';
import { type Texts, textsOf } from '../../engine/asking/ledger/request-texts.ts';

/** A key may be cut short, down to this many of its characters. */
const SHORTEST_KEY = 8;
/** Ids that a message names. */
const MAX_NAMED_IDS = 5;

export interface Try extends Place {
  time: string;
  key: string;
  /** of the run; null where it is lost */
  header: Header | null;
  /** of its file */
  texts: Texts;
}

export interface Tries {
  /** in the order in which they ended */
  tries: Try[];
  /** items and keys that begin with what was asked for, where they are several */
  several: string[];
  /** tries that were looked at */
  read: number;
}

/** Those of the item or the call that is named `id`, else of the one that begins with it. */
export function findTries(paths: readonly string[], id: string, tell: Tell): Tries {
  const exact: Try[] = [];
  let begins: Try[] = [];
  const several = new Set<string>();
  const mayBeKey = id.length >= SHORTEST_KEY;
  let read = 0;
  for (const [file, path] of paths.entries()) {
    const texts = textsOf(path);
    for (const { at, bytes, header, call } of callsOf(path, tell, texts)) {
      read += 1;
      const { key, item, time } = call;
      const one: Try = { file, offset: at, length: bytes.length, time, key, header, texts };
      if (item === id || key === id) exact.push(one);
      const name = item.startsWith(id) ? item : mayBeKey && key.startsWith(id) ? key : null;
      if (name === null || exact.length > 0) continue;
      if (several.size <= MAX_NAMED_IDS) several.add(name);
      if (several.size === 1) begins.push(one);
      else begins = [];
    }
  }
  const tries = (exact.length > 0 ? exact : begins).sort((a, b) =>
    a.time < b.time ? -1 : a.time > b.time ? 1 : 0,
  );
  return { tries, several: tries.length > 0 ? [] : [...several], read };
}
