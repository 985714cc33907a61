/**
 * XPath on our trees against lxml's own parse of the same HTML: what users of lxml know. Orderly
 * pages and hostile ones, half each; `PAGES=folder` adds the pages of a folder.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { textOf } from '../../slave/rules/css.ts';
import { RuleFault } from '../../slave/rules/fault.ts';
import { treeOf } from '../../slave/rules/html-tree.ts';
import { textOf as textOfFound, XmlPage, XPath } from '../../slave/rules/xpath.ts';
import { forbiddenPage, hostilePage, orderlyPage } from '../support/hostile-pages.ts';
import { expressions } from '../support/xpath-expressions.ts';

const python = '/usr/bin/python3';
const oracle = fileURLToPath(new URL('../../../test/support/xpath_oracle.py', import.meta.url));
const hasLxml = spawnSync(python, ['-c', 'import lxml']).status === 0;
const pagesEach = 200;
const { PAGES: folder, PAGES_EVERY: every = '1' } = process.env;

function pagesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.html?$/.test(path))
    .sort()
    .map((path) => readFileSync(join(folder, path), 'utf8'));
}

const seeds = Array.from({ length: pagesEach }, (_, seed) => seed);
const orderly = seeds.map(orderlyPage);
const hostile = seeds.map(hostilePage);
const forbidden = seeds.map(forbiddenPage);
const given = folder === undefined ? [] : pagesOf(folder);

test('xpath: libxml2 reads the elements, attributes and text that we wrote', () => {
  const whole = new XPath('string(/)');
  let refused = 0;
  for (const html of [...orderly, ...hostile, ...forbidden, ...given]) {
    const tree = treeOf(html);
    try {
      // Elements and attributes are compared by it.
      const page = new XmlPage(tree);
      const [text] = whole.find(page.root);
      const own = textOf(tree).replace(
        // biome-ignore lint/suspicious/noControlCharactersInRegex: XML has none of them
        /[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]/gu,
        '\ufffd',
      );
      assert.equal(text, own, html.slice(0, 500));
      page.close();
    } catch (error) {
      if (!(error instanceof RuleFault)) throw error;
      refused++;
    }
  }
  assert.equal(refused, 0);
});

test('xpath: there are expressions over all axes and functions', () => {
  assert.ok(expressions.length >= 300, `${expressions.length}`);
  for (const expression of expressions) new XPath(expression).close();
});

test('xpath: finds what lxml finds', { skip: hasLxml ? false : 'no python3-lxml' }, async (t) => {
  const sampled = given.filter((_, i) => i % Number(every) === 0);
  const groups = { orderly, hostile, given: sampled };
  const compiled = expressions.map((expression) => new XPath(expression));
  const child = spawn(python, [oracle], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => child.kill());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const differing = new Map<string, number>();
  const shares: Record<string, number> = {};
  for (const [name, pages] of Object.entries(groups)) {
    let pairs = 0;
    let equal = 0;
    for (const html of pages) {
      child.stdin.write(`${JSON.stringify({ html, expressions })}\n`);
      const page = new XmlPage(treeOf(html));
      const ours = compiled.map((xpath) => resultOf(xpath, page));
      page.close();
      const line = await lines.next();
      const theirs = JSON.parse(String(line.value)) as unknown[];
      for (const [i, expression] of expressions.entries()) {
        pairs++;
        if (isEqual(ours[i], theirs[i])) equal++;
        else differing.set(expression, (differing.get(expression) ?? 0) + 1);
      }
    }
    if (pairs > 0) shares[name] = equal / pairs;
  }
  child.stdin.end();
  for (const xpath of compiled) xpath.close();
  const worst = [...differing].sort((a, b) => b[1] - a[1]).slice(0, 10);
  const text = Object.entries(shares).map(
    ([name, share]) => `${name} ${(100 * share).toFixed(2)} %`,
  );
  console.log(`equal: ${text.join(', ')}; most often not: ${JSON.stringify(worst)}`);
  assert.ok((shares['orderly'] ?? 0) >= 0.999, text.join(', '));
  const both = ((shares['orderly'] ?? 0) + (shares['hostile'] ?? 0)) / 2;
  assert.ok(both >= 0.99, text.join(', '));
});

function resultOf(xpath: XPath, page: XmlPage): unknown {
  const all = xpath.find(page.root);
  const [first] = all;
  if (first !== undefined && typeof first !== 'object') {
    if (typeof first !== 'number' || Number.isFinite(first)) return first;
    return String(first);
  }
  return all.map(textOfFound);
}

/** A number of lxml has passed through JSON. */
function isEqual(ours: unknown, theirs: unknown): boolean {
  if (typeof ours === 'number' && typeof theirs === 'number') {
    return Math.abs(ours - theirs) <= 1e-9 * Math.abs(ours);
  }
  return JSON.stringify(ours) === JSON.stringify(theirs);
}
