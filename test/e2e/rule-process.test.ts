/** Rules on hostile pages, in real processes: no page takes longer or more than it may, the others
 *  are not touched, and nothing is left behind. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { describe, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ItemRules } from '../../shared/items.ts';
import type { PageInput } from '../../shared/rule-results.ts';
import { RuleProcess } from '../../slave/rules/rule-process.ts';
import { childrenOf, gone } from '../support/process-tree.ts';
import { standStill } from '../support/standstill.ts';

const timeout = 60_000;
const jsonBytesMax = 16 << 20;

function pageOf(text: string, type = 'text/html'): PageInput {
  const url = 'http://site/page';
  return { url, finalUrl: url, depth: 0, status: 200, type, headers: {}, text };
}

type Options = NonNullable<ConstructorParameters<typeof RuleProcess>[0]>;

async function rulesOf(t: TestContext, items: ItemRules, options: Options = {}) {
  const process = new RuleProcess(options);
  t.after(() => process.close());
  const set = await process.learn(items);
  assert.ok(typeof set === 'number', JSON.stringify(set));
  const ask = async (page: PageInput) => {
    const begun = performance.now();
    const outcome = await process.evaluate(set, page, jsonBytesMax);
    return { outcome, ms: performance.now() - begun };
  };
  return { process, ask };
}

const title = { page: { fields: { title: 'title' } } };
const fine = pageOf('<title>fine</title>');

/** The page after a hostile one is evaluated, soon. */
async function isFine(ask: Awaited<ReturnType<typeof rulesOf>>['ask']): Promise<number> {
  const { outcome, ms } = await ask(fine);
  assert.ok('result' in outcome, JSON.stringify(outcome));
  assert.deepEqual(outcome.result.rows, [{ rule: 'page', values: { title: 'fine' } }]);
  return ms;
}

