/** Starts a Chromium: its process group, its folder, the pipe to it. */
import type { ChildProcess } from 'node:child_process';
import { tmpdir } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { messageOf } from '../../shared/errors.ts';
import { startProcess } from '../../shared/start-process.ts';
import { BrowserFolder, removeLeftFolders } from './browser-folder.ts';
import { DevTools } from './devtools.ts';
import type { BrowserProgram } from './find.ts';
import { browserFlags } from './flags.ts';
import { killGroup } from './process-group.ts';
import { within } from './within.ts';

/** Arguments of a browser, besides its settings. */
export type Start = {
  /** URL of a proxy for what belongs to no page. */
  readonly proxy: string;
  /** Of pages that say nothing else. */
  readonly userAgent: string;
};

export type Launched = Start & {
  readonly devtools: DevTools;
  /** It is Chromium's shell without windows: a page is as large as its window. */
  readonly isShell: boolean;
  /** Its process group. */
  readonly group: number;
  /** Kills what is left of it, and deletes its folder. Never rejects. */
  readonly clear: () => Promise<void>;
};

const startMsMax = 30_000;
const lineCharsMax = 200;

/** Starts a browser of which each request stops until it is judged, and each page is known.
 *  `onEnd`: it has ended. `signal`: nobody wants it any more.
 *  @throws Error it does not start, in one line */
export async function launch(
  { executablePath, settings }: BrowserProgram,
  start: Start,
  onEnd: () => void,
  signal: AbortSignal,
): Promise<Launched> {
  const { env, isSandboxed } = settings;
  const base = env['TMPDIR'] ?? tmpdir();
  void removeLeftFolders(base);
  const folder = new BrowserFolder(base);
  const flags = browserFlags({ folder: folder.profile, isSandboxed, ...start });
  const child = startProcess(executablePath, flags, {
    env: { ...env },
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
  });
  const { pid: group } = child;
  const kill = () => {
    if (group !== undefined) killGroup(group);
  };
  // The slave may have no time for more.
  const onExit = () => {
    kill();
    folder.removeNow();
  };
  process.on('exit', onExit);
  const clear = async () => {
    kill();
    await folder.remove();
    process.off('exit', onExit);
  };
  const why = reasonOf(child);
  if (group === undefined) {
    const reason = await why('it has no process');
    await clear();
    throw new Error(reason);
  }
  const [, , , output, input] = child.stdio as unknown as [
    null,
    null,
    Readable,
    Writable,
    Readable,
  ];
  const devtools = new DevTools(input, output, onEnd);
  const giveUp = () => devtools.close();
  try {
    signal.addEventListener('abort', giveUp, { once: true });
    const isShell = await within(prepare(devtools), startMsMax);
    folder.started();
    signal.throwIfAborted();
    return { devtools, group, clear, isShell, ...start };
  } catch (error) {
    devtools.close();
    const reason = await why(messageOf(error));
    await clear();
    throw new Error(reason);
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
}

/** Returns whether it is the shell. */
async function prepare(devtools: DevTools): Promise<boolean> {
  const [{ product }] = await Promise.all([
    devtools.call('Browser.getVersion', {}),
    // Of all pages, frames and workers: what nobody knows may have nothing.
    devtools.call('Fetch.enable', { handleAuthRequests: true }),
    // Windows that a page opens. (Were they attached to, the page would stop until they go on.)
    devtools.call('Target.setDiscoverTargets', {
      discover: true,
      filter: [{ type: 'page' }, { type: 'shared_worker' }],
    }),
  ]);
  return product.startsWith('HeadlessChrome/');
}

/** Watches how it ends. The result says why, in one line: what it said last, its exit code, or that
 *  text. */
function reasonOf(child: ChildProcess): (otherwise: string) => Promise<string> {
  let said = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    const lines = text.split('\n').filter((line) => line.trim() !== '');
    said = (lines.at(-1) ?? said).slice(0, lineCharsMax);
  });
  child.stderr?.on('error', () => {});
  const ended = new Promise<string | undefined>((resolve) => {
    child.once('error', (error) => resolve(messageOf(error)));
    child.once('close', (code) => {
      resolve(code === null ? undefined : `the program ends at once, with exit code ${code}`);
    });
  });
  return async (otherwise) => {
    // It may have closed the pipe a moment before its end.
    const end = await within(ended, 100).catch(() => undefined);
    return (said || end || otherwise).replace(/\p{C}/gu, ' ').trim();
  };
}
