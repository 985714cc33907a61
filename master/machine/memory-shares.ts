/** How the memory limit of a master is shared out. */

/** Of a host that has tasks, half of it what V8 has not collected yet; and of one of its tasks. */
const bytesPerHost = 8192;
const bytesPerTask = 512;
/** Of a seen key that waits to be sorted: 1.4 places of 17 bytes, and half as much while their set
 *  grows or is flushed. */
const bytesPerWaiting = 36;
/** Keys of a sorted run, and the least. */
const waitingMax = 1 << 19;
const waitingMin = 1 << 14;

type MemoryShares = {
  /** Bloom filters, and the programs of --include and --exclude. */
  readonly bloomBytes: number;
  readonly patternBytes: number;
  /** Seen keys of a crawl that wait to be sorted. */
  readonly waitingKeys: number;
  /** Results that are not yet written. */
  readonly resultBytes: number;
  /** Hosts that have tasks, and their tasks. */
  readonly hosts: number;
  readonly tasks: number;
  /** Parsed robots.txt. */
  readonly robotsBytes: number;
  /** Items of user queues that are held, and the same for those that come next. */
  readonly itemBytes: number;
};

export function memoryShares(bytesMax: number): MemoryShares {
  return {
    bloomBytes: (bytesMax * 3) / 8,
    patternBytes: bytesMax / 64,
    waitingKeys: Math.max(
      waitingMin,
      Math.min(waitingMax, powerBelow(bytesMax / 8 / bytesPerWaiting)),
    ),
    resultBytes: bytesMax / 16,
    hosts: Math.floor(bytesMax / 16 / bytesPerHost),
    tasks: Math.floor(bytesMax / 128 / bytesPerTask),
    robotsBytes: bytesMax / 16,
    itemBytes: bytesMax / 16,
  };
}

/** The set of waiting keys doubles. */
function powerBelow(count: number): number {
  return 2 ** Math.floor(Math.log2(count));
}
