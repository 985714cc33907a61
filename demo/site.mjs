// All that the demo site serves: a map from canonical path (query included) to a page, a redirect
// or a file. What a crawler must get right stands here on purpose: old charsets, <base>, srcset,
// an image map, redirects in a row, links that lead nowhere, and text that only looks like a link.
import { encode, encodeQuery } from './charsets.mjs';
import { families, glossary, habitats, log, spiders, webs } from './guide.mjs';
import { escapeHtml, Page } from './page.mjs';
import {
  landscapePicture,
  logoPicture,
  mapPicture,
  spiderPicture,
  webPicture,
} from './pictures.mjs';

const perPage = 8;
const logPerPage = 4;
const urlOf = {
  spider: ({ slug }) => `/spiders/${slug}.html`,
  family: ({ slug }) => `/families/${slug}.html`,
  web: ({ slug }) => `/webs/${slug}.html`,
  habitat: ({ slug }) => `/habitats/${slug}/`,
  spiderPicture: ({ slug }) => `/img/spiders/${slug}.svg`,
  webPicture: ({ slug }) => `/img/webs/${slug}.svg`,
  landscape: ({ slug }, width) => `/img/habitats/${slug}-${width}.png`,
};

/** @returns {Map<string, {kind: 'page', page: Page} | {kind: 'redirect', to: string, status: number}
 *  | {kind: 'file', type: string, body: () => Buffer | string}>} */
export function makeSite() {
  const site = new Map();
  const pages = [
    homePage(),
    ...spiderLists(),
    ...spiders.map(spiderPage),
    ...listAndPages('/webs/', 'Webs', webs, urlOf.web, webPage),
    ...listAndPages('/habitats/', 'Habitats', habitats, urlOf.habitat, habitatPage),
    ...listAndPages('/families/', 'Families', families, urlOf.family, familyPage),
    glossaryPage(),
    mapPage(),
    galleryPage(),
    ...logPages(),
    ...comparePages(),
    aboutPage(),
    linksPage(),
    archivePage(),
    oldArchivePage(),
    novemberPage(),
    chinesePage(),
    chineseAnswerPage(),
    japanesePage(),
    japaneseAnswerPage(),
    japaneseWebPage(),
    oldPage(),
    utf16Page(),
  ];
  for (const page of pages) site.set(page.path, { kind: 'page', page });
  for (const [from, status, to] of redirects) site.set(from, { kind: 'redirect', status, to });
  for (const [path, type, body] of files()) site.set(path, { kind: 'file', type, body });
  return site;
}

const redirects = [
  ['/spiders', 301, '/spiders/'],
  ['/month', 302, '/archive/november.html'],
  ['/garden-spider', 301, '/spiders/diadem.html'],
  ['/spiders/diadem.html', 308, '/spiders/european-garden-spider.html'],
  ['/log?latest', 307, '/log?page=1'],
  ['/away', 302, 'https://www.example.org/arachnology'],
];

function files() {
  const pictures = [
    ['/img/logo.svg', () => logoPicture()],
    ['/img/map.svg', () => mapPicture(habitats)],
    ...spiders.map((spider) => [urlOf.spiderPicture(spider), () => spiderPicture(spider)]),
    ...webs.map((web) => [urlOf.webPicture(web), () => webPicture(web)]),
    ['/img/badge?for=zh&size=2', () => logoPicture()],
    ['/img/never-linked.svg', () => logoPicture()],
  ].map(([path, body]) => [path, 'image/svg+xml', body]);
  const landscapes = habitats.flatMap((habitat) =>
    [240, 320, 480, 640].map((width) => [
      urlOf.landscape(habitat, width),
      'image/png',
      () => landscapePicture(habitat, width),
    ]),
  );
  return [
    ...pictures,
    ...landscapes,
    ['/style.css', 'text/css; charset=utf-8', () => style],
    ['/robots.txt', 'text/plain; charset=utf-8', () => 'User-agent: *\nDisallow:\n'],
    ['/files/checklist.txt', 'text/plain; charset=utf-8', checklist],
    ['/files/checklist.pdf', 'application/pdf', pdf],
    ['/files/spiders.json', 'application/json', () => JSON.stringify(spiders)],
  ];
}

