/**
 * Legacy results as one JSON document, sorted by the rows that they are of:
 *
 *   {"metadata": {"model": …, "ordering": …, "count": 5760}, "results": [ … ], "status": "complete"}
 *
 * They come in the order in which they were finished, so each is put aside, and the document is written when all are
 * there: a run that is killed before that leaves nothing that could pass for one. In memory a result takes some 20 bytes,
 * however long it is; on disk there are two copies until the document is written.
 */

import type { Item } from '../item/item.ts';
import { documentEnd } from './document.ts';
import type { Drain, Frame, Output } from './ndjson-out.ts';
import { letGo, originOf, textOf } from './origin.ts';
import { openAside } from './put-aside.ts';

/** Results that are written before signals and timers have their turn. */
const AT_ONCE = 256;

/** Without a `model` it is the one that the run asked, which `end` is told. */
export function documentFrame(model?: string): Frame {
  return { isDocument: true, model, open };

  function open(drain: Drain, folder: string): Output {
    const aside = openAside(folder);
    let ordering: string | null = null;
    let isWhole = true; // no failed item came, which has no place in a document

    const put = (bytes: Buffer): Promise<void> | undefined => {
      if (drain.put(bytes)) return undefined;
      return new Promise(resolve => drain.ready(resolve));
    };
    return {
      write(line) {
        if (line.failure !== undefined) isWhole = false;
        else {
          const origin = originOf(line);
          aside.add(rankOf(line), origin === undefined ? JSON.stringify(line) : textOf(origin));
          const next = orderingOf(line);
          ordering = ordering === null || ordering === next ? next : MIXED;
        }
        letGo(line);
        return true;
      },
      ready: act => act(),
      async end(complete = true, asked) {
        try {
          const { count } = aside;
          const metadata = { model: model ?? asked ?? UNKNOWN, ordering: ordering ?? UNKNOWN, count };
          await put(Buffer.from(`{"metadata": ${JSON.stringify(metadata)}, "results": [\n`));
          let written = 0;
          for (const result of aside.sorted()) {
            await put(written === 0 ? result : Buffer.concat([BETWEEN, result]));
            written += 1;
            if (written % AT_ONCE === 0) await new Promise(setImmediate);
          }
          await put(Buffer.from(documentEnd(complete && isWhole)));
          await drain.end();
        } finally {
          aside.close();
        }
      },
    };
  }
}

const BETWEEN = Buffer.from(',\n');
/** of several orderings in one document: each result has its own */
const MIXED = 'mixed';
const UNKNOWN = 'unknown';

function orderingOf({ ordering }: Item): string {
  return typeof ordering === 'string' ? ordering : (JSON.stringify(ordering) ?? UNKNOWN);
}

/** The row of a result. One whose row is no number comes after the others, as it came. */
function rankOf({ prompt_id: row }: Item): number {
  const rank = typeof row === 'string' && row.trim() !== '' ? Number(row) : row;
  return typeof rank === 'number' && !Number.isNaN(rank) ? rank : Number.POSITIVE_INFINITY;
}
