/**
 * YAML text to a document, in time linear in its length: the parser's own test for keys that come twice compares every
 * pair, keys that are collections are turned into text again at each level, and each alias searches the whole text.
 */
import { type Document, isScalar, type LineCounter, parseDocument, visit } from 'yaml';

/** An alias refers to an anchor anywhere before it. */
const MAX_ALIASES = 100;

/**
 * `lines` is filled for messages. Throws what `fail` makes of an offset in the text and a message; `code` says the same
 * without a word of the text.
 */
export function parseYaml(
  text: string,
  lines: LineCounter,
  fail: (offset: number, message: string, code: string) => Error,
): Document.Parsed {
  try {
    const document = parseDocument(text, { prettyErrors: false, lineCounter: lines, uniqueKeys: false });
    const [error] = document.errors;
    if (error !== undefined) throw fail(error.pos[0], `expected YAML, found: ${error.message}`, error.code);
    check(document, fail);
    return document;
  } catch (error) {
    // the parser recurses: so does whoever walks what it returns
    if (!(error instanceof RangeError)) throw error;
    throw fail(0, 'expected YAML, found nesting that is too deep', 'TOO_DEEP');
  }
}

function check(document: Document.Parsed, fail: Parameters<typeof parseYaml>[2]): void {
  const anchors = new Set<string>();
  let aliases = 0;
  visit(document, {
    Node(_key, { anchor }) {
      if (anchor !== undefined) anchors.add(anchor);
    },
    Alias(_key, { source, range }) {
      const at = range?.[0] ?? 0;
      if (!anchors.has(source)) {
        throw fail(at, `expected an alias of an anchor above it, found *${source}`, 'UNKNOWN_ALIAS');
      }
      if (++aliases > MAX_ALIASES) {
        throw fail(at, `expected at most ${MAX_ALIASES} aliases, found more`, 'TOO_MANY_ALIASES');
      }
    },
    Map(_key, map) {
      if (map.anchor !== undefined) anchors.add(map.anchor);
      const keys = new Set<string>();
      for (const { key } of map.items) {
        const at = (key as { range?: [number] } | null)?.range?.[0] ?? map.range?.[0] ?? 0;
        if (key !== null && !isScalar(key)) {
          throw fail(at, 'expected a text as the key, found a list, a map or an alias', 'BAD_KEY');
        }
        // as objects have them: 1 and "1" are one key
        const name = String(key?.value ?? '');
        if (keys.has(name)) throw fail(at, 'expected YAML, found: Map keys must be unique', 'DUPLICATE_KEY');
        keys.add(name);
      }
    },
  });
}
