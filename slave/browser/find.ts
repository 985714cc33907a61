/** Where Chromium is on this machine. */
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';

export type BrowserSettings = {
  /** Path of Chromium; undefined: it is looked for. */
  readonly program: string | undefined;
  readonly isSandboxed: boolean;
  /** Where it is looked for. */
  readonly path: string;
  /** The environment of the browser: no secret of the slave is in it. */
  readonly env: Readonly<Record<string, string>>;
  /** Its own where it has some. */
  readonly limits?: Partial<BrowserLimits>;
};

/** When a browser is replaced. */
export type BrowserLimits = {
  readonly pages: number;
  readonly memoryBytes: number;
  /** A browser above this is killed with its pages. */
  readonly memoryBytesHard: number;
};

/** The command that starts a browser. */
export type BrowserProgram = {
  readonly executablePath: string;
  readonly settings: BrowserSettings;
};

/** The one without windows first: it takes the least. */
const programs = [
  'chromium-headless-shell',
  'chrome-headless-shell',
  'chromium',
  'chromium-browser',
  'google-chrome-stable',
  'google-chrome',
];

/** Finds a Chromium, or returns why there is none. */
export function findBrowser(
  settings: BrowserSettings,
): BrowserProgram | { readonly missing: string } {
  const paths = settings.program === undefined ? pathsIn(settings.path) : [settings.program];
  const executablePath = paths.find(isProgram);
  if (executablePath !== undefined) return { executablePath, settings };
  return {
    missing:
      settings.program === undefined
        ? 'Chromium is not installed; install it (Debian: chromium-headless-shell), or name it with --browser-program'
        : `${settings.program} is no program; see --browser-program`,
  };
}

function pathsIn(path: string): string[] {
  const folders = path.split(':').filter((folder) => folder !== '');
  return programs.flatMap((name) => folders.map((folder) => join(folder, name)));
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
