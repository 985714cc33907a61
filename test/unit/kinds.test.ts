/** The kinds of tasks: their numbers are on disk, and their names in `seen`. */
import assert from 'node:assert/strict';
import test from 'node:test';
import {
  crawlKindOf,
  kindOf,
  kinds,
  namesIn,
  taskName,
} from '../../master/frontier/kinds/kinds.ts';
import { decodeTask, encodeTask } from '../../master/store/records.ts';
import { taskKinds } from '../../shared/protocol.ts';

const url = 'http://a.example/x';
const rest = { level: 0, url, depth: 0, priority: 0, attempts: 0, notBefore: 0 };

test('kinds: a number in the store means the same kind for ever', () => {
  const numbers = Object.fromEntries(taskKinds.map((name) => [name, kinds[name].number]));
  assert.deepEqual(numbers, { page: 0, sitemap: 1, robots: 2, image: 3 });
  for (const name of taskKinds) {
    const record = decodeTask(encodeTask({ ...rest, kind: kinds[name].number }));
    assert.equal(kindOf(record).name, name);
  }
});

test('kinds: a number of no kind counts as a page', () => {
  assert.equal(kindOf({ kind: 200 }).name, 'page');
});

test('kinds: a push names every kind but a page', () => {
  const pushed = taskKinds.map((name) => kinds[name].pushed.kind);
  assert.deepEqual(pushed, [undefined, ...taskKinds.slice(1)]);
});

test('kinds: one URL may be a task of each kind of a crawl', () => {
  const ofCrawl = Object.values(kinds).filter(({ owner }) => owner === 'crawl');
  const names = ofCrawl.map(({ number }) => taskName({ kind: number, url }));
  assert.equal(new Set(names).size, ofCrawl.length);
});

test('kinds: no commit ends a task of a host', () => {
  assert.throws(() => crawlKindOf({ kind: kinds.robots.number }));
});

test('kinds: a line of pages.jsonl tells of the names of its kind', () => {
  const spec = { canonical: true };
  assert.deepEqual(namesIn({ url, sitemap: {} }, spec), [`^${url}`]);
  assert.deepEqual(namesIn({ url, images: [] }, spec), [url, url, `=${url}`]);
  assert.deepEqual(namesIn({ url, finalUrl: `${url}/` }, spec), [url, `${url}/`]);
});
