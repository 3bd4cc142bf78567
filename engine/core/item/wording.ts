/** Numbers, tables and texts as people read them: the same words for the same thing in every message. */

/** A message on one line of a terminal: what a model or a server said may hold anything. */
export function shown(message: string): string {
  return cut(cut(message, 1_000).replace(/\p{Cc}+/gu, ' '), 200);
}

export function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

/** `1 call`, `2,000 calls`, `1 try`, `2 tries`. */
export function counted(count: number, one: string, several = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : several}`;
}

/** 28800 → 28,800: the same in every locale, since logs are compared. */
export function number(value: number): string {
  return String(value).replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** 0.834 of 1 → `83 %`; a share of nothing is `0 %`. */
export function percent(part: number, whole = 1): string {
  return `${whole > 0 ? Math.round((100 * part) / whole) : 0} %`;
}

/** 43.4 s → `43 s`, 4 321 s → `1 h 12 min`. `ms` in milliseconds. */
export function timeWords(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** A word as a shell reads it: in quotes, where it has what a shell would read. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Rows as aligned lines; columns whose number is in `right` are aligned right. */
export function aligned(rows: readonly (readonly string[])[], right: readonly number[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, text] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, text.length);
  }
  return rows.map(row =>
    row
      .map((text, column) => text[right.includes(column) ? 'padStart' : 'padEnd'](widths[column] as number))
      .join('  ')
      .trimEnd(),
  );
}

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
