/**
 * The yardstick of the cluster: one process, undici and htmlparser2, no queue, nothing
 * durable. Fetches every page of one host from a start URL, 32 at once, and collects its images
 * and links. With a pace it fetches one page at a time, so many ms apart, and only so many pages.
 *
 *     node bare-loop.js URL [MS PAGES]
 */
import { Parser } from 'htmlparser2';
import { Agent, request } from 'undici';

const [start = '', paceMs, pagesMax = Number.POSITIVE_INFINITY] = process.argv.slice(2);
const width = paceMs === undefined ? 32 : 1;
const { origin } = new URL(start);
const dispatcher = new Agent({ connections: width, pipelining: 1 });
const seen = new Set<string>([start]);
const images = new Set<string>();
const queue = [start];
let pages = 0;
let running = 0;

async function fetchPage(url: string): Promise<void> {
  const { statusCode, headers, body } = await request(url, { dispatcher });
  if (statusCode >= 300 && statusCode < 400) {
    await body.dump();
    offer(String(headers['location']), url);
    return;
  }
  if (statusCode !== 200 || !String(headers['content-type']).startsWith('text/html')) {
    await body.dump();
    return;
  }
  const html = await body.text();
  pages++;
  const parser = new Parser({
    onopentag(name, attributes) {
      if (name === 'a' || name === 'area') offer(attributes['href'], url);
      else if (name === 'img') addImage(attributes['src'], url);
    },
  });
  parser.end(html);
}

function offer(href: string | undefined, base: string): void {
  const url = resolve(href, base);
  if (url === undefined || url.origin !== origin || seen.has(url.href)) return;
  seen.add(url.href);
  queue.push(url.href);
}

function addImage(src: string | undefined, base: string): void {
  const url = resolve(src, base);
  if (url !== undefined) images.add(url.href);
}

function resolve(href: string | undefined, base: string): URL | undefined {
  if (href === undefined) return undefined;
  try {
    const url = new URL(href, base);
    url.hash = '';
    return url;
  } catch {
    return undefined;
  }
}

await new Promise<void>((done) => {
  const fill = () => {
    while (running < width) {
      const url = pages < Number(pagesMax) ? queue.shift() : undefined;
      if (url === undefined) break;
      running++;
      fetchPage(url)
        .catch(() => {})
        .finally(() => {
          running--;
          if (paceMs === undefined) fill();
          else setTimeout(fill, Number(paceMs));
        });
    }
    if (running === 0 && (queue.length === 0 || pages >= Number(pagesMax))) done();
  };
  fill();
});
await dispatcher.close();
console.log(JSON.stringify({ pages, images: images.size }));
