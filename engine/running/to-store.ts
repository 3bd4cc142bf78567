/**
 * Outputs of a run that are objects of a store (s3://BUCKET/KEY). Their parts are sent as they are written; the object appears when
 * the run has ended well, and only then.
 */
import { tmpdir } from 'node:os';
import { toDrain } from '../core/files/ndjson-out.ts';
import { beginUpload, openUpload, type Upload } from '../core/remote/upload.ts';
import type { Store } from './outputs.ts';

/**
 * The store of `target`, a path with `{ordering}` in it for one object each. The one object is begun now: that it may not be written
 * is better known before anything is paid for. Rejects with 64, 65 and 74.
 */
export async function storeOf(target: string): Promise<Store> {
  const begun = target.includes('{ordering}') ? null : await beginUpload(target);
  return {
    leave: async () => begun?.abort(),
    open(name, onBroken, frame) {
      const upload: Upload = begun !== null && name === target ? begun : openUpload(name);
      upload.onBroken = onBroken;
      return {
        output: toDrain(upload, tmpdir(), onBroken, frame),
        finish: () => upload.complete(),
        async leave() {
          const isGone = await upload.abort();
          return isGone ? null : `the parts of ${upload.name}, which nobody sees`;
        },
      };
    },
  };
}
