/**
 * Pages for comparisons of trees: orderly ones as sites have them, and hostile ones, in which tags
 * cross, are left open, or are not tags at all. The same seed makes the same page.
 */
import { randomUint32s } from './random.ts';

/** From 0 to 1, without 1. */
type Random = () => number;

function randomFrom(seed: number): Random {
  const next = randomUint32s(seed);
  return () => next() / 2 ** 32;
}

const words =
  'price book Seite 東京 été a &amp; b x&nbsp;y &lt;3 café &#65; “q” total 12.50 free'.split(' ');
const inline = ['b', 'i', 'em', 'code', 'span', 'font', 'small', 'u', 'tt', 'a', 'strong', 'sub'];
const blocks = ['div', 'p', 'ul', 'ol', 'table', 'dl', 'pre', 'blockquote', 'h2', 'form', 'center'];

function pick<T>(random: Random, from: readonly T[]): T {
  return from[Math.floor(random() * from.length)] as T;
}

function some(random: Random, max: number, make: () => string): string {
  return Array.from({ length: 1 + Math.floor(random() * max) }, make).join('');
}

function text(random: Random): string {
  return some(random, 6, () => `${pick(random, words)} `).trim();
}

/** A page without faults, with tables, lists, forms and images. */
export function orderlyPage(seed: number): string {
  const random = randomFrom(seed);
  const attribute = () =>
    pick(random, ['', ' class="x"', ' id="n1"', ' class="a x b"', ' title="t &quot;u&quot;"']);
  const link = () =>
    `<a href="${pick(random, ['#', 'a.html', 'http://h/b.html?a=1&amp;b=2'])}"${attribute()}>${text(random)}</a>`;
  const phrase = () => {
    const tag = pick(random, inline);
    return pick(random, [
      text(random),
      link(),
      `<${tag}${attribute()}>${text(random)}</${tag === 'a' ? 'a' : tag}>`,
      '<br>',
      '<img src="i.png" alt="">',
    ]);
  };
  const phrases = () => some(random, 5, phrase);
  const row = () => `<tr>${some(random, 4, () => `<td${attribute()}>${phrases()}</td>`)}</tr>\n`;
  const block = (): string => {
    switch (pick(random, blocks)) {
      case 'ul':
        return `<ul${attribute()}>${some(random, 4, () => `<li>${phrases()}</li>\n`)}</ul>`;
      case 'ol':
        return `<ol>${some(random, 3, () => `<li>${phrases()}<ul><li>${text(random)}</li></ul></li>`)}</ol>`;
      case 'table':
        return `<table bgcolor="#FBFEFF">${pick(random, ['', '<thead><tr><th>h</th></tr></thead>'])}<tbody>${some(random, 4, row)}</tbody></table>`;
      case 'dl':
        return `<dl>${some(random, 3, () => `<dt>${text(random)}</dt><dd>${phrases()}</dd>`)}</dl>`;
      case 'pre':
        return `<pre>\n${text(random)}\n</pre>`;
      case 'h2':
        return `<h2>${text(random)}</h2>`;
      case 'form':
        return `<form action="/s"><input name="q" value="1"><select><option>1</option><option selected>2</option></select></form>`;
      case 'div':
        return `<div${attribute()}>${phrases()}<p>${phrases()}</p></div>`;
      case 'center':
        return `<center><img src="c.gif"></center>`;
      case 'blockquote':
        return `<blockquote><p>${phrases()}</p></blockquote>`;
      default:
        return `<p${attribute()}>${phrases()}</p>`;
    }
  };
  return (
    `<!DOCTYPE html>\n<html lang="en">\n<head>\n<title>${text(random)}</title>\n<meta name="d" content="c">\n` +
    `<link rel="s" href="s.css">\n<style>p > a { x: "y" }</style>\n<script>if (a < b) x("<p>");</script>\n</head>\n<body>\n` +
    `<!-- note -->\n${some(random, 12, () => `${block()}\n`)}</body>\n</html>\n`
  );
}

