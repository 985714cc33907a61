/** When a page in the browser has come to rest, and is read: no sooner, and not much later. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { noBrowser } from '../support/browser.ts';
import { type Answer, BrowserSite, crawled, lineOf } from '../support/browser-site.ts';
import { Cluster } from '../support/cluster.ts';

const timeout = 180_000;

const shell = (script: string) => `<!doctype html><title>shell</title><div id=app></div>${script}`;

describe('browser at rest', { skip: noBrowser }, () => {
  test('browser: a page that may not go on is read at once', { timeout }, async (t) => {
    const site = await new BrowserSite({
      '/': shell('<a href=/post>x</a><a href=/mail>x</a>'),
      '/post': shell('<form id=f method=post action=/sent></form><script>f.submit()</script>'),
      '/mail': shell(`<script>location = 'mailto:x@site.example'</script>`),
    }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: true });
    // It would have waited for its load until its time was over.
    for (const path of ['/post', '/mail']) assert.equal(lineOf(cluster, path)['missed'], undefined);
    assert.equal(site.count('/sent'), 0);
  });

  test('browser: a page that stops itself, or its frame, is read at once', {
    timeout,
  }, async (t) => {
    const stop = '<script>document.body.append("stopped"); window.stop()</script>';
    const site = await new BrowserSite({
      '/': shell('<a href=/own>x</a><a href=/frame>x</a><a href=/late>x</a><a href=/blank>x</a>'),
      '/own': shell(`<a href=/end>x</a>${stop}<a href=/never>x</a>`),
      '/frame': shell(`<iframe src=/own></iframe>`),
      '/blank': shell('<script>location = "about:blank"</script>'),
      // Its later requests still count.
      '/late': shell(`<script>
        stop();
        fetch('/slow').then(() => (document.body.innerHTML = '<a href=/end>x</a>'));
      </script>`),
      '/slow': (_, response) => void setTimeout(() => response.end('1'), 1_000),
      '/end': shell(''),
    }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: true });
    for (const path of ['/own', '/frame', '/late', '/blank']) {
      const { rendered, missed, links } = lineOf(cluster, path);
      // It would have waited for its document until its time was over.
      assert.deepEqual({ rendered, missed }, { rendered: true, missed: undefined }, path);
      assert.equal(links, ['/frame', '/blank'].includes(path) ? 0 : 1, path);
    }
    assert.equal(site.count('/never'), 0);
  });

  test('browser: a page that waits for a service worker goes on without it', {
    timeout,
  }, async (t) => {
    const site = await new BrowserSite({
      '/': shell(`<script>
        const ready = navigator.serviceWorker.register('/sw.js').catch(() => {});
        ready.then(() => (app.innerHTML = '<a href=/end>x</a>'));
      </script>`),
      '/sw.js': 'addEventListener("fetch", () => {})',
      '/end': shell(''),
    }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: true });
    assert.equal(lineOf(cluster, '/')['links'], 1);
    assert.equal(lineOf(cluster, '/end')['rendered'], true);
    assert.equal(site.count('/sw.js'), 0);
  });

  test('browser: a page with a stream or a shared worker is at rest all the same', {
    timeout,
  }, async (t) => {
    const begun = new Map<string, number>();
    const ended = new Map<string, number>();
    const times = (path: string, body: string): Record<string, Answer> => ({
      [path]: (_, response) => {
        begun.set(path, performance.now());
        response.end(shell(`<a href=/x>x</a><script>${body}</script>`));
      },
      // It is asked for as the page is scrolled, which begins when it has come to rest.
      [`${path}.txt`]: (_, response) => {
        ended.set(path, performance.now());
        response.end('1');
      },
    });
    const scrolled = (path: string) =>
      `document.body.style.height = '5000px'; onscroll = () => fetch('${path}.txt');`;
    const site = await new BrowserSite({
      '/': shell('<a href=/stream>x</a><a href=/shared>x</a>'),
      ...times(
        '/stream',
        `${scrolled('/stream')}
        new EventSource('/events').onmessage = ({ data }) => {
          if (data === 'last') app.innerHTML = '<a href=/end>x</a>';
        };`,
      ),
      ...times('/shared', `${scrolled('/shared')} new SharedWorker('/shared.js');`),
      // Each message comes before the page is at rest after the one before it.
      '/events': (_, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        const say = ['first', 'second', 'third', 'last'];
        const timer = setInterval(() => {
          response.write(`data: ${say.shift()}\n\n`);
          if (say.length === 0) clearInterval(timer);
        }, 150);
      },
      '/shared.js': 'fetch("/never")',
      '/end': shell(''),
    }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: { scroll: 1 } });
    for (const path of ['/stream', '/shared']) {
      const tookMs = (ended.get(path) ?? Number.NaN) - (begun.get(path) ?? Number.NaN);
      // It would have waited for 8 s.
      assert.ok(tookMs < 7_000, `${path}: ${tookMs}`);
    }
    assert.equal(lineOf(cluster, '/end')['rendered'], true);
    assert.equal(site.count('/never'), 0);
  });

  test('browser: a short --fetch-timeout leaves time for scripts', { timeout }, async (t) => {
    const site = await new BrowserSite({
      '/': shell(`<script>
        fetch('/slow').then(() => (app.innerHTML = '<a href=/end>x</a>'));
      </script>`),
      '/slow': (_, response) => void setTimeout(() => response.end('1'), 300),
      '/end': shell(''),
    }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: true, 'fetch-timeout': 4_000 });
    const { links, missed } = lineOf(cluster, '/');
    assert.deepEqual({ links, missed }, { links: 1, missed: undefined });
  });
});
