/** Hostile pages through a real master and slave with rules: no slot is held for longer than its
 *  limit, memory is bounded, the slave lives, and each failure is counted. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { itemLines, shop } from '../support/items.ts';
import { childrenOf } from '../support/process-tree.ts';

const timeout = 120_000;
const items = `rule-bytes: 16000000
items:
  title: { match: { content: "<title>" }, fields: { t: title } }
  deep: { match: "/(deep|table)", fields: { a: "//div", b: "count(//*)" } }
  json: { match: /json, each: "$..*", fields: { a: "$" } }
  pattern: { match: /pattern, fields: { a: { regex: "(a+)+(a+)+\\\\$" }, b: { regex: "(.*)*x" } } }
  slow: { match: /slow, each: "//a[count(preceding::a) > 1]", fields: { a: "count(//a[.//a])" } }
  entities: { match: /entities, fields: { a: //lolz } }
`;

/** The most that a process and its children had, sampled. */
function watched(t: TestContext, pid: number): { readonly own: number; readonly child: number } {
  const most = { own: 0, child: 0 };
  const timer = setInterval(() => {
    most.own = Math.max(most.own, rssOf(pid));
    for (const child of childrenOf(pid)) most.child = Math.max(most.child, rssOf(child));
  }, 50);
  t.after(() => clearInterval(timer));
  return most;
}

function rssOf(pid: number): number {
  try {
    const [, kb = '0'] =
      /^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
    return Number(kb) * 1024;
  } catch {
    return 0;
  }
}

test('hostile items: a crawl of hostile pages ends, and the others have their rows', {
  timeout,
}, async (t) => {
  const laughs = Array.from({ length: 9 }, (_, i) => {
    return `<!ENTITY lol${i + 1} "${`&lol${i};`.repeat(10)}">`;
  });
  const xml = `<!DOCTYPE lolz [<!ENTITY lol0 "lol">${laughs.join('')}]><lolz>&lol9;</lolz>`;
  const json = 'application/json';
  const { url } = await shop(t, {
    '/deep': `<title>deep</title>${'<div>'.repeat(1_000_000)}`,
    '/table': `<title>table</title>${'<table><tr><td>'.repeat(300_000)}`,
    '/json/long': [json, `["${'x'.repeat(50 << 20)}"]`],
    '/json/arrays': [json, '['.repeat(8 << 20)],
    '/json/many': [json, `[${'1,'.repeat(2 << 20)}1]`],
    '/pattern': `<title>pattern</title>${'a'.repeat(4 << 20)}`,
    '/slow': `<title>slow</title>${'<a>x</a>'.repeat(60_000)}`,
    '/entities': ['text/xml', xml],
    '/fine': '<title>fine</title>',
  });
  const cluster = new Cluster(t);
  const path = join(cluster.folder, 'shop.yaml');
  writeFileSync(path, `crawl: shop\ndelay: 0\nseeds: ["${url}"]\n${items}`);
  const master = await cluster.master([path]);
  const slave = cluster.slave(['--slots', '4']);
  const most = watched(t, slave.pid);
  await master.said(/crawl shop is done/);
  const titles = itemLines(cluster, 'items').filter(({ rule }) => rule === 'title');
  assert.ok(titles.some(({ item }) => item?.['t'] === 'fine'));
  const whys = itemLines(cluster, 'rejected').map(({ url: at, rule, why }) => {
    return `${at.slice(url.length)} ${rule}: ${why}`;
  });
  t.diagnostic(whys.join('\n'));
  t.diagnostic(`slave ${most.own >> 20} MB, child ${most.child >> 20} MB`);
  const of = (page: string) => whys.filter((why) => why.startsWith(page)).join('\n');
  assert.match(of('deep'), /nested more than 2000|longer than/);
  assert.match(of('json/long'), /longer than 16000000|rule-bytes/);
  assert.notEqual(of('json/arrays'), '');
  assert.notEqual(of('json/many'), '');
  assert.match(of('slow'), /longer than 5 s/);
  assert.doesNotMatch(
    itemLines(cluster, 'items')
      .map((line) => JSON.stringify(line))
      .join(),
    /lollol/,
  );
  assert.ok(slave.isAlive);
  assert.ok(most.own < 700 << 20, `the slave took ${most.own >> 20} MB`);
  assert.ok(most.child < 700 << 20, `its child took ${most.child >> 20} MB`);
  const { errors, pages } = await cluster.status('shop');
  assert.equal(pages, 10);
  assert.ok((errors.rule ?? 0) >= 4, JSON.stringify(errors));
});