const odd = [
  ...[
    '</p>',
    '</div>',
    '</b>',
    '</table>',
    '</td>',
    '<b><p>',
    '</b></p>',
    '<a><a>',
    '<li>',
    '<td>',
    '<tr>',
  ],
  ...[
    '<option>',
    '<p>',
    '<table><td>',
    '<dd>',
    '<dt>',
    '<ul><p>',
    '</ul>',
    '<h1><h2>',
    '</h1>',
    '<form><form>',
  ],
  ...[
    '<div/>',
    '<p/>',
    '<br/>',
    '</br>',
    '<img src=x>',
    '<input value=a disabled>',
    '< b',
    '<3',
    '<>',
    'a<b',
  ],
  ...[
    '<p class=a class=b>',
    '<a href=x?a=1&b=2>',
    "<i title='\"'>",
    '<u title="a\nb\tc">',
    '<em a=1b=2>',
  ],
  ...[
    '<x-y data-a=1>',
    '</x-y>',
    '<body class=x>',
    '<html lang=de>',
    '</body>',
    '<title>u</title>',
    '<!-- c -->',
  ],
  ...[
    '&amp',
    '&lt;',
    '&unknown;',
    '&#x1F600;',
    '&#169;',
    '\r\n',
    '\u0085',
    '<center>',
    '</center>',
    '<pre>\n\n',
  ],
  ...[
    '<font color=red>',
    '</font>',
    '<span><div>',
    '</span>',
    '<blockquote>',
    '<noscript><p>',
    '<select><p>',
  ],
  ...[
    '<textarea>a</textarea>',
    '<style>b{}</style>',
    '<script>c<d</script>',
    '<label><hr>',
    '<h3><p>',
  ],
];

/** A page full of faults. */
export function hostilePage(seed: number): string {
  const random = randomFrom(seed ^ 0x5f5f);
  const start = pick(random, [
    ...['', '<html>', '<body>', '<!DOCTYPE html>', '<html><head><title>t</title>', '<p>', 'text '],
    ...['<title>a</title>', '\n<html>\n<body>\n', '<head><meta name=a><body>'],
  ]);
  const part = () =>
    pick(random, [
      pick(random, odd),
      pick(random, odd),
      text(random),
      `<${pick(random, blocks)}>`,
      `</${pick(random, [...blocks, ...inline])}>`,
      `<${pick(random, inline)}>`,
    ]);
  return start + some(random, 60, part);
}

/** Pages with what XML forbids: our own writer must cope with it, and lxml drops it. */
export function forbiddenPage(seed: number): string {
  const random = randomFrom(seed ^ 0xf0f0);
  const parts = [
    ...[
      '<a @click="x" :y="1" v-on:z.b=\'2\' #r [p]="q" (e)="f">',
      '<o:p>w</o:p>',
      '<svg xmlns="http://s" xlink:href="a"><path d="1"/></svg>',
    ],
    ...[
      '<p xmlns:x="u" xml:lang="de">',
      '\u0001\u0008\u000b\u001f',
      '\ufffe\uffff',
      '\ud800',
      'x\udc00y',
      '\u0000',
      '<!-- a--b -- c--->',
    ],
    ...[
      '<!---->',
      '<!-->',
      '<![CDATA[ x ]]>',
      '<?php echo "a>b" ?>',
      '<!DOCTYPE x [<!ENTITY a "b">]>',
      '&a;',
      ']]>',
      '\r',
      'a\r\nb',
    ],
    ...[
      '<p "x"=1 \'=2 a"b=3 <=4>',
      '<d\u00e9j\u00e0 \u00e9="1">',
      '<p _x0040_a=1 @a=2>',
      '<a.b c.d=1>',
      '<1>',
      '<a\u0000b>',
      '<p =x>',
    ],
    ...[
      '<math:mi>k</math:mi>',
      '<svg:rect svg:x="1"/>',
      '<xml:a>',
      '<xmlns>',
      '<p xmlns>',
      '<xlink:>',
      '<:a>',
      '<a:>',
      '<a::b>',
    ],
  ];
  return `<html><body>${some(random, 40, () => pick(random, [...parts, text(random)]))}`;
}
