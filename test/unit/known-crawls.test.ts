import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { Proxies } from '../../slave/fetch/proxies.ts';
import { KnownCrawls } from '../../slave/known-crawls.ts';

test('known crawls: a proxy is forgotten with the last crawl that has it', () => {
  let forgotten = 0;
  const proxies = new Proxies({ onAside: () => {}, onForgotten: () => forgotten++ });
  const crawls = new KnownCrawls({
    proxies,
    rules: { learn: () => {}, forget: () => {} },
    folders: { crawlEnded: () => {} },
  } as unknown as ConstructorParameters<typeof KnownCrawls>[0]);
  const learn = (crawl: number, ...urls: string[]) => {
    const fetch = fetchSpecSchema.parse({ proxies: urls });
    crawls.learn({ verb: 'crawl.spec', crawl, name: `crawl-${crawl}`, fetch });
  };
  const troubled = () => proxies.troubles(0).map(({ name }) => name);
  learn(1, 'http://a.example:81', 'http://b.example:82');
  learn(2, 'http://a.example:81', 'http://c.example:83');
  for (const port of ['a.example:81', 'b.example:82']) proxies.of(`http://${port}`).failed('', 0);
  assert.deepEqual(troubled(), ['http://a.example:81', 'http://b.example:82']);
  // Other options of the crawl.
  learn(1, 'http://a.example:81');
  assert.deepEqual([troubled(), forgotten], [['http://a.example:81'], 1]);
  crawls.forget(1);
  assert.deepEqual([troubled(), forgotten], [['http://a.example:81'], 1]);
  crawls.forget(2);
  assert.deepEqual([troubled(), forgotten], [[], 2]);
});
