/** Sources of seeds on a schedule, in the list of crawls. Source: PROTOCOL.md [C-102]. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cluster } from '../support/cluster.ts';

test('[C-102] crawl.list says when the next source is asked', async (t) => {
  const cluster = new Cluster(t);
  writeFileSync(join(cluster.folder, 'urls.txt'), 'https://a.example/\n');
  const seeds = [
    { file: 'urls.txt', every: '1h' },
    { file: 'urls.txt', every: '2h' },
  ];
  const path = join(cluster.folder, 'c.json');
  writeFileSync(path, JSON.stringify({ crawl: 'c', seeds, 'allow-private': 'all' }));
  const before = Date.now();
  const master = await cluster.master([path]);
  await master.said(/gets seeds of 2 sources on a schedule/);
  const client = await cluster.connect();
  const { crawls } = await client.request('crawl.list', { crawl: 'c' });
  const { sources, nextAt = 0 } = crawls[0]?.schedule ?? {};
  assert.equal(sources, 2);
  assert.ok(nextAt >= before + 3_600_000 && nextAt <= Date.now() + 3_600_000, String(nextAt));
  await client.close();
});
