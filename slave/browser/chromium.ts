/**
 * One running Chromium, started by playwright-core. It serves pages until it is retired, and its
 * whole process group is killed then. Its own traffic is off, or refused: each page has a proxy of
 * its own, and the browser itself one that refuses everything.
 *
 *     serving --200 pages, 600 MB--> retired --last page ends--> ended
 *        +------------------- crash, kill -----------------------^
 */
import { randomBytes } from 'node:crypto';
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import type { Browser, BrowserContext, BrowserContextOptions, BrowserType } from 'playwright-core';
import { messageOf } from '../../shared/errors.ts';
import { browserFlags, flagsUnwanted } from './flags.ts';
import { groupWith, killGroup, killProcess, memoryOf } from './process-group.ts';

/** The version that is tested; a peer dependency of the package, too. */
const playwrightVersion = '1.65.1';
const programs = [
  ...['chromium-headless-shell', 'chromium', 'chromium-browser'],
  ...['google-chrome-stable', 'google-chrome'],
];
/** When a browser is replaced. */
export type BrowserLimits = {
  readonly pages: number;
  readonly memoryBytes: number;
  /** A browser above this is killed with its pages. */
  readonly memoryBytesHard: number;
};
const limitsDefault: BrowserLimits = {
  pages: 200,
  memoryBytes: 600 << 20,
  memoryBytesHard: 1_500 << 20,
};
const startMsMax = 30_000;
const closeMsMax = 3_000;
const memoryEveryMs = 500;

export type BrowserSettings = {
  /** Path of Chromium; undefined: it is looked for. */
  readonly program: string | undefined;
  readonly isSandboxed: boolean;
  /** Where it is looked for. */
  readonly path: string;
  /** The environment of the browser: no secret of the slave is in it. */
  readonly env: Readonly<Record<string, string>>;
  /** Those of `limitsDefault` where it has none. */
  readonly limits?: Partial<BrowserLimits>;
};

/** What a browser is started with. */
export type BrowserProgram = {
  readonly chromium: BrowserType;
  readonly executablePath: string;
  readonly settings: BrowserSettings;
};

