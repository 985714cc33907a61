/** Pages in a browser: real slaves with a real Chromium, on a real site. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { crawl } from '../../library/main.ts';
import { browserFlags, noBrowser } from '../support/browser.ts';
import { type Answer, BrowserSite, crawled, crawlFile, lineOf } from '../support/browser-site.ts';
import { Cluster, type Program } from '../support/cluster.ts';

const timeout = 180_000;
const skip = noBrowser;

type Row = { url: string; item: Record<string, unknown> };
type Fields = Record<string, unknown>;

function rows(cluster: Cluster): Row[] {
  const text = readFileSync(join(cluster.out, 'c', 'items.jsonl'), 'utf8');
  const lines = text.split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Row);
}

const shell = (script: string) => `<!doctype html><title>shell</title><div id=app></div>${script}`;
const app = `fetch('/api').then((r) => r.json()).then((all) => {
  for (const n of all) {
    const a = document.createElement('a');
    a.href = '/p' + n; a.textContent = n;
    document.getElementById('app').append(a);
  }
});`;
const priced = (n: number) =>
  shell(`<script>app.innerHTML = '<b class=price>' + ${n} + '</b>'</script>`);
const shop: Record<string, Answer> = {
  '/': shell('<script src=/app.js></script>'),
  '/app.js': app,
  '/api': (_, response) => void response.end('[1, 2, 3]'),
  '/p1': priced(1),
  '/p2': '<title>plain</title><b class=price>2</b>',
  '/p3': priced(3),
};
/** Each element that becomes visible brings a row, and the last one the element `done`. */
const byFrames = `<style>@keyframes k { to { opacity: 0 } } #a { animation: k 50ms }</style>
  <div id=a>x</div>
  <script>
    function add(name) {
      app.insertAdjacentHTML('beforeend', '<b class=price>' + name + '</b>');
      if (app.childElementCount === 4) app.id = 'done';
    }
    window.app = document.getElementById('app');
    requestAnimationFrame(() => requestAnimationFrame(() => add('framed')));
    a.addEventListener('animationend', () => add('animated'));
    const once = (name, isSeen) => (entries, all) => {
      if (!entries.some(isSeen)) return;
      all.disconnect();
      add(name);
    };
    new IntersectionObserver(once('seen', (one) => one.isIntersecting)).observe(a);
    new ResizeObserver(once('resized', () => true)).observe(a);
  </script>`;
const items = { book: { fields: { price: { css: '.price::text', required: true } } } };