function homePage() {
  const page = new Page('/', 'Spider field guide');
  const month = spiders[0];
  return finish(
    page,
    `<p>${spiders.length} spiders, ${webs.length} webs and ${habitats.length} habitats, for pockets
and for crawlers.</p>
<p>${page.link('/month', 'Spider of the month')}: ${page.link(urlOf.spider(month), month.name)}.
${page.image(urlOf.spiderPicture(month), month.name)}</p>
<p>${page.link('/spiders', 'All spiders')} · ${page.link('/map.html', 'Map of habitats')} ·
${page.link('/glossary.html', 'Glossary')} · ${page.link('/about.html', 'About', { as: 'absolute' })}</p>
<p>${page.link('/zh/', 'Chinese')} · ${page.link('/ja/', 'Japanese')} ·
${page.link('/old/INDEX.HTM', 'the first edition')} · ${page.link('/old/letter.html', 'a letter')}</p>`,
  );
}

function spiderLists() {
  const pageCount = Math.ceil(spiders.length / perPage);
  const urlOfList = (number) => (number === 1 ? '/spiders/' : `/spiders/?page=${number}`);
  return Array.from({ length: pageCount }, (_, index) => {
    const page = new Page(urlOfList(index + 1), `Spiders, page ${index + 1}`);
    const shown = spiders.slice(index * perPage, (index + 1) * perPage);
    const numbers = Array.from({ length: pageCount }, (_, number) =>
      page.link(urlOfList(number + 1), number + 1),
    );
    // Picture and name lead to the same page: a duplicate on every list.
    const items = shown.map(
      (spider) =>
        `<li>${page.link(urlOf.spider(spider), page.image(urlOf.spiderPicture(spider), spider.name))}
${page.link(urlOf.spider(spider), spider.name, { as: 'root' })}</li>`,
    );
    return finish(page, `<ul class="cards">${items.join('\n')}</ul><p>${numbers.join(' ')}</p>`);
  });
}

function spiderPage(spider, index) {
  const page = new Page(urlOf.spider(spider), spider.name);
  const family = families.find(({ slug }) => slug === spider.family);
  const web = webs.find(({ slug }) => slug === spider.web);
  const habitat = habitats.find(({ slug }) => slug === spider.habitat);
  const next = spiders[(index + 1) % spiders.length];
  return finish(
    page,
    `<p><i>${spider.latin}</i>, body ${spider.bodyMm} mm.</p>
${page.image(urlOf.spiderPicture(spider), spider.name)}
<p>${escapeHtml(spider.text)}</p>
<dl><dt>Family<dd>${page.link(urlOf.family(family), family.name)}
<dt>Web<dd>${page.link(urlOf.web(web), web.name)}
<dt>Lives in<dd>${page.link(urlOf.habitat(habitat), habitat.name, { as: 'root' })}</dl>
<p>${page.link(page.path, 'Size', { fragment: '#size' })} ·
${page.link('/glossary.html', 'What is a dragline?', { fragment: '#dragline' })} ·
${page.link(urlOf.spider(next), `Next: ${next.name}`)}</p>`,
  );
}

function listAndPages(path, title, items, urlOfItem, makePage) {
  const page = new Page(path, title);
  const list = items.map((item) => `<li>${page.link(urlOfItem(item), item.name)}</li>`);
  return [finish(page, `<ul>${list.join('\n')}</ul>`), ...items.map(makePage)];
}

function webPage(web) {
  const page = new Page(urlOf.web(web), web.name);
  return finish(
    page,
    `${page.image(urlOf.webPicture(web), web.name)}<p>${escapeHtml(web.text)}</p>
${spiderLinks(page, 'web', web)}`,
  );
}

function habitatPage(habitat) {
  const page = new Page(urlOf.habitat(habitat), habitat.name);
  const picture = page.image(urlOf.landscape(habitat, 240), habitat.name, {
    candidates: [[urlOf.landscape(habitat, 480), '2x']],
  });
  return finish(
    page,
    `${picture}<p>${escapeHtml(habitat.text)}</p>${spiderLinks(page, 'habitat', habitat)}`,
  );
}