/** Finds playwright-core beside slave.js, or above it, and a Chromium; or returns why not. */
export async function findBrowser(
  settings: BrowserSettings,
): Promise<BrowserProgram | { readonly missing: string }> {
  let chromium: BrowserType;
  try {
    ({ chromium } = await import('playwright-core'));
  } catch (error) {
    const name = `playwright-core@${playwrightVersion}`;
    const install = `run npm install ${name} in the folder of slave.js`;
    const code = error instanceof Error && 'code' in error ? error.code : '';
    if (code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND') {
      return { missing: `playwright-core is not installed; ${install}` };
    }
    return { missing: `playwright-core cannot be loaded (${messageOf(error)}); ${install}` };
  }
  const paths = settings.program === undefined ? pathsIn(settings.path) : [settings.program];
  const executablePath = paths.find(isProgram);
  if (executablePath !== undefined) return { chromium, executablePath, settings };
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

export class Chromium {
  readonly #browser: Browser;
  readonly #group: number | undefined;
  readonly #onEnd: (why: string) => void;
  readonly #limits: BrowserLimits;
  readonly #watch: NodeJS.Timeout;
  #state: 'serving' | 'retired' | 'ended' = 'serving';
  #pages = 0;
  #open = 0;
  #why = 'the browser ended';
  /** Of calls under way: each rejects one when it has ended. */
  readonly #leaves = new Set<(error: Error) => void>();

  /** `nowhere`: URL of a proxy that refuses everything. `onEnd`: it ended by itself, or was killed.
   *  @throws Error it does not start, in one line */
  static async start(
    { chromium, executablePath, settings }: BrowserProgram,
    nowhere: string,
    onEnd: (why: string) => void,
  ): Promise<Chromium> {
    const mark = `--orbweaver-browser=${randomBytes(8).toString('hex')}`;
    try {
      const browser = await chromium.launch({
        executablePath,
        chromiumSandbox: settings.isSandboxed,
        args: [...browserFlags, mark],
        ignoreDefaultArgs: [...flagsUnwanted],
        env: { ...settings.env },
        proxy: { server: nowhere },
        timeout: startMsMax,
        // The slave finishes its pages, and ends the browser itself.
        handleSIGINT: false,
        handleSIGTERM: false,
        handleSIGHUP: false,
      });
      return new Chromium(browser, groupWith(mark), onEnd, settings.limits);
    } catch (error) {
      const group = groupWith(mark);
      if (group !== undefined) killGroup(group);
      throw new Error(reasonOf(messageOf(error)));
    }
  }

  private constructor(
    browser: Browser,
    group: number | undefined,
    onEnd: (why: string) => void,
    limits: Partial<BrowserLimits> = {},
  ) {
    this.#limits = { ...limitsDefault, ...limits };
    this.#browser = browser;
    this.#group = group;
    this.#onEnd = onEnd;
    browser.on('disconnected', () => this.#ended());
    this.#watch = setInterval(() => this.#look(), memoryEveryMs);
  }

  get isServing(): boolean {
    return this.#state === 'serving';
  }

  get isEnded(): boolean {
    return this.#state === 'ended';
  }

  /** Why it ended. */
  get why(): string {
    return this.#why;
  }

  /** Runs `use` in a fresh context, which ends with it. @throws Error the browser ended, or what
   *  `use` throws */
  async with<T>(
    options: BrowserContextOptions,
    use: (context: BrowserContext) => Promise<T>,
  ): Promise<T> {
    this.#pages++;
    this.#open++;
    if (this.#pages >= this.#limits.pages) this.#retire();
    let context: BrowserContext | undefined;
    try {
      context = await this.#orEnded(within(this.#browser.newContext(options), startMsMax));
      return await this.#orEnded(use(context));
    } finally {
      const isClosed = context === undefined || (await isDone(context.close(), closeMsMax));
      // Its process may go on for ever.
      if (!isClosed) this.#retire();
      this.#open--;
      if (this.#state === 'retired' && this.#open === 0) void this.end();
    }
  }

  /** Playwright never answers some calls that were under way when the browser was killed.
   *  @throws Error the browser ended */
  #orEnded<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#leaves.add(reject);
      if (this.#state === 'ended') reject(new Error(this.#why));
      work.then(resolve, reject).finally(() => this.#leaves.delete(reject));
    });
  }

  /** Ends it with all its processes. Idempotent. */
  async end(): Promise<void> {
    if (this.#state === 'ended') return;
    this.#retire();
    await isDone(this.#browser.close(), closeMsMax);
    this.#kill();
  }

  #retire(): void {
    if (this.#state === 'serving') this.#state = 'retired';
  }

  #look(): void {
    if (this.#group === undefined || this.#open === 0) return;
    const { memoryBytes, memoryBytesHard } = this.#limits;
    const { bytes, largest } = memoryOf(this.#group);
    if (bytes > memoryBytes) this.#retire();
    if (bytes <= memoryBytesHard) return;
    // One page that has most of it goes alone: the others are innocent.
    if (largest.pid !== this.#group && largest.bytes > memoryBytesHard / 2) {
      killProcess(largest.pid);
      return;
    }
    this.#why = `the browser took more than ${memoryBytesHard >> 20} MB of memory`;
    this.#kill();
  }

  #kill(): void {
    if (this.#group !== undefined) killGroup(this.#group);
    this.#ended();
  }

  #ended(): void {
    if (this.#state === 'ended') return;
    const isMeant = this.#state === 'retired' && this.#open === 0;
    this.#state = 'ended';
    clearInterval(this.#watch);
    for (const leave of this.#leaves) leave(new Error(this.#why));
    this.#leaves.clear();
    // What is left of it, where its first process alone has ended.
    if (this.#group !== undefined) killGroup(this.#group);
    if (!isMeant) this.#onEnd(this.#why);
  }
}

/** Playwright says much: its first line, and what the browser said last. */
function reasonOf(text: string): string {
  const plain = text.replace(/\p{C}\[\d+m/gu, '');
  const last = /\[pid=\d+\]\[err\] (.*)/.exec(plain)?.[1];
  const [, code] = /<process did exit: exitCode=(\d+)/.exec(plain) ?? [];
  const exit = code === undefined ? undefined : `the program ends at once, with exit code ${code}`;
  const [first = ''] = plain.split(/\n| Browser logs:/);
  return (last ?? exit ?? first).replace(/\p{C}/gu, ' ').slice(0, 200);
}

async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the browser does not answer')), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
    promise.catch(() => {});
  }
}

/** Did it end well, or badly, within that time? */
async function isDone(promise: Promise<unknown>, ms: number): Promise<boolean> {
  try {
    await within(
      promise.catch(() => {}),
      ms,
    );
    return true;
  } catch {
    return false;
  }
}
