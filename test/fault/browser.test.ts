/** Faults of pages in a browser: pages that hang, crash or never end, and kills of browser and
 *  slave, a full disk. Nothing is lost, and no slot. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { browserFlags, browsersOf, groupEnded, killParts, noBrowser } from '../support/browser.ts';
import { type Answer, BrowserSite, crawlFile } from '../support/browser-site.ts';
import { Cluster } from '../support/cluster.ts';
import { SmallDisk } from '../support/small-disk.ts';

const timeout = 240_000;

const shell = (body: string) => `<!doctype html><title>t</title>${body}`;
const filled = (text: string) =>
  shell(`<p id=p></p><script>p.innerHTML = '<a href="/end">${text}</a>'</script>`);

/** Resolves when the site was asked so often. (Results are written some seconds later.) */
async function askedFor(site: BrowserSite, count: number): Promise<void> {
  while (site.asked.length < count) await sleep(20);
}

/** Another browser of that slave. */
async function browserAfter(slave: { readonly pid: number }, before: number): Promise<number> {
  for (;;) {
    const [found = before] = browsersOf(slave);
    if (found !== before) return found;
    await sleep(20);
  }
}

describe('browser faults', { skip: noBrowser }, () => {
  test('browser: pages that hang, crash or never end give their slots back', {
    timeout,
  }, async (t) => {
    const pages: Record<string, Answer> = {
      '/': shell(
        ['hang', 'late', 'crash', 'endless', 'reload', 'alert', 'heap', 'good']
          .map((name) => `<a href="/${name}">x</a>`)
          .join(''),
      ),
      '/hang': shell('<script>for (;;) {}</script>'),
      '/late': filled('late').replace('<script>', '<script>setTimeout(() => { for (;;) {} });'),
      '/crash': shell(
        '<iframe src="chrome://crash"></iframe><script>location="chrome://crash"</script>',
      ),
      '/endless': filled('endless').replace(
        '<script>',
        '<script>setInterval(() => fetch("/tick"), 20);',
      ),
      '/tick': '1',
      '/reload': filled('reload').replace('<script>', '<script>location.reload();'),
      '/alert': filled('alert').replace(
        '<script>',
        '<script>alert(1); confirm(2); print(); window.open("/w"); onbeforeunload = () => 1;',
      ),
      '/heap': shell('<script>const all = []; for (;;) all.push(new Array(1e6).fill({}))</script>'),
      '/good': filled('good'),
      '/end': filled('end'),
    };
    const site = await new BrowserSite(pages).open(t);
    const cluster = new Cluster(t);
    const path = crawlFile(cluster, site, {
      render: true,
      attempts: 1,
      'fetch-timeout': 10_000,
      'per-host': 2,
    });
    const master = await cluster.master([path, '--exit-when-done']);
    const begun = performance.now();
    const slave = cluster.slave([...browserFlags, '--slots', '2']);
    assert.equal((await master.exited).code, 0, master.output);
    const took = performance.now() - begun;
    const byPath = new Map(
      cluster
        .fetched('c')
        .map((line) => [new URL(line.url).pathname, line as Record<string, unknown>]),
    );
    for (const good of ['/', '/endless', '/alert', '/good', '/end', '/reload']) {
      const line = byPath.get(good);
      assert.equal(line?.['rendered'], true, `${JSON.stringify(line)}: ${slave.output}`);
    }
    for (const bad of ['/hang', '/late', '/heap']) {
      const { message } = (byPath.get(bad)?.['error'] ?? {}) as { message?: string };
      assert.match(message ?? '', /in the browser|browser tab|under the page/, bad);
    }
    assert.equal(byPath.size, 10);
    assert.ok(took < 120_000, `${took}`);
  });

  test('browser: kill -9 of browser, busy or idle, and slave loses nothing', {
    timeout,
  }, async (t) => {
    // More than are fetched before the last kill, whatever the machine does meanwhile.
    const names = Array.from({ length: 48 }, (_, i) => `/p${i}`);
    const pages: Record<string, Answer> = {
      '/': shell(names.map((name) => `<a href="${name}">x</a>`).join('')),
      '/end': filled('end'),
    };
    for (const name of names) pages[name] = filled(name);
    const site = await new BrowserSite(pages).open(t);
    const cluster = new Cluster(t);
    const path = crawlFile(cluster, site, { render: true, attempts: 10, delay: 200 });
    const master = await cluster.master([path, '--exit-when-done']);
    const first = cluster.slave([...browserFlags, '--slots', '4']);
    await askedFor(site, 4);
    // First between two pages.
    await cluster.ask('pause', 'c');
    while ((await cluster.status('c')).leased > 0) await sleep(20);
    const [browser = 0] = browsersOf(first);
    assert.ok(browser > 0);
    process.kill(-browser, 'SIGKILL');
    await groupEnded(browser);
    await cluster.ask('resume', 'c');
    await first.said(/browser: the browser ended; the next page starts another one/);
    const second = await browserAfter(first, browser);
    await askedFor(site, site.asked.length + 2);
    process.kill(-second, 'SIGKILL');
    await first.said(/(?:browser: the browser ended[\s\S]*){2}/);
    const third = await browserAfter(first, second);
    await first.kill('SIGKILL');
    await groupEnded(third);
    const last = cluster.slave([...browserFlags, '--slots', '4']);
    assert.equal((await master.exited).code, 0, master.output);
    const lines = cluster.fetched('c');
    assert.deepEqual(
      lines.map(({ url }) => new URL(url).pathname).sort(),
      ['/', '/end', ...names].sort(),
    );
    assert.deepEqual(
      lines.filter((line) => 'error' in line),
      [],
    );
    const groups = browsersOf(last);
    await last.exited;
    for (const group of groups) await groupEnded(group);
  });

  // The process that starts its pages, and the one that fetches for them, if it is another.
  for (const part of ['--type=zygote', '--utility-sub-type=network']) {
    test(`browser: kill -9 of ${part} costs no page its content`, { timeout }, async (t) => {
      const names = Array.from({ length: 6 }, (_, i) => `/p${i}`);
      let kill = () => {};
      const pages: Record<string, Answer> = {
        '/': shell(names.map((name) => `<a href="${name}">x</a>`).join('')),
        '/end': filled('end'),
        '/links': (_, response) => {
          kill();
          response.end('<a href="/end">x</a>');
        },
      };
      const script = `fetch('/links').then(async (r) => { p.innerHTML = await r.text() })`;
      for (const name of names) pages[name] = shell(`<p id=p></p><script>${script}</script>`);
      const site = await new BrowserSite(pages).open(t);
      const cluster = new Cluster(t);
      const path = crawlFile(cluster, site, { render: true, attempts: 1 });
      const master = await cluster.master([path, '--exit-when-done']);
      const slave = cluster.slave([...browserFlags, '--slots', '1']);
      kill = () => {
        const [browser = 0] = browsersOf(slave);
        assert.ok(browser > 0);
        killParts(browser, part);
        kill = () => {};
      };
      assert.equal((await master.exited).code, 0, master.output);
      const lines = cluster.fetched('c');
      assert.deepEqual(
        lines.map(({ url, error }) => [new URL(url).pathname, error]).sort(),
        ['/', '/end', ...names].sort().map((name) => [name, undefined]),
      );
      // Each of them has its link.
      const counts = lines.filter(({ url }) => /[/]p\d$/.test(url)).map(({ links }) => links);
      assert.deepEqual(counts, Array(names.length).fill(1));
    });
  }

  test('browser: a full disk holds the pages whose pictures are to be saved', {
    timeout,
  }, async (t) => {
    const disk = SmallDisk.mount(t, 8);
    if (disk === undefined) return;
    const names = Array.from({ length: 10 }, (_, i) => `/p${i}`);
    const pages: Record<string, Answer> = {
      '/': shell(names.map((name) => `<a href="${name}">x</a>`).join('')),
    };
    // Each has a picture of its own.
    for (const name of names) pages[name] = shell(`<h1>${name}</h1>`);
    const site = await new BrowserSite(pages).open(t);
    const cluster = new Cluster(t);
    symlinkSync(disk.path, cluster.out);
    const path = crawlFile(cluster, site, { render: { screenshot: true }, delay: 100 });
    const master = await cluster.master([path, '--exit-when-done', '--disk-reserve', '1']);
    const slave = cluster.slave(browserFlags);
    await askedFor(site, 4);
    disk.fill();
    await master.said(/the disk is full/);
    await sleep(500);
    assert.ok(cluster.fetched('c').length < 11);
    disk.free();
    assert.equal((await master.exited).code, 0, master.output);
    assert.equal(slave.output.match(/master gone|lost/), null, slave.output);
    const lines = cluster.fetched('c') as unknown as { url: string; screenshot?: string }[];
    assert.deepEqual(lines.map(({ url }) => new URL(url).pathname).sort(), ['/', ...names].sort());
    for (const { url, screenshot = '' } of lines) {
      const bytes = readFileSync(join(cluster.out, 'c', screenshot));
      const digest = createHash('sha1').update(bytes).digest('hex');
      assert.ok(screenshot.endsWith(`/${digest}.png`), url);
    }
  });
});
