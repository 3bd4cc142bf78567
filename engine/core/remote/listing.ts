/** The files that an address with `*` in it names. */
import { addressOf } from './address.ts';
import { type Asking, newAsking } from './exchange.ts';
import { hubFiles } from './hub.ts';
import { Bucket } from './s3.ts';

/**
 * `*` stands for any characters of a name, `**` for any folders; an address without it is the one file that it names, and is not
 * looked for. In order. Exit 64 where it is no address, 65 where nobody may look.
 */
export async function expandRemote(pattern: string, asking: Asking = newAsking()): Promise<string[]> {
  const address = addressOf(pattern);
  if (address.kind === 'web') return [pattern];
  const path = address.kind === 's3' ? address.key : address.path;
  const star = path.indexOf('*');
  if (star < 0) return [pattern];
  const before = pattern.slice(0, pattern.length - path.length);
  const found =
    address.kind === 's3'
      ? await new Bucket(address.bucket, asking).keys(path.slice(0, star))
      : await hubFiles(address, path.slice(0, path.lastIndexOf('/', star) + 1).replace(/\/$/, ''), asking);
  return found.filter(name => !name.endsWith('/') && fits(name, path)).map(name => `${before}${name}`);
}

/** Takes as long as both lengths multiplied, whatever is in them. */
export function fits(name: string, pattern: string): boolean {
  const same = (a: string, b: string): boolean => wild([...a], [...b], '*', Object.is);
  return wild(name.split('/'), pattern.split('/'), '**', same);
}

/** `star` stands for any number of items; only the last one has to be tried for longer. */
function wild(
  items: readonly string[],
  pattern: readonly string[],
  star: string,
  same: (item: string, of: string) => boolean,
): boolean {
  let at = 0;
  let of = 0;
  let last: { of: number; at: number } | null = null;
  while (at < items.length) {
    if (pattern[of] === star) {
      of += 1;
      last = { of, at };
    } else if (of < pattern.length && same(items[at] as string, pattern[of] as string)) {
      at += 1;
      of += 1;
    } else if (last !== null) {
      last.at += 1;
      ({ of, at } = last);
    } else return false;
  }
  while (pattern[of] === star) of += 1;
  return of === pattern.length;
}
