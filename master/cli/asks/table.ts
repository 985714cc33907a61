/** Columns for people: each as wide as its widest cell, of `widths` too, which further rows of the
 *  same table go by. */
export function table(rows: readonly (readonly string[])[], widths: number[] = []): string[] {
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  }
  return rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
