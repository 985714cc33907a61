/** `--archive warc` by real processes: what the files hold, and what keeps them exact. */
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { checkIndexes, readArchive, type Warc } from '../support/warc.ts';

const timeout = 60_000;
const html = { 'content-type': 'text/html' };
const long = 'long '.repeat(60_000);

/** A site of all that an archive may meet. */
function answer(request: IncomingMessage, response: ServerResponse): void {
  const send = (status: number, headers: Record<string, string>, body: string | Buffer = '') =>
    response.writeHead(status, headers).end(body);
  switch (request.url) {
    case '/robots.txt':
      return void send(200, { 'content-type': 'text/plain' }, 'User-agent: *\nSitemap: /map.xml\n');
    case '/map.xml':
      return void send(
        200,
        { 'content-type': 'application/xml' },
        `<urlset><url><loc>http://${request.headers.host}/mapped</loc></url></urlset>`,
      );
    case '/':
      return void send(
        200,
        html,
        '<a href="/zipped">z</a><a href="/moved">m</a><a href="/gone">g</a><a href="/file.pdf">f</a>' +
          '<a href="/twin-1">1</a><a href="/twin-2">2</a><a href="/cut">c</a><a href="/drip">d</a>',
      );
    case '/zipped':
      return void send(200, { ...html, 'content-encoding': 'gzip' }, gzipSync('<p>zipped'));
    case '/moved':
      return void send(302, { location: '/mapped' }, 'over there');
    case '/mapped':
      return void send(200, html, '<p>mapped');
    case '/file.pdf':
      return void send(200, { 'content-type': 'application/pdf' }, Buffer.alloc(300_000, 'pdf '));
    case '/cut':
      return void send(200, { 'content-type': 'text/plain' }, long);
    case '/drip':
      // No length: it comes in chunks.
      response.writeHead(200, html);
      response.write('<p>one');
      return void response.end('<p>two');
    case '/twin-1':
    case '/twin-2':
      return void send(200, html, '<p>the same');
    default:
      return void send(404, html, '<p>not here');
  }
}

async function crawl(t: TestContext, flags: readonly string[]): Promise<[Cluster, string]> {
  const port = await httpServer(t, answer);
  const cluster = new Cluster(t);
  const site = `http://127.0.0.1:${port}`;
  const master = await cluster.master([`${site}/`, '--exit-when-done', ...flags]);
  cluster.slave();
  assert.equal((await master.exited).code, 0, master.output);
  return [cluster, site];
}

function archiveOf(cluster: Cluster): { folder: string; records: Warc[] } {
  const folder = join(cluster.out, 'default/archive');
  return { folder, records: readArchive(folder) };
}

describe('archive', () => {
  test('archive: everything that was asked and answered is there, once', { timeout }, async (t) => {
    const secrets = ['--header', 'X-Key: hush', '--cookie', 'session=hush'];
    const flags = ['--archive', 'warc', '--archive-bytes', '300000', ...secrets];
    const [cluster, site] = await crawl(t, flags);
    const { folder, records } = archiveOf(cluster);
    checkIndexes(folder, records);
    const answers = new Map<string, Warc>();
    for (const record of records) {
      if (record.type !== 'response' && record.type !== 'revisit') continue;
      const path = (record.fields['warc-target-uri'] ?? '').slice(site.length);
      if (path === '/mapped' && answers.has(path)) continue;
      assert.ok(!answers.has(path), `${path} is there twice`);
      answers.set(path, record);
    }
    const paths = ['/', '/zipped', '/moved', '/gone', '/file.pdf', '/twin-1', '/twin-2', '/cut'];
    for (const path of [...paths, '/drip', '/mapped', '/robots.txt', '/map.xml']) {
      assert.ok(answers.has(path), path);
    }
    const payload = (path: string) => answers.get(path)?.payload ?? Buffer.alloc(0);
    const head = (path: string) => answers.get(path)?.block.toString('latin1').split('\r\n\r\n')[0];
    assert.equal(gunzipSync(payload('/zipped')).toString(), '<p>zipped');
    assert.match(head('/zipped') ?? '', /content-encoding: gzip/i);
    assert.equal(payload('/moved').toString(), 'over there');
    assert.equal(payload('/gone').toString(), '<p>not here');
    assert.equal(payload('/file.pdf').length, 300_000);
    assert.equal(answers.get('/file.pdf')?.fields['warc-truncated'], undefined);
    assert.equal(payload('/drip').toString(), '<p>one<p>two');
    assert.doesNotMatch(head('/drip') ?? '', /^transfer-encoding/im);
    assert.equal(payload('/cut').toString(), long.slice(0, 300_000));
    assert.equal(answers.get('/cut')?.fields['warc-truncated'], undefined, 'exactly the limit');
    const twins = ['/twin-1', '/twin-2'].map((path) => answers.get(path));
    assert.deepEqual(twins.map((twin) => twin?.type).sort(), ['response', 'revisit']);
    const revisit = twins.find((twin) => twin?.type === 'revisit');
    const original = twins.find((twin) => twin?.type === 'response');
    assert.match(revisit?.fields['warc-profile'] ?? '', /identical-payload-digest$/);
    assert.equal(revisit?.fields['warc-refers-to'], original?.fields['warc-record-id']);
    assert.equal(revisit?.fields['warc-refers-to-date'], original?.fields['warc-date']);
    const about = records.filter(({ type }) => type === 'metadata');
    const ofGone = about.find(({ fields }) => fields['warc-target-uri'] === `${site}/gone`);
    assert.equal(ofGone?.block.toString(), `depth: 1\r\nfrom: ${site}/\r\nkind: page\r\n`);
    // A reader of the archive needs this to know which answers are pages.
    const hops = about.filter(({ block }) => block.includes('answer: no'));
    assert.deepEqual(
      hops.map(({ fields }) => fields['warc-target-uri']),
      [`${site}/moved`],
    );
    const moved = about.filter(({ block }) => block.includes(`task: ${site}/moved\r\n`));
    assert.deepEqual(
      moved.map(({ fields }) => fields['warc-target-uri']),
      [`${site}/mapped`],
    );
    const kinds = about.map(({ block }) => /kind: (\w+)/.exec(block.toString())?.[1]);
    assert.deepEqual([...new Set(kinds)].sort(), ['page', 'robots', 'sitemap']);
    const requests = records.filter(({ type }) => type === 'request');
    assert.equal(requests.length, about.length);
    for (const { block } of records) assert.ok(!block.includes('hush'));
    assert.match(requests[0]?.block.toString() ?? '', /^GET \/\S* HTTP\/1\.1\r\nhost: 127/);
  });

  test('archive: a longer body is cut, and says so; a page is still parsed', {
    timeout,
  }, async (t) => {
    const [cluster, site] = await crawl(t, ['--archive', 'warc', '--archive-bytes', '100']);
    const { records } = archiveOf(cluster);
    const of = (path: string) =>
      records.find(
        ({ type, fields }) => type === 'response' && fields['warc-target-uri'] === site + path,
      );
    assert.equal(of('/')?.fields['warc-truncated'], 'length');
    assert.equal(of('/')?.payload.length, 100);
    assert.equal(of('/cut')?.payload.length, 100);
    assert.ok(cluster.pages().includes(`${site}/zipped`));
  });

  test('archive: without the option nothing is kept', { timeout }, async (t) => {
    const [cluster] = await crawl(t, []);
    assert.deepEqual(readArchive(join(cluster.out, 'default/archive')), []);
  });
});
