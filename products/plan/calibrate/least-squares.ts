/**
 * Least squares by Levenberg and Marquardt, on the logarithms of positive parameters: a step is then a factor, and no
 * parameter leaves its range. Derivatives are differences, because the model is an engine that is run.
 */

/** Residuals of the logarithms of parameters; there are at least as many as parameters. */
export type Residuals = (logs: readonly number[]) => number[];

const ROUNDS = 60;
const STEP = 1e-3;
/** The most that a logarithm moves in a round: a factor of e, where the model is still nearly what it was. */
const FARTHEST = 1;
/** Fitted when a round brings less than this share. */
const MIN_GAIN = 1e-7;

export function leastSquares(residuals: Residuals, begin: readonly number[]): number[] {
  let at = [...begin];
  let now = residuals(at);
  let damping = 1e-2;
  for (let round = 0; round < ROUNDS; round++) {
    const columns = at.map((_, index) => {
      const moved = residuals(at.map((value, other) => (other === index ? value + STEP : value)));
      return moved.map((value, row) => (value - (now[row] as number)) / STEP);
    });
    const step = stepOf(columns, now, damping);
    const next = at.map(
      (value, index) => value + Math.max(-FARTHEST, Math.min(FARTHEST, step[index] as number)),
    );
    const then = residuals(next);
    const gain = 1 - squares(then) / squares(now);
    if (gain > 0) {
      [at, now] = [next, then];
      damping = Math.max(1e-9, damping / 5);
      if (gain < MIN_GAIN) break;
    } else {
      damping *= 5;
      if (damping > 1e9) break;
    }
  }
  return at;
}

export function squares(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value * value, 0);
}

/** Solves (JᵀJ + damping·diagonal) x = −Jᵀr; `columns` are those of J. */
function stepOf(columns: readonly number[][], residuals: readonly number[], damping: number): number[] {
  const dot = (a: readonly number[], b: readonly number[]) =>
    a.reduce((sum, value, row) => sum + value * (b[row] as number), 0);
  const matrix = columns.map((column, row) =>
    columns.map((other, index) => dot(column, other) * (row === index ? 1 + damping : 1)),
  );
  return solved(
    matrix,
    columns.map(column => -dot(column, residuals)),
  );
}

/** Gauss with the largest pivot; a parameter that nothing depends on stays where it is. */
function solved(matrix: number[][], right: number[]): number[] {
  const count = right.length;
  const rows = matrix.map((row, index) => [...row, right[index] as number]);
  const order = rows.map((_, index) => index);
  for (let column = 0; column < count; column++) {
    let best = column;
    for (let row = column + 1; row < count; row++) {
      if (Math.abs(rows[row]?.[column] as number) > Math.abs(rows[best]?.[column] as number)) best = row;
    }
    [rows[column], rows[best]] = [rows[best] as number[], rows[column] as number[]];
    const pivot = rows[column] as number[];
    if (Math.abs(pivot[column] as number) < 1e-12) continue;
    for (const row of order) {
      const other = rows[row] as number[];
      if (row === column) continue;
      const factor = (other[column] as number) / (pivot[column] as number);
      for (let at = column; at <= count; at++)
        other[at] = (other[at] as number) - factor * (pivot[at] as number);
    }
  }
  return rows.map((row, index) => {
    const pivot = row[index] as number;
    return Math.abs(pivot) < 1e-12 ? 0 : (row[count] as number) / pivot;
  });
}
