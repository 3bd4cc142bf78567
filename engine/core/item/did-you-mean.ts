/** `did you mean`: the known word that a mistyped one is nearest to. */

/**
 * The edits between two words (a letter more, less, other, or two neighbours swapped), after Damerau and Levenshtein:
 * https://en.wikipedia.org/wiki/Damerau%E2%80%93Levenshtein_distance, the restricted one.
 */
export function editsBetween(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let least = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        least = Math.min(least, before[j - 2]! + 1);
      }
      row.push(least);
    }
    [before, last] = [last, row];
  }
  return last[b.length]!;
}

/** No verb or option is longer; whatever is, is nobody's typing error, and is not compared. */
const MAX_NAME_LENGTH = 40;

/**
 * The nearest of `known`, where a third of its letters or fewer are wrong, where one, of two letters at least, is the
 * beginning of the other, or where it is the last of several words: `request-timeout` means `timeout`.
 */
export function nearest(word: string, known: readonly string[]): string | null {
  if (word.length > MAX_NAME_LENGTH || word === '') return null;
  const typed = word.toLowerCase();
  let best: { name: string; edits: number } | null = null;
  for (const name of known) {
    const edits = editsBetween(typed, name);
    if (edits <= Math.ceil(name.length / 3) && edits < name.length && edits < (best?.edits ?? Infinity)) {
      best = { name, edits };
    }
  }
  if (best !== null) return best.name;
  const begins = known.find(
    name => (typed.length > 1 && name.startsWith(typed)) || (name.length > 2 && typed.startsWith(name)),
  );
  return begins ?? known.find(name => typed.endsWith(`-${name}`)) ?? null;
}

/** `; did you mean 'x'?`, or nothing. */
export function didYouMean(word: string, known: readonly string[], prefix = ''): string {
  const near = nearest(word, known);
  return near === null ? '' : `; did you mean '${prefix}${near}'?`;
}
