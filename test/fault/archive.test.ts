/** The archive through kills of slaves and master, a full disk, and files that are taken away. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, watch } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Cluster, type Program } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { randomUint32s } from '../support/random.ts';
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

/** Resolves at the next line of pages.jsonl, or when the time is over. */
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
    const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e6));
    t.diagnostic(`seed ${seed}`);
    const next = randomUint32s(seed);
    const random = () => next() / 2 ** 32;
    const site = `http://127.0.0.1:${port}`;
    const flags = ['--archive', 'warc', '--archive-file-bytes', '1000000', '--per-host', '4'];
    const args = [`${site}/p/0`, '--exit-when-done', ...flags];
    let master = await cluster.master(args);
    const { address } = cluster;
    const slaves: Program[] = [cluster.slave(), cluster.slave()];
    const folder = join(cluster.out, 'default');
    let masterKills = 0;
    let done = 0;
    for (let i = 0; i < kills; i++) {
      await moved(folder, 300);
      await wait(random() * 60);
      if (!master.isAlive) break;
      done++;
      if (random() < 0.5) {
        await master.kill();
        masterKills++;
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
