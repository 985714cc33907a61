/** Why a crawl ended: the line, the status, and the exit code. Names are those of a proxy. */
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type TestContext, test } from 'node:test';
import type { CrawlStatus } from '../../shared/protocol.ts';
import { Cluster, type Exit } from '../support/cluster.ts';
import { readPages } from '../support/exact.ts';
import { httpServer } from '../support/http-server.ts';
import { TestProxy } from '../support/proxy.ts';

const timeout = 60_000;

type Answer = (request: IncomingMessage, response: ServerResponse) => void;
/** Answers by host and path; 404 for all else. */
type Web = Record<string, Answer>;

const page =
  (...links: string[]): Answer =>
  (_, response) => {
    response.setHeader('content-type', 'text/html');
    response.end(links.map((link) => `<a href="${link}">x</a>`).join(''));
  };
const answer =
  (status: number, headers: Record<string, string> = {}): Answer =>
  (_, response) => {
    response.writeHead(status, headers).end('x');
  };
const redirect = (to: string) => answer(301, { location: to });

async function webFor(t: TestContext, web: Web): Promise<string> {
  const port = await httpServer(t, (request, response) => {
    const found = web[`${request.headers.host}${request.url}`] ?? answer(404);
    found(request, response);
  });
  const hosts = Object.keys(web).map((key) => key.slice(0, key.indexOf('/')));
  const routes = new Map(
    hosts.map((host) => [host.includes(':') ? host : `${host}:80`, port] as const),
  );
  const proxy = await TestProxy.start({ routes });
  t.after(() => proxy.close());
  return proxy.url;
}

type Ended = { readonly exit: Exit; readonly output: string; readonly cluster: Cluster };

/** Crawls with one slave until the master leaves. */
async function crawled(cluster: Cluster, proxy: string, args: readonly string[]): Promise<Ended> {
  const quick = ['--exit-when-done', '--slaves', '1', '--delay', '0', '--attempts', '1'];
  const master = await cluster.master([...args, ...quick, '--proxy', proxy]);
  const exit = await master.exited;
  return { exit, output: master.output, cluster };
}

async function status(cluster: Cluster): Promise<CrawlStatus | undefined> {
  const master = await cluster.master([]);
  const { crawls } = JSON.parse(await cluster.ask('status', '--json'));
  await master.kill('SIGTERM');
  return crawls[0];
}

test('endings: a seed leads to the host of its site where it redirects', { timeout }, async (t) => {
  const proxy = await webFor(t, {
    'example.org/': redirect('http://www.example.org/home'),
    'www.example.org/home': page('/a', 'http://shop.example.org/'),
    'www.example.org/a': page(),
    'shop.example.org/': page(),
  });
  const { exit, output, cluster } = await crawled(new Cluster(t), proxy, ['http://example.org/']);
  assert.equal(exit.code, 0);
  assert.match(
    output,
    /example\.org\/ redirects to http:\/\/www\.example\.org\/home: its host joins/,
  );
  const lines = new Map(readPages(cluster).map((line) => [line.url, line]));
  assert.deepEqual([...lines].map(([url, { from }]) => [url, from]).sort(), [
    ['http://example.org/', undefined],
    ['http://www.example.org/a', 'http://www.example.org/home'],
    ['http://www.example.org/home', 'http://example.org/'],
  ]);
  assert.equal(lines.get('http://www.example.org/home')?.depth, 0);
  assert.equal((await status(cluster))?.ending?.why, 'finished');
});

test('endings: a chain of redirects is followed five times', { timeout }, async (t) => {
  const chain = (n: number): Web =>
    Object.fromEntries(
      Array.from({ length: n }, (_, i) => [
        `h${i}.example.org/`,
        redirect(`http://h${i + 1}.example.org/`),
      ]),
    );
  const five = await webFor(t, { ...chain(5), 'h5.example.org/': page() });
  assert.equal((await crawled(new Cluster(t), five, ['http://h0.example.org/'])).exit.code, 0);
  const six = await webFor(t, { ...chain(6), 'h6.example.org/': page() });
  const { exit, output } = await crawled(new Cluster(t), six, ['http://h0.example.org/']);
  assert.equal(exit.code, 4);
  assert.match(output, /no seed was answered: .*its sixth redirect/);
});

