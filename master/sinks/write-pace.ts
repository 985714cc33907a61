/**
 * When a sink writes. A write is synced to the disk and a commit says where it ended, so it costs
 * the same for one row as for a hundred: few rows wait for others.
 */
import type { Outlet } from './outlet.ts';

/** A sink writes this often; at its crawl's end, or when so many bytes wait, at once. */
const writeEveryMs = 200;
const writeAtBytes = 1 << 20;
/** With fewer bytes than this, it may let so many times pass. */
const fewBytes = 4 << 10;
const pausesMax = 5;
/** The commit that says where it stands may wait so long for another one to join. */
const cursorWithinMs = 1_000;

/** What waits for a sink, read each time. */
type Waiting = {
  readonly bytes: () => number;
  /** Nothing more comes, or somebody waits: all is written at once. */
  readonly isHurried: () => boolean;
};

/** Resolves when it is time to write. */
export async function timeToWrite(outlet: Outlet, { bytes, isHurried }: Waiting): Promise<void> {
  for (let n = 0; n < pausesMax; n++) {
    if (isHurried() || bytes() > writeAtBytes) return;
    if (n > 0 && (bytes() > fewBytes || isExpected(outlet))) return;
    await new Promise((resolve) => setTimeout(resolve, writeEveryMs));
  }
}

/** How long the commit after a write may wait, in ms. */
export function cursorMayWaitMs(outlet: Outlet, { bytes, isHurried }: Waiting): number {
  return isHurried() || isExpected(outlet) || bytes() > fewBytes ? 0 : cursorWithinMs;
}

/** Somebody looks for each record, or for the first ones. */
function isExpected({ isClaimed, kind, sink }: Outlet): boolean {
  return isClaimed || kind.isPrompt === true || sink === undefined;
}
