/** Returns a path as a word of a shell, for commands that people copy. Pure. */
export function shellWord(path: string): string {
  return /^[\w./:@%+,-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
