/** Writes that find no room on the disk. */
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { isDiskFull } from '../machine/disk-room.ts';
import type { Room } from '../store/group-commit.ts';
import { UnavailableError } from './sink.ts';

/** The master's own disks. */
export type WriteRoom = Room & { hasRoom(): boolean; refused(): void };

/** A write that finds no room is tried again, at the same place of the target.
 *  @throws UnavailableError the disk of the target alone is full · what `write` throws */
export async function withRoom<T>(
  room: WriteRoom | undefined,
  write: () => Promise<T>,
): Promise<T> {
  while (true) {
    await room?.room();
    try {
      return await write();
    } catch (error) {
      const cause = error instanceof ConfigError ? error.cause : error;
      if (room === undefined || !isDiskFull(cause)) throw error;
      // The target is on another disk: what does not go there need not wait.
      if (room.hasRoom()) throw new UnavailableError(messageOf(error), error);
      room.refused();
    }
  }
}
