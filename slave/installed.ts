/** Which optional packages are installed with slave.js. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Is the package beside slave.js, or above it? To resolve its files takes some milliseconds more,
 *  which a slave saves at its start. */
export function isInstalled(name: string): boolean {
  let folder = dirname(fileURLToPath(import.meta.url));
  for (;;) {
    if (existsSync(join(folder, 'node_modules', name, 'package.json'))) return true;
    const above = dirname(folder);
    if (above === folder) return false;
    folder = above;
  }
}
