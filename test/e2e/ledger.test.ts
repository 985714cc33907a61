/** `status --ledger --verify`: a recount while the crawl runs, without a master, and what it finds. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { UrlLook } from '../../master/frontier/look/url-look.ts';
import { Recount } from '../../master/inspect/recount.ts';
import { openLmdbStore, openStoppedStore } from '../../master/store/lmdb.ts';
import { crawlKey, decodeCrawl, encodeCrawl } from '../../master/store/records.ts';
import { generateSite } from '../../selftest/site.ts';
import type { LedgerCheck } from '../../shared/ledger.ts';
import type { CrawlStatus } from '../../shared/protocol.ts';
import { Cluster } from '../support/cluster.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 90_000;
type Verified = { readonly crawls: CrawlStatus[]; readonly verified: LedgerCheck[] };

/** Runs `status --ledger --verify` on folders; returns the exit code and what it printed. */
async function verify(cluster: Cluster, ...args: readonly string[]) {
  const folders = ['--data', cluster.data, '--out', cluster.out];
  const program = cluster.run(['master.js', 'status', '--ledger', '--verify', ...folders, ...args]);
  const { code } = await program.exited;
  return { code, text: program.stdout, output: program.output };
}

describe('ledger', { concurrency: 2 }, () => {
  test('ledger: right at any moment of a crawl, after kill -9, and in the folders', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, generateSite(11, 400));
    const cluster = new Cluster(t);
    let master = await cluster.master([site.url, '--per-host', '8']);
    cluster.slave();
    await cluster.grown('pages.jsonl', 0);
    const client = await cluster.connect();
    let recounts = 0;
    for (let state = 'running'; state === 'running'; recounts++) {
      const check = await client.request('crawl.verify', { crawl: 'default' });
      assert.deepEqual(check.differs, [], `${recounts}: ${JSON.stringify(check)}`);
      assert.equal(check.missing, undefined);
      state = (await client.request('crawl.list', {})).crawls[0]?.state ?? '';
      if (recounts === 2) break;
    }
    await client.close();
    await master.kill('SIGKILL');
    const killed = await verify(cluster);
    assert.equal(killed.code, 0, killed.output);
    assert.match(
      killed.text,
      /^default: the ledger is right: [\d,]+ rows? and [\d,]+ lines? counted$/m,
    );
    master = await cluster.master([]);
    cluster.slave();
    await master.said(/crawl default is done/);
    const text = await cluster.ask('status', '--ledger', '--verify');
    assert.match(text, /^default: the ledger is right/m);
    const { verified, crawls } = JSON.parse(
      await cluster.ask('status', '--ledger', '--verify', '--json'),
    ) as Verified;
    const { admitted = 0, waiting } = crawls[0]?.ledger?.page ?? {};
    assert.equal(waiting, 0);
    assert.ok((verified[0]?.lines ?? 0) >= admitted, JSON.stringify(verified));

    // Its folder is renamed, and deleted, while it is counted.
    const operator = await cluster.connect();
    const checksOf = (crawl: string) =>
      Array.from({ length: 8 }, () => operator.request('crawl.verify', { crawl }));
    for (const [crawl, to] of [
      ['default', 'moved'],
      ['moved', 'default'],
    ] as const) {
      const checks = checksOf(crawl);
      await operator.request('crawl.rename', { crawl, to });
      for (const check of await Promise.all(checks)) {
        assert.deepEqual([check.differs, check.missing], [[], undefined]);
      }
    }
    const checks = checksOf('default');
    const removed = operator.request('crawl.remove', { crawl: 'default', files: true });
    for (const one of await Promise.allSettled(checks)) {
      if (one.status === 'fulfilled') assert.deepEqual(one.value.differs, []);
      else assert.match(String(one.reason), /is being removed|there is no crawl/);
    }
    await removed;
    await operator.close();
  });

  test('ledger: a line that is gone, a number that is wrong and a lost file are found', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, generateSite(12, 60));
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url]);
    const slave = cluster.slave();
    await master.said(/crawl default is done/);
    await slave.kill('SIGTERM');
    await master.kill('SIGTERM');
    await assertLeaves(master, slave);
    assert.equal((await verify(cluster)).code, 0);

    const pages = join(cluster.out, 'default/pages.jsonl');
    const whole = readFileSync(pages, 'utf8');
    const lines = whole.split('\n');
    const line = lines.findIndex((text) => text.includes('"images":['));
    // As long as it was: only a recount can see it.
    writeFileSync(
      pages,
      lines.with(line, `{"x":"${'x'.repeat((lines[line]?.length ?? 0) - 8)}"}`).join('\n'),
    );
    const torn = await verify(cluster);
    assert.equal(torn.code, 1, torn.output);
    assert.match(torn.text, /^ {2}page: pages: the ledger says \d+, counted \d+$/m);
    assert.match(torn.text, /lines that are torn: the ledger says 0, counted 1/);
    truncateSync(pages, 100);
    assert.match((await verify(cluster)).text, /pages\.jsonl is shorter than it was/);
    renameSync(pages, `${pages}.away`);
    assert.match((await verify(cluster)).text, /pages\.jsonl is not there/);
    renameSync(`${pages}.away`, pages);
    writeFileSync(pages, whole);
    assert.equal((await verify(cluster)).code, 0);

    const store = await openLmdbStore(join(cluster.data, 'store'));
    const key = crawlKey(1);
    const record = decodeCrawl(store.get('crawls', key) ?? Buffer.alloc(0));
    // One page more that was admitted, and never ended.
    const ledger = record.ledger?.map((row, i) =>
      i === 0 ? [(row[0] ?? 0) + 1, ...row.slice(1)] : row,
    );
    await store.commit([{ table: 'crawls', key, value: encodeCrawl({ ...record, ledger }) }]);
    await store.close();
    const wrong = await verify(cluster);
    assert.equal(wrong.code, 1, wrong.output);
    assert.match(wrong.text, /^default: the ledger is wrong: /m);
    assert.match(wrong.text, /^ {2}page: waiting: the ledger says 1, counted 0$/m);
    const json = JSON.parse((await verify(cluster, '--json')).text) as Verified;
    assert.deepEqual(json.verified[0]?.differs, [{ what: 'page: waiting', ledger: 1, counted: 0 }]);
    const again = await cluster.master([]);
    const client = await cluster.connect();
    const { differs } = await client.request('crawl.verify', { crawl: 'default' });
    assert.equal(differs.length, 1);
    await client.close();
    await again.kill('SIGKILL');
  });

  test('ledger: a recount waits for a renaming, however long the disk takes', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, generateSite(14, 20));
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, '--exit-when-done']);
    cluster.slave();
    await master.exited;
    const store = await openStoppedStore(join(cluster.data, 'store'));
    try {
      const folderOf = (name: string) => join(cluster.out, name);
      const recount = new Recount({ store, look: new UrlLook(store), folderOf });
      const crawl: { id: number; name: string; renaming?: string } = { id: 1, name: 'default' };
      crawl.renaming = 'other';
      renameSync(folderOf('default'), folderOf('other'));
      setTimeout(() => {
        crawl.name = 'other';
        delete crawl.renaming;
      }, 1_000);
      const { crawl: name, differs, missing } = await recount.verify(crawl);
      assert.deepEqual([name, differs, missing], ['other', [], undefined]);
    } finally {
      await store.close();
    }
  });

  test('ledger: rotated files count while they are there, and nothing is wrong when they are not', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, generateSite(13, 200), { delayMs: 100 });
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, '--per-host', '8']);
    cluster.slave();
    await cluster.grown('pages.jsonl', 0);
    await cluster.ask('rotate', 'default');
    await master.said(/crawl default is done/);
    await cluster.ask('rotate', 'default');
    const text = await cluster.ask('status', '--ledger', '--verify');
    assert.match(text, /^default: the ledger is right/m);
    assert.doesNotMatch(text, /not compared/);
    const folder = join(cluster.out, 'default');
    const dated = readdirSync(folder).filter((name) => /^pages-.*\.jsonl$/.test(name));
    assert.equal(dated.length, 2);
    for (const name of dated) renameSync(join(folder, name), join(folder, `${name}.packed`));
    const packed = await cluster.ask('status', '--ledger', '--verify');
    assert.match(packed, /^default: the ledger is right/m);
    assert.match(
      packed,
      /^ {2}not compared: lines of pages-\S+\.jsonl and 1 more, moved or packed/m,
    );
    await master.kill('SIGKILL');
    assert.equal((await verify(cluster)).code, 0);
    renameSync(join(folder, 'img_src.txt'), join(folder, 'img_src.txt.away'));
    const lost = await verify(cluster, '--json');
    const [check] = (JSON.parse(lost.text) as Verified).verified;
    assert.equal(check?.moved?.length, 2);
    assert.deepEqual(check?.differs, []);
  });

  test('ledger: options without it, and folders in use, are refused in one line', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    const refused = async (pattern: RegExp, ...args: readonly string[]) => {
      const program = cluster.run(['master.js', 'status', ...args]);
      assert.equal((await program.exited).code, 2, program.output);
      assert.match(program.output, pattern);
      assert.equal(program.output.trim().split('\n').length, 1, program.output);
    };
    await refused(/--verify of status is for the ledger: give --ledger, too/, '--verify');
    await refused(/--data of status is for the ledger/, '--data', cluster.data);
    await refused(/there is no store in/, '--ledger', '--data', cluster.data);
    await cluster.master([]);
    await refused(/is in use by the master/, '--ledger', '--data', cluster.data);
  });
});
