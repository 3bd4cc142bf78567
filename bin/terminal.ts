/**
 * A terminal that has hung up: the session was lost, or somebody logged out and left the run behind. At its end Node
 * sets terminals back to how they were, and aborts where that fails (Node 20: 134 in place of the exit code). What is
 * closed by then it leaves alone.
 */
import { closeSync, fstatSync } from 'node:fs';

/** Closes the standard streams whose terminal is gone. Nothing can be written to them afterwards. */
export async function closeHungUpTerminals(): Promise<void> {
  for (const stream of [0, 1, 2]) {
    try {
      if (!fstatSync(stream).isCharacterDevice()) continue;
      const { isatty } = await import('node:tty');
      // other devices are closed too, such as /dev/null: they have had what there was
      if (!isatty(stream)) closeSync(stream);
    } catch {
      // it was closed before
    }
  }
}
