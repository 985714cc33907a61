/** The fingerprints that a crawl has admitted, wherever the store has them. */
import { commitOf, crawlKey } from '../../master/store/records.ts';
import { parseRunKey } from '../../master/store/runs.ts';
import type { Rows } from '../../master/store/store.ts';

/** In hex, each once, in order. */
export function seenKeysOf(store: Rows, crawl = 1): string[] {
  const all = { from: crawlKey(crawl), to: crawlKey(crawl + 1) };
  const found = new Set<string>();
  const add = (bytes: Buffer) => {
    for (let at = 0; at < bytes.length; at += 16) {
      found.add(bytes.toString('hex', at, at + 16));
    }
  };
  for (const { key, value } of store.range('runs', all)) if (parseRunKey(key)?.run) add(value);
  for (const { key, value } of store.range('recent', all)) if (commitOf(key) > 0) add(value);
  for (const { key } of store.range('seen', all)) add(key.subarray(4));
  return [...found].sort();
}