test('endings: where a seed redirects to in scope is the seed', { timeout }, async (t) => {
  const proxy = await webFor(t, {
    'example.org/': redirect('http://other.org/home'),
    'example.org/private': redirect('/forbidden'),
    'example.org/robots.txt': (_, response) => response.end('User-agent: *\nDisallow: /forb'),
    'other.org/home': page('/a'),
    'other.org/a': page(),
  });
  const seed = ['http://example.org/', '--scope', 'any'];
  for (const [args, pages, why] of [
    [['--max-depth', '0'], ['/home'], /all links were skipped: 1 link lies deeper than/],
    [['--max-pages', '1'], ['/home'], /stopped at --max-pages 1 with 1 URL left/],
    [[], ['/a', '/home'], /every URL in scope was fetched/],
  ] as const) {
    const { exit, output, cluster } = await crawled(new Cluster(t), proxy, [...seed, ...args]);
    assert.equal(exit.code, 0, output);
    assert.match(output, why);
    const paths = cluster.pages().map((url) => url.replace('http://other.org', ''));
    assert.deepEqual(paths.sort(), pages);
  }
  for (const [url, why] of [
    ['http://example.org/private', /: http:\/\/example\.org\/forbidden is disallowed by robots/],
    ['http://example.org/', /: http:\/\/other\.org\/home is out|: .* --exclude leaves out/],
  ] as const) {
    const args = [url, '--scope', 'any', '--exclude', 'other'];
    const { exit, output } = await crawled(new Cluster(t), proxy, args);
    assert.equal(exit.code, 4, output);
    assert.match(output, new RegExp(`no seed was answered${why.source}`));
  }
});

test('endings: another site, port, address or public suffix is not followed', {
  timeout,
}, async (t) => {
  const targets = [
    'http://other.org/',
    'http://example.org:8080/',
    'http://127.0.0.1/',
    'http://169.254.169.254/latest',
    'http://b.github.io/',
  ];
  for (const target of targets) {
    const host = target.includes('github') ? 'a.github.io' : 'example.org';
    const proxy = await webFor(t, { [`${host}/`]: redirect(target), 'other.org/': page() });
    const { exit, output } = await crawled(new Cluster(t), proxy, [`http://${host}/`]);
    assert.equal(exit.code, 4, target);
    assert.match(output, /another site; start there, or use --scope any/);
    assert.doesNotMatch(output, /joins the scope/);
  }
});

