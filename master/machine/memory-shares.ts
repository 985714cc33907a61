/** How the memory limit of a master is shared out. */

/** Of a host that has tasks, and of one of its tasks. */
const bytesPerHost = 4096;
const bytesPerTask = 512;

type MemoryShares = {
  /** Bloom filters, and the programs of --include and --exclude. */
  readonly bloomBytes: number;
  readonly patternBytes: number;
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
    resultBytes: bytesMax / 16,
    hosts: Math.floor(bytesMax / 16 / bytesPerHost),
    tasks: Math.floor(bytesMax / 8 / bytesPerTask),
    robotsBytes: bytesMax / 16,
    itemBytes: bytesMax / 16,
  };
}
