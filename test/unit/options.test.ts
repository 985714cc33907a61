import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { parseMasterOptions } from '../../master/cli/options.ts';
import { urlsOf } from '../../master/cli/recrawl.ts';
import { version } from '../../shared/version.ts';

const seed = 'http://a.example/';

function parse(args: readonly string[]) {
  const options = parseMasterOptions(['node', 'master.js', ...args], {});
  assert.ok(options.kind === 'serve');
  return { seeds: options.seeds, fetch: options.spec.fetch };
}

test('options: --allow-private takes ranges, and leaves the seed behind it alone', () => {
  const cases: [args: string[], allowed: 'all' | string[]][] = [
    [[seed], []],
    [['--allow-private', seed], 'all'],
    [[seed, '--allow-private', '--scope', 'any'], 'all'],
    [
      ['--allow-private', '10.0.0.0/8', 'fd00::/8', seed],
      ['10.0.0.0/8', 'fd00::/8'],
    ],
    [
      ['--allow-private=127.0.0.1,::1', seed],
      ['127.0.0.1', '::1'],
    ],
    [[seed, '--allow-private', '10.0.0.0/8', '--allow-private'], 'all'],
  ];
  for (const [args, allowed] of cases) {
    const { seeds, fetch } = parse(args);
    assert.deepEqual([seeds, fetch.allowPrivate], [[seed], allowed], args.join(' '));
  }
  for (const args of [['--allow-private=host'], ['--allow-private', '10.0.0.0/33']])
    assert.throws(() => parse(args), /is not an address range/);
});

test('options: in the config file a list is what a repeated flag, or one with commas, says', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'c.yaml');
  const lines = [
    'images: [img, og]',
    'obey: [nofollow, noindex]',
    'traps: [segments=9, similar=off]',
    'lazy-attributes: [data-a, data-b]',
    'exclude: [/a/, "b,c"]',
    'header: ["X-A: b, c", "X-D: e"]',
    'allow-private: [10.0.0.0/8, "::1"]',
    'queues: [jobs, "results:5"]',
  ];
  const config = (text: string) => {
    writeFileSync(file, text);
    const options = parseMasterOptions(['node', 'master.js', '--config', file], {});
    assert.ok(options.kind === 'serve');
    return options;
  };
  const { spec, queues } = config(lines.join('\n'));
  const { fetch, traps } = spec;
  assert.deepEqual(fetch.images, ['img', 'og']);
  assert.deepEqual(fetch.obey, ['nofollow', 'noindex']);
  assert.deepEqual([traps.segments, traps.similar], [9, 0]);
  assert.deepEqual(fetch.lazyAttributes, ['data-a', 'data-b']);
  assert.deepEqual(spec.exclude, ['/a/', 'b,c']);
  assert.deepEqual(fetch.headers, [
    ['X-A', 'b, c'],
    ['X-D', 'e'],
  ]);
  assert.deepEqual(fetch.allowPrivate, ['10.0.0.0/8', '::1']);
  assert.deepEqual(
    [...queues],
    [
      ['jobs', Infinity],
      ['results', 5],
    ],
  );
  assert.equal(config('allow-private: true').spec.fetch.allowPrivate, 'all');
  assert.deepEqual(config('allow-private: false').spec.fetch.allowPrivate, []);
  // A crawl file is no config file.
  for (const key of ['items', 'follow', 'login', 'shard', 'outputs']) {
    const message = /c\.yaml:2: "\w+" is a key of crawl files; give such a file without --config: /;
    assert.throws(() => config(`seeds: [{file: x}]\n${key}: {}`), { message });
  }
});

test('options: --obey takes directives, all, or none', () => {
  const cases: [args: string[], obey: string[]][] = [
    [[], ['nofollow']],
    [['--obey', 'none'], []],
    [
      ['--obey', 'all'],
      ['nofollow', 'rel-nofollow', 'noindex'],
    ],
    [
      ['--obey', 'noindex, nofollow,noindex'],
      ['noindex', 'nofollow'],
    ],
  ];
  for (const [args, obey] of cases)
    assert.deepEqual(parse([seed, ...args]).fetch.obey, obey, args.join(' '));
  for (const wrong of ['', 'noarchive', 'nofollow,', 'none,nofollow'])
    assert.throws(() => parse([seed, '--obey', wrong]), /It must be all, none/, wrong);
});

test("options: --header takes names and values, and none that are the slave's own", () => {
  const { fetch } = parse([seed, '--header', 'X-A: b: c', '--header', 'accept:text/*']);
  assert.deepEqual(fetch.headers, [
    ['X-A', 'b: c'],
    ['accept', 'text/*'],
  ]);
  for (const wrong of [
    'X',
    ': a',
    'a b: c',
    'Host: a',
    'cookie: a',
    'Sec-x: a',
    'a: é',
    'User-Agent: x',
  ])
    assert.throws(() => parse([seed, '--header', wrong]), /--header/, wrong);
});

