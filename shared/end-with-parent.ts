/** A process that computes for long, and so hears no message, ends when its parent does. */
import { Worker } from 'node:worker_threads';

/** It must be script code, whatever this process was started with. */
const watch = (parent: number) => `setInterval(() => {
  if (process.ppid !== ${parent}) process.kill(process.pid, 'SIGKILL');
}, 500);`;

/** Kills this process within half a second when its parent is gone, by a thread that looks for it.
 *  `parent`: its process id; without it, it is known to be there now. */
export function endWithParent(parent = process.ppid): void {
  new Worker(watch(parent), { eval: true, execArgv: [] }).unref();
}
