/** A browser at its limits of pages and memory: another one takes over, no page is lost, and no
 *  process of the old one stays. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { makeLog } from '../../shared/log.ts';
import { AddressCache } from '../../shared/resolver.ts';
import { Browsers } from '../../slave/browser/browsers.ts';
import type { BrowserLimits } from '../../slave/browser/chromium.ts';
import type { RenderEnd } from '../../slave/browser/rendering.ts';
import { browsersOf, groupEnded, noBrowser } from '../support/browser.ts';

const timeout = 90_000;
const skip = noBrowser;

/** A browser of this process with such limits, and what renders a page in it. */
async function open(t: TestContext, limits: Partial<BrowserLimits>) {
  const path = process.env['PATH'] ?? '';
  const settings = {
    ...{ program: undefined, isSandboxed: process.getuid?.() !== 0, path },
    ...{ env: { PATH: path }, limits },
  };
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const log = makeLog({ level: 'info', json: false, write });
  const parts = { addresses: new AddressCache(), slots: 3, onAble: () => {}, log };
  const browsers = await Browsers.open(settings, parts);
  assert.ok(browsers !== undefined);
  t.after(() => browsers.close());
  const spec = fetchSpecSchema.parse({ render: true });
  const rendered = (n: number): Promise<RenderEnd> =>
    browsers.render({
      document: {
        ...{ url: `http://site.example/${n}`, status: 200, headers: {} },
        body: Buffer.from(`<p id=p></p><script>p.textContent = 'made ${n}'</script>`),
      },
      ...{ spec, render: { when: 'always' as const }, userAgent: 'Orbweaver' },
      ...{ cookies: [], blocks: [], signal: new AbortController().signal },
      headersFor: () => [],
      fetchDocument: async () => undefined,
    });
  return { rendered, lines };
}

test('browser: at its limit of pages another one takes over', { timeout, skip }, async (t) => {
  const { rendered, lines } = await open(t, { pages: 3 });
  const groups = new Set(browsersOf(process));
  const ends: RenderEnd[] = [];
  for (let n = 0; n < 9; n += 3) {
    ends.push(...(await Promise.all([n, n + 1, n + 2].map(rendered))));
    for (const group of browsersOf(process)) groups.add(group);
  }
  for (const [n, end] of ends.entries()) {
    assert.ok(end.kind === 'rendered', JSON.stringify(end));
    assert.match(end.page.html, new RegExp(`made ${n}<`));
  }
  assert.equal(groups.size, 3);
  for (const group of groups) await groupEnded(group);
  assert.deepEqual(lines, []);
});

test('browser: too much memory ends it, at once or after its pages', {
  timeout,
  skip,
}, async (t) => {
  const soft = await open(t, { memoryBytes: 1 });
  const [first = 0] = browsersOf(process);
  // Each page takes longer than a look at the memory.
  const ends = await Promise.all([1, 2, 3].map(soft.rendered));
  assert.deepEqual(
    ends.map(({ kind }) => kind),
    ['rendered', 'rendered', 'rendered'],
  );
  await groupEnded(first);
  assert.equal((await soft.rendered(4)).kind, 'rendered');
  assert.deepEqual(soft.lines, []);
  const hard = await open(t, { memoryBytesHard: 1 });
  const end = await hard.rendered(1);
  assert.deepEqual(end, {
    kind: 'failed',
    why: 'the browser took more than 0 MB of memory under the page, twice',
  });
  assert.match(hard.lines.join(''), /browser: the browser took more than 0 MB of memory; the next/);
});
