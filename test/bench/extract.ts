/**
 * CPU time of extraction with `--images all` against `--images img` and links, on the same pages, in
 * one run: rounds alternate, so that both meet the same machine, and the best of each counts.
 *
 *     node dist/test/bench/extract.js [start URL …]      default: the sites of shared/sites
 *
 * Pages are taken into memory first, up to 400 a site; two synthetic kinds are added.
 */
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { PageReader } from '../../slave/fetch/page.ts';
import { say } from './measure.ts';

const pagesMax = 400;
const rounds = 15;
const defaults = [18301, 18302, 18303, 18304].map((port) => `http://127.0.0.1:${port}/`);
const starts: Record<number, string> = { 18302: 'doc/html/index.html', 18304: 'zh_CN/index.html' };

type Page = { readonly url: string; readonly body: Buffer };

function read({ url, body }: Page, images: 'img' | 'all') {
  const spec = fetchSpecSchema.parse({ images });
  return readWith(spec, url, body);
}

function readWith(spec: ReturnType<typeof fetchSpecSchema.parse>, url: string, body: Buffer) {
  const reader = new PageReader({ url, spec, charset: undefined, sniff: false });
  // As it comes off a socket.
  for (let at = 0; at < body.length; at += 65_536) reader.write(body.subarray(at, at + 65_536));
  return reader.end();
}

async function pagesOf(start: string): Promise<Page[]> {
  const pages: Page[] = [];
  const urls = new Set([start]);
  for (const url of urls) {
    if (pages.length >= pagesMax) break;
    const answer = await fetch(url);
    const isHtml = answer.headers.get('content-type')?.includes('html') === true;
    const body = Buffer.from(await answer.arrayBuffer());
    if (!answer.ok || !isHtml) continue;
    const page = { url, body };
    pages.push(page);
    const links = Buffer.from(read(page, 'img')?.extract.links ?? [])
      .toString()
      .split('\n');
    for (const link of links) if (link.startsWith(new URL(start).origin)) urls.add(link);
  }
  return pages;
}

/** A shop: every image with srcset, lazy attributes and sizes, inline styles, JSON-LD. */
function shopPage(items: number): Page {
  const item = (i: number) =>
    `<li class="product" style="background:url(/tile/${i}.png)"><a href="/item/${i}?ref=list">` +
    `<picture><source type="image/webp" srcset="/i/${i}-1.webp 1x, /i/${i}-2.webp 2x">` +
    `<img class="lazy" src="/i/${i}.jpg" data-src="/i/${i}-big.jpg" width="300" height="200" ` +
    `srcset="/i/${i}-300.jpg 300w, /i/${i}-600.jpg 600w" alt="Item ${i}"></picture></a>` +
    `<p>${'Some text that says what it is. '.repeat(8)}</p></li>`;
  const json = JSON.stringify({ image: Array.from({ length: items }, (_, i) => `/i/${i}.jpg`) });
  const html =
    '<!doctype html><meta charset=utf-8><title>Shop</title><link rel=icon href=/icon.png>' +
    '<meta property=og:image content=/og.png><style>.a{background:url(/bg.png)}</style>' +
    `<script type="application/ld+json">${json}</script>` +
    `<ul>${Array.from({ length: items }, (_, i) => item(i)).join('\n')}</ul>`;
  return { url: 'http://shop.example/list/', body: Buffer.from(html) };
}

/** Text with a picture now and then: what most pages are. */
function articlePage(): Page {
  const part = (i: number) =>
    `<p class="text" id="p${i}">${'Words of an article, with a <a href="/w/x">link</a>. '.repeat(6)}</p>` +
    (i % 5 === 0 ? `<img src="/a/${i}.jpg" data-src="/a/${i}-2.jpg" alt="">` : '');
  const html = `<title>A</title>${Array.from({ length: 60 }, (_, i) => part(i)).join('\n')}`;
  return { url: 'http://paper.example/a/', body: Buffer.from(html) };
}

function measure(name: string, pages: readonly Page[]): void {
  const specs = {
    img: fetchSpecSchema.parse({ images: 'img' }),
    all: fetchSpecSchema.parse({ images: 'all' }),
  };
  const best = { img: Number.POSITIVE_INFINITY, all: Number.POSITIVE_INFINITY };
  const found = { img: 0, all: 0 };
  for (let round = 0; round < rounds; round++) {
    for (const images of round % 2 === 0 ? (['img', 'all'] as const) : (['all', 'img'] as const)) {
      const before = process.cpuUsage();
      found[images] = 0;
      for (const { url, body } of pages)
        found[images] += readWith(specs[images], url, body)?.extract.images.length ?? 0;
      const { user, system } = process.cpuUsage(before);
      best[images] = Math.min(best[images], (user + system) / 1000);
    }
  }
  const megabytes = pages.reduce((sum, { body }) => sum + body.length, 0) / 1e6;
  say(
    `${name.padEnd(34)} ${pages.length} pages, ${megabytes.toFixed(1)} MB: ` +
      `img ${best.img.toFixed(1)} ms (${found.img}), all ${best.all.toFixed(1)} ms (${found.all}), ` +
      `ratio ${(best.all / best.img).toFixed(2)}`,
  );
}

const given = process.argv.slice(2);
const urls =
  given.length > 0
    ? given
    : defaults.map((url) => url + (starts[Number(new URL(url).port)] ?? 'index.html'));
for (const url of urls) measure(url, await pagesOf(url));
measure(
  'synthetic shop, 60 items',
  Array.from({ length: 50 }, () => shopPage(60)),
);
measure(
  'synthetic article',
  Array.from({ length: 200 }, () => articlePage()),
);
