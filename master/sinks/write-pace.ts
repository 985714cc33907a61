/**
 * When a sink writes. A write is synced to the disk and a commit says where it ended, so it costs
 * the same for one row as for a hundred: few rows wait for others.
 */
import type { Outlet } from './outlet.ts';

/** A sink writes this often; at its crawl's end, or when so many bytes wait, at once. */
const writeEveryMs = 200;
const writeAtBytes = 1 << 20;
/** With fewer bytes than this, it may wait for more, up to so long. */
const fewBytes = 32 << 10;
const fewMsMax = 2_000;
/** The commit that says where it stands may wait so long for another one to join. */
const cursorWithinMs = 2_000;

/** The rows that wait for a sink, read each time. */
type Waiting = {
  readonly bytes: () => number;
  /** Nothing more comes, or somebody waits: all is written at once. */
  readonly isHurried: () => boolean;
};

/** Resolves when it is time to write. */
export async function timeToWrite(outlet: Outlet, { bytes, isHurried }: Waiting): Promise<void> {
  const began = performance.now();
  const isUrgent = () => isHurried() || bytes() > writeAtBytes;
  if (isUrgent()) return;
  await outlet.stirred(isUrgent, writeEveryMs);
  const isTime = () => isUrgent() || bytes() > fewBytes || isExpected(outlet);
  if (isTime()) return;
  await outlet.stirred(isTime, fewMsMax - (performance.now() - began));
}

/** How long the commit after a write may wait, in ms. */
export function cursorMayWaitMs(outlet: Outlet, { bytes, isHurried }: Waiting): number {
  return isHurried() || isExpected(outlet) || bytes() > fewBytes ? 0 : cursorWithinMs;
}

/** Somebody looks for each record, or for the first ones. */
function isExpected({ isClaimed, kind, sink }: Outlet): boolean {
  return isClaimed || kind.isPrompt === true || sink === undefined;
}
