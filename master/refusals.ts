/** The reasons why a master does not start, or ends with an error: one line each. */
import { CommandError, ConfigError, codeOf, messageOf, StoreError } from '../shared/errors.ts';
import type { ServeOptions } from './cli/serve-options.ts';
import { refusePatterns, refuseVain } from './frontier/crawl/patterns.ts';
import { clockMs } from './machine/clock.ts';
import { afterFault } from './machine/data-folder.ts';
import { leastFree, megabytes, refusalText } from './machine/disk-room.ts';

/** Nothing is due at a negative time: the crawl would stand still. @throws ConfigError */
export function refuseEarlyClock(): void {
  const now = clockMs();
  if (now >= 0) return;
  throw new ConfigError(
    `the clock of this machine says ${new Date(now).toISOString()}, which is before 1970: set it`,
  );
}

/** Opening a store writes to it. @throws ConfigError */
export function refuseFullDisk({ dataFolder, outFolder, diskReserveBytes }: ServeOptions): void {
  const { folder, freeBytes } = leastFree([dataFolder, outFolder]);
  if (freeBytes >= diskReserveBytes) return;
  throw new ConfigError(
    `only ${megabytes(freeBytes)} MB are free under ${folder}, and --disk-reserve is ` +
      `${megabytes(diskReserveBytes)}; free some space, or lower it`,
  );
}

/** Crawls of which the reason is said. */
const heldMax = 3;

type HeldCrawl = { readonly name: string; readonly held: string | undefined };

/** Only these held crawls are left of a master that should exit when all crawls are done. */
export function heldError(crawls: readonly HeldCrawl[]): ConfigError {
  const said = crawls
    .slice(0, heldMax)
    .map(({ name, held = 'see the log' }) => `${name} (${held})`);
  if (crawls.length > heldMax) said.push(`and ${crawls.length - heldMax} more`);
  return new ConfigError(
    `held crawls are not done: ${said.join(', ')}; when that is put right, start again, or start ` +
      'without --exit-when-done and run `resume CRAWL --new-files` or `cancel CRAWL`',
  );
}

/** Every slave of `--slaves` has died too often, or cannot start. */
export function noSlaveError(): ConfigError {
  return new ConfigError(
    'stopped, since no slave is left (see the log above); run the same command again to go on',
  );
}

/** Refuses bad patterns before anything is created, where no stored crawl can have them. */
export function refuseFirstPatterns({ spec }: ServeOptions): void {
  try {
    refusePatterns(spec);
    refuseVain(spec);
  } catch (error) {
    throw asConfigError(error);
  }
}

/** For a request that the master made on behalf of its operator. */
export function asConfigError(error: unknown): unknown {
  return error instanceof CommandError ? new ConfigError(error.message, error) : error;
}

/** Is it a failure of the disk, rather than ours? */
export function isDiskFault(error: unknown): boolean {
  if (error instanceof StoreError) return true;
  const faults = ['EIO', 'EROFS', 'ENODEV', 'ENXIO', 'ESTALE', 'ENOTCONN'];
  return faults.includes(codeOf(error) ?? '');
}

/** The error that the master exits with: after a failure of the disk it says what to do. */
export function endingOf(error: unknown): unknown {
  // Another program has taken the reserve faster than a master looks.
  if (error instanceof StoreError && error.isFull) {
    return new ConfigError(refusalText(error), error);
  }
  return isDiskFault(error) ? new ConfigError(`${messageOf(error)}; ${afterFault}`, error) : error;
}
