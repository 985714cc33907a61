/** Files have names, which others may take or give away while one is open. */

type Identity = { readonly dev: number | bigint; readonly ino: number | bigint };

/** Is what stands at a path now the file that is open? `there`: undefined, nothing stands there. */
export function isSameFile<T extends Identity>(there: T | undefined, open: T): boolean {
  return there !== undefined && there.dev === open.dev && there.ino === open.ino;
}
