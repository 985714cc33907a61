/** The captures of pages in a browser: their HTML then, and screenshots. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { browserFlags, noBrowser } from '../support/browser.ts';
import { type Answer, BrowserSite, crawlFile } from '../support/browser-site.ts';
import { Cluster } from '../support/cluster.ts';
import { readArchive } from '../support/warc.ts';

const timeout = 120_000;
const skip = noBrowser;
type Line = { url: string; rendered?: true; digest?: string; screenshot?: string };

const sha1 = (bytes: Buffer) => createHash('sha1').update(bytes).digest('hex');
const written = (n: number, more = '') =>
  `<title>${n}</title><p id=p></p>${more}<script>p.textContent = 'made ' + ${n} + Math.random()</script>`;

function filesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return names.filter((name) => name.includes('.')).sort();
}

/** Each rendered page has both files, by their digests. */
function assertKept(cluster: Cluster, count: number): Line[] {
  const folder = join(cluster.out, 'c');
  const lines = cluster.fetched('c') as unknown as Line[];
  const rendered = lines.filter((line) => line.rendered);
  assert.equal(rendered.length, count);
  for (const { url, digest = '', screenshot = '' } of rendered) {
    const html = readFileSync(join(folder, 'html', digest.slice(0, 2), `${digest}.html`));
    assert.equal(sha1(html), digest);
    assert.match(html.toString(), /made \d+/, url);
    const picture = readFileSync(join(folder, screenshot));
    assert.ok(screenshot.endsWith(`/${sha1(picture)}.png`), screenshot);
    assert.equal(picture.subarray(1, 4).toString(), 'PNG');
    assert.equal(picture.readUInt32BE(16), 1280);
  }
  return rendered;
}

test('views: HTML and screenshots are files, and survive a kill', { timeout, skip }, async (t) => {
  const count = 12;
  const links = Array.from({ length: count }, (_, n) => `<a href=/${n}>x</a>`).join('');
  const pages: Record<string, Answer> = {
    '/': written(count, `${links}<div style="height: 12000px">`),
  };
  for (let n = 0; n < count; n++) pages[`/${n}`] = written(n);
  const site = await new BrowserSite(pages).open(t);
  const cluster = new Cluster(t);
  const render = { html: true, screenshot: true };
  const path = crawlFile(cluster, site, { render, archive: 'warc', delay: 100 });
  const first = await cluster.master([path, '--exit-when-done']);
  cluster.slave(browserFlags);
  await cluster.grown('pages.jsonl', 5, 'c');
  await first.kill('SIGKILL');
  const part = join(cluster.out, 'c', 'screenshots', '00', `${'0'.repeat(40)}.png.part`);
  mkdirSync(join(part, '..'), { recursive: true });
  writeFileSync(part, 'half');
  const listen = cluster.address;
  const master = await cluster.master([path, '--exit-when-done'], { listen });
  assert.equal((await master.exited).code, 0, master.output);
  const lines = assertKept(cluster, count + 1);
  assert.equal(existsSync(part), false);
  const root = lines.find(({ url }) => new URL(url).pathname === '/');
  const picture = readFileSync(join(cluster.out, 'c', root?.screenshot ?? ''));
  assert.equal(picture.readUInt32BE(20), 10_000);
  const records = readArchive(join(cluster.out, 'c', 'archive'));
  for (const [type, prefix] of [
    ['conversion', ''],
    ['resource', 'urn:fullPage:'],
  ] as const) {
    const found = records.filter((one) => one.type === type);
    const targets = found.map(({ fields }) => fields['warc-target-uri']);
    assert.deepEqual(targets.sort(), lines.map(({ url }) => prefix + url).sort());
  }
  const answers = records.filter(({ type }) => type === 'response' || type === 'revisit');
  const ids = new Set(answers.map(({ fields }) => fields['warc-record-id']));
  for (const { type, fields } of records) {
    if (type === 'conversion') assert.ok(ids.has(fields['warc-refers-to']));
  }
});

test('views: --save html keeps a page as it was read', { timeout, skip }, async (t) => {
  const link = `<script>document.body.insertAdjacentHTML('beforeend', '<a href=/plain>x</a>')</script>`;
  const pages = { '/': written(1, link), '/plain': '<p>plain<a href=/>x</a>' };
  const site = await new BrowserSite(pages).open(t);
  const cluster = new Cluster(t);
  const path = crawlFile(cluster, site, { render: 'auto', save: 'html' });
  const master = await cluster.master([path, '--exit-when-done']);
  cluster.slave(browserFlags);
  assert.equal((await master.exited).code, 0, master.output);
  const lines = cluster.fetched('c') as unknown as Line[];
  assert.equal(lines.length, 2);
  const folder = join(cluster.out, 'c');
  for (const { url, rendered, digest = '' } of lines) {
    const html = readFileSync(join(folder, 'html', digest.slice(0, 2), `${digest}.html`));
    assert.equal(sha1(html), digest);
    assert.equal(rendered === true, !url.endsWith('/plain'), url);
    assert.equal(html.includes('made 1'), rendered === true);
  }
  assert.equal(filesIn(join(folder, 'html')).length, 2);
  assert.deepEqual(filesIn(join(folder, 'screenshots')), []);
});
