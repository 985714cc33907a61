/** A command that waits for a full disk of its master says so, once: a change is answered when it
 *  is on the disk. */
import type { MasterClient } from '../../shared/client.ts';
import { visible } from '../../shared/visible.ts';
import { freeText } from '../machine/disk-room.ts';

const lookEveryMs = 3_000;

/** Returns the answer, whenever it comes. */
export async function sayingWhyItWaits<T>(master: MasterClient, answer: Promise<T>): Promise<T> {
  let isOver = false;
  const look = async () => {
    const { diskFull } = await master.request('crawl.list', { limit: 0 });
    if (diskFull === undefined || isOver) return;
    isOver = true;
    clearInterval(timer);
    const free = freeText(diskFull);
    console.error(visible(`master: the disk is full: ${free}; this waits until there is room`));
  };
  // If the connection is lost, the answer says so.
  const timer = setInterval(() => void look().catch(() => {}), lookEveryMs);
  try {
    return await answer;
  } finally {
    isOver = true;
    clearInterval(timer);
  }
}
