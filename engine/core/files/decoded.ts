/** Text in another encoding than UTF-8 as UTF-8, a block at a time: what Excel and older systems write. */
import { dataError, usageError } from '../item/failure.ts';
import type { ByteInput } from './input-files.ts';

/** What the Encoding Standard calls an encoding, such as utf-16le, windows-1252 or shift_jis. Exit 64 where it knows none of the name. */
export function encodingNamed(encoding: string): string {
  try {
    return new TextDecoder(encoding).encoding;
  } catch {
    throw usageError(
      `--encoding: expected a name such as utf-16le, windows-1252 or shift_jis, found '${encoding.slice(0, 60)}'`,
    );
  }
}

/** The same input in UTF-8. Rejects with 65 where its bytes are none of that encoding. */
export function decodedInput(input: ByteInput, encoding: string): ByteInput {
  const decoder = new TextDecoder(encoding, { fatal: true });
  let isOver = false;
  let isFirst = true;
  const next = async (): Promise<Buffer | null> => {
    while (!isOver) {
      const bytes = await input.read(null);
      isOver = bytes === null;
      if (isFirst && bytes !== null) refuseOtherOrder(bytes, decoder.encoding, input.name);
      isFirst = false;
      let text: string;
      try {
        text = bytes === null ? decoder.decode() : decoder.decode(bytes, { stream: true });
      } catch {
        throw dataError(
          `${input.name}: expected text in ${decoder.encoding} (--encoding), found bytes that are none`,
        );
      }
      if (text !== '') return Buffer.from(text);
    }
    return null;
  };
  return {
    name: input.name,
    get regular() {
      return input.regular;
    },
    async read(rest) {
      const got = await next();
      return got === null || rest === null ? got : Buffer.concat([rest, got]);
    },
    close: () => input.close(),
  };
}

/** A mark at the beginning of UTF-16 says in which order its bytes are: the other one would be read as other words. */
function refuseOtherOrder(bytes: Buffer, encoding: string, name: string): void {
  const mark = bytes.subarray(0, 2).toString('hex');
  const marked = mark === 'fffe' ? 'utf-16le' : mark === 'feff' ? 'utf-16be' : null;
  if (marked === null || marked === encoding || !encoding.startsWith('utf-16')) return;
  throw dataError(`${name}: expected ${encoding} (--encoding), found the mark of ${marked} at its beginning`);
}