function familyPage(family) {
  const page = new Page(urlOf.family(family), family.name);
  return finish(page, `<p>${escapeHtml(family.text)}</p>${spiderLinks(page, 'family', family)}`);
}

function spiderLinks(page, field, { slug }) {
  const items = spiders
    .filter((spider) => spider[field] === slug)
    .map((spider) => `<li>${page.link(urlOf.spider(spider), spider.name)}</li>`);
  return `<ul>${items.join('\n')}</ul>`;
}

function glossaryPage() {
  const page = new Page('/glossary.html', 'Glossary');
  const terms = glossary.map(({ term, text }) => {
    const id = term.toLowerCase();
    return `<dt id="${id}">${page.link(page.path, term, { href: `#${id}` })}<dd>${text}`;
  });
  return finish(page, `<dl>${terms.join('\n')}</dl>`);
}

function mapPage() {
  const page = new Page('/map.html', 'Map of habitats');
  const areas = habitats.map((habitat) =>
    page.area(urlOf.habitat(habitat), habitat.name, `${habitat.x},${habitat.y},18`),
  );
  // No other page leads to the gallery: whoever skips <area> misses it.
  areas.push(page.area('/gallery/', 'Gallery', '520,20,18'));
  const picture = page.image('/img/map.svg', 'Map', { width: 540 });
  return finish(
    page,
    `${picture.replace('<img', '<img usemap="#habitats"')}<map name="habitats">${areas.join('\n')}</map>`,
  );
}

function galleryPage() {
  const page = new Page('/gallery/', 'Gallery');
  const pictures = habitats.map((habitat) =>
    page.image(undefined, habitat.name, {
      candidates: [320, 640].map((width) => [urlOf.landscape(habitat, width), `${width}w`]),
    }),
  );
  return finish(page, `<div class="cards">${pictures.join('\n')}</div>`);
}

function logPages() {
  const pageCount = Math.ceil(log.length / logPerPage);
  return Array.from({ length: pageCount }, (_, index) => {
    const page = new Page(`/log?page=${index + 1}`, `Field log, page ${index + 1}`);
    const entries = log.slice(index * logPerPage, (index + 1) * logPerPage).map(
      ({ day, spider, note }) =>
        `<li>${day}: ${page.link(urlOf.spider(spider), spider.name)}, ${note}
${page.image(urlOf.spiderPicture(spider), spider.name, { width: 80 })}</li>`,
    );
    const older =
      index + 1 < pageCount
        ? page.link(`/log?page=${index + 2}`, 'Older', { href: `?page=${index + 2}` })
        : page.link('/log?latest', 'Newest');
    return finish(page, `<ul>${entries.join('\n')}</ul><p>${older}</p>`);
  });
}

function comparePages() {
  const pairs = [0, 5, 12].map((first) => [spiders[first], spiders[first + 1]]);
  const urlOfPair = ([a, b]) => `/compare?a=${a.slug}&b=${b.slug}`;
  return pairs.map((pair, index) => {
    const page = new Page(urlOfPair(pair), pair.map(({ name }) => name).join(' or '));
    const others = pairs
      .filter((_, other) => other !== index)
      .map((other) => page.link(urlOfPair(other), other.map(({ name }) => name).join(' or ')));
    const columns = pair.map(
      (spider) =>
        `<td>${page.image(urlOf.spiderPicture(spider), spider.name)}
${page.link(urlOf.spider(spider), spider.name)}, ${spider.bodyMm} mm</td>`,
    );
    return finish(page, `<table><tr>${columns.join('')}</tr></table><p>${others.join(' · ')}</p>`);
  });
}

