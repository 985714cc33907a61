/** Seeds of a crawl file: files, sitemaps, computed lists, commands, requests, schedules. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { Cluster, fileMatches } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { WallClock } from '../support/wall-clock.ts';
import { readArchive } from '../support/warc.ts';

const timeout = 60_000;

type Site = { readonly url: string; readonly asked: string[]; texts: Record<string, string> };

/** Pages without links; `texts`: the answers of other paths, by their types' first letters. */
async function site(t: TestContext, texts: Record<string, string> = {}): Promise<Site> {
  const found: Site = { url: '', asked: [], texts };
  const port = await httpServer(t, ({ url = '' }, response) => {
    found.asked.push(url);
    const text = found.texts[url];
    if (url === '/robots.txt') response.writeHead(404).end();
    else if (text !== undefined) {
      const type = text.startsWith('{') ? 'application/json' : 'text/plain';
      response.setHeader('content-type', text.startsWith('<') ? 'text/xml' : type).end(text);
    } else if (url.startsWith('/gone')) response.writeHead(500).end();
    else response.setHeader('content-type', 'text/html').end('<title>t</title>');
  });
  return Object.assign(found, { url: `http://127.0.0.1:${port}` });
}

function fileIn(cluster: Cluster, name: string, value: unknown): string {
  const path = join(cluster.folder, name);
  writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value));
  return path;
}

/** Crawls by this file to the end; returns the paths of the pages. */
async function crawled(t: TestContext, url: string, file: object, files: Record<string, string>) {
  const cluster = new Cluster(t);
  for (const [name, text] of Object.entries(files)) fileIn(cluster, name, text);
  const path = fileIn(cluster, 'c.json', { crawl: 'c', ...file });
  const master = await cluster.master([path, '--slaves', '1', '--exit-when-done']);
  const { code } = await master.exited;
  assert.equal(code, 0, master.output);
  const pages = cluster.pages('c').map((page) => page.replace(url, ''));
  return { pages: pages.sort(), output: master.output };
}

/** A command that prints a file of its folder. */
function printing(name: string): string[] {
  return [process.execPath, '-e', `process.stdout.write(require('fs').readFileSync('${name}'))`];
}

