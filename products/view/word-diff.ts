/** The difference of two texts, word by word, for a page: bounded in size and in work. */
import { diffArrays } from 'diff';

export interface Piece {
  kind: 'same' | 'left' | 'right';
  text: string;
}

/** Words of a text that are compared one by one, and words that may differ: the work grows with both. */
const MOST_WORDS = 20_000;
const MOST_EDITS = 1_500;

/**
 * Words, numbers, spaces and signs, each alone: put together they are the text. A number is whole with its points, sign and
 * exponent, and a word with what stands over its letters and its apostrophes, so that neither is marked in pieces.
 */
const WORDS =
  /(?:(?<![\p{L}\p{M}\p{N}_])[-+](?=\p{N}))?[\p{L}\p{M}\p{N}_]+(?:[.,](?=\p{N})[\p{N}\p{L}_]+|(?<=\p{N}[eE])[-+]\p{N}+|['’]\p{L}[\p{L}\p{M}]*)*|\s+|[^\s]/gu;

/**
 * What is in both, and in one alone, in their order. Texts that are long, and differ in very much, are compared by what they
 * begin and end with: the middle then differs as a whole.
 */
export function wordDiff(left: string, right: string): Piece[] {
  if (left === right) return left === '' ? [] : [{ kind: 'same', text: left }];
  const [a, b] = [left.match(WORDS) ?? [], right.match(WORDS) ?? []];
  const head = common(Math.min(a.length, b.length), at => a[at] === b[at]);
  const tail = common(
    Math.min(a.length, b.length) - head,
    at => a[a.length - 1 - at] === b[b.length - 1 - at],
  );
  const [inA, inB] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  return together([
    { kind: 'same', text: a.slice(0, head).join('') },
    ...middle(inA, inB),
    { kind: 'same', text: a.slice(a.length - tail).join('') },
  ]);
}

function common(most: number, isSame: (at: number) => boolean): number {
  let count = 0;
  while (count < most && isSame(count)) count += 1;
  return count;
}

function middle(a: string[], b: string[]): Piece[] {
  const isBounded = a.length + b.length <= MOST_WORDS;
  const changes = isBounded ? diffArrays(a, b, { maxEditLength: MOST_EDITS }) : undefined;
  if (changes === undefined)
    return [
      { kind: 'left', text: a.join('') },
      { kind: 'right', text: b.join('') },
    ];
  return changes.map(({ added, removed, value }) => ({
    kind: removed ? 'left' : added ? 'right' : 'same',
    text: value.join(''),
  }));
}

/** Neighbours of a kind as one. */
function together(pieces: readonly Piece[]): Piece[] {
  const made: Piece[] = [];
  for (const piece of pieces) {
    if (piece.text === '') continue;
    const last = made.at(-1);
    if (last?.kind === piece.kind) made[made.length - 1] = { ...last, text: last.text + piece.text };
    else made.push(piece);
  }
  return made;
}