function aboutPage() {
  const page = new Page('/about.html', 'About this guide');
  const [first, second] = spiders;
  return finish(
    page,
    `<p>This site ships with Orbweaver to try a crawler on.</p>
<!-- ${'<a href="/only-in-a-comment.html">no link</a> <img src="/img/never-linked.svg">'} -->
<script>const text = '<a href="/only-in-a-script.html">no link</a>';</script>
<textarea rows="2"><a href="/only-in-a-textarea.html">no link</a></textarea>
<p><a name="here">An anchor</a>, <a href="mailto:spiders@example.org">a mail address</a>,
<a href="tel:+4900000">a telephone</a>, <a href="javascript:void(0)">a script</a>,
<a href="ftp://ftp.example.org/">an old protocol</a>.</p>
<p><img src="" alt="empty"> <img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" alt="data"></p>
<p>${page.link(`/compare?a=${first.slug}&b=${second.slug}`, 'Compare two')} ·
${page.link('/links.html', 'Links', { href: ' \n  links.html\t' })} ·
${page.link('/archive/', 'Archive', { as: 'hostless' })} ·
${page.link('/about.html', 'This page', { href: './x/../about.html' })}</p>
<p>${page.link('/files/checklist.pdf', 'Checklist (PDF)')} ·
${page.link('/files/checklist.txt', 'as text')} · ${page.link('/files/spiders.json', 'as data')} ·
${page.link('/img/logo.svg', 'our logo')}</p>`,
  );
}

function linksPage() {
  const page = new Page('/links.html', 'Links');
  return finish(
    page,
    `<ul><li>${page.link('https://www.example.org/', 'A friendly site')}
${page.image('https://www.example.org/banner.png', 'Banner of a friendly site')}
<li>${page.link('/away', 'Through our counter')}
<li>${page.link('/garden-spider', 'An address of 2003')}
<li>${page.link('/spiders/drop-bear.html', 'A page that is gone')}
<li>${page.link('/habitats/moon/', 'Spiders on the moon')}
<li>${page.link('/log?page=99', 'A log page that never was')}</ul>`,
  );
}

function archivePage() {
  const page = new Page('/archive/', 'Archive', { base: '/' });
  // Relative to <base>, this leads to /archive/2003/; without it, to /archive/archive/2003/.
  return finish(
    page,
    `<p>${page.link('/archive/2003/', 'The edition of 2003')} ·
${page.link('/archive/november.html', 'November')}
${page.image('/img/webs/orb.svg', 'Orb')}</p>`,
  );
}

function oldArchivePage() {
  const page = new Page('/archive/2003/', 'Edition of 2003', { base: '/webs/' });
  const links = webs.map((web) => page.link(urlOf.web(web), web.name));
  return finish(page, `<p>${links.join(' · ')}</p>`);
}

function novemberPage() {
  const page = new Page('/archive/november.html', 'Spider of November');
  const spider = spiders[18];
  return finish(
    page,
    `<p>${page.link(urlOf.spider(spider), spider.name)}: ${escapeHtml(spider.text)}</p>`,
  );
}

function chinesePage() {
  const page = new Page('/zh/', '蜘蛛图鉴', { charset: 'gb18030', declared: 'meta' });
  const query = `/zh/search?q=${encodeQuery('蜘蛛', 'gb18030')}`;
  return finish(
    page,
    `<p>世界上有五万多种蜘蛛，它们会织网。</p>
<p>${page.link(query, '搜索', { href: 'search?q=蜘蛛' })}
${page.link('/', '首页')} ${page.link('/webs/orb.html', '圆网')}</p>
${page.image('/img/badge?for=zh&size=2', '徽章')}`,
  );
}

function chineseAnswerPage() {
  const path = `/zh/search?q=${encodeQuery('蜘蛛', 'gb18030')}`;
  const page = new Page(path, '搜索：蜘蛛', { charset: 'gb18030' });
  const found = spiders.slice(0, 3).map((spider) => page.link(urlOf.spider(spider), spider.latin));
  return finish(page, `<p>${found.join('、')}</p>`);
}

function japanesePage() {
  const page = new Page('/ja/', 'クモ図鑑', { charset: 'shift_jis', declared: 'meta' });
  const query = `/ja/search?q=${encodeQuery('クモ', 'shift_jis')}`;
  // 表, 能 and ソ end in the byte of a backslash, which trips whoever reads bytes as ASCII.
  return finish(
    page,
    `<p>クモの巣の表と能力、ソフトな糸。</p>
<p>${page.link(query, '検索', { href: 'search?q=クモ' })} ${page.link('/', 'ホーム')}
${page.link('/ja/%E5%B7%A3.html', '巣', { href: '巣.html' })}</p>
${page.image('/img/webs/golden-orb.svg', '表')}`,
  );
}

