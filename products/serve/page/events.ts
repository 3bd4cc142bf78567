/**
 * Server-sent events: one snapshot a second for each view that somebody looks at, made once for all who look at it. A client
 * that does not read gets fewer of them, never late ones.
 */
import type { ServerResponse } from 'node:http';
import type { Say } from '../../../engine/core/item/say.ts';
import { shown } from '../../kit/html.ts';
import { ApiError } from '../errors.ts';

export interface Viewer {
  response: ServerResponse;
  /** what is seen: viewers with the same name get the same bytes */
  name: string;
  /** whether it may still be seen: once not, the stream ends */
  may(): boolean;
  /** the values, as JSON will have them */
  values(): unknown;
}

const MOST = 200;
/** bytes that wait in a connection, beyond which it gets no further frame */
const WAITING = 64 * 1024;
/** frames between two comments, which keep a connection through proxies open where frames are dropped or equal */
const COMMENT = 15;
/** ms after which a browser comes back */
const RETRY = 2_000;

/** Texts of an update are put in as they are, and are to look as those of the page. */
const asShown = (_key: string, value: unknown): unknown => (typeof value === 'string' ? shown(value) : value);

/** What the open page of something is told that was deleted meanwhile. */
const GONE = 'Not live: this was deleted.';

/** What it is told where a disk or a bug is in the way; the log has what. */
const BROKEN = 'Not live: the server could not look at this. Its log says why.';

/** What is seen, or why it is not seen any more. */
function snapshotOf(viewer: Viewer, say: Say): { text: string } | { over: string } {
  try {
    return { text: JSON.stringify(viewer.values(), asShown) };
  } catch (error) {
    if (error instanceof ApiError) return { over: GONE };
    say(
      `the page ${JSON.stringify(viewer.name.trim().slice(0, 100))} is live no more: ${(error as Error).message}`,
      {
        ...{ event: 'page', level: 'error' },
      },
    );
    return { over: BROKEN };
  }
}

export function createEvents(say: Say) {
  const viewers = new Map<Viewer, { sent: string; quiet: number }>();
  let id = 0;

  function end(viewer: Viewer): void {
    viewers.delete(viewer);
    viewer.response.end();
  }

  function send(to: Iterable<Viewer>): void {
    const made = new Map<string, ReturnType<typeof snapshotOf>>();
    id += 1;
    for (const viewer of to) {
      const { name, response } = viewer;
      if (!viewer.may()) {
        end(viewer);
        continue;
      }
      if (response.writableLength > WAITING) continue;
      const snapshot = made.get(name) ?? snapshotOf(viewer, say);
      made.set(name, snapshot);
      if ('over' in snapshot) {
        response.write(`event: gone\ndata: ${JSON.stringify(snapshot.over)}\n\n`);
        end(viewer);
        continue;
      }
      const { text } = snapshot;
      const state = viewers.get(viewer) as { sent: string; quiet: number };
      if (text === state.sent) {
        state.quiet += 1;
        if (state.quiet % COMMENT === 0) response.write(': still here\n\n');
        continue;
      }
      viewers.set(viewer, { sent: text, quiet: 0 });
      response.write(`id: ${id}\ndata: ${text}\n\n`);
    }
  }

  return {
    /** Throws 503 where too many look already. */
    add(viewer: Viewer): void {
      if (viewers.size >= MOST) throw new ApiError(503, `Expected at most ${MOST} open pages, found more.`);
      const { response } = viewer;
      response.writeHead(200, {
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
        'x-content-type-options': 'nosniff',
      });
      response.write(`retry: ${RETRY}\n\n`);
      viewers.set(viewer, { sent: '', quiet: 0 });
      response.on('close', () => viewers.delete(viewer));
      response.on('error', () => viewers.delete(viewer));
      send([viewer]);
    },
    /** Sends what is to be seen now; called each second. */
    send: (): void => send([...viewers.keys()]),
    get viewers(): number {
      return viewers.size;
    },
    close(): void {
      for (const viewer of [...viewers.keys()]) end(viewer);
    },
  };
}
