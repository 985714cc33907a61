/** `why`: why a URL was fetched, or was not, by a running master, a stopped one, and over both. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { HostRow } from '../../shared/protocol.ts';
import type { UrlFate } from '../../shared/url-fate.ts';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';

const timeout = 60_000;

type Told = Omit<UrlFate, 'line'> & {
  readonly url: string;
  readonly crawl: string;
  readonly line?: Record<string, unknown>;
};

const robots = [
  ...['User-agent: *', 'Disallow: /', '', '# for us', 'User-agent: orbweaver'],
  ...['Allow: /hidden/ok', 'Disallow: /hidden', 'Sitemap: /map.xml'],
].join('\r\n');

const html: Readonly<Record<string, string>> = {
  '/': [
    ...['/a', '/gone', '/ill', '/moved', '/again', '/file', '/secret/x', '/hidden/x', '/hidden/ok'],
    ...[
      'http://elsewhere.example/',
      '/deep/1',
      '/s?x=1&PHPSESSID=abc',
      '/twin',
      '/r/r/r/r/r/r/r/r',
    ],
    ...['/no', `/${'long'.repeat(600)}`],
  ]
    .map((link) => `<a href="${link}">x</a>`)
    .join(''),
  '/a': '<img src="/a.png"><a href="/">home</a>',
  '/target': 'reached',
  '/hidden/ok': 'ok',
  '/deep/1': '<a href="/deep/2">on</a>',
  '/deep/2': '<a href="/deep/3">on</a>',
  '/s?x=1&PHPSESSID=abc': 'with a session',
  '/twin': '<link rel="canonical" href="/named">',
  '/no': '<meta name="robots" content="noindex">',
};

/** A site with every kind of answer. `home` is called when its first page is asked for, which is
 *  answered when that resolves. */
async function oddSite(
  t: TestContext,
  home: () => Promise<void> | void = () => {},
): Promise<string> {
  const port = await httpServer(t, async (request, response) => {
    const { url = '' } = request;
    if (url === '/') await home();
    const moved: Record<string, string> = { '/moved': '/target', '/again': '/a' };
    if (url === '/robots.txt') response.end(robots);
    else if (url === '/map.xml') response.end('<urlset><url><loc>/a</loc></url></urlset>');
    else if (url === '/ill') response.writeHead(503).end();
    else if (url === '/file') response.setHeader('content-type', 'application/pdf').end('%PDF');
    else if (moved[url]) response.writeHead(302, { location: moved[url] }).end();
    else if (html[url] === undefined) response.writeHead(404).end();
    else response.setHeader('content-type', 'text/html').end(html[url]);
  });
  return `http://127.0.0.1:${port}`;
}

/** Asks the running master, or with `folders` the stopped one. */
async function why(cluster: Cluster, ...args: readonly string[]): Promise<Told[]> {
  const isStopped = args.includes('--data');
  if (!isStopped) return JSON.parse(await cluster.ask('why', '--json', ...args)) as Told[];
  const program = cluster.run(['master.js', 'why', '--json', ...args]);
  assert.equal((await program.exited).code, 0, program.output);
  return JSON.parse(program.stdout) as Told[];
}

/** The parts of a fate that the cases below compare. */
function briefly({ url, state, kind, text, from, rule, by, line }: Told): unknown[] {
  const [first = ''] = text;
  return [
    new URL(url).pathname.slice(0, 12),
    state,
    kind ?? 'page',
    first,
    from,
    rule,
    by,
    line?.['url'],
  ];
}

