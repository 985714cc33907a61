/** Lines of CSV. Pure. Source: RFC 4180, with line feeds; OWASP, "CSV Injection". */

/** A spreadsheet takes a text that begins like this for a formula. */
const formula = /^[=+\-@\t\r]/;

/** Of values without types: objects and lists as JSON, nothing for what is missing. */
export function csvLine(
  values: readonly unknown[],
  { delimiter, isEscaped }: { readonly delimiter: string; readonly isEscaped: boolean },
): string {
  let line = '';
  for (let i = 0; i < values.length; i++) {
    if (i > 0) line += delimiter;
    line += cell(values[i], delimiter, isEscaped);
  }
  // Most readers leave out a line that is empty.
  if (line === '' && values.length === 1) line = '""';
  return `${line}\n`;
}

function cell(value: unknown, delimiter: string, isEscaped: boolean): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'number' || typeof value === 'boolean') {
    // JSON has no such numbers: the other files have none in their place.
    if (!Number.isFinite(Number(value))) return '';
    const text = String(value);
    return text.includes(delimiter) ? `"${text}"` : text;
  }
  let text = typeof value === 'string' ? value : JSON.stringify(value);
  if (isEscaped && formula.test(text)) text = `'${text}`;
  const isQuoted = /["\r\n]|^\s|\s$/.test(text) || text.includes(delimiter);
  return isQuoted ? `"${text.replaceAll('"', '""')}"` : text;
}
