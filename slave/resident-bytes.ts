/** The memory of this process, as the worker tells it to the master. */

/** Resident now. Node reads that from /proc, for which there may be no descriptor left: then the
 *  most that it ever was. */
export function residentBytes(): number {
  try {
    return process.memoryUsage.rss();
  } catch {
    return process.resourceUsage().maxRSS * 1024;
  }
}
