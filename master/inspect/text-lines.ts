/** The lines of a file of JSON lines. */
import { createReadStream } from 'node:fs';

/** Lines without their ends; the last one needs none. The readline of Node 24 also ends a line at
 *  U+2028 and U+2029: the master escapes them, but JSON need not, and the file may have been
 *  written anew since.
 *  @throws Error the file cannot be read */
export async function* linesOf(path: string): AsyncGenerator<string> {
  let parts: string[] = [];
  const chunks: AsyncIterable<string> = createReadStream(path, 'utf8');
  for await (const chunk of chunks) {
    const lines = chunk.split('\n');
    const last = lines.pop() ?? '';
    for (const line of lines) {
      yield ended(parts.length === 0 ? line : parts.join('') + line);
      parts = [];
    }
    if (last !== '') parts.push(last);
  }
  if (parts.length > 0) yield ended(parts.join(''));
}

function ended(line: string): string {
  return line.endsWith('\r') ? line.slice(0, -1) : line;
}
