/** Which file a path leads to, whatever it is called: by links of both kinds, and from any folder. */
import { fstatSync, statSync } from 'node:fs';

/**
 * Device and inode of a path or a descriptor. Null for what is not there, and for devices: anyone may write to /dev/null.
 */
export function identityOf(file: string | number): string | null {
  try {
    const stat = typeof file === 'number' ? fstatSync(file) : statSync(file);
    return stat.isFile() || stat.isFIFO() ? `${stat.dev}:${stat.ino}` : null;
  } catch {
    return null;
  }
}
