/**
 * CSS on the tree of a page: what is found is what css-select finds by itself on a tree of objects,
 * from the document and from an element, on orderly pages and on chance ones.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { selectAll } from 'css-select';
import { Css, htmlOf, textOf } from '../../slave/rules/css.ts';
import { treeOf } from '../../slave/rules/html-tree.ts';
import { type AnyNode, Element, type ParentNode, Text } from '../../slave/rules/tree-nodes.ts';
import { cpuMsSince } from '../support/cpu-time.ts';
import { orderlyPage } from '../support/hostile-pages.ts';

/** A node as domutils reads it: what css-select goes by without an adapter. */
type Plain = {
  type: string;
  number: number;
  name?: string;
  attribs?: Readonly<Record<string, string>>;
  data?: string;
  parent: Plain | null;
  prev: Plain | null;
  next: Plain | null;
  children?: Plain[];
};

function plainOf(node: AnyNode, parent: Plain | null): Plain {
  const plain: Plain = { type: 'root', number: node.number, parent, prev: null, next: null };
  if (node instanceof Element) {
    Object.assign(plain, { type: 'tag', name: node.name, attribs: node.attribs });
  } else if (node instanceof Text) Object.assign(plain, { type: 'text', data: node.data });
  else if (!('children' in node)) plain.type = 'comment';
  if ('children' in node) {
    plain.children = node.children.map((child) => plainOf(child, plain));
    plain.children.forEach((child, i, all) => {
      child.prev = all[i - 1] ?? null;
      child.next = all[i + 1] ?? null;
    });
  }
  return plain;
}

const parts = [
  ...['<p>', '</p>', '<div class="a b">', '</div>', '<a href="x?a=1&amp;b">', '</a>', 'text'],
  ...['&amp;', ' ', '<html lang=en>', '<body class=c>', '</body>', '<li id=x class=A>', '<ul>'],
  ...['</ul>', '<table><tr><td>', '</table>', '<br>', '<img src=a checked>', '<!--c-->'],
  ...['<template><b class=a>q</b></template>', '<A B="C&lt;D" x:y=1>', '<p class="x&amp;y a">'],
  ...['<p class="ab ba">', '<p CLASS=a class=b>', '<\u0130K a=\u0130>', '<script>a<b</script>'],
  `<q ${Array.from({ length: 40 }, (_, i) => `z${i % 30}=v${i}`).join(' ')}>`,
];
const selectors = [
  ...['p', 'div', '.a', '.b.a', '#x', 'a[href]', '[class]', 'LI.A', 'p .a', 'div > a', 'p + p'],
  ...['p ~ a', 'td a', '*', '[class~=a]', '[class*=b]', '[class^=a]', '[href$=b]', '[class!=a]'],
  ...['a:not(.a)', 'li:first-child', 'p:nth-child(2)', 'p:last-of-type', 'div:has(a)', '*.a'],
  ...[':is(p, li)', 'p, li.A, .c', 'template b', 'template', 'body', 'html > body', '[checked]'],
  ...['[class=A i]', '[lang=EN]', ':contains("text")', ':empty', 'x\\:y', '[x\\:y]', 'q[z29]'],
  ...['div:has(> a) p', ':root', 'p:has(+ p)', 'a:only-child', '[a|=1]', '#x.A > *', '\u0130k'],
];

/** The same for a seed. */
function pageOf(seed: number): string {
  let state = seed * 2_654_435_761 + 1;
  const next = (below: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % below;
  };
  return Array.from({ length: 1 + next(40) }, () => parts[next(parts.length)]).join('');
}

const pages = Array.from({ length: 300 }, (_, seed) => pageOf(seed));
const compiled = selectors.map((selector) => ({ selector, css: new Css(selector) }));

function numbersOf(css: Css, from: ParentNode): number[] {
  return css.elements(from).map(({ number }) => number);
}

for (const xml of [false, true]) {
  test(`css: finds what css-select finds on objects (${xml ? 'XML' : 'HTML'})`, () => {
    let found = 0;
    for (const page of [...pages, ...Array.from({ length: 20 }, (_, i) => orderlyPage(i))]) {
      const tree = treeOf(page, { xml });
      const plain = plainOf(tree, null);
      for (const { selector, css } of compiled) {
        const ours = numbersOf(css, tree);
        const theirs = selectAll(selector, plain as never, {
          cacheResults: false,
          xmlMode: xml,
        }) as never as Plain[];
        assert.deepEqual(
          ours,
          theirs.map(({ number }) => number),
          `${selector}: ${page}`,
        );
        found += ours.length;
      }
    }
    assert.ok(found > 10_000, `${found}`);
  });
}

