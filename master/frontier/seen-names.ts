/**
 * What a crawl's filter knows by other names than URLs of pages: a mark before the text keeps each
 * kind apart. The names are fingerprinted and kept in `seen` as URLs are.
 */
import type { TaskRecord } from '../store/records.ts';

export const imageMark = '!';
const sitemapMark = '^';
/** A name that pages share: see `--canonical`. */
const pageMark = '=';

export function imageName(src: string): string {
  return imageMark + src;
}

export function pageName(url: string): string {
  return pageMark + url;
}

/** The name that a task is known by. */
export function taskName({ kind, url }: Pick<TaskRecord, 'kind' | 'url'>): string {
  return kind === 'sitemap' ? sitemapMark + url : url;
}