describe('seeds of a crawl file', { concurrency: 2 }, () => {
  test('seeds: a file, a sitemap, a list by a number of a page, and a command', {
    timeout,
  }, async (t) => {
    const { url, texts, asked } = await site(t);
    texts['/total'] = '{"total": 95, "list": []}';
    texts['/count'] = 'there are 1,002 of them';
    texts['/index.xml'] =
      `<sitemapindex><sitemap><loc>${url}/map.xml</loc></sitemap></sitemapindex>`;
    texts['/map.xml'] =
      `<urlset><url><loc>${url}/m1</loc></url><url><loc>${url}/m2</loc></url>` +
      '<url><loc>http://127.0.0.2/private</loc></url></urlset>';
    const seeds = [
      `${url}/{1..2}`,
      { file: 'list.txt' },
      { sitemap: `${url}/index.xml` },
      { fetch: `${url}/total`, pattern: '"total": (\\d+)', make: `${url}/t?from={0..$1..30}` },
      { fetch: `${url}/total`, pattern: '"total": (\\d+)', make: `${url}/p{1..$1/30}` },
      { fetch: `${url}/count`, pattern: 'are ([\\d,]+)', make: `${url}/c{1000..$1}` },
      { command: printing('out.txt') },
    ];
    const files = { 'list.txt': `# two\n${url}/f1\n${url}/f2\n`, 'out.txt': `${url}/o1\n` };
    const { pages, output } = await crawled(t, url, { seeds, 'max-depth': 0 }, files);
    assert.deepEqual(pages, [
      ...['/1', '/2', '/c1000', '/c1001', '/c1002', '/f1', '/f2', '/m1', '/m2', '/o1'],
      ...['/p1', '/p2', '/p3', '/p4', '/t?from=0', '/t?from=30', '/t?from=60', '/t?from=90'],
    ]);
    assert.match(output, /seeds\.2: 1 URLs of other sites in .* such as http:\/\/127\.0\.0\.2\//);
    assert.equal(asked.filter((path) => path === '/index.xml').length, 1);
  });

  test('seeds: a list is split by position, and the parts are the whole', {
    timeout,
  }, async (t) => {
    const { url } = await site(t, { '/n': '7' });
    const seeds = [
      `${url}/a{1..4}`,
      { fetch: `${url}/n`, pattern: '\\d', make: `${url}/b{1..$1}` },
    ];
    const all: string[] = [];
    for (const [shard, expected] of [
      ['1/3', ['/a1', '/a4', '/b3', '/b6']],
      ['2/3', ['/a2', '/b1', '/b4', '/b7']],
      ['3/3', ['/a3', '/b2', '/b5']],
    ] as const) {
      const { pages } = await crawled(t, url, { shard, seeds, 'max-depth': 0 }, {});
      assert.deepEqual(pages, expected);
      all.push(...pages);
    }
    assert.equal(new Set(all).size, 11);
  });

  test('seeds: a source that cannot be read ends a new crawl with one line, and no request', {
    timeout: 2 * timeout,
  }, async (t) => {
    const { url, asked } = await site(t, { '/n': 'x 12', '/big': '999999999' });
    const node = process.execPath;
    const cases: [unknown, RegExp][] = [
      [{ file: 'none.txt' }, /seeds\.0: cannot read .*none\.txt: ENOENT/],
      [{ sitemap: `${url}/page` }, /seeds\.0: .*\/page is no sitemap \(status 200\)/],
      [{ fetch: `${url}/n`, pattern: '(y)', make: `${url}/$1` }, /has nothing that \(y\) matches/],
      [{ fetch: `${url}/n`, pattern: 'x', make: `${url}/$1` }, /finds "x" in .* no whole number/],
      [
        { fetch: `${url}/n`, pattern: '(', make: `${url}/$1` },
        /c\.json:1: seeds\.0\.pattern: "\(" is not a regular/,
      ],
      [
        { fetch: `${url}/big`, pattern: '\\d+', make: `${url}/{1..$1}` },
        /says 999999999, which makes more than 1000000 seeds/,
      ],
      [
        { command: [node, '-e', 'console.error("no database"); process.exit(3)'] },
        /failed with exit code 3: no database/,
      ],
    ];
    for (const [seed, message] of cases) {
      const cluster = new Cluster(t);
      fileIn(cluster, 'c.json', { seeds: [seed] });
      const program = cluster.run(['master.js', 'c.json', '--listen', '127.0.0.1:0']);
      const { code } = await program.exited;
      assert.equal(code, 2, program.output);
      assert.match(program.output, message);
    }
    assert.ok(!asked.some((path) => /^\/\d/.test(path)));
  });

  test('seeds: a crawl that is there goes on when a source cannot be read', {
    timeout,
  }, async (t) => {
    const { url, texts } = await site(t, { '/n': '2' });
    const cluster = new Cluster(t);
    const seeds = [{ fetch: `${url}/n`, pattern: '\\d', make: `${url}/{1..$1}` }];
    const path = fileIn(cluster, 'c.json', { crawl: 'c', seeds, 'max-depth': 0 });
    const first = await cluster.master([]);
    await cluster.ask('add', path);
    await first.kill('SIGKILL');
    texts['/n'] = 'none';
    const master = await cluster.master([path, '--slaves', '1', '--exit-when-done']);
    const { code } = await master.exited;
    assert.equal(code, 0, master.output);
    assert.match(master.output, /nothing that .* matches; crawl c goes on with the seeds/);
    assert.deepEqual(cluster.pages('c').sort(), [`${url}/1`, `${url}/2`]);
  });

  test('seeds: a command on a schedule is asked again, also by a master after kill -9', {
    timeout,
  }, async (t) => {
    const { url } = await site(t);
    const cluster = new Cluster(t);
    const seeds = [{ command: printing('out.txt'), every: '1s' }];
    fileIn(cluster, 'out.txt', `${url}/1\n`);
    const path = fileIn(cluster, 'c.json', { crawl: 'c', seeds, 'max-depth': 0 });
    const first = await cluster.master([path, '--slaves', '1', '--exit-when-done']);
    await first.said(/gets seeds of 1 source on a schedule/);
    await cluster.grown('pages.jsonl', 0, 'c');
    fileIn(cluster, 'out.txt', `${url}/1\n${url}/2\n`);
    await first.said(/seeds\.0 has 2 seeds, 1 new/);
    const { schedule } = await cluster.status('c');
    assert.equal(schedule?.sources, 1);
    assert.ok(Math.abs((schedule?.nextAt ?? 0) - Date.now()) < 60_000);
    assert.match(
      await cluster.ask('status'),
      /c: 1 source of seeds is asked on a schedule, next at /,
    );
    await cluster.grown('pages.jsonl', 1, 'c');
    await first.kill('SIGKILL');
    fileIn(cluster, 'out.txt', `${url}/1\n${url}/3\n`);
    const second = await cluster.master(['--slaves', '1', '--exit-when-done']);
    await cluster.grown('pages.jsonl', 2, 'c');
    assert.deepEqual(
      cluster.pages('c').sort(),
      [1, 2, 3].map((n) => `${url}/${n}`),
    );
    fileIn(cluster, 'out.txt', 'no url\n');
    await second.said(/line 1: "no url" .*it is asked again later/);
    await cluster.ask('cancel', 'c');
    // Nothing is left to be waited for.
    assert.equal((await second.exited).code, 0, second.output);
  });

  test('seeds: a clock that is put back puts off no schedule', { timeout }, async (t) => {
    const dayMs = 86_400_000;
    const { url } = await site(t);
    const cluster = new Cluster(t);
    const clock = new WallClock(cluster.folder);
    const seeds = [{ command: printing('out.txt'), every: '1s' }];
    fileIn(cluster, 'out.txt', `${url}/1\n`);
    const path = fileIn(cluster, 'c.json', { crawl: 'c', seeds, 'max-depth': 0 });
    const first = await cluster.master([path], clock);
    await first.said(/seeds\.0 has 1 seed, 0 new/);
    clock.set(-dayMs);
    fileIn(cluster, 'out.txt', `${url}/1\n${url}/2\n`);
    await first.said(/seeds\.0 has 2 seeds, 1 new/);
    await first.kill('SIGKILL');
    // A start without the file takes the schedule of the store.
    clock.set(-3 * dayMs);
    fileIn(cluster, 'out.txt', `${url}/1\n${url}/2\n${url}/3\n`);
    const second = await cluster.master([], clock);
    await second.said(/seeds\.0 has 3 seeds, 1 new/);
    await second.kill();
  });

  test('seeds: a command gets no authkey, and ends with the master', { timeout }, async (t) => {
    const { url } = await site(t);
    const cluster = new Cluster(t);
    const program = `
      require('fs').writeFileSync('env.txt', String(process.env.ORB_AUTHKEY) + process.env.MINE);
      if (require('fs').existsSync('stay')) {
        require('fs').writeFileSync('pid.txt', String(process.pid));
        setInterval(() => {}, 1000);
      } else console.log('${url}/1')`;
    const seeds = [{ command: [process.execPath, '-e', program], every: '1s' }];
    const path = fileIn(cluster, 'c.json', { crawl: 'c', seeds });
    const env = { ...process.env, ORB_AUTHKEY: 'a-secret-of-this-test-0123456789', MINE: '!' };
    const master = await cluster.master([path], { env });
    assert.equal(readFileSync(join(cluster.folder, 'env.txt'), 'utf8'), 'undefined!');
    fileIn(cluster, 'stay', '');
    await fileMatches(join(cluster.folder, 'pid.txt'), /\d/);
    master.child.kill('SIGTERM');
    await master.exited;
    const pid = Number(readFileSync(join(cluster.folder, 'pid.txt'), 'utf8'));
    assert.throws(() => process.kill(pid, 0), /ESRCH/);
  });

  test('seeds: forms and JSON are posted, once each, also over kill -9', {
    timeout,
  }, async (t) => {
    const sent: string[] = [];
    const port = await httpServer(t, (request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => {
        body += chunk;
      });
      request.on('end', () => {
        const { method, url: path, headers } = request;
        if (path === '/robots.txt') response.writeHead(404).end();
        else {
          sent.push([method, path, headers['content-type'], headers['x-a'], body].join(' '));
          response.setHeader('content-type', 'text/html').end(`<title>${body}</title>`);
        }
      });
    });
    const url = `http://127.0.0.1:${port}`;
    const cluster = new Cluster(t);
    const form = { q: 'a b&c', n: [1, 2] };
    const seeds = [
      { url: `${url}/f`, method: 'POST', form },
      { url: `${url}/f`, form },
      { url: `${url}/j{1..2}`, method: 'POST', json: { x: [1, null] }, headers: { 'X-A': 'y' } },
      `${url}/f`,
    ];
    const path = fileIn(cluster, 'c.json', { crawl: 'c', seeds, archive: 'warc' });
    const first = await cluster.master([]);
    assert.match(await cluster.ask('add', path), /^4 new, 1 already known/);
    await first.kill('SIGKILL');
    const args = ['--slaves', '1', '--exit-when-done'];
    const master = await cluster.master(args);
    assert.equal((await master.exited).code, 0, master.output);
    assert.deepEqual(sent.sort(), [
      'GET /f   ',
      'POST /f application/x-www-form-urlencoded  q=a+b%26c&n=1&n=2',
      ...['/j1', '/j2'].map((to) => `POST ${to} application/json y {"x":[1,null]}`),
    ]);
    const heads = readArchive(join(cluster.out, 'c/archive'))
      .filter(({ block }) => / HTTP\/1\.1\r\n/.test(block.toString()))
      .map(({ block }) => String(block).split(' ', 2).join(' '))
      .filter((head) => / \/(?!robots)/.test(head));
    assert.deepEqual(heads.sort(), ['GET /f', 'POST /f', 'POST /j1', 'POST /j2']);
    const methods = cluster.fetched('c').map((line) => (line as Record<string, unknown>)['method']);
    assert.deepEqual(methods.sort(), ['POST', 'POST', 'POST', undefined]);
  });

  test('seeds: add takes lists, and refuses commands and schedules', { timeout }, async (t) => {
    const { url } = await site(t, { '/n': '2' });
    const cluster = new Cluster(t);
    await cluster.master([]);
    const list = { fetch: `${url}/n`, pattern: '\\d', make: `${url}/{1..$1}` };
    fileIn(cluster, 'list.txt', `${url}/f\n`);
    const path = fileIn(cluster, 'c.json', { crawl: 'c', seeds: [list, { file: 'list.txt' }] });
    assert.match(await cluster.ask('add', path), /^3 new, 0 already known/);
    const command = fileIn(cluster, 'd.json', { seeds: [{ command: ['true'] }] });
    await assert.rejects(
      cluster.ask('add', command),
      /exit code 2: .*seeds\.0: a command runs only/,
    );
    const again = fileIn(cluster, 'e.json', { seeds: [{ file: 'list.txt', every: '1h' }] });
    await assert.rejects(
      cluster.ask('add', again),
      /seeds\.0: a schedule is kept only on the master/,
    );
  });

  test('seeds: check explains them, and asks nobody', { timeout }, async (t) => {
    const { url, asked } = await site(t);
    const cluster = new Cluster(t);
    const seeds = [
      `${url}/{1..5}`,
      { fetch: `${url}/n`, pattern: '\\d', make: `${url}/{1..$1}` },
      { command: ['touch', 'ran.txt'] },
    ];
    fileIn(cluster, 'c.json', { seeds, shard: '2/3' });
    const program = cluster.run(['master.js', 'check', 'c.json']);
    assert.equal((await program.exited).code, 0, program.output);
    assert.match(
      program.output,
      /crawl default, 5 seeds\n {2}and http.*\{1\.\.\$1\}, where \$1 is/,
    );
    assert.match(
      program.output,
      /the lines of the command touch ran\.txt\n {2}of these, part 2 of 3/,
    );
    assert.deepEqual([asked, existsSync(join(cluster.folder, 'ran.txt'))], [[], false]);
  });
});
