/** What `why` says that a crawl would decide about a link is what a commit decides. */
import assert from 'node:assert/strict';
import { randomOf } from '../../selftest/site.ts';
import type { SkipReason } from '../../shared/protocol.ts';
import { worldTest } from '../support/world.ts';

const seed = 'http://a.example/start';

/** Links that break each rule now and then, alone and together. */
function linkOf(random: () => number): string {
  const pick = <T>(...of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
  const host = pick('a.example', 'a.example', 'a.example', 'b.example');
  const parts = ['p', 'q', 'private', 'r/r/r', 'long'.repeat(8), `${Math.floor(random() * 40)}`];
  const path = Array.from({ length: 1 + Math.floor(random() * 5) }, () => pick(...parts)).join('/');
  const queries = [
    '',
    '',
    '?x=1',
    '?a=1&b=2&c=3',
    '?a=1&b=2&c=3&d=4&e=5',
    '?PHPSESSID=1',
    '?x&sid',
  ];
  return `http://${host}/${path}${pick(...queries)}`;
}

worldTest('a link that is judged is decided about in the same way', async (world) => {
  await world.seed(seed, {
    exclude: ['/private', '/q/q'],
    include: ['^http://[ab]\\.example/'],
    maxDepth: 7,
    traps: { segments: 6, repeats: 2, parameters: 4, length: 90, queries: 3, similar: 2 },
  });
  const random = randomOf(3);
  const reasons = new Map<string, number>();
  const crawl = world.crawl();
  for (let i = 0; i < 1_500; i++) {
    const link = new URL(linkOf(random)).href;
    const depth = 1 + Math.floor(random() * 9);
    const url = new URL(link);
    const seen = world.rooms.look.seenAs(crawl, url);
    const before = { ...crawl.counters.skipped };
    const { known } = crawl.counters;
    const judged = world.rooms.look.judge(crawl, url, depth)?.rule.by;
    const from = { url: 'http://a.example/from', depth: depth - 1, priority: 0 };
    const offered = world.frontier.offer('default', { links: Buffer.from(link), images: [], from });
    await world.settle(4);
    await offered;
    if (seen.page || seen.skipped) continue;
    const grown = Object.entries(crawl.counters.skipped).find(([reason, count]) => {
      return count !== (before[reason as SkipReason] ?? 0);
    });
    const decided = grown?.[0];
    assert.equal(judged, decided, `${link}, ${depth} links from a seed`);
    assert.equal(crawl.counters.known - known, decided === undefined ? 1 : 0, link);
    reasons.set(String(decided), (reasons.get(String(decided)) ?? 0) + 1);
    const after = world.rooms.look.seenAs(crawl, url);
    assert.equal(decided === undefined ? after.page : after.skipped, true, link);
  }
  const names = [...reasons.keys()].sort();
  const expected = ['depth', 'exclude', 'host', 'length', 'parameters', 'queries', 'repeats'];
  assert.deepEqual(names, [...expected, 'segments', 'session', 'undefined'], names.join());
});