function japaneseAnswerPage() {
  const path = `/ja/search?q=${encodeQuery('クモ', 'shift_jis')}`;
  const page = new Page(path, '検索：クモ', { charset: 'shift_jis' });
  return finish(page, `<p>${page.link(urlOf.spider(spiders[4]), 'ジョロウグモ')}</p>`);
}

function japaneseWebPage() {
  const page = new Page('/ja/%E5%B7%A3.html', '巣', { charset: 'shift_jis' });
  return finish(page, `<p>${page.link(urlOf.web(webs[0]), '円網')}</p>`);
}

function oldPage() {
  const page = new Page('/old/INDEX.HTM', 'The Spider’s “Home Page” – 1997', {
    charset: 'windows-1252',
    declared: 'nowhere',
  });
  const [spider] = spiders;
  page.links.push('/old/guest.htm', urlOf.spider(spider), '/');
  page.images.push('/img/webs/funnel.svg');
  page.body = `<HTML><HEAD><TITLE>${page.title}</TITLE></HEAD><BODY BGCOLOR=#FFFFCC>
<CENTER><H1>Welcome, naïve traveller…</H1><IMG SRC=/img/webs/funnel.svg ALT='A spider’s web'>
<P><A HREF=guest.htm>Guest book</A> <A HREF='../spiders/${spider.slug}.html'>Café</A>
<A HREF=../>Home</A></CENTER></BODY></HTML>\n`;
  return page;
}

function utf16Page() {
  const page = new Page('/old/letter.html', 'A letter – 手紙', {
    charset: 'utf-16le',
    declared: 'nowhere',
  });
  return finish(page, `<p>Sent from a word processor. ${page.link('/ja/', '日本語')}</p>`);
}

/** Frame of every page; its links count as the page's own. */
function finish(page, content) {
  const declaredAs = { gb18030: 'gb2312', shift_jis: 'x-sjis' }[page.charset] ?? page.charset;
  const isAscii = page.charset !== 'utf-8' && page.charset !== 'utf-16le';
  const menu = [
    page.link('/', page.image('/img/logo.svg', 'Home', { width: 32 })),
    page.link('/spiders/', 'Spiders'),
    page.link('/webs/', 'Webs'),
    page.link('/habitats/', 'Habitats', { as: 'root' }),
    page.link('/families/', 'Families'),
    page.link('/log?page=1', 'Log'),
  ];
  const title = escapeHtml(page.title);
  page.body = `<!doctype html>
<html><head>${page.declared === 'meta' ? `<meta charset="${declaredAs}">` : ''}
<title>${title}</title>${page.base === undefined ? '' : `<base href="${page.base}">`}
<link rel="stylesheet" href="/style.css"></head>
<body><nav>${menu.join(isAscii ? ' | ' : ' · ')}</nav>
<main><h1>${title}</h1>
${content}
</main></body></html>
`;
  return page;
}

/** The page as it goes over the wire, and its Content-Type. */
export function encodePage(page, text) {
  const charset = page.declared === 'header' ? `; charset=${page.charset}` : '';
  return { type: `text/html${charset}`, body: encode(text, page.charset) };
}

const checklist = () => spiders.map(({ name, latin }) => `[ ] ${name} (${latin})\n`).join('');

/** The smallest PDF that viewers open; the cross-reference table is left for them to repair. */
function pdf() {
  const text = 'BT /F1 18 Tf 72 720 Td (Spider checklist) Tj ET';
  return `%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R
/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj
4 0 obj<</Length ${text.length}>>stream
${text}
endstream endobj
trailer<</Root 1 0 R>>
%%EOF
`;
}

const style = `body { margin: 0; font: 17px/1.5 Georgia, serif; color: #2b2622; background: #fbf8f1; }
nav { padding: 0.6rem 1.5rem; background: #efe7d6; }
nav img { vertical-align: middle; }
main { max-width: 52rem; margin: 0 auto; padding: 1rem 1.5rem 3rem; }
a { color: #7a2e2e; }
img { max-width: 100%; height: auto; border-radius: 6px; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: 1rem;
  padding: 0; list-style: none; }
`;