test('options: --contact stands behind every user agent', () => {
  const agents = (...args: string[]) => {
    const { userAgent, otherUserAgents } = parse([seed, ...args]).fetch;
    return [userAgent, ...otherUserAgents];
  };
  const url = 'https://you.example/bot';
  assert.deepEqual(agents(), [`Orbweaver/${version}`]);
  assert.deepEqual(agents('--contact', url), [`Orbweaver/${version} (+${url})`]);
  assert.deepEqual(
    agents('--contact', 'me@you.example', '--user-agent', 'a/1', '--user-agent', 'b'),
    ['a/1 (+me@you.example)', 'b (+me@you.example)'],
  );
  for (const wrong of [
    '',
    'me',
    'you.example',
    'ftp://you.example/',
    'a b@c.example',
    'http://a/(b)',
    'a@b\nc.d',
  ])
    assert.throws(() => parse([seed, '--contact', wrong]), /--contact/, wrong);
  assert.throws(() => parse([seed, '--user-agent', 'a\tb']), /--user-agent/);
});

test('options: --proxy takes http, https and socks5, with a user', () => {
  const urls = ['http://a.example', 'https://me:pw@a.example:8443/', 'socks5://[::1]:1080'];
  const { fetch } = parse([seed, ...urls.flatMap((url) => ['--proxy', url])]);
  assert.deepEqual(fetch.proxies, urls);
  for (const wrong of [
    'a.example:8080',
    'ftp://a.example',
    'http://a.example/path',
    'http://a b/',
    'http://',
  ])
    assert.throws(() => parse([seed, '--proxy', wrong]), /--proxy.* must be http:/s, wrong);
});

test('recrawl: a line gives what has to be asked again', () => {
  const url = 'http://a.example/';
  const line = (fields: object) => urlsOf(JSON.stringify({ url, depth: 2, ...fields }));
  const images = [{ src: 'http://a.example/i.png', via: 'img' }];
  const counts = { links: 3, linksCut: 1, imagesCut: 2, dataImages: 4 };
  const page = { type: 'text/html', bytes: 7, title: 't', images, ...counts, etag: '"1"' };
  const answer = { status: 200, ms: 3, slave: 's', at: 'now', ...page };
  assert.deepEqual(line({ finalUrl: url, ...answer }), [{ url, depth: 2, page }]);
  assert.deepEqual(line({ finalUrl: url, ...answer, status: 304, unchanged: true }), [
    { url, depth: 2, page },
  ]);
  const finalUrl = `${url}b`;
  const way = { etag: '"1"', finalUrl, bytes: 0, images: [], links: 0 };
  assert.deepEqual(line({ finalUrl, ...answer }), [
    { url: finalUrl, depth: 2, page },
    { url, depth: 2, page: way },
  ]);
  const plain = [{ url, depth: 2 }];
  assert.deepEqual(line({ finalUrl: url, ...answer, etag: undefined }), plain);
  assert.deepEqual(line({ ...answer, finalUrl, redirectedTo: finalUrl }), plain);
  assert.deepEqual(line({ status: 404, error: { kind: 'status' }, etag: '"1"' }), plain);
  assert.deepEqual(line({ excluded: 'robots' }), plain);
  assert.deepEqual(line({ finalUrl: url, ...answer, excluded: 'noindex' }), plain);
  // The new crawl finds its sitemaps by itself.
  const sitemap = { kind: 'urlset', urls: 1, images: 0 };
  assert.deepEqual(line({ finalUrl: url, ...answer, sitemap }), []);
  assert.deepEqual(line({ sitemap, error: { kind: 'connect' } }), []);
  assert.deepEqual(line({ sitemap, excluded: 'robots' }), []);
  // The last line of a file that is being written.
  assert.deepEqual(urlsOf('{"url":"http://a.ex'), []);
});

test('options: recrawl knows no rules, so an output may name one, beside a download, too', () => {
  const args = [
    'recrawl',
    'a',
    '--as',
    'b',
    '--download',
    'images',
    '--output',
    'csv:a.csv#rule=row',
  ];
  const options = parseMasterOptions(['node', 'master.js', ...args], {
    ORB_AUTHKEY: 'k'.repeat(32),
  });
  assert.equal(options.kind, 'ask');
  const start = ['http://a/', '--download', 'images', '--output', 'csv:images.jsonl'];
  assert.throws(() => parseMasterOptions(['node', 'master.js', ...start], {}), /images\.jsonl/);
});

test('options: an option and its opposite are refused, in either order', () => {
  for (const command of [
    ['host', 'a.example'],
    ['set', 'x'],
  ]) {
    for (const both of [
      ['--delay=4', '--no-delay'],
      ['--no-delay', '--delay', '4'],
    ]) {
      const args = ['node', 'master.js', ...command, ...both];
      const says = /^--delay and --no-delay contradict each other: leave one out$/;
      assert.throws(() => parseMasterOptions(args, {}), { message: says }, args.join(' '));
    }
  }
});
