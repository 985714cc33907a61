/**
 * Pages such as sites of today send, made here so that they are the same everywhere: each type has
 * the markup, the scripts and the proportions of its kind, and its own way to name images. `number`
 * makes pages of one type differ.
 */

export type Page = { readonly url: string; readonly body: Buffer };

/** News front page: pictures with two formats, each in several widths, from an image service. */
function newsPage(number: number): Page {
  const service = (name: string, width: number, format: string) =>
    `https://img.news.example/${number}/${name}.${format}?width=${width}&amp;quality=85&amp;auto=webp`;
  const set = (name: string, format: string) =>
    [320, 480, 640, 960].map((width) => `${service(name, width, format)} ${width}w`).join(', ');
  const story = (i: number) => {
    const name = `2026/11/20/story-${number}-${i}`;
    return (
      `<article class="story story--teaser grid__item" data-tracking="teaser-${i}" data-id="${number}${i}">` +
      `<a class="story__link" href="/politics/${name}.html" data-vr-contentbox="position-${i}"><figure class="story__media">` +
      `<picture><source type="image/avif" sizes="(min-width: 60em) 33vw, 100vw" srcset="${set(name, 'avif')}">` +
      `<source type="image/webp" sizes="(min-width: 60em) 33vw, 100vw" srcset="${set(name, 'webp')}">` +
      `<img class="story__image" loading="lazy" decoding="async" width="640" height="360" src="${service(name, 640, 'jpg')}" alt="The members of the house &amp; their guests, picture ${i}">` +
      `</picture></figure><div class="story__text"><span class="story__kicker">Politics</span>` +
      `<h3 class="story__title">A headline that says what has happened today, number ${i}</h3></a>` +
      `<p class="story__summary">${sentences(2)}</p><footer class="story__meta">` +
      `<time datetime="2026-11-20T10:${10 + (i % 50)}:00Z">10:${10 + (i % 50)}</time> ` +
      `<a class="story__author" href="/autor/person-${i % 17}">Person ${i % 17}</a> ` +
      `<a class="story__comments" href="/politics/${name}.html#comments">${i * 3} comments</a></footer></div></article>`
    );
  };
  const body = `<main class="page">${repeat(70, story)}</main><ul class="ticker">${repeat(
    150,
    (i) =>
      `<li class="ticker__item"><time>09:${i % 60}</time> <a class="ticker__link" href="/ticker/${number}/${i}">A short line of news ${i}</a></li>`,
  )}</ul>`;
  return page('https://www.news.example/', number, body, 90_000);
}

/** List of a shop: a placeholder in src, the pictures in data-src and data-srcset. */
function shopPage(number: number): Page {
  const product = (i: number) => {
    const id = number * 1000 + i;
    const file = (width: number) => `//cdn.shop.example/media/catalog/${id}/front-${width}.jpg`;
    return (
      `<li class="product-item col-6 col-md-4 col-lg-3" data-sku="SKU-${id}" data-price="${i}.99" itemscope itemtype="https://schema.org/Product">` +
      `<a class="product-item__link" href="/p/some-good-product-${id}?listing=main&amp;pos=${i}" title="Some good product ${id}">` +
      `<div class="product-item__image ratio ratio-1x1"><img class="lazyload img-fluid" src="data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==" ` +
      `data-src="${file(400)}" data-srcset="${file(200)} 200w, ${file(400)} 400w, ${file(800)} 800w" data-sizes="auto" width="400" height="400" alt="Some good product ${id}, front"></div>` +
      `<h2 class="product-item__name">Some good product ${id} in many colours</h2></a>` +
      `<div class="rating" style="--rating: ${i % 5}.4"><svg class="icon" width="16" height="16" aria-hidden="true"><use href="#star"></use></svg> <span class="rating__count">(${i * 7})</span></div>` +
      `<div class="price-box"><span class="price price--old">${i + 10}.99 €</span> <span class="price price--now">${i}.99 €</span></div>` +
      `<ul class="swatches">${repeat(4, (n) => `<li><a class="swatch" href="/p/some-good-product-${id}?color=${n}" style="background-color:#${n}a${n}"><span class="visually-hidden">Colour ${n}</span></a></li>`)}</ul>` +
      `<form class="tocart" action="/cart/add" method="post"><input type="hidden" name="sku" value="SKU-${id}"><button type="submit" class="btn btn-primary" data-bs-toggle="tooltip">Add to cart</button></form></li>`
    );
  };
  const filters = repeat(
    120,
    (i) =>
      `<li class="filter"><label class="filter__label"><input type="checkbox" class="filter__input" name="f${i}" value="${i}"> <a rel="nofollow" href="/list?filter=${i}&amp;page=1">Filter ${i}</a> <small>(${i * 2})</small></label></li>`,
  );
  const body = `<aside><ul class="filters">${filters}</ul></aside><ol class="products row">${repeat(72, product)}</ol>`;
  return page('https://www.shop.example/list', number, body, 60_000);
}

