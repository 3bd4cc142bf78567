/** Figures in columns. */

/** Rows as aligned lines; columns whose number is in `right` are aligned right. */
export function aligned(rows: readonly (readonly string[])[], right: readonly number[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, text] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, text.length);
  }
  return rows.map(row =>
    row
      .map((text, column) =>
        right.includes(column)
          ? text.padStart(widths[column] as number)
          : text.padEnd(widths[column] as number),
      )
      .join('  ')
      .trimEnd(),
  );
}
