/** What the beginning of a batch file says of all of it: before it is validated, nobody knows more. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** bytes that are read */
const MOST = 64 * 1024;
const LINE_FEED = 10;

/** How many lines it has, about, and the model of the first one; null where its beginning does not say. */
export function firstLines(path: string): { lines: number | null; model: string | null } {
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    const block = Buffer.alloc(Math.min(MOST, size));
    const bytes = block.subarray(0, readSync(file, block, 0, block.length, 0));
    const last = bytes.lastIndexOf(LINE_FEED);
    const whole = size > MOST ? bytes.subarray(0, last + 1) : bytes;
    if (whole.length === 0) return { lines: size === 0 ? 0 : null, model: null };
    let count = 0;
    for (let at = 0; at >= 0 && at < whole.length; count++) {
      const end = whole.indexOf(LINE_FEED, at);
      at = end < 0 ? end : end + 1;
    }
    const first = whole.indexOf(LINE_FEED);
    const model = modelOf(whole.subarray(0, first < 0 ? undefined : first).toString());
    return { lines: Math.round((count * size) / whole.length), model };
  } finally {
    closeSync(file);
  }
}

function modelOf(line: string): string | null {
  try {
    const { model } = JSON.parse(line).body;
    return typeof model === 'string' && model !== '' ? model : null;
  } catch {
    return null; // validation says what is wrong with it
  }
}
