/** The archive through kills of slaves and master, a full disk, and files that are taken away. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { throughKills } from '../support/kills.ts';
import { answersOf, checkIndexes, readArchive } from '../support/warc.ts';

const timeout = 240_000;
const kills = 50;
const pageCount = 1_500;
/** Pages whose links would leave the site have none. */
const expected = Math.floor((pageCount - 4) / 3) * 3 + 4;

/** Page n leads to the next ones; each has text of its own. */
function page(n: number): string {
  const links = [1, 2, 3].map((k) => `<a href="/p/${n * 3 + k}">x</a>`);
  return `<title>${n}</title>${n * 3 + 3 < pageCount ? links.join('') : ''}<p>${`${n} `.repeat(800)}`;
}

describe('archive: faults', () => {
  test(`archive: every page once through ${kills} kills`, { timeout }, async (t) => {
    const port = await httpServer(t, ({ url = '' }, response) => {
      const [, n] = /^\/p\/(\d+)$/.exec(url) ?? [];
      if (n === undefined) response.writeHead(404).end();
      else
        setTimeout(
          () => response.writeHead(200, { 'content-type': 'text/html' }).end(page(Number(n))),
          30,
        );
    });
    const cluster = new Cluster(t);
    const site = `http://127.0.0.1:${port}`;
    const flags = ['--archive', 'warc', '--archive-file-bytes', '1000000', '--per-host', '4'];
    const args = [`${site}/p/0`, '--exit-when-done', ...flags];
    const folder = await throughKills(t, cluster, { kills, args });
    const archive = join(folder, 'archive');
    const records = readArchive(archive);
    checkIndexes(archive, records);
    const answers = answersOf(records);
    const lines = cluster.fetched().map(({ finalUrl, url }) => finalUrl ?? url);
    assert.equal(lines.length, expected);
    for (const url of lines) assert.equal(answers.get(url), 1, url);
    assert.equal(answers.size, lines.length);
    assert.ok(readdirSync(archive).filter((name) => name.endsWith('.warc.gz')).length > 1);
    assert.ok(
      !existsSync(join(cluster.data, 'uploads')) ||
        readdirSync(join(cluster.data, 'uploads')).length === 0,
    );
  });
});
