/** Skipped links: counted once per link, listed, and reported to the operator. */
import assert from 'node:assert/strict';
import { lineOf } from '../../master/sinks/result-lines.ts';
import { leaseOf, type World, worldTest } from '../support/world.ts';

const a = 'http://a.example';
const b = 'http://b.example';

type SkippedLine = { url: string; skipped: string; depth: number; from: string; at: string };

function listed(world: World): SkippedLine[] {
  const skippedOnes = world.records().filter(({ kind }) => kind === 'skipped');
  return skippedOnes.map((section) => JSON.parse(lineOf(section)) as SkippedLine);
}

const skipped = (world: World) => world.crawl().status().skipped;

worldTest('each reason is counted, a link once, and listed with its page', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`], {
    include: ['^http://[ab]'],
    exclude: ['/private'],
    maxDepth: 1,
    traps: { segments: 3 },
  });
  const slave = world.slave();
  await world.settle();
  const links = [
    `${a}/2`,
    `${a}/next`,
    `${b}/`,
    `${a}/private/x`,
    `${a}/s/e/g/m`,
    `${a}/login?jsessionid=1&x`,
    `${a}/login?jsessionid=2&x`,
  ];
  await world.page(slave, `${a}/1`, { links });
  await world.page(slave, `${a}/2`, { links });
  await world.page(slave, `${a}/next`, { links: [`${a}/deep`, `${a}/1`, ...links] });
  await world.page(slave, `${a}/login?jsessionid=1&x`, { links: [`${a}/deep`, `${a}/deeper`] });
  assert.deepEqual(skipped(world), {
    host: 1,
    exclude: 1,
    segments: 1,
    session: 1,
    depth: 2,
  });
  assert.deepEqual(
    listed(world).map(({ url, skipped: reason, depth, from }) => [url, reason, depth, from]),
    [
      [`${b}/`, 'host', 1, `${a}/1`],
      [`${a}/private/x`, 'exclude', 1, `${a}/1`],
      [`${a}/s/e/g/m`, 'segments', 1, `${a}/1`],
      [`${a}/login?jsessionid=2&x`, 'session', 1, `${a}/1`],
      [`${a}/deep`, 'depth', 2, `${a}/next`],
      [`${a}/deeper`, 'depth', 2, `${a}/login?jsessionid=1&x`],
    ],
  );
  assert.deepEqual(world.finished, ['default']);
  assert.equal(world.seenKeys().length, world.crawl().counters.seen);
});

worldTest('a link is counted once, also over a restart and when it is forgotten', async (world) => {
  await world.seed(`${a}/1`);
  const slave = world.slave();
  await world.settle();
  // More than the recent table of a test's world holds.
  const others = Array.from({ length: 300 }, (_, i) => `${b}/${i}`);
  await world.page(slave, `${a}/1`, { links: [...others, `${a}/2`, `${a}/a/a/a/a/a/a/a`] });
  assert.deepEqual(skipped(world), { host: 300, repeats: 1 });
  world.crash();
  const again = world.slave('again');
  await world.settle();
  await world.page(again, `${a}/2`, { links: [...others, `${a}/a/a/a/a/a/a/a`, `${b}/new`] });
  assert.deepEqual(skipped(world), { host: 301, repeats: 1 });
  assert.equal(listed(world).length, 302);
});

worldTest('a thousand of a reason are listed, all are counted', async (world) => {
  await world.seed(`${a}/1`);
  const slave = world.slave();
  await world.settle();
  const links = Array.from({ length: 1_500 }, (_, i) => `${b}/${i}`);
  await world.page(slave, `${a}/1`, { links: [...links, `${a}/a/a/a/a/a/a/a`] });
  assert.deepEqual(skipped(world), { host: 1_500, repeats: 1 });
  assert.equal(listed(world).filter(({ skipped: reason }) => reason === 'host').length, 1_000);
  assert.equal(listed(world).length, 1_001);
});

worldTest('a link too deep here is taken where it is nearer', async (world) => {
  await world.seed([`${a}/far`, `${a}/near`], { maxDepth: 1 });
  const slave = world.slave('slave', 1);
  await world.settle();
  await world.page(slave, `${a}/far`, { links: [`${a}/between`] });
  await world.page(slave, `${a}/near`);
  await world.page(slave, `${a}/between`, { links: [`${a}/deep`] });
  assert.deepEqual(skipped(world), { depth: 1 });
  await world.seed(`${a}/later`);
  await world.page(slave, `${a}/later`, { links: [`${a}/deep`] });
  assert.deepEqual(slave.urls, [`${a}/deep`]);
});

worldTest('what the operator names is fetched, trap or not', async (world) => {
  const trap = `${a}/a/a/a/a/a/a/a`;
  await world.seed(`${a}/`);
  const slave = world.slave();
  await world.settle();
  await world.page(slave, `${a}/`, { links: [trap] });
  assert.deepEqual(skipped(world), { repeats: 1 });
  assert.equal((await world.seed(trap)).admitted, 1);
  assert.deepEqual(slave.urls, [trap]);
  assert.equal((await world.seed(trap)).known, 1);
  await world.page(slave, trap, { links: [`${trap}/a`, trap] });
  assert.deepEqual(skipped(world), { repeats: 2 });
});

worldTest('of a page that has many names by session ids one is fetched', async (world) => {
  await world.seed(`${a}/`);
  const slave = world.slave('slave', 8);
  await world.settle();
  const links = [`${a}/x;jsessionid=1`, `${a}/x;jsessionid=2`, `${a}/x`, `${a}/y`];
  await world.page(slave, `${a}/`, { links });
  assert.deepEqual(slave.urls.sort(), [`${a}/x;jsessionid=1`, `${a}/y`]);
  await world.page(slave, `${a}/y`, { links: [`${a}/y?PHPSESSID=3`, `${a}/x?PHPSESSID=3`] });
  assert.deepEqual(slave.urls, [`${a}/x;jsessionid=1`]);
  assert.deepEqual(skipped(world), { session: 3 });
});

worldTest('a session id that is held back for another reason hides no page', async (world) => {
  await world.seed(`${a}/`, { traps: { segments: 3, parameters: 1 } });
  const slave = world.slave('slave', 8);
  await world.settle();
  const links = [`${a}/x?y=1&PHPSESSID=1`, `${a}/x?y=1`];
  await world.page(slave, `${a}/`, { links });
  assert.deepEqual(slave.urls, [`${a}/x?y=1`]);
});

worldTest('an explosion of queries ends, also over crashes', async (world) => {
  const page = (n: number) => `${a}/shop?a=${n}&b=1&c=1`;
  await world.seed(page(0), { traps: { queries: 1_200 } });
  let slave = world.slave();
  await world.settle();
  for (let n = 0; n < 60; n++) {
    const links = Array.from({ length: 100 }, (_, i) => page(n * 100 + i + 1));
    await world.page(slave, slave.urls[0] ?? '', { links });
    if (n % 7 !== 6) continue;
    world.crash();
    slave = world.slave();
    await world.settle();
  }
  // A crash forgets less than 500 that were counted since the counts were last written.
  const { known } = world.crawl().counters;
  assert.ok(known > 1_200 && known < 1_200 + 500, `${known}`);
  assert.ok((skipped(world).queries ?? 0) > 4_000);
});

worldTest('an orderly stop forgets nothing that was counted', async (world) => {
  await world.seed(`${a}/`, { traps: { queries: 10 } });
  const links = (from: number) =>
    Array.from({ length: 6 }, (_, i) => `${a}/shop?a=${from + i}&b=1&c=1`);
  const slave = world.slave('slave', 1);
  await world.settle();
  await world.page(slave, `${a}/`, { links: links(0) });
  await world.reopen();
  const again = world.slave('again', 1);
  await world.settle();
  await world.page(again, again.urls[0] ?? '', { links: links(6) });
  assert.deepEqual(skipped(world), { queries: 2 });
});

worldTest('failures are counted by kind, and no more once they are replayed', async (world) => {
  await world.seed([`${a}/gone`, `${a}/tls`, `${a}/down`], { attemptsMax: 2 });
  const slave = world.slave();
  await world.settle();
  await world.page(slave, `${a}/gone`, { status: 404 });
  const tls = leaseOf(slave, `${a}/tls`);
  assert.ok(tls);
  const error = { kind: 'tls', message: 'no secure connection' } as const;
  await world.done(world.frontier.release(tls, { error }));
  // No second try mends that.
  assert.deepEqual(world.crawl().status().errors, { status: 1, tls: 1 });
  await world.fail(slave, `${a}/down`);
  assert.deepEqual(world.crawl().status().errors, { status: 1, tls: 1 });
  await world.advance(2_000);
  await world.fail(slave, `${a}/down`);
  assert.deepEqual(world.crawl().status().errors, { status: 1, tls: 1, connect: 1 });
  assert.deepEqual([world.crawl().counters.failed, world.crawl().counters.buried], [3, 2]);
  await world.done(world.frontier.replay('default', undefined));
  assert.deepEqual(world.crawl().status().errors, { status: 1 });
  assert.equal(world.crawl().counters.failed, 1);
});

worldTest('a calendar ends', async (world) => {
  const day = (n: number) => `${a}/calendar/${1000 + n}`;
  await world.seed(day(0), { traps: { similar: 10 } });
  const slave = world.slave();
  await world.settle();
  for (let n = 0; world.finished.length === 0; n++) {
    assert.ok(n < 100);
    await world.page(slave, day(n), { links: [day(n + 1)] });
  }
  // Five links away from the seed it begins to count.
  assert.equal(world.crawl().counters.pages, 1 + 5 + 10);
  assert.deepEqual(skipped(world), { similar: 1 });
});
