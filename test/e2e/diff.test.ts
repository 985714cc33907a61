/** `diff`: pages that came, went and changed between two crawls, from their files alone. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';

const timeout = 60_000;
const before: Readonly<Record<string, string>> = { '/a': 'a', '/b': 'b', '/c': 'c', '/old': 'o' };
const after: Readonly<Record<string, string>> = { '/a': 'a', '/b': 'B', '/c': 'c', '/new': 'n' };

/** Two crawls of a site that changes in between, `one` and `two`. */
async function twoCrawls(t: TestContext, flags: readonly string[]) {
  let pages = before;
  const port = await httpServer(t, ({ url = '' }, response) => {
    const links = Object.keys({ ...before, ...after }).map((path) => `<a href="${path}">x</a>`);
    const body = url === '/' ? links.join('') : pages[url];
    response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'text/html' });
    response.end(body);
  });
  const cluster = new Cluster(t);
  for (const name of ['one', 'two']) {
    const args = [`http://127.0.0.1:${port}/`, '--crawl', name, '--delay', '0', '--exit-when-done'];
    const master = await cluster.master([...args, ...flags]);
    cluster.slave();
    assert.equal((await master.exited).code, 0, master.output);
    pages = after;
  }
  const run = async (...args: readonly string[]) => {
    const program = cluster.run(['master.js', 'diff', ...args, '--out', cluster.out]);
    const { code } = await program.exited;
    return { code, stdout: program.stdout, stderr: program.stderr };
  };
  return { url: `http://127.0.0.1:${port}`, run };
}

describe('diff', { concurrency: 2 }, () => {
  for (const flags of [['--digest'], ['--archive', 'warc']]) {
    test(`diff: came, went, changed, with ${flags[0]}`, { timeout }, async (t) => {
      const { url, run } = await twoCrawls(t, flags);
      const { code, stdout, stderr } = await run('one', 'two');
      assert.equal(code, 0, stderr);
      const lines = stdout.trimEnd().split('\n');
      assert.equal(lines.at(-1), '1 came, 1 went, 1 changed, 3 the same');
      assert.deepEqual(lines.slice(0, -1).sort(), [
        `came\t${url}/new`,
        `changed\t${url}/b`,
        `went\t${url}/old\tstatus: 404 Not Found`,
      ]);
      const { stdout: json } = await run('one', 'two', '--json');
      const found = JSON.parse(json) as { change: string; url: string }[];
      assert.deepEqual(found.map(({ change }) => change).sort(), ['came', 'changed', 'went']);
      const same = await run('two', 'two', '--json');
      assert.deepEqual(JSON.parse(same.stdout), []);
    });
  }

  test('diff: without digests it says that changes are not known', { timeout }, async (t) => {
    const { run } = await twoCrawls(t, []);
    const { code, stdout, stderr } = await run('one', 'two');
    assert.equal(code, 0);
    assert.match(stdout, /1 came, 1 went, 0 changed, 0 the same/);
    assert.match(stderr, /the content of 4 more is not known: crawl with --digest, or with --arch/);
    const missing = await run('one', 'three');
    assert.equal(missing.code, 2);
    assert.match(missing.stderr, /there is no pages\.jsonl in .*three; give the name of a crawl/);
  });
});
