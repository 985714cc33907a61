/** A crawl through many kills of its master and its slaves. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, watch } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Cluster, Program } from './cluster.ts';
import { randomUint32s } from './random.ts';

type Killing = {
  readonly kills: number;
  /** Of the master; a start after a kill has the same. The crawl is `default`. */
  readonly args: readonly string[];
  /** While no master runs, after its kill: what else a crash could leave. */
  readonly crashed?: (kill: number) => void;
};

/** Runs the crawl to its end, with two slaves. Each kill waits for the crawl to write something.
 *  SEED, printed, decides who is killed, and when. Returns the folder of its results. */
export async function throughKills(
  t: TestContext,
  cluster: Cluster,
  { kills, args, crashed }: Killing,
): Promise<string> {
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e6));
  t.diagnostic(`seed ${seed}`);
  const next = randomUint32s(seed);
  const random = () => next() / 2 ** 32;
  let master = await cluster.master(args);
  const { address } = cluster;
  const slaves: Program[] = [cluster.slave(), cluster.slave()];
  const folder = join(cluster.out, 'default');
  let masterKills = 0;
  let done = 0;
  for (; done < kills; done++) {
    await moved(folder, 300);
    await wait(random() * 60);
    if (!master.isAlive) break;
    if (random() < 0.5) {
      await master.kill();
      masterKills++;
      crashed?.(done);
      master = await cluster.master(args, { listen: address });
    } else {
      const at = Math.floor(random() * slaves.length);
      await slaves[at]?.kill();
      slaves[at] = cluster.slave([], address);
    }
  }
  assert.equal(done, kills, 'the crawl lasted long enough');
  t.diagnostic(`${masterKills} kills of the master`);
  assert.equal((await master.exited).code, 0, master.output);
  return folder;
}

/** Resolves when something in the folder changes, or when the time is over. */
async function moved(folder: string, ms: number): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const watcher = watch(folder);
  try {
    await Promise.race([once(watcher, 'change'), wait(ms)]);
  } finally {
    watcher.close();
  }
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
