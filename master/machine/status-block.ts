/**
 * Lines at the bottom of a terminal that are painted again and again, below the log. No line is
 * longer than the terminal is wide, so that each takes one row. When the terminal becomes narrower,
 * most terminals wrap what they show already: then the rows of the old lines are counted anew.
 */

/** The part of `process.stdout` that it uses. */
export interface Screen {
  readonly columns: number;
  readonly rows: number;
  write(text: string): unknown;
}

/** The terminal shows all that comes between these at once. */
const begin = '\u001b[?2026h';
const end = '\u001b[?2026l';
/** Of a terminal that does not say. */
const defaultRows = 24;

export class StatusBlock {
  readonly #screen: Screen;
  /** As they were written. */
  #lines: readonly string[] = [];

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  /** Columns that a line may take; a terminal may wrap after the last one. */
  get width(): number {
    return Math.max(1, this.#screen.columns - 1);
  }

  /** Replaces what it showed. Lines that do not fit are cut; so are those below the last row. */
  paint(lines: readonly string[]): void {
    const rows = (this.#screen.rows || defaultRows) - 1;
    const erased = this.#erased();
    this.#lines = lines.slice(0, Math.max(1, rows)).map((line) => cut(line, this.width));
    this.#screen.write(`${begin}${erased}${this.#lines.join('\n')}\n${end}`);
  }

  clear(): void {
    const erased = this.#erased();
    this.#lines = [];
    if (erased !== '') this.#screen.write(erased);
  }

  /** The sequence that takes the cursor back to the first row, and erases from there. */
  #erased(): string {
    const columns = Math.max(1, this.#screen.columns);
    const rowsOf = (line: string) => Math.max(1, Math.ceil(widthOf(line) / columns));
    const rows = this.#lines.reduce((sum, line) => sum + rowsOf(line), 0);
    return rows === 0 ? '' : `\u001b[${rows}A\r\u001b[0J`;
  }
}

/** A part of a line. If the line is too long, `more`, in parentheses, is left out first; then the
 *  part with the highest rank. */
export type Part = { readonly text: string; readonly rank: number; readonly more?: string };

/** Joins as many parts as fit, in their order. */
export function fitted(parts: readonly Part[], width: number): string {
  const whole = parts.map(({ text, more }) => (more ? `${text} (${more})` : text)).join(' · ');
  if (widthOf(whole) <= width) return whole;
  let kept = parts;
  const text = () => kept.map((part) => part.text).join(' · ');
  while (kept.length > 1 && widthOf(text()) > width) {
    const last = Math.max(...kept.map(({ rank }) => rank));
    kept = kept.filter(({ rank }) => rank !== last);
  }
  return text();
}

/** Cuts a line to `width` columns, with a mark. */
export function cut(line: string, width: number): string {
  if (widthOf(line) <= width) return line;
  let kept = '';
  let columns = 0;
  for (const char of line) {
    columns += columnsOf(char);
    if (columns > width - 1) break;
    kept += char;
  }
  return `${kept}…`;
}

function widthOf(line: string): number {
  let columns = 0;
  for (const char of line) columns += columnsOf(char);
  return columns;
}

/** Columns of a character, two for those that may be wide. Source: Unicode Standard Annex #11. */
function columnsOf(char: string): number {
  const code = char.codePointAt(0) ?? 0;
  if (/^\p{M}/u.test(char)) return 0;
  return code >= 0x1100 && !(code >= 0x2000 && code < 0x2e80) ? 2 : 1;
}
