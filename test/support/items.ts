/** A shop whose pages have rows, for crawls with items; and what was made of them. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Cluster } from './cluster.ts';
import { httpServer } from './http-server.ts';

type ItemLine = {
  readonly url: string;
  readonly rule: string;
  readonly item?: Readonly<Record<string, unknown>>;
  readonly why?: string;
  readonly at: string;
};

/** The lines of items.jsonl or rejected.jsonl. */
export function itemLines(cluster: Cluster, file: 'items' | 'rejected', crawl = 'shop') {
  const path = join(cluster.out, crawl, `${file}.jsonl`);
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as ItemLine);
}

/** Serves answers by their paths: a text is HTML, a pair has another type. The page `/` links to
 *  all of them. Returns its URL and the paths that were asked for. */
export async function shop(
  t: TestContext,
  answers: Readonly<Record<string, string | readonly [type: string, body: string]>>,
): Promise<{ readonly url: string; readonly asked: string[] }> {
  const asked: string[] = [];
  const home = Object.keys(answers).map((path) => `<a href="${path}">x</a>`);
  const port = await httpServer(t, ({ url = '' }, response) => {
    asked.push(url);
    const answer = url === '/' ? `<title>home</title>${home.join('')}` : answers[url];
    if (answer === undefined) {
      response.writeHead(404).end();
      return;
    }
    const html = 'text/html; charset=utf-8';
    const [type, body] = typeof answer === 'string' ? [html, answer] : answer;
    response.writeHead(200, { 'content-type': type }).end(body);
  });
  return { url: `http://127.0.0.1:${port}/`, asked };
}

/** A page of the shop with so many articles; each fifth has no price. */
export function shelf(name: string, count: number): string {
  const articles = Array.from({ length: count }, (_, i) => {
    const price = i % 5 === 4 ? '' : `<p class=price>£${i}.50</p>`;
    return `<article><h3>${name} ${i}</h3>${price}</article>`;
  });
  return `<title>${name}</title>${articles.join('')}`;
}
