/** The messages of a crawl about URLs that a repair could not save. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { storeFile } from '../../master/store/lmdb.ts';
import { Cluster } from '../support/cluster.ts';
import { harm } from '../support/damaged-store.ts';
import { httpServer } from '../support/http-server.ts';

const timeout = 60_000;
const linksCount = 20;

test('repair: a crawl that lost URLs which waited does not say that it has all', {
  timeout,
}, async (t) => {
  const links = Array.from({ length: linksCount }, (_, i) => `<a href="/page-${i}.html">`).join('');
  const port = await httpServer(t, ({ url }, response) => {
    // All pages but the first wait for their answers.
    if (url !== '/' && url !== '/robots.txt') return;
    response.writeHead(url === '/robots.txt' ? 404 : 200, { 'content-type': 'text/html' });
    response.end(links);
  });
  const cluster = new Cluster(t);
  const first = await cluster.master([`http://127.0.0.1:${port}/`]);
  const slave = cluster.slave();
  for (let open = 0; open < linksCount; ) {
    const { waiting, leased } = await cluster.status();
    open = waiting + leased;
  }
  // Both sets of roots have to have them.
  const node = await cluster.connect();
  for (let n = 0; n < 2; n++) await node.queue('jobs').put(n);
  await node.close();
  await slave.kill('SIGKILL');
  await first.kill('SIGKILL');
  harm(storeFile(join(cluster.data, 'store')), Buffer.from(`:${port}/page-7.html`));
  const folders = ['--data', cluster.data, '--out', cluster.out];
  const repair = cluster.run(['master.js', 'repair', ...folders]);
  assert.equal((await repair.exited).code, 0, repair.output);
  assert.match(repair.stdout, /crawl default: 20 URLs that waited are lost/);
  const second = await cluster.master(['--exit-when-done']);
  assert.equal((await second.exited).code, 0, second.output);
  assert.match(
    second.output,
    /every known URL was fetched; 20 URLs that waited were lost before a repair/,
  );
});
