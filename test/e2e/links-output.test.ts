/** Outputs with `records=links`: who links where, with which words. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';

const timeout = 60_000;
const pages: Record<string, string> = {
  '/': `<a href="/a#top"> The <b>first</b>\n page </a><a rel="nofollow ugc" href="https://other.example/">o</a>
    <a href="mailto:me@x.example">m</a><a href="JavaScript:void(0)">j</a><a name="here">n</a>
    <map><area href="/gone" alt="x"></map><a href=" a?x=12:30 ">t</a><a href="http://[">bad</a>`,
  '/a': '<base href="/deep/"><a href="x">based</a>',
  '/a?x=12:30': 'none',
};

async function site(t: TestContext): Promise<string> {
  const port = await httpServer(t, ({ url = '' }, response) => {
    const body = pages[url];
    response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'text/html' });
    response.end(body);
  });
  return `http://127.0.0.1:${port}`;
}

test('links: each link of each page, with its text and rel, beside other outputs', {
  timeout,
}, async (t) => {
  const url = await site(t);
  const cluster = new Cluster(t);
  const outputs = [
    'jsonl:graph.jsonl#records=links',
    'jsonl:plain.jsonl',
    'csv:links.csv#records=links',
  ];
  const flags = outputs.flatMap((output) => ['--output', output]);
  const more = ['--delay', '0', '--slaves', '1', '--exit-when-done'];
  const master = await cluster.master([`${url}/`, ...flags, ...more]);
  assert.equal((await master.exited).code, 0, master.output);
  const read = (file: string) => readFileSync(join(cluster.out, 'default', file), 'utf8');
  const rows = read('graph.jsonl')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, string | null>);
  const found = rows.map(({ from, to, text, rel }) => [from, to, text, rel]);
  const own = (path: string) => url + path;
  assert.deepEqual(
    found.filter(([from]) => from === own('/')),
    [
      [own('/'), own('/a#top'), 'The first\n page', null],
      [own('/'), 'https://other.example/', 'o', 'nofollow ugc'],
      [own('/'), own('/gone'), null, null],
      [own('/'), own('/a?x=12:30'), 't', null],
      [own('/'), null, 'bad', null],
    ],
  );
  assert.deepEqual(
    found.filter(([from]) => from === own('/a')),
    [[own('/a'), own('/deep/x'), 'based', null]],
  );
  // The other output has pages, as without.
  assert.match(read('plain.jsonl'), /"finalUrl"/);
  assert.equal(read('links.csv').split('\n')[0]?.trim(), 'from,to,text,rel');
});

test('links: an output of links cannot be added to a crawl that runs', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  await cluster.master(['http://127.0.0.1:1/']);
  const set = cluster.ask('set', 'default', '--output', 'csv:graph.csv#records=links');
  await assert.rejects(set, /--output cannot change: .* no rows of links/);
});
