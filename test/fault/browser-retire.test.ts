/** A browser at its limits of pages and memory: another one takes over, no page is lost, and no
 *  process of the old one stays. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { makeLog } from '../../shared/log.ts';
import { AddressCache } from '../../shared/resolver.ts';
import { Browsers } from '../../slave/browser/browsers.ts';
import type { BrowserLimits } from '../../slave/browser/find.ts';
import type { RenderEnd } from '../../slave/browser/rendering.ts';
import { browserFlags, browsersOf, groupEnded, noBrowser } from '../support/browser.ts';
import { BrowserSite } from '../support/browser-site.ts';
import { Cluster } from '../support/cluster.ts';

const timeout = 90_000;
const skip = noBrowser;

/** A browser of this process with such limits, and what renders a page in it. */
async function open(t: TestContext, limits: Partial<BrowserLimits>) {
  const path = process.env['PATH'] ?? '';
  const settings = {
    program: undefined,
    isSandboxed: process.getuid?.() !== 0,
    path,
    env: { PATH: path },
    limits,
  };
  const lines: string[] = [];
  const asked: string[] = [];
  const write = (line: string) => void lines.push(line);
  const log = makeLog({ level: 'info', json: false, write });
  const parts = { addresses: new AddressCache(), slots: 3, onAble: () => {}, log };
  const browsers = await Browsers.open(settings, parts);
  assert.ok(browsers !== undefined);
  await browsers.started;
  t.after(() => browsers.close());
  const spec = fetchSpecSchema.parse({ render: true });
  const rendered = (n: number, script = '', wait = 1): Promise<RenderEnd> =>
    browsers.render({
      document: {
        url: `http://site.example/${n}`,
        status: 200,
        headers: {},
        body: Buffer.from(`<p id=p></p><script>p.textContent = 'made ${n}'; ${script}</script>`),
      },
      spec,
      render: { when: 'always' as const, wait },
      userAgent: 'Orbweaver',
      cookies: [],
      blocks: [],
      signal: new AbortController().signal,
      headersFor: () => [],
      fetchDocument: async (url) => {
        asked.push(url);
        return undefined;
      },
    });
  return { rendered, lines, asked };
}

test('browser: at its limit of pages another one takes over', { timeout, skip }, async (t) => {
  const { rendered, lines } = await open(t, { pages: 3 });
  const groups = new Set(browsersOf(process));
  const ends: RenderEnd[] = [];
  for (let n = 0; n < 9; n += 3) {
    const pages = Promise.all([n, n + 1, n + 2].map((one) => rendered(one, '', 500)));
    // The one before is gone by then, or goes.
    const looks = setInterval(() => {
      for (const group of browsersOf(process)) groups.add(group);
    }, 50);
    ends.push(...(await pages));
    clearInterval(looks);
  }
  for (const [n, end] of ends.entries()) {
    assert.ok(end.kind === 'rendered', JSON.stringify(end));
    assert.match(end.page.html, new RegExp(`made ${n}<`));
  }
  assert.equal(groups.size, 3);
  for (const group of groups) await groupEnded(group);
  assert.deepEqual(lines, []);
});

test('browser: a page cannot close itself, and what it opens gets nothing', {
  timeout,
  skip,
}, async (t) => {
  const { rendered, asked } = await open(t, {});
  const closes = await rendered(1, `p.append(' and stays'); setTimeout(() => close(), 20)`);
  assert.ok(closes.kind === 'rendered', JSON.stringify(closes));
  assert.match(closes.page.html, /made 1 and stays/);
  const opens = await rendered(
    2,
    `const w = open(''); open('/a'); open('/b', '', 'noopener');
    w?.document.write('<img src=/c>'); p.append(' and goes on')`,
  );
  assert.ok(opens.kind === 'rendered', JSON.stringify(opens));
  assert.match(opens.page.html, /made 2 and goes on/);
  assert.deepEqual([asked, browsersOf(process).length], [[], 1]);
});

test('browser: no kill at any moment of a page keeps its slot', { timeout, skip }, async (t) => {
  const { rendered } = await open(t, {});
  for (const afterMs of [0, 5, 10, 20, 40, 80, 160]) {
    const pages = Promise.all([1, 2, 3].map((one) => rendered(one)));
    await sleep(afterMs);
    for (const group of browsersOf(process)) process.kill(-group, 'SIGKILL');
    const ends = await Promise.race([pages, sleep(20_000, undefined, { ref: false })]);
    assert.ok(ends !== undefined, `killed ${afterMs} ms after its begin, a page never ended`);
    for (const end of ends) assert.equal(end.kind, 'rendered', JSON.stringify(end));
  }
});

test('browser: too much memory ends it, at once or after its pages', {
  timeout,
  skip,
}, async (t) => {
  const soft = await open(t, { memoryBytes: 1 });
  const [first = 0] = browsersOf(process);
  // Each page takes longer than a look at the memory.
  const ends = await Promise.all([1, 2, 3].map((one) => soft.rendered(one, '', 1_000)));
  assert.deepEqual(
    ends.map(({ kind }) => kind),
    ['rendered', 'rendered', 'rendered'],
  );
  await groupEnded(first);
  assert.equal((await soft.rendered(4)).kind, 'rendered');
  assert.deepEqual(soft.lines, []);
  const hard = await open(t, { memoryBytesHard: 1 });
  assert.equal((await hard.rendered(1, '', 5_000)).kind, 'failed');
});

test('browser: a page that takes all memory ends alone', { timeout, skip }, async (t) => {
  const { rendered, lines } = await open(t, { memoryBytesHard: 700 << 20 });
  const before = browsersOf(process);
  const hog = `const all = [];
    setInterval(() => all.push(new Uint8Array(50 << 20).fill(7)), 50);`;
  const good = rendered(2, '', 8_000);
  const bad = await rendered(1, hog, 20_000);
  assert.deepEqual(bad, { kind: 'failed', why: 'the page crashed its browser tab' });
  // It may be replaced after the other one.
  assert.deepEqual(
    browsersOf(process).filter((one) => before.includes(one)),
    before,
  );
  assert.equal((await good).kind, 'rendered');
  assert.deepEqual(lines, []);
});

test('browser: one that does not start holds up nothing', { timeout, skip }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orb-browser-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const program = join(folder, 'hangs');
  writeFileSync(program, '#!/bin/sh\nsleep 60\n', { mode: 0o755 });
  const cluster = new Cluster(t);
  const site = await new BrowserSite({ '/': '<p>x' }).open(t);
  await cluster.master([`${site.url}/`, '--exit-when-done']);
  const env = { ...process.env, TMPDIR: join(folder, 'tmp') };
  mkdirSync(env.TMPDIR);
  const slave = cluster.slave([...browserFlags, '--browser-program', program], undefined, {
    env,
  });
  const begun = performance.now();
  let group = 0;
  while (slave.isAlive && group === 0) {
    [group = 0] = browsersOf(slave);
    await sleep(20);
  }
  await slave.exited;
  await groupEnded(group);
  assert.deepEqual(readdirSync(env.TMPDIR), []);
  assert.ok(performance.now() - begun < 20_000);
  assert.equal(site.count('/'), 1);
});
