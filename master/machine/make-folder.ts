/**
 * Makes a folder with its parents, one after the other. `mkdir` of Node with `recursive` never
 * returns where the system refuses a folder with ENOENT, as in `/proc`.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { codeOf } from '../../shared/errors.ts';

/** Makes what is missing of the path. @throws the error of the system */
export function makeFolder(path: string, mode = 0o777): void {
  const missing: string[] = [];
  // An empty path is an error, not the working folder.
  let at = path === '' ? path : resolve(path);
  while (!existsSync(at)) {
    missing.push(at);
    if (dirname(at) === at) break;
    at = dirname(at);
  }
  for (const folder of missing.reverse()) {
    try {
      mkdirSync(folder, mode);
    } catch (error) {
      // Another process may have made it since. A link to nowhere is refused by its next use.
      if (codeOf(error) !== 'EEXIST') throw error;
    }
  }
}
