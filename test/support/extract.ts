/** A crawl with an archive, and extractions from it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, watch, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { Cluster, type Program } from './cluster.ts';
import { httpServer } from './http-server.ts';
import { shelf } from './items.ts';

const html = { 'content-type': 'text/html; charset=utf-8' };

/** A crawl of a site with an archive, which has ended. Returns its crawl file, too. */
export async function crawled(
  t: TestContext,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  file: (url: string) => string,
): Promise<{ cluster: Cluster; path: string }> {
  const port = await httpServer(t, answer);
  const cluster = new Cluster(t);
  const path = join(cluster.folder, 'shop.yaml');
  writeFileSync(path, file(`http://127.0.0.1:${port}`));
  const flags = ['--archive', 'warc', '--exit-when-done'];
  const master = await cluster.master([path, ...flags]);
  cluster.slave();
  assert.equal((await master.exited).code, 0, master.output);
  return { cluster, path };
}

export function start(
  cluster: Cluster,
  path: string,
  as: string,
  more: readonly string[] = [],
): Program {
  const from = ['--from', join(cluster.out, 'shop')];
  return cluster.run([
    'master.js',
    'extract',
    path,
    ...from,
    '--as',
    as,
    '--out',
    cluster.out,
    ...more,
  ]);
}

/** Pages of rows, for what takes a while. */
export function manyShelves(count: number) {
  return ({ url = '' }: IncomingMessage, response: ServerResponse) => {
    const links = Array.from({ length: count }, (_, i) => `<a href="/shelf-${i}">x</a>`).join('');
    const page = url === '/' ? links : url === '/robots.txt' ? '' : shelf(url, 40);
    response.writeHead(200, html).end(page);
  };
}
/** Resolves when a file of rows holds more than at the call, or the cursor something else. Rejects
 *  when the program has ended. */
export async function changed(cluster: Cluster, file: string, ended: AbortSignal): Promise<void> {
  const path = join(cluster.out, file);
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true });
  const text = () => (existsSync(path) ? readFileSync(path, 'utf8') : '');
  const before = text();
  const isChanged = () =>
    file.endsWith('.json') ? text() !== before : text().length > before.length;
  const watcher = watch(folder);
  try {
    while (!isChanged()) await once(watcher, 'change', { signal: ended });
  } finally {
    watcher.close();
  }
}
