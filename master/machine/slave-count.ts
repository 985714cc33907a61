/** How many slaves a machine has room for: `--slaves auto`. */
import { availableParallelism, totalmem } from 'node:os';
import { groupLimits } from './control-group.ts';

/** The CPUs and the memory that this process may use. */
type Room = {
  /** Cores; a container may have 1.5. */
  readonly cores: number;
  readonly memoryBytes: number;
};

/** A slave takes 0.29 s of CPU per 1,000 small pages and the master 0.11: a further slave would
 *  wait for the master. Pages with much work leave it time for more. */
const countMax = 8;
/** Of a slave that reads large pages, and of the master with the rest of the machine. */
const slaveBytes = 256 << 20;
const masterBytes = 1 << 30;

/** One slave for each core but that of the master; on one or two cores, as many as cores. */
export function slavesFor({ cores, memoryBytes }: Room): number {
  const whole = Math.max(1, Math.floor(cores));
  const byCores = whole > 2 ? whole - 1 : whole;
  const byMemory = Math.floor((memoryBytes - masterBytes) / slaveBytes);
  return Math.max(1, Math.min(byCores, byMemory, countMax));
}

/** Of this machine, or of the container. */
export function roomHere(): Room {
  const { cores, memoryBytes } = groupLimits();
  return {
    cores: Math.min(availableParallelism(), cores),
    memoryBytes: Math.min(totalmem(), memoryBytes),
  };
}
