/** The browser of tests: the system's Chromium. Tests without it are skipped, and say so. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { findBrowser } from '../../slave/browser/find.ts';

const path = process.env['PATH'] ?? '';
const found = findBrowser({ program: undefined, isSandboxed: true, path, env: {} });

/** Why a test with a browser cannot run; false: it can. */
export const noBrowser: string | false = !('missing' in found)
  ? false
  : 'NO BROWSER: install chromium-headless-shell to run the tests of pages in a browser';

/** Arguments of a slave with a browser: root has no sandbox. */
export const browserFlags: readonly string[] =
  process.getuid?.() === 0 ? ['--browser', '--no-sandbox'] : ['--browser'];

/** The first processes of browsers that run below this program. */
export function browsersOf({ pid }: { readonly pid: number }): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const [, parent] =
          /^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${name}/status`, 'utf8')) ?? [];
        const line = readFileSync(`/proc/${name}/cmdline`, 'latin1');
        return Number(parent) === pid && line.includes('orbweaver-browser-');
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** Ends at once the processes of that group whose command line has this text. */
export function killParts(group: number, text: string): void {
  for (const name of readdirSync('/proc').filter((one) => /^\d+$/.test(one))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
      if (Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2]) !== group) continue;
      if (!readFileSync(`/proc/${name}/cmdline`, 'latin1').includes(text)) continue;
      process.kill(Number(name), 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
}

/** Resolves when no process of that group is left. */
export async function groupEnded(group: number): Promise<void> {
  for (let i = 0; i < 300; i++) {
    try {
      process.kill(-group, 0);
    } catch {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`processes of group ${group} are left`);
}
