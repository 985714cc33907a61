/** Why a master does not start, or ends with an error, in one line for the operator each. */
import { CommandError, ConfigError, messageOf, StoreError } from '../shared/errors.ts';
import type { ServeOptions } from './cli/serve-options.ts';
import { refusePatterns } from './frontier/crawl/patterns.ts';
import { afterFault } from './machine/data-folder.ts';
import { megabytes, shortageOf } from './machine/disk-room.ts';

/** Opening a store writes to it. @throws ConfigError */
export function refuseFullDisk({ dataFolder, outFolder, diskReserveBytes }: ServeOptions): void {
  const shortage = shortageOf([dataFolder, outFolder], diskReserveBytes);
  if (shortage === undefined) return;
  const { folder, freeBytes } = shortage;
  throw new ConfigError(
    `only ${megabytes(freeBytes)} MB are free under ${folder}, and --disk-reserve is ` +
      `${megabytes(diskReserveBytes)}; make room, or lower it`,
  );
}

/** Crawls of these names are all that is left of a master that should leave when all is done. */
export function heldError(names: string): ConfigError {
  return new ConfigError(
    `not done, because held: ${names}; put the files back and start again, or start without ` +
      '--exit-when-done and say `resume CRAWL --new-files` or `cancel CRAWL`',
  );
}

/** Every slave of `--slaves` has died too often, or cannot start. */
export function noSlaveError(): ConfigError {
  return new ConfigError(
    'no slave is left, see above: stopped; what was done is kept, and the same command goes on',
  );
}

/** Where no crawl can have them yet, patterns are refused before anything is made. */
export function refuseFirstPatterns({ spec }: ServeOptions): void {
  try {
    refusePatterns(spec);
  } catch (error) {
    throw asConfigError(error);
  }
}

/** Of a request that the master made of itself: the operator made it. */
export function asConfigError(error: unknown): unknown {
  return error instanceof CommandError ? new ConfigError(error.message, error) : error;
}

/** Did the disk fail, rather than we? */
export function isDiskFault(error: unknown): boolean {
  if (error instanceof StoreError) return true;
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return ['EIO', 'EROFS', 'ENODEV', 'ENXIO', 'ESTALE', 'ENOTCONN'].includes(String(code));
}

/** The line that the master leaves with then. */
export function diskFault(error: unknown): ConfigError {
  return new ConfigError(`${messageOf(error)}; ${afterFault}`, error);
}