describe('why', { concurrency: 2 }, () => {
  test('why: every outcome of a URL is told, with a master, without one, and after a kill', {
    timeout,
  }, async (t) => {
    const site = await oddSite(t);
    const cluster = new Cluster(t);
    const options = ['--attempts', '1', '--max-depth', '2', '--exclude', 'nothing', '--canonical'];
    const obeyed = ['--exclude', '/(secret|private)/', '--obey', 'all'];
    const master = await cluster.master([`${site}/`, ...options, ...obeyed]);
    cluster.slave();
    await master.said(/crawl default is done/);

    const home = `${site}/`;
    const { host } = new URL(site);
    const urlOf = (path: string) => new URL(path, home).href;
    /** Path, state, kind, first line of text, from, rule, by, and the line's URL. */
    const cases: readonly (readonly unknown[])[] = [
      [
        '/',
        'done',
        'page',
        /^it was fetched: status 200, 16 links, 0 images$/,
        undefined,
        undefined,
        undefined,
        home,
      ],
      [
        '/a',
        'done',
        'page',
        /^it was fetched: status 200, 1 link, 1 image$/,
        home,
        undefined,
        undefined,
        urlOf('/a'),
      ],
      [
        '/gone',
        'done',
        'page',
        /^it failed after 1 attempt: status: 404 Not Found$/,
        home,
        undefined,
        undefined,
        urlOf('/gone'),
      ],
      [
        '/ill',
        'buried',
        'page',
        /^it was given up after 1 attempt: status: 503/,
        home,
        undefined,
        undefined,
        undefined,
      ],
      [
        '/target',
        'done',
        'page',
        /\/moved redirects to it, and counts under its name: it was fetched/,
        home,
        undefined,
        { url: urlOf('/moved'), field: 'finalUrl' },
        urlOf('/moved'),
      ],
      [
        '/moved',
        'done',
        'page',
        /^it was fetched: status 200, redirected to .*\/target, 0 links/,
        home,
        undefined,
        undefined,
        urlOf('/moved'),
      ],
      [
        '/again',
        'done',
        'page',
        /^it redirects to .*\/a$/,
        home,
        undefined,
        undefined,
        urlOf('/again'),
      ],
      [
        '/file',
        'done',
        'page',
        /^it was fetched, and it is not a page: status 200, application\/pdf$/,
        home,
        undefined,
        undefined,
        urlOf('/file'),
      ],
      [
        '/no',
        'done',
        'page',
        /^it was fetched and left out: it says noindex, see --obey$/,
        home,
        undefined,
        undefined,
        urlOf('/no'),
      ],
      [
        '/hidden/x',
        'done',
        'page',
        /^it was left out: robots.txt disallowed it$/,
        home,
        { by: 'robots', line: 7, pattern: 'Disallow: /hidden' },
        undefined,
        urlOf('/hidden/x'),
      ],
      [
        '/hidden/ok',
        'done',
        'page',
        /^it was fetched/,
        home,
        undefined,
        undefined,
        urlOf('/hidden/ok'),
      ],
      [
        '/secret/x',
        'skipped',
        'page',
        /^a link to it was skipped: it is refused by --exclude "\/\(secret\|private\)\/"$/,
        home,
        { by: 'exclude', pattern: '/(secret|private)/' },
        undefined,
        urlOf('/secret/x'),
      ],
      [
        '/deep/3',
        'skipped',
        'page',
        /refused by --max-depth 2: it is linked too deep$/,
        urlOf('/deep/2'),
        { by: 'depth' },
        undefined,
        urlOf('/deep/3'),
      ],
      [
        '/r/r/r/r/r/r/r/r',
        'skipped',
        'page',
        /as a trap: --traps repeats=5; segments of its path repeat$/,
        home,
        { by: 'repeats' },
        undefined,
        urlOf('/r/r/r/r/r/r/r/r'),
      ],
      [
        `/${'long'.repeat(600)}`,
        'skipped',
        'page',
        /--traps length=2083; it has 2,4\d\d characters$/,
        home,
        { by: 'length' },
        undefined,
        urlOf(`/${'long'.repeat(600)}`),
      ],
      [
        'http://elsewhere.example/',
        'skipped',
        'page',
        new RegExp(`refused by --scope host: it is not on the hosts of its seeds \\(${host}\\)$`),
        home,
        { by: 'host' },
        undefined,
        'http://elsewhere.example/',
      ],
      [
        '/s?x=1',
        'gone',
        'page',
        /differs by a session id/,
        undefined,
        undefined,
        undefined,
        undefined,
      ],
      [
        '/s?x=1&PHPSESSID=def',
        'unknown',
        'page',
        /refused as a trap: --traps session=1; it differs by a session id from .*\/s\?x=1$/,
        undefined,
        { by: 'session' },
        undefined,
        undefined,
      ],
      [
        '/named',
        'unknown',
        'page',
        /^nobody has offered it: no page, sitemap or seed$/,
        undefined,
        undefined,
        { url: urlOf('/twin'), field: 'canonical' },
        undefined,
      ],
      [
        '/map.xml',
        'done',
        'sitemap',
        /^it was read as a sitemap: urlset, \d URL/,
        undefined,
        undefined,
        undefined,
        urlOf('/map.xml'),
      ],
      [
        '/never',
        'unknown',
        'page',
        /^nobody has offered it: no page, sitemap or seed$/,
        undefined,
        undefined,
        undefined,
        undefined,
      ],
      [
        '/private/9',
        'unknown',
        'page',
        /^nobody has offered it, and it would be refused by --exclude/,
        undefined,
        { by: 'exclude', pattern: '/(secret|private)/' },
        undefined,
        undefined,
      ],
      [
        '/hidden/z',
        'unknown',
        'page',
        /would be disallowed by line 7 of robots\.txt of .*: Disallow: \/hidden$/,
        undefined,
        { by: 'robots', line: 7, pattern: 'Disallow: /hidden' },
        undefined,
        undefined,
      ],
      [
        'http://10.1.2.3/',
        'unknown',
        'page',
        /would be refused by --scope host/,
        undefined,
        { by: 'host' },
        undefined,
        undefined,
      ],
    ];
    const urls = cases.map(([path]) => urlOf(String(path)));
    const running = await why(cluster, ...urls);
    assert.equal(running.length, cases.length);
    for (const [i, told] of running.entries()) {
      const [path, state, kind, text, from, rule, by, line] = cases[i] ?? [];
      const got = briefly(told);
      const said = JSON.stringify(got);
      assert.match(String(got[3]), text as RegExp, said);
      assert.deepEqual(
        [told.url, ...got.slice(1, 3), ...got.slice(4)],
        [urlOf(String(path)), state, kind, from, rule, by, line],
        said,
      );
    }
    // Not as it is written, but as the crawl has it.
    const [spelled] = await why(cluster, `HTTP://127.0.0.1:${host.split(':')[1]}/x/../a#part`);
    assert.deepEqual([spelled?.url, spelled?.state], [urlOf('/a'), 'done']);
    const image = await why(cluster, urlOf('/a.png'));
    assert.match(image[0]?.text.join() ?? '', /it is an image of some page/);
    const file = await why(cluster, urlOf('/robots.txt'));
    assert.match(file[0]?.text.join() ?? '', /robots\.txt of its host/);

    const text = await cluster.ask('why', urlOf('/a'), urlOf('/private/9'));
    assert.match(
      text,
      /\/a\n {2}default: it was fetched.*\n {4}at 20.* by slave slave-1\n {4}first found on /,
    );
    assert.match(text, /"images":1/);

    await master.kill('SIGKILL');
    const folders = ['--data', cluster.data, '--out', cluster.out];
    assert.deepEqual(await why(cluster, ...folders, ...urls), running);
    const other = await why(cluster, ...folders, '--crawl', 'default', urlOf('/a'));
    assert.deepEqual(other, running.slice(1, 2));
    rmSync(join(cluster.out, 'default/pages.jsonl'));
    const [lost] = await why(cluster, ...folders, urlOf('/a'));
    assert.equal(lost?.state, 'gone');
    assert.match(lost?.text[0] ?? '', /in a file that is not there any more/);
  });

  test('why: an open URL says what it waits for', { timeout }, async (t) => {
    let answer = () => {};
    let isAsked = () => {};
    const asked = new Promise<void>((resolve) => {
      isAsked = resolve;
    });
    const site = await oddSite(t, () => {
      isAsked();
      return new Promise((resolve) => {
        answer = resolve;
      });
    });
    const cluster = new Cluster(t);
    const master = await cluster.master([`${site}/`, '--per-host', '1', '--crawl', 'slow']);
    const home = `${site}/`;
    const waitsOf = async (url: string, ...more: readonly string[]) => {
      const [told] = await why(cluster, url, '--crawl', 'slow', ...more);
      return { told, what: told?.waitsFor?.map(({ what }) => what) };
    };
    // Its master serves before it has taken its seeds.
    while ((await waitsOf(home)).what === undefined);
    assert.deepEqual((await waitsOf(home)).what, ['slaves', 'robots']);
    cluster.slave();
    await asked;
    const leased = await waitsOf(home);
    assert.deepEqual([leased.told?.state, leased.told?.slave], ['leased', 'slave-1']);
    await cluster.ask('host', site, '--delay', '600000');
    answer();
    await cluster.grown('pages.jsonl', 0, 'slow');
    const next = await waitsOf(`${site}/map.xml`);
    assert.deepEqual([next.what, next.told?.kind, next.told?.before], [['pace'], 'sitemap', 0]);
    assert.ok((next.told?.dueAt ?? 0) > Date.now() + 300_000, JSON.stringify(next));
    const { told, what } = await waitsOf(`${site}/a`);
    assert.deepEqual([told?.state, told?.from, told?.depth, told?.before], ['waiting', home, 1, 1]);
    assert.deepEqual(what, ['pace', 'queue']);
    assert.match(told?.text.join() ?? '', /1 URL of 127.* comes first, which takes? 10 min/);
    const barred = await waitsOf(`${site}/hidden/x`);
    assert.match(barred.told?.text.join() ?? '', /when its turn comes, it is disallowed by line 7/);

    await cluster.ask('host', site, '--block');
    assert.deepEqual((await waitsOf(`${site}/a`)).what, ['blocked', 'pace', 'queue']);
    await cluster.ask('pause', 'slow');
    assert.deepEqual((await waitsOf(`${site}/a`)).what?.slice(0, 2), ['crawl', 'blocked']);
    await master.kill('SIGKILL');
    const folders = ['--data', cluster.data, '--out', cluster.out];
    const stopped = await waitsOf(`${site}/a`, ...folders);
    assert.deepEqual(stopped.what?.slice(0, 3), ['crawl', 'master', 'blocked']);
  });

  test('why: attempts and the last failure of a URL that is tried again, over a kill', {
    timeout,
  }, async (t) => {
    const port = await httpServer(t, (request, response) => {
      if (request.url === '/robots.txt') response.writeHead(404).end();
      else response.writeHead(503, { 'retry-after': '600' }).end();
    });
    const url = `http://127.0.0.1:${port}/`;
    const cluster = new Cluster(t);
    const master = await cluster.master([url, '--log-level', 'debug', '--exit-when-done']);
    cluster.slave();
    await master.said(/503/);
    const told = async (...more: readonly string[]) => (await why(cluster, url, ...more))[0];
    let first = await told();
    // The line of the log comes before the commit.
    while (first?.attempts === 0) first = await told();
    assert.deepEqual([first?.attempts, first?.attemptsMax, first?.error?.kind], [1, 4, 'status']);
    assert.match(first?.error?.message ?? '', /^503/);
    const waits = first?.waitsFor?.map(({ what }) => what) ?? [];
    assert.ok(waits.includes('retry'), `${waits}`);
    const host: HostRow | undefined = first?.host;
    assert.equal(host?.host, url.slice(0, -1));
    await master.kill('SIGKILL');
    const stopped = await told('--data', cluster.data, '--out', cluster.out);
    assert.deepEqual(stopped?.error, first?.error);
    assert.match(stopped?.text.join() ?? '', /1 attempt of 4 failed, the last: status: 503/);
  });

  test('why: of several crawls, those that know the URL', { timeout }, async (t) => {
    const site = await oddSite(t);
    const cluster = new Cluster(t);
    const master = await cluster.master([`${site}/a`, '--crawl', 'one', '--max-depth', '0']);
    cluster.slave();
    await master.said(/crawl one is done/);
    await cluster.ask('add', '--crawl', 'two', '--max-pages', '1', '--max-depth', '5', `${site}/`);
    await master.said(/crawl two is done/);
    const text = await cluster.ask('why', `${site}/gone`);
    assert.match(text, / two: it waits: the crawl stopped at --max-pages 1/);
    assert.doesNotMatch(text, / one: /);
    const none = await cluster.ask('why', `${site}/none`);
    assert.match(none, / one: nobody has offered it, and it would be refused by --max-depth 0/);
    assert.match(none, / two: nobody has offered it/);
    assert.deepEqual((await why(cluster, '--crawl', 'one', `${site}/a`)).length, 1);
    await cluster.ask('cancel', 'two');
    const [cancelled] = await why(cluster, '--crawl', 'two', `${site}/gone`);
    assert.match(cancelled?.text[0] ?? '', /the crawl was cancelled/);
    const [done] = await why(cluster, '--crawl', 'two', `${site}/`);
    assert.equal(done?.state, 'done');
    await cluster.ask('add', '--crawl', 'three', '--max-depth', '1', '--attempts', '1', `${site}/`);
    await master.said(/crawl three is done/);
    await cluster.ask('cancel', 'three');
    const [map] = await why(cluster, '--crawl', 'three', `${site}/map.xml`);
    assert.deepEqual([map?.kind, map?.state], ['sitemap', 'done']);
  });

  test('why: an open URL that was set to be left out', { timeout }, async (t) => {
    const site = await oddSite(t);
    const cluster = new Cluster(t);
    const master = await cluster.master([`${site}/`, '--max-pages', '1']);
    cluster.slave();
    await master.said(/crawl default is done/);
    await cluster.ask('set', 'default', '--exclude', '/gone');
    const told = async (path: string, ...more: readonly string[]) =>
      (await why(cluster, `${site}${path}`, ...more))[0];
    const left = /left out when its turn comes, .*: it is refused by --exclude "\/gone"/;
    const [first, other] = [await told('/gone'), await told('/a')];
    assert.match(first?.text[0] ?? '', left);
    assert.deepEqual(first?.rule, { by: 'exclude', pattern: '/gone' });
    assert.equal(first?.state, 'waiting');
    assert.match(other?.text[0] ?? '', /it waits: the crawl stopped at --max-pages 1/);
    await master.kill('SIGKILL');
    const stopped = await told('/gone', '--data', cluster.data, '--out', cluster.out);
    assert.match(stopped?.text[0] ?? '', left);
  });

  test('why: what cannot be answered is one line with exit code 2', { timeout }, async (t) => {
    const cluster = new Cluster(t);
    const refused = async (pattern: RegExp, ...args: readonly string[]) => {
      const program = cluster.run(['master.js', 'why', ...args]);
      assert.equal((await program.exited).code, 2, program.output);
      assert.match(program.output, pattern);
      assert.equal(program.output.trim().split('\n').length, 1, program.output);
    };
    const folders = ['--data', cluster.data, '--out', cluster.out];
    await refused(
      /the URL "site" is not an http or https URL; write it in full: https:\/\/site/,
      'site',
    );
    await refused(/links of more than 4096 are dropped/, `http://a/${'x'.repeat(5_000)}`);
    await refused(/there is no store in/, ...folders, 'http://a/');
    const master = await cluster.master([]);
    await refused(/is in use by the master/, ...folders, 'http://a/');
    await master.kill('SIGTERM');
    await refused(/there is no crawl "none"/, ...folders, '--crawl', 'none', 'http://a/');
  });
});