describe('browser', { skip }, () => {
  test('browser: auto renders only pages without links and items', { timeout }, async (t) => {
    const site = await new BrowserSite(shop).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: 'auto', items });
    const lines = cluster.fetched('c') as unknown as Fields[];
    const rendered = lines.filter((one) => one['rendered']).map((one) => one['url']);
    assert.deepEqual(
      rendered.sort(),
      ['/', '/p1', '/p3'].map((one) => site.url + one),
    );
    const found = rows(cluster).map(({ item }) => item['price']);
    assert.deepEqual(found.sort(), ['1', '2', '3']);
    // Each document was asked for once.
    for (const one of Object.keys(shop)) assert.equal(site.count(one), 1, one);
    assert.equal(lineOf(cluster, '/')['requests'], 2);
  });

  test('browser: auto takes a link to the page itself, or to another site, for none', {
    timeout,
  }, async (t) => {
    const script = '<script>document.body.append("made")</script>';
    const site = await new BrowserSite({
      '/': `<a href=/top>x</a><a href=/again>x</a><a href=/more>x</a><a href=/away>x</a>${script}`,
      '/top': `<a href="#">x</a><a href="#main">x</a><a href="/top#a">x</a>${script}`,
      '/again': `<meta http-equiv=refresh content="300"><a href="mailto:x@y.example">x</a>${script}`,
      '/away': `<noscript><a href="https://enable-scripts.example/">x</a></noscript>${script}`,
      '/more': `<a href="#">x</a><a href="?page=2">x</a>${script}`,
    }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: 'auto', 'max-depth': 1 });
    const rendered = ['/', '/top', '/again', '/more', '/away'].filter(
      (path) => lineOf(cluster, path)['rendered'],
    );
    assert.deepEqual(rendered, ['/top', '/again', '/away']);
  });

  test('browser: the loop of a program has one, too', { timeout }, async (t) => {
    const site = await new BrowserSite(shop).open(t);
    const { folder } = new Cluster(t);
    const found: unknown[] = [];
    const options = {
      ...({ render: 'auto', sandbox: process.getuid?.() !== 0, allowPrivate: true } as const),
      ...({ items, kinds: ['item'], delay: 0 } as const),
      data: join(folder, 'data'),
      out: join(folder, 'out'),
      log: () => {},
    };
    for await (const record of crawl(`${site.url}/`, options)) {
      if (record.kind === 'item') found.push(record.item?.['price']);
    }
    assert.deepEqual(found.sort(), ['1', '2', '3']);
  });

  test('browser: its folders go with a local slave', { timeout }, async (t) => {
    const site = await new BrowserSite({ '/': '<p>x' }).open(t);
    const cluster = new Cluster(t);
    const tmp = join(cluster.folder, 'tmp');
    mkdirSync(tmp);
    const own = { ORB_BROWSER: 'true', ORB_NO_SANDBOX: String(process.getuid?.() === 0) };
    const path = crawlFile(cluster, site, { render: true });
    const master = await cluster.master([path, '--slaves', '1', '--exit-when-done'], {
      env: { ...process.env, ...own, TMPDIR: tmp },
    });
    assert.equal((await master.exited).code, 0, master.output);
    assert.equal(lineOf(cluster, '/')['rendered'], true);
    assert.deepEqual(readdirSync(tmp), []);
  });

  test('browser: try shows a page as its scripts made it', { timeout }, async (t) => {
    const site = await new BrowserSite({
      ...shop,
      '/on': shell(`<script>setTimeout(() => { location = '/p1' }, 1)</script>`),
      '/robots.txt': 'User-agent: *\nDisallow: /p3',
      '/off': shell(`<script>location = '/p3'</script>`),
    }).open(t);
    const cluster = new Cluster(t);
    const path = crawlFile(cluster, site, { render: true, items });
    const env = { ...process.env, ORB_NO_SANDBOX: String(process.getuid?.() === 0) };
    const tried = async (at: string) => {
      const program = cluster.run(['master.js', 'try', path, site.url + at], { env });
      const { code } = await program.exited;
      return [code, program.output] as const;
    };
    const [[code, output], [, off]] = await Promise.all([tried('/on'), tried('/off')]);
    assert.equal(code, 0, output);
    assert.match(
      output,
      /\/p1: status 200[\s\S]*rendered in a browser, with 0 requests[\s\S]*"price":"1"/,
    );
    assert.match(off, /\/off: status 200/);
    assert.equal(site.count('/p3'), 0);
  });

  test('browser: a page that begins a download, or gets no content, stays what it is', {
    timeout,
  }, async (t) => {
    const goesTo = (to: string) =>
      shell(`<a href=/end>x</a><b class=price id=b></b>
        <script>b.textContent = 5; setTimeout(() => (location = '${to}'))</script>`);
    const site = await new BrowserSite({
      '/': shell('<a href=/zip>x</a><a href=/none>x</a>'),
      '/zip': goesTo('/file.zip'),
      '/file.zip': (_, response) =>
        void response.writeHead(200, { 'content-type': 'application/zip' }).end('PK'),
      '/none': goesTo('/204'),
      '/204': (_, response) => void response.writeHead(204).end(),
      '/end': shell(''),
    }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: true, items });
    for (const [path, to] of Object.entries({ '/zip': '/file.zip', '/none': '/204' })) {
      const line = lineOf(cluster, path);
      assert.equal(site.count(to), 1);
      assert.equal(line['rendered'], true, path);
      assert.equal(line['finalUrl'], site.url + path);
    }
    assert.deepEqual(
      rows(cluster).map(({ item }) => item['price']),
      ['5', '5'],
    );
  });

  test('browser: a page that is loaded again has the cookies of its scripts', {
    timeout,
  }, async (t) => {
    const asked: string[] = [];
    const site = await new BrowserSite({
      '/': ({ headers: { cookie = '' } }, response) => {
        asked.push(cookie);
        response.setHeader('set-cookie', 'own=1; Path=/');
        response.setHeader('content-type', 'text/html');
        response.end(
          cookie.includes('wall=a')
            ? '<a href=/inside>x</a>'
            : shell(`<script>document.cookie = 'wall=a; path=/'; location.reload()</script>`),
        );
      },
      '/inside': ({ headers: { cookie = '' } }, response) => {
        asked.push(cookie);
        response.end();
      },
    }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: true });
    assert.equal(lineOf(cluster, '/')['links'], 1);
    assert.equal(lineOf(cluster, '/')['missed'], undefined);
    assert.deepEqual(asked, ['', 'own=1; wall=a', 'own=1; wall=a']);
  });

  test('browser: cookies above ASCII keep their bytes, each in its own encoding', {
    timeout,
  }, async (t) => {
    const asked: string[] = [];
    const given = ['utf8=K\xc3\xb6ln', 'old=K\xf6ln', 'own=1'];
    const site = await new BrowserSite({
      '/': ({ headers: { cookie = '' } }, response) => {
        asked.push(cookie);
        if (asked.length === 1) response.setHeader('set-cookie', given);
        response.setHeader('content-type', 'text/html');
        const body =
          asked.length > 1
            ? '<a href=/inside>x</a>'
            : shell(`<script>
                document.cookie = 'seen=' + encodeURIComponent(document.cookie);
                location.reload()</script>`);
        // With a text Node would encode the head as UTF-8, too.
        response.end(Buffer.from(body));
      },
      '/inside': ({ headers: { cookie = '' } }, response) => {
        asked.push(cookie);
        response.end();
      },
    }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: true });
    const seen = encodeURIComponent('utf8=Köln; old=Köln; own=1');
    const all = [...given, `seen=${seen}`].join('; ');
    assert.deepEqual(asked, ['', all, all]);
  });

  test('browser: frames and further documents wait for their turn', { timeout }, async (t) => {
    const framed = await new BrowserSite({ '/f': '<p>in a frame' }).open(t);
    const site = await new BrowserSite({
      '/': shell(`<script>location = '/moved'</script>`),
      '/moved': shell(`<iframe src="/own"></iframe><iframe src="${framed.url}/f"></iframe>
        <a href="/gone">x</a>`),
      '/own': '<p>own',
      '/robots.txt': 'User-agent: *\nDisallow: /secret',
      '/gone': shell(
        `<script>location = '${framed.url}/out'</script><iframe src=/secret></iframe>`,
      ),
    }).open(t);
    const cluster = new Cluster(t);
    const more = { delay: 400, 'allow-private': ['127.0.0.0/8'] };
    await crawled(cluster, site, { render: true, ...more });
    const documents = site.asked.filter(({ path }) => path !== '/robots.txt');
    assert.deepEqual(
      documents.map(({ path }) => path),
      ['/', '/moved', '/own', '/gone'],
    );
    for (const [i, { at, path }] of documents.entries()) {
      const before = documents[i - 1];
      if (before !== undefined) assert.ok(at - before.at >= 390, `${path}: ${at - before.at}`);
    }
    assert.equal(framed.count('/f'), 1);
    assert.equal(framed.count('/out'), 0);
    assert.equal(lineOf(cluster, '/')['finalUrl'], `${site.url}/moved`);
  });

  test('browser: wait, click and scroll bring what a page shows later', { timeout }, async (t) => {
    const late = `<button id=more onclick="add('clicked')">more</button>
      <script>
        function add(name) {
          app.insertAdjacentHTML('beforeend', '<b class=price>' + name + '</b>');
        }
        setTimeout(() => { add('late'); app.id = 'done'; window.app = done; }, 1200);
        let n = 0;
        addEventListener('scroll', () => {
          if (n++ === 0) { add('scrolled'); document.body.style.height = '9000px'; }
        });
        document.body.style.height = '5000px';
      </script>`;
    const site = await new BrowserSite({
      '/': shell(`${late}<a href=/frames>x</a>`),
      '/frames': shell(byFrames),
    }).open(t);
    const cluster = new Cluster(t);
    const render = { wait: '#done', click: '#more', clicks: 2, scroll: 3 };
    const all = { book: { each: '.price', fields: { name: { css: '::text' } } } };
    await crawled(cluster, site, { render, items: all });
    const found = rows(cluster);
    const namesOf = (path: string) =>
      found.filter(({ url }) => new URL(url).pathname === path).map(({ item }) => item['name']);
    assert.deepEqual(namesOf('/'), ['late', 'clicked', 'clicked', 'scrolled']);
    assert.equal(lineOf(cluster, '/')['missed'], undefined);
    // These come only if the browser makes frames.
    assert.deepEqual(namesOf('/frames').sort(), ['animated', 'framed', 'resized', 'seen']);
  });

  test('browser: a slave that stands still does not take a page for loaded', {
    timeout,
  }, async (t) => {
    let slave: Program | undefined;
    const script = `fetch('/first').then(() => setTimeout(() => fetch('/second').then(() => {
      app.innerHTML = '<b class=price>1</b>';
    }), 200));`;
    const site = await new BrowserSite({
      '/': shell(`<script>${script}</script>`),
      '/first': (_, response) => {
        response.end('1');
        // The page seems to be at rest when the slave goes on: it has not heard of the second one.
        setTimeout(() => slave?.signal('SIGSTOP'), 80);
        setTimeout(() => slave?.signal('SIGCONT'), 1_200);
      },
      '/second': '2',
    }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: true, items }, (started) => {
      slave = started;
    });
    assert.deepEqual(
      rows(cluster).map(({ item }) => item['price']),
      ['1'],
    );
  });

  test('browser: what a page lacks is in its line', { timeout }, async (t) => {
    const site = await new BrowserSite({ '/': shell('<a href=/x>x</a>') }).open(t);
    const cluster = new Cluster(t);
    const render = { wait: '.never', click: '.nowhere' };
    await crawled(cluster, site, { render, 'fetch-timeout': 9_000, 'max-depth': 0 });
    assert.deepEqual(lineOf(cluster, '/')['missed'], ['wait', 'click']);
  });

  test('browser: a host waits longer after many requests', { timeout }, async (t) => {
    const scripts = Array.from({ length: 20 }, (_, i) => `<script src="/s${i}.js"></script>`);
    const pages: Record<string, Answer> = { '/': shell(`${scripts.join('')}<a href=/next>x</a>`) };
    for (let i = 0; i < 20; i++) pages[`/s${i}.js`] = '1';
    const site = await new BrowserSite({ ...pages, '/next': '<p>next' }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: true, delay: 1_000 });
    const last = site.asked.filter(({ path }) => path.startsWith('/s')).at(-1)?.at ?? 0;
    const next = site.asked.find(({ path }) => path === '/next')?.at ?? 0;
    // Its delay, and twice that for 20 requests.
    assert.ok(next - last >= 2_900, `${next - last}`);
    assert.equal(lineOf(cluster, '/')['requests'], 20);
  });

  test('browser: limits of requests, fonts and media', { timeout }, async (t) => {
    const loop = `<style>@font-face { font-family: f; src: url(/f.woff2) } body { font-family: f }
      </style><p>text</p><video src=/v.mp4 autoplay></video>
      <script>for (let i = 0; i < 300; i++) fetch('/r?' + i)</script>`;
    let atOnce = 0;
    let most = 0;
    const site = await new BrowserSite({
      '/': shell(loop),
      '/r': (_, response) => {
        most = Math.max(most, ++atOnce);
        setTimeout(() => {
          atOnce--;
          response.end('1');
        }, 5);
      },
    }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: true });
    const asked = site.asked.filter(({ path }) => path.startsWith('/r?')).length;
    assert.ok(asked <= 200 && asked > 150, `${asked}`);
    assert.ok(most <= 6, `${most}`);
    assert.deepEqual([site.count('/f.woff2'), site.count('/v.mp4')], [0, 0]);
    assert.deepEqual(lineOf(cluster, '/')['missed'], ['limit']);
  });

  test('browser: WebSockets count as requests', { timeout }, async (t) => {
    const site = await new BrowserSite({
      '/': shell(`<p>text</p><script>
        for (let i = 0; i < 20; i++) new WebSocket('ws://' + location.host + '/w');
      </script>`),
    }).open(t);
    const cluster = new Cluster(t);
    await crawled(cluster, site, { render: true });
    assert.equal(lineOf(cluster, '/')['requests'], 20);
  });
});