test('css: below an element, its own descendants alone are found', () => {
  for (const page of pages) {
    const tree = treeOf(page);
    for (const { css } of compiled) {
      const whole = new Set(numbersOf(css, tree));
      for (const from of new Css('div, li, td').elements(tree).slice(0, 3)) {
        const below = new Set(numbersOf(new Css('*'), from));
        const expected = [...whole].filter((number) => below.has(number));
        if (from.name !== 'template') assert.deepEqual(numbersOf(css, from), expected, page);
      }
    }
  }
});

test('css: a tree says the same by numbers and by objects', () => {
  for (const page of pages) {
    const tree = treeOf(page);
    const texts: string[] = [];
    const walk = (node: AnyNode): void => {
      if (node instanceof Text) texts.push(node.data);
      if ('children' in node) for (const child of node.children) walk(child);
    };
    walk(tree);
    assert.equal(textOf(tree), texts.join(''));
    for (const element of new Css('*').elements(tree)) {
      const { attribs } = element;
      const read = Object.keys(attribs).map((name) => [
        name,
        tree.tree.attributeOf(element.number, name),
      ]);
      assert.deepEqual(Object.fromEntries(read), { ...attribs });
      assert.ok(htmlOf(element).startsWith(`<${element.name}`));
    }
  }
});

test('css: an element with very many attributes is read in linear time', () => {
  const many = Array.from({ length: 100_000 }, (_, i) => `a${i}=${i}`).join(' ');
  const began = process.cpuUsage();
  const [element] = new Css('p').elements(treeOf(`<p ${many} a7=again>`));
  assert.equal(Object.keys(element?.attribs ?? {}).length, 100_000);
  assert.equal(element?.attribs['a7'], '7');
  assert.ok(cpuMsSince(began) < 3_000);
});

test('css: names that no table has room for are still told apart', () => {
  const page = Array.from({ length: 12_000 }, (_, i) => `<x${i} class=c${i}>t</x${i}>`).join('');
  for (let round = 0; round < 2; round++) {
    const css = new Css('x11999.c11999');
    assert.deepEqual(css.texts(treeOf(page)), ['t']);
    assert.deepEqual(css.texts(treeOf('<x11999 class=c11999>u</x11999>')), ['u']);
  }
});

test('css: in a row the scope is the row', () => {
  const page = '<li><b>1</b><p><b>2</b></p></li><li><p><b>3</b></p><b>4</b></li>';
  const rows = new Css('li').elements(treeOf(page));
  const texts = (selector: string) => rows.map((row) => new Css(selector).texts(row));
  assert.deepEqual(texts(':scope > b'), [['1'], ['4']]);
  assert.deepEqual(texts('> b'), [['1'], ['4']]);
  assert.deepEqual(texts(':scope > p > b'), [['2'], ['3']]);
  assert.deepEqual(texts('b:not(:scope > b)'), [['2'], ['3']]);
  assert.deepEqual(new Css(':scope > body > li > b').texts(treeOf(page)), ['1', '4']);
});

test('css: in XML capitals count, and each element may have content', () => {
  const item =
    '<item><link>http://a/</link><pubDate>d</pubDate><guid isPermaLink="no">g</guid></item>';
  const feed = treeOf(`<rss><template>${item}</template></rss>`, { xml: true });
  const texts = (selector: string) => new Css(selector).texts(feed);
  assert.deepEqual(texts('item pubDate'), ['d']);
  assert.deepEqual(texts('pubdate'), []);
  assert.deepEqual(texts('guid::attr(isPermaLink)'), ['no']);
  assert.deepEqual(texts('[isPermaLink]'), ['g']);
  assert.deepEqual(texts('item::html'), [item]);
});

test('css: text that stands anywhere in an element, as parsel finds it', () => {
  const tree = treeOf('<p id=p>a <b>b <i>c</i></b> d</p><div><a href=x>e</a></div>');
  const texts = (selector: string) => new Css(selector).texts(tree);
  assert.deepEqual(texts('p::text'), ['a ', ' d']);
  assert.deepEqual(texts('p ::text'), ['a ', 'b ', 'c', ' d']);
  assert.deepEqual(texts('div ::attr(href)'), ['x']);
  const nested = new Css('div::text').texts(treeOf('<div>1<div>2</div>3</div><div>4</div>'));
  assert.deepEqual(nested, ['1', '2', '3', '4']);
});

test('css: places among very many siblings', () => {
  const tree = treeOf(`<table>${'<tr><td>1<td>2'.repeat(20_000)}</table>`);
  for (const selector of ['tr:last-child', 'tr:first-of-type', 'table:has(td) tr:first-child']) {
    const began = process.cpuUsage();
    assert.equal(new Css(selector).elements(tree).length, 1);
    assert.ok(cpuMsSince(began) < 1_500, selector);
  }
});
