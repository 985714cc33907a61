/** The ledgers of a stopped master's folder, recounted. */
import { join } from 'node:path';
import { UrlLook } from '../../master/frontier/look/url-look.ts';
import { Recount } from '../../master/inspect/recount.ts';
import { openStoppedStore } from '../../master/store/lmdb.ts';
import { afterPrefix, crawlKey, decodeCrawl } from '../../master/store/records.ts';
import { verifyLedger } from '../../selftest/exact.ts';

/** Their faults; data and results are below the folder. */
export async function wrongWithLedgers(folder: string): Promise<string[]> {
  const store = await openStoppedStore(join(folder, 'data/store'));
  try {
    const look = new UrlLook(store);
    const recount = new Recount({ store, look, folderOf: (name) => join(folder, 'out', name) });
    const wrong: string[] = [];
    const all = { from: crawlKey(0), to: afterPrefix(crawlKey(2 ** 32 - 1)) };
    for (const { value } of store.range('crawls', all)) {
      const record = decodeCrawl(value);
      const check = await recount.verify({ id: record.id, name: record.name });
      const status = look.crawlOf(record).status();
      wrong.push(...verifyLedger(status, check).map(({ what }) => what));
    }
    return wrong;
  } finally {
    await store.close();
  }
}