describe('rule process', () => {
  test('rule process: a page nested a million times is a failure of its rule', {
    timeout,
  }, async (t) => {
    const items = { ...title, xpath: { fields: { a: '//title' } } };
    const { ask } = await rulesOf(t, items);
    for (const tag of ['div', 'b', 'table', 'ul', 'a']) {
      const { outcome } = await ask(pageOf(`<title>t</title>${`<${tag}>`.repeat(1_000_000)}`));
      if ('result' in outcome) {
        for (const { message } of outcome.result.failures) {
          assert.match(message, /nested more than 2000 elements deep|longer than 16 MB/);
        }
      } else assert.match(outcome.failed, /longer than|memory/);
    }
    const { outcome } = await ask(fine);
    assert.ok('result' in outcome && outcome.result.rows.length === 2);
  });

  test('rule process: 50 MB of JSON are refused, and 15 MB of arrays are parsed or cost a child', {
    timeout,
  }, async (t) => {
    const items = { ...title, json: { match: { content: '^\\[' }, fields: { a: '$[0]' } } };
    const { ask } = await rulesOf(t, items);
    const long = await ask(pageOf(`["${'x'.repeat(50 << 20)}"]`, 'application/json'));
    assert.ok('result' in long.outcome, JSON.stringify(long.outcome));
    assert.match(long.outcome.result.failures.at(-1)?.message ?? '', /more than rules read/);
    const { outcome } = await ask(pageOf('['.repeat(15 << 20), 'application/json'));
    if ('failed' in outcome) assert.match(outcome.failed, /longer than|memory/);
    await isFine(ask);
  });

  test('rule process: a second child is started when a page takes long, not before', {
    timeout,
  }, async (t) => {
    const items = { page: { fields: { title: 'title', slow: 'count(//p[count(//p) > 0])' } } };
    const { ask } = await rulesOf(t, items);
    for (let page = 0; page < 3; page++) await ask(fine);
    assert.equal(childrenOf(globalThis.process.pid).length, 1);
    const { outcome, ms } = await ask(pageOf('<title>x</title>'.concat('<p>'.repeat(20_000))));
    assert.ok(ms > 500, `${ms} ms, ${JSON.stringify(outcome)}`);
    assert.equal(childrenOf(globalThis.process.pid).length, 2);
  });

  test('rule process: a page that takes too long costs its child, and the next is ready', {
    timeout,
  }, async (t) => {
    const killed: string[] = [];
    const slow = {
      page: { fields: { title: 'title', slow: 'count(//*[count(//*[count(//*) > 0]) > 0])' } },
    };
    const { ask } = await rulesOf(t, slow, { timeMs: 1_000, onKilled: (why) => killed.push(why) });
    const { outcome, ms } = await ask(pageOf('<title>x</title>'.concat('<p>'.repeat(20_000))));
    assert.deepEqual(outcome, { failed: 'took longer than 1 s' });
    assert.ok(ms < 11_000, `${ms} ms`);
    assert.deepEqual(killed, ['took longer than 1 s']);
    const again = await ask(fine);
    assert.ok('result' in again.outcome, JSON.stringify(again.outcome));
  });

  test('rule process: time in which the slave stands still is not that of a page', {
    timeout,
  }, async (t) => {
    const killed: string[] = [];
    const onKilled = (why: string) => killed.push(why);
    const { ask } = await rulesOf(t, title, { timeMs: 1_000, onKilled });
    await ask(fine);
    const asked = ask(fine);
    // The child answers, and nobody reads it.
    standStill(1_500);
    const { outcome } = await asked;
    assert.ok('result' in outcome, JSON.stringify(outcome));
    assert.deepEqual(killed, []);
  });

  for (const [timeMs, stoppedMs] of [
    [500, 1_000],
    [300, 4_500],
  ] as const) {
    const how = `${stoppedMs} ms with a limit of ${timeMs}`;
    test(`rule process: time in which the child is stopped is not that of a page: ${how}`, {
      timeout,
      skip: process.platform !== 'linux',
    }, async (t) => {
      const killed: string[] = [];
      const before = childrenOf(process.pid);
      const { ask } = await rulesOf(t, title, { timeMs, onKilled: (why) => killed.push(why) });
      await ask(fine);
      const [child = 0] = childrenOf(process.pid).filter((pid) => !before.includes(pid));
      process.kill(child, 'SIGSTOP');
      setTimeout(() => process.kill(child, 'SIGCONT'), stoppedMs);
      const { outcome } = await ask(fine);
      assert.ok('result' in outcome, JSON.stringify(outcome));
      assert.deepEqual(killed, []);
    });
  }

  test('rule process: nor is time in which it waits for a processor', {
    timeout,
    skip: !existsSync('/proc/self/schedstat') || spawnSync('taskset', ['-V']).status !== 0,
  }, async (t) => {
    const all = { all: { each: 'p', fields: { text: '.' } } };
    const page = pageOf(`<title>t</title>${'<p>some words</p>'.repeat(9_000)}`);
    const { ask: measure } = await rulesOf(t, all);
    await measure(page);
    const { ms } = await measure(page);
    const killed: string[] = [];
    const before = childrenOf(process.pid);
    const { ask } = await rulesOf(t, all, { timeMs: 2 * ms, onKilled: (why) => killed.push(why) });
    const pinned = ['-c', '0', process.execPath, '-e', 'for (;;);'];
    const busy = Array.from({ length: 4 }, () => spawn('taskset', pinned));
    t.after(() => busy.map((one) => one.kill('SIGKILL')));
    const children = childrenOf(process.pid).filter((pid) => !before.includes(pid));
    for (const child of children.filter((pid) => busy.every((one) => one.pid !== pid))) {
      assert.equal(spawnSync('taskset', ['-a', '-c', '-p', '0', `${child}`]).status, 0);
    }
    const { outcome } = await ask(page);
    assert.ok('result' in outcome, JSON.stringify(outcome));
    assert.deepEqual(killed, []);
  });

  test('rule process: a page that takes too much memory costs its child', {
    timeout,
  }, async (t) => {
    const all = {
      page: { fields: { title: 'title' } },
      wide: { each: '*', fields: { text: '.' } },
    };
    const { ask } = await rulesOf(t, all, { memoryBytes: 150 << 20 });
    const { outcome } = await ask(pageOf('<i></i>'.repeat(1_400_000)));
    assert.ok('failed' in outcome, JSON.stringify(outcome).slice(0, 300));
    assert.match(outcome.failed, /memory/);
    const again = await ask(fine);
    assert.ok('result' in again.outcome, JSON.stringify(again.outcome));
  });

  test('rule process: catastrophic patterns and XML entities cost nothing', {
    timeout,
  }, async (t) => {
    const items = {
      page: { fields: { title: 'title', bomb: { regex: '^(a+)+$' }, alt: { regex: '(x|x)*y' } } },
    };
    const { ask } = await rulesOf(t, items);
    const { outcome, ms } = await ask(
      pageOf(`<title>fine</title>${'a'.repeat(100_000)}!${'x'.repeat(100_000)}`),
    );
    assert.ok('result' in outcome && ms < 3_000, `${ms} ms`);
    const entities =
      '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY x SYSTEM "file:///etc/passwd">]>';
    const xml = await ask(pageOf(`${entities}<title>&b;&x;</title>`, 'application/xml'));
    assert.ok('result' in xml.outcome);
    assert.doesNotMatch(JSON.stringify(xml.outcome), /root:|aaaa/);
  });

  test('rule process: pages that wait when a child is killed are evaluated by the next', {
    timeout,
  }, async (t) => {
    const { process, ask } = await rulesOf(t, title);
    const [child] = childrenOf(globalThis.process.pid);
    assert.ok(child !== undefined);
    const pages = Array.from({ length: 20 }, () => ask(fine));
    globalThis.process.kill(child, 'SIGKILL');
    const outcomes = await Promise.all(pages);
    const failed = outcomes.filter(({ outcome }) => 'failed' in outcome);
    assert.ok(failed.length <= 1, JSON.stringify(failed));
    await process.close();
    assert.deepEqual(childrenOf(globalThis.process.pid), []);
  });

  test('rule process: a child ends with its slave, even in the middle of a page', {
    timeout,
  }, async (t) => {
    const module = fileURLToPath(new URL('../../slave/rules/rule-process.js', import.meta.url));
    const script = `
      import { RuleProcess } from ${JSON.stringify(module)};
      const rules = new RuleProcess({ timeMs: 600_000 });
      const set = await rules.learn({ p: { fields: { a: 'count(//*[count(//*[count(//*) > 0]) > 0])' } } });
      const page = { url: 'http://a/', finalUrl: 'http://a/', depth: 0, status: 200, type: 'text/html', headers: {}, text: '<p>'.repeat(50_000) };
      void rules.evaluate(set, page, 1e6);
      console.log('busy');`;
    const parent = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => parent.kill('SIGKILL'));
    await once(parent.stdout, 'data');
    const [child] = childrenOf(parent.pid ?? 0);
    assert.ok(child !== undefined);
    parent.kill('SIGKILL');
    await gone([child]);
  });
});