/** Blog post: cards for social networks, JSON-LD, images with srcset and inline styles. */
function blogPage(number: number): Page {
  const upload = (name: string, size: string) =>
    `https://blog.example/wp-content/uploads/2026/11/${name}-${number}${size}.jpg`;
  const picture = (i: number) =>
    `<figure class="wp-block-image size-large" style="margin-top:1em"><a href="${upload(`photo${i}`, '')}"><img fetchpriority="low" decoding="async" width="1024" height="683" src="${upload(`photo${i}`, '-1024x683')}" alt="What can be seen in photo ${i}" class="wp-image-${i}" srcset="${upload(`photo${i}`, '-1024x683')} 1024w, ${upload(`photo${i}`, '-300x200')} 300w, ${upload(`photo${i}`, '-768x512')} 768w, ${upload(`photo${i}`, '')} 1600w" sizes="(max-width: 1024px) 100vw, 1024px"></a><figcaption class="wp-element-caption">${sentences(1)}</figcaption></figure>`;
  const paragraph = (i: number) =>
    `<p class="has-text-align-left">${sentences(4)} <a href="https://other.example/source/${i}">A source</a>. ${sentences(3)}</p>\n${i % 5 === 4 ? picture(i) : ''}`;
  const comment = (i: number) =>
    `<li class="comment even thread-even depth-1" id="comment-${i}"><article class="comment-body"><footer class="comment-meta"><div class="comment-author vcard"><img alt="" src="https://secure.avatar.example/avatar/${number}${i % 9}?s=40&#038;d=mm&#038;r=g" srcset="https://secure.avatar.example/avatar/${number}${i % 9}?s=80&#038;d=mm&#038;r=g 2x" class="avatar avatar-40 photo" height="40" width="40" loading="lazy"> <b class="fn">Reader ${i}</b></div><a href="/2026/11/post-${number}/#comment-${i}"><time>20 November 2026</time></a></footer><p>${sentences(2)}</p><a rel="nofollow" class="comment-reply-link" href="?replytocom=${i}#respond">Reply</a></article></li>`;
  const json = JSON.stringify({
    '@context': 'https://schema.org',
    '@graph': [
      { '@type': 'Article', headline: `Post ${number}`, thumbnailUrl: upload('head', '') },
      { '@type': 'ImageObject', contentUrl: upload('head', ''), width: 1600, height: 900 },
      { '@type': 'Organization', logo: { '@type': 'ImageObject', url: '/logo.png' } },
      { '@type': 'Person', name: 'Ada', image: { url: '/ada.jpg' }, description: sentences(3) },
    ],
  });
  const head =
    `<meta property="og:title" content="Post ${number}"><meta property="og:image" content="${upload('head', '')}"><meta property="og:image:width" content="1600"><meta property="og:image:height" content="900">` +
    `<meta name="twitter:card" content="summary_large_image"><meta name="twitter:image" content="${upload('head', '-1200x675')}">` +
    `<script type="application/ld+json">${json}</script>`;
  const body =
    `<div class="hero" style="background-image:url('${upload('head', '-2048x1152')}')"><h1>Post ${number}</h1></div>` +
    `<div class="entry-content">${repeat(40, paragraph)}</div><ol class="comment-list">${repeat(30, comment)}</ol>`;
  return page(`https://blog.example/2026/11/post-${number}/`, number, body, 40_000, head);
}

/** Page of a manual: much code in spans, a long table of contents, few images. */
function docsPage(number: number): Page {
  const code = repeat(
    12,
    (i) =>
      `<span class="kd">const</span> <span class="nx">value${i}</span> <span class="o">=</span> <span class="k">await</span> <span class="nx">call</span><span class="p">(</span><span class="s1">'text'</span><span class="p">,</span> <span class="mi">${i}</span><span class="p">);</span>\n`,
  );
  const section = (i: number) =>
    `<section id="section-${i}"><h2>Section ${i}<a class="headerlink" href="#section-${i}" title="Link to this heading">¶</a></h2>` +
    `<p>${sentences(3)} See <a class="reference internal" href="../api/class-${i}.html#method"><code class="xref py py-meth">method${i}()</code></a>.</p>` +
    `<div class="highlight"><pre>${code}</pre></div>` +
    `${i % 8 === 0 ? `<img src="../_images/figure-${number}-${i}.png" srcset="../_images/figure-${number}-${i}@2x.png 2x" alt="Figure ${i}" style="max-width:100%">` : ''}</section>`;
  const contents = repeat(
    300,
    (i) =>
      `<li class="toctree-l2"><a class="reference internal" href="../guide/chapter-${i % 40}.html#part-${i}">Chapter ${i % 40}, part ${i}</a></li>\n`,
  );
  const body = `<nav class="sidebar"><ul>${contents}</ul></nav><main>${repeat(24, section)}</main>`;
  return page(`https://docs.example/en/guide/page-${number}.html`, number, body, 4000);
}

