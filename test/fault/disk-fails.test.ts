/** A disk that fails while the master works: it ends with one line, and when the disk is mended the
 *  next one goes on. */
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkStore } from '../../master/repair/check.ts';
import { storeFile } from '../../master/store/lmdb.ts';
import { generateSite } from '../../selftest/site.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { diskFailures, FailingDisk } from '../support/failing-disk.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 90_000;

let seed = 511;
for (const [how, fail] of Object.entries(diskFailures)) {
  for (const what of ['data', 'out'] as const) {
    const name = `a disk that ${how} under --${what} ends the master with one line`;
    const site = generateSite(seed++, 300);
    test(name, { timeout }, async (t) => {
      const disk = FailingDisk.mount(t);
      if (disk === undefined) return;
      const served = await siteFor(t, site, { delayMs: 15 });
      const cluster = new Cluster(t);
      mkdirSync(join(disk.path, what));
      symlinkSync(join(disk.path, what), join(cluster.folder, what));
      const args = [served.url, '--exit-when-done', '--per-host', '12', '--disk-reserve', '16'];
      const first = await cluster.master(args);
      const { address } = cluster;
      for (let i = 0; i < 2; i++) cluster.slave();
      await served.requested(60);
      fail(disk);
      // A device may also say that it has no room: the master waits for some then.
      void first.said(/the disk is full/).then(
        () => first.signal('SIGTERM'),
        () => {},
      );
      const exit = await first.exited;
      // LMDB damages the heap when a write is refused in the middle of a commit (see `lmdb.ts`): no
      // more may be lost then than by any other sudden end.
      if (!(exit.signal === 'SIGABRT' && first.stderr.includes('Write error: '))) {
        assert.deepEqual(exit, { code: 2, signal: null }, first.output);
        assert.match(first.stderr.replace(nativeNotes, ''), failed);
        assert.match(first.stderr, new RegExp(`${cluster.folder}/${what}|disk full`));
      }
      disk.mend();
      // A commit that failed may have come through in part: the one before it is taken up then.
      if (checkStore(storeFile(join(cluster.data, 'store'))) !== undefined) {
        const folders = ['--data', cluster.data, '--out', cluster.out];
        const repair = cluster.run(['master.js', 'repair', ...folders]);
        assert.equal((await repair.exited).code, 0, repair.output);
      }
      const second = await cluster.master(args, { listen: address });
      // A slave that is late finds no master any more, and waits for one.
      await assertLeaves(second);
      assertExact(cluster, served.truth());
    });
  }
}

/** LMDB itself says where a write was refused before it returns the error. */
const nativeNotes = /Write error: .*? position \d+, size \d+|mdb_page_spill.* error \d+\n/g;

const failed =
  /^master: (.*(read-only file system|input\/output error|i\/o error)|stopped with the disk full).*(?:what|all that) was acknowledged is on .* start again\n$/i;
