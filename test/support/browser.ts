/** The browser of tests: the system's Chromium, with playwright-core. Tests without it are skipped,
 *  and say so. */
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';

const programs = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'];

function hasProgram(): boolean {
  const folders = (process.env['PATH'] ?? '').split(':');
  return programs.some((name) => folders.some((folder) => isProgram(join(folder, name))));
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Why a test with a browser cannot run; false: it can. */
export const noBrowser: string | false = hasProgram()
  ? false
  : 'NO BROWSER: install chromium-headless-shell to run the tests of pages in a browser';

/** Arguments of a slave with a browser: root has no sandbox. */
export const browserFlags: readonly string[] =
  process.getuid?.() === 0 ? ['--browser', '--no-sandbox'] : ['--browser'];