test('browser: a crawl waits for a slave with a browser', { timeout, skip }, async (t) => {
  const site = await new BrowserSite({ '/': '<p>x' }).open(t);
  const cluster = new Cluster(t);
  const path = crawlFile(cluster, site, { render: true });
  const master = await cluster.master([path, '--exit-when-done']);
  const plain = cluster.slave();
  await plain.said(/joined|connected/);
  assert.match(await cluster.ask('status'), /c: waits for a slave with a browser: start one with/);
  const none = cluster.slave(['--browser', '--no-sandbox', '--browser-program', '/nowhere/x']);
  await none.said(/no browser: \/nowhere\/x is no program; see --browser-program/);
  assert.equal(site.count('/'), 0);
  cluster.slave(browserFlags);
  assert.equal((await master.exited).code, 0, master.output);
  assert.equal(lineOf(cluster, '/')['rendered'], true);
});

test('browser: root needs --no-sandbox', { timeout, skip: process.getuid?.() !== 0 }, async (t) => {
  const cluster = new Cluster(t);
  const slave = cluster.run(['slave.js', '--browser', '--master', '127.0.0.1:1'], {
    env: { ...process.env, ORB_AUTHKEY: 'a'.repeat(32), ORB_NO_SANDBOX: 'false' },
  });
  const { code } = await slave.exited;
  assert.equal(code, 2, slave.output);
  assert.match(
    slave.output,
    /--browser does not run as root: start the slave as a user of its own/,
  );
});
