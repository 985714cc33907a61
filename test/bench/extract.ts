/**
 * CPU time of extraction with `--images all` against `--images img` and links, on the same pages, in
 * one run: rounds alternate, so that both meet the same machine, and the best of each counts.
 *
 *     node dist/test/bench/extract.js [start URL …]      default: those of `sites.ts`
 *
 * Pages are taken into memory first, up to 400 a site; those of `page-types.ts` are added. Each line
 * ends with a hash of all that was extracted, so that two builds can be held against each other.
 */
import { createHash } from 'node:crypto';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { PageReader } from '../../slave/kinds/page-body.ts';
import { cpuMsSince } from '../support/cpu-time.ts';
import { say } from './measure.ts';
import { type Page, pageTypes } from './page-types.ts';

const pagesMax = 400;
const madeMax = 50;
const rounds = 15;
const defaults = [18301, 18302, 18303, 18304].map((port) => `http://127.0.0.1:${port}/`);
const starts: Record<number, string> = { 18302: 'doc/html/index.html', 18304: 'zh_CN/index.html' };

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
      best[images] = Math.min(best[images], cpuMsSince(before));
    }
  }
  const hash = createHash('sha256');
  for (const { url, body } of pages)
    for (const spec of Object.values(specs)) {
      const extract = readWith(spec, url, body)?.extract;
      hash.update(JSON.stringify({ ...extract, links: undefined }));
      hash.update(extract?.links ?? '');
    }
  const megabytes = pages.reduce((sum, { body }) => sum + body.length, 0) / 1e6;
  say(
    `${name.padEnd(34)} ${pages.length} pages, ${megabytes.toFixed(1)} MB: ` +
      `img ${best.img.toFixed(1)} ms (${found.img}), all ${best.all.toFixed(1)} ms (${found.all}), ` +
      `ratio ${(best.all / best.img).toFixed(2)}, ${hash.digest('hex').slice(0, 8)}`,
  );
}

const given = process.argv.slice(2);
const urls =
  given.length > 0
    ? given
    : defaults.map((url) => url + (starts[Number(new URL(url).port)] ?? 'index.html'));
for (const url of urls) measure(url, await pagesOf(url));
for (const [name, pageOf] of Object.entries(pageTypes)) {
  const pages = Array.from({ length: madeMax }, (_, number) => pageOf(number));
  measure(name, pages);
}