/** No page of the web: as many images in as little markup as can be, each in every way. */
function imagesPage(number: number): Page {
  const item = (i: number) =>
    `<li class="product" style="background:url(/tile/${i}.png)"><a href="/item/${i}?ref=list">` +
    `<picture><source type="image/webp" srcset="/i/${i}-1.webp 1x, /i/${i}-2.webp 2x">` +
    `<img class="lazy" src="/i/${i}.jpg" data-src="/i/${i}-big.jpg" width="300" height="200" ` +
    `srcset="/i/${i}-300.jpg 300w, /i/${i}-600.jpg 600w" alt="Item ${i}"></picture></a>` +
    `<p>${'Some text that says what it is. '.repeat(8)}</p></li>`;
  const image = Array.from({ length: 60 }, (_, i) => `/i/${i}.jpg`);
  const html =
    '<!doctype html><meta charset=utf-8><title>Shop</title><link rel=icon href=/icon.png>' +
    '<meta property=og:image content=/og.png><style>.a{background:url(/bg.png)}</style>' +
    `<script type="application/ld+json">${JSON.stringify({ image })}</script>` +
    `<ul>${repeat(60, item)}</ul>`;
  return { url: `http://shop.example/list-${number}/`, body: Buffer.from(html) };
}

/** Text with a link in each sentence and a picture now and then, and no more. */
function articlePage(number: number): Page {
  const part = (i: number) =>
    `<p class="text" id="p${i}">${'Words of an article, with a <a href="/w/x">link</a>. '.repeat(6)}</p>` +
    (i % 5 === 0 ? `<img src="/a/${i}.jpg" data-src="/a/${i}-2.jpg" alt="">` : '');
  const html = `<title>A</title>${repeat(60, part)}`;
  return { url: `http://paper.example/a${number}/`, body: Buffer.from(html) };
}

export const pageTypes = {
  'news front page': newsPage,
  'shop list': shopPage,
  'blog post': blogPage,
  manual: docsPage,
  article: articlePage,
  'images and nothing else': imagesPage,
} as const;

/** The parts that all pages of today have around their content: head, menus, icons, and scripts of
 *  `scriptChars` characters. */
function page(url: string, number: number, body: string, scriptChars: number, head = ''): Page {
  const links = repeat(
    40,
    (i) =>
      `<li class="nav__item nav__item--${i}"><a class="nav__link" href="/section-${i}/" data-level="1">Section ${i}</a></li>`,
  );
  const icons = repeat(
    6,
    (i) =>
      `<svg class="icon" viewBox="0 0 24 24" width="24" height="24" fill="none" stroke="currentColor"><path d="M12 2${'l3 4c1 2 3 4 5 6'.repeat(8)}z" stroke-width="2"/><circle cx="12" cy="${i}" r="3"/></svg>`,
  );
  const state = `window.__STATE__={"items":[${'{"id":12,"name":"An item of the page\'s state","url":"\\/a\\/b"},'.repeat(scriptChars / 62)}null]};`;
  const html =
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Page ${number}</title>` +
    '<meta name="viewport" content="width=device-width, initial-scale=1">' +
    '<link rel="icon" href="/favicon.ico" sizes="32x32"><link rel="apple-touch-icon" href="/apple-touch-icon.png">' +
    repeat(8, (i) => `<link rel="stylesheet" href="/assets/style-${i}.css?v=123" media="all">`) +
    `<link rel="canonical" href="${url}"><link rel="preload" as="font" href="/assets/text.woff2" crossorigin>` +
    `<style>${'.grid{display:grid;gap:1rem}.story__title{font:700 1.2rem/1.3 serif;color:#111}'.repeat(60)}.logo{background:url(/assets/logo.svg)}</style>` +
    `${head}</head><body class="page page--${number}"><header><a href="/" class="logo">Home</a><nav><ul>${links}</ul></nav>${icons}</header>` +
    `${body}<footer class="footer"><ul>${links}</ul><img src="/assets/logo-small.png" alt="Logo" width="120" height="40"></footer>` +
    `<script>${state}</script><script src="/assets/main.js" defer></script></body></html>`;
  return { url: new URL(`?page=${number}`, url).href, body: Buffer.from(html) };
}

function sentences(count: number): string {
  return 'Some words that make a sentence of a usual length, as they stand in most texts. '
    .repeat(count)
    .trim();
}

function repeat(count: number, piece: (i: number) => string): string {
  return Array.from({ length: count }, (_, i) => piece(i)).join('\n');
}
