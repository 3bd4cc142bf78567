/** A terminal as far as our bars need one: what stands on it after some bytes, the lines that have left its top included. */

export interface Screen {
  /** lines that have scrolled out, then those on the screen; no spaces at their ends, no empty lines at the end */
  lines: string[];
  /** the largest number of columns in which something was written */
  widest: number;
}

const ESCAPE = /^\[(\d*)([A-Za-z])/;

/** Throws at a sequence that it does not know. */
export function screenAfter(text: string, { columns, rows }: { columns: number; rows: number }): Screen {
  const lines: string[][] = [[]];
  let row = 0;
  let column = 0;
  let widest = 0;
  const top = (): number => Math.max(0, lines.length - rows);
  const line = (): string[] => (lines[row] ??= []);
  const down = (): void => {
    row++;
    line();
  };
  for (let at = 0; at < text.length; ) {
    const character = String.fromCodePoint(text.codePointAt(at) as number);
    if (character === '\u001b') {
      const [sequence, count, kind] = ESCAPE.exec(text.slice(at + 1, at + 12)) ?? [];
      if (sequence === undefined)
        throw new Error(`unknown sequence: ${JSON.stringify(text.slice(at, at + 12))}`);
      const by = Number(count || 1);
      if (kind === 'A') row = Math.max(top(), row - by);
      else if (kind === 'G') column = by - 1;
      else if (kind === 'K') line().length = Math.min(line().length, column);
      else if (kind === 'J') {
        line().length = Math.min(line().length, column);
        for (const below of lines.slice(row + 1)) below.length = 0;
      } else throw new Error(`unknown sequence: ${JSON.stringify(sequence)}`);
      at += 1 + sequence.length;
      continue;
    }
    at += character.length;
    if (character === '\r') column = 0;
    else if (character === '\n') down();
    else {
      if (column === columns) {
        column = 0;
        down();
      }
      const cells = line();
      while (cells.length < column) cells.push(' ');
      cells[column++] = character;
      widest = Math.max(widest, column);
    }
  }
  const shown = lines.map(cells => cells.join('').trimEnd());
  while (shown.at(-1) === '') shown.pop();
  return { lines: shown, widest };
}
