/** `--order dfs` with a delay is a strict walk, with follow rules, too. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';

const tree: Record<string, string[]> = {
  '/': ['/a', '/b'],
  '/a': ['/a1', '/a2'],
  '/a1': ['/a11', '/a12'],
  '/b': ['/b1', '/b2'],
};
const walk = ['/', '/a', '/a1', '/a11', '/a12', '/a2', '/b', '/b1', '/b2'];

for (const rules of [{}, { follow: [{ css: 'a' }] }]) {
  const how = 'follow' in rules ? 'with follow rules' : 'plain';
  test(`order: dfs is strict with a delay, ${how}`, { timeout: 60_000 }, async (t) => {
    const asked: string[] = [];
    const port = await httpServer(t, ({ url = '' }, response) => {
      if (url !== '/robots.txt') asked.push(url);
      response.writeHead(url === '/robots.txt' ? 404 : 200, { 'content-type': 'text/html' });
      response.end((tree[url] ?? []).map((path) => `<a href="${path}">x</a>`).join(''));
    });
    const cluster = new Cluster(t);
    const path = join(cluster.folder, 'c.json');
    const seeds = [`http://127.0.0.1:${port}/`];
    writeFileSync(
      path,
      JSON.stringify({ seeds, order: 'dfs', delay: 400, 'per-host': 1, ...rules }),
    );
    const master = await cluster.master([path, '--slaves', '1', '--exit-when-done']);
    assert.equal((await master.exited).code, 0, master.output);
    assert.deepEqual(asked, walk);
  });
}