const unanswered: readonly (readonly [string, Web, RegExp])[] = [
  ['a seed that wants a password', { 'example.org/': answer(401) }, /401/],
  [
    'a seed that is not there',
    { 'example.org/other': page() },
    /example\.org\/ failed \(status: 404/,
  ],
  [
    'a seed that robots.txt disallows',
    {
      'example.org/robots.txt': (_, response) => response.end('User-agent: *\nDisallow: /'),
      'example.org/': page(),
    },
    /is disallowed by robots\.txt/,
  ],
];

for (const [what, web, why] of unanswered) {
  test(`endings: ${what} is told, with code 4`, { timeout }, async (t) => {
    const proxy = await webFor(t, web);
    const { exit, output, cluster } = await crawled(new Cluster(t), proxy, ['http://example.org/']);
    assert.equal(exit.code, 4);
    const said = /no seed was answered: (.*)/.exec(output)?.[1] ?? output;
    assert.match(said, why);
    const { ending } = (await status(cluster)) ?? {};
    assert.equal(ending?.why, 'unanswered');
    assert.match(ending?.text ?? '', why);
  });
}

test('endings: a crawl of which no seed was answered is started again', { timeout }, async (t) => {
  const web: Web = { 'example.org/': answer(401), 'example.org/b': answer(503) };
  const proxy = await webFor(t, web);
  const cluster = new Cluster(t);
  const seeds = ['http://example.org/', 'http://example.org/b'];
  assert.equal((await crawled(cluster, proxy, seeds)).exit.code, 4);
  web['example.org/'] = page('/c');
  web['example.org/b'] = page('/c');
  web['example.org/c'] = page();
  const { exit, output } = await crawled(cluster, proxy, seeds);
  assert.equal(exit.code, 0, output);
  const pages = readPages(cluster).filter(({ status: code }) => code === 200);
  assert.deepEqual(pages.map(({ url }) => url).sort(), [
    'http://example.org/',
    'http://example.org/b',
    'http://example.org/c',
  ]);
  const { ledger, ending } = (await status(cluster)) ?? {};
  assert.equal(ending?.why, 'finished');
  assert.equal(ledger?.page?.pages, 3);
  assert.equal(ledger?.page?.waiting, 0);
});

test('endings: so is one whose seeds redirect to what did not answer', { timeout }, async (t) => {
  const web: Web = {
    'example.org/': redirect('http://www.example.org/'),
    'example.org/too': redirect('http://www.example.org/'),
    'example.org/b': redirect('http://www.example.org/b'),
    'www.example.org/': answer(401),
    'www.example.org/b': answer(503),
  };
  const proxy = await webFor(t, web);
  const cluster = new Cluster(t);
  const seeds = ['', 'too', 'b'].map((path) => `http://example.org/${path}`);
  const first = await crawled(cluster, proxy, [...seeds, '--attempts', '1']);
  assert.equal(first.exit.code, 4, first.output);
  web['www.example.org/'] = page();
  web['www.example.org/b'] = page();
  const { exit, output } = await crawled(cluster, proxy, [...seeds, '--attempts', '1']);
  assert.equal(exit.code, 0, output);
  const pages = readPages(cluster).filter(({ status: code }) => code === 200);
  assert.deepEqual(pages.map(({ url }) => url).sort(), [
    'http://www.example.org/',
    'http://www.example.org/b',
  ]);
  const { ledger } = (await status(cluster)) ?? {};
  assert.deepEqual([ledger?.page?.waiting, ledger?.page?.buried], [0, 0]);
  assert.equal(ledger?.page?.pages, 2);
});

test('endings: a seed that a pattern leaves out is told, and another pattern begins the crawl', {
  timeout,
}, async (t) => {
  const proxy = await webFor(t, { 'example.org/a': page() });
  const cluster = new Cluster(t);
  const seed = 'http://example.org/a';
  const first = await crawled(cluster, proxy, [seed, '--include', '/b']);
  assert.equal(first.exit.code, 4, first.output);
  assert.match(first.output, /no seed was answered: http:\S+a is left out by --include/);
  assert.doesNotMatch(first.output, /finished already|every URL/);
  const again = await crawled(cluster, proxy, [seed, '--include', '/a']);
  assert.equal(again.exit.code, 0, again.output);
  assert.match(again.output, /is done after .*: 1 page, .* every URL in scope/);
});

test('endings: a seed that is no page is told', { timeout }, async (t) => {
  const proxy = await webFor(t, {
    'example.org/': answer(200, { 'content-type': 'application/pdf' }),
  });
  const { exit, output } = await crawled(new Cluster(t), proxy, ['http://example.org/']);
  assert.equal(exit.code, 0, 'it was answered');
  assert.match(
    output,
    /no seed is a page: http:\/\/example\.org\/ is application\/pdf, not a page/,
  );
});

test('endings: the page limit is told, with what is left', { timeout }, async (t) => {
  const links = ['/1', '/2', '/3', '/4'];
  const pages = Object.fromEntries(links.map((link) => [`example.org${link}`, page()]));
  const proxy = await webFor(t, { 'example.org/': page(...links), ...pages });
  const args = ['http://example.org/', '--max-pages', '2'];
  const { exit, output } = await crawled(new Cluster(t), proxy, args);
  assert.equal(exit.code, 0);
  assert.match(output, /stopped at --max-pages 2 with 3 URLs left/);
});

const skipped: readonly (readonly [readonly string[], RegExp])[] = [
  [[], /all links were skipped: 2 links lead to other hosts; use --scope domain/],
  [['--scope', 'any', '--exclude', 'other'], /2 links match an --exclude/],
  [['--scope', 'any', '--include', 'example'], /2 links match no --include/],
  [['--scope', 'any', '--max-depth', '0'], /2 links lie deeper than --max-depth 0/],
];

for (const [args, why] of skipped) {
  const name = args.join(' ') || 'the scope';
  test(`endings: links that ${name} leaves out are told`, { timeout }, async (t) => {
    const proxy = await webFor(t, {
      'example.org/': page('http://other.org/1', 'http://other.org/2'),
    });
    const { exit, output } = await crawled(new Cluster(t), proxy, ['http://example.org/', ...args]);
    assert.equal(exit.code, 0);
    assert.match(output, why);
  });
}

test('endings: the ledger adds up, and names what became of every URL', { timeout }, async (t) => {
  const proxy = await webFor(t, {
    'example.org/': page('/1', '/gone', '/moved', '/file', 'http://[/', 'http://other.org/'),
    'example.org/1': page(),
    'example.org/moved': redirect('/1'),
    'example.org/file': answer(200, { 'content-type': 'application/pdf' }),
  });
  const { exit, cluster } = await crawled(new Cluster(t), proxy, ['http://example.org/']);
  assert.equal(exit.code, 0);
  const master = await cluster.master([]);
  const said = await cluster.ask('status', '--ledger');
  await master.kill('SIGTERM');
  const [head = '', row = ''] = said.split('\n');
  const cells = row.split(/ +/);
  const of = Object.fromEntries(head.split(/ +/).map((name, i) => [name, cells[i]]));
  const { admitted, pages, redirects, others, failed } = of;
  assert.deepEqual([admitted, pages, redirects, others, failed], ['5', '2', '1', '1', '1'], said);
  assert.match(said, /not in the ledger: .*host 1/);
});
