/**
 * A page that shows the images which a crawl has downloaded: grouped by the page that shows them,
 * and by likeness. It is made of images.jsonl alone, and works from the folder of the crawl without
 * a server. Texts of strangers are escaped; only http and https become links.
 */
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError, codeOf, messageOf } from '../../shared/errors.ts';
import { fileNames } from '../sinks/files.ts';
import { partNamesOf } from './line-search.ts';
import { linesOf } from './text-lines.ts';

type GalleryCounts = { images: number; pages: number; groups: number; left: number };
type Shown = {
  readonly file: string;
  /** Its name in the shard that `file` is; a page cannot show what is in there. */
  readonly entry: string | undefined;
  readonly thumbnail: string | undefined;
  readonly url: string;
  readonly alt: string;
  readonly pages: readonly string[];
  readonly group: string | undefined;
  readonly size: string;
  readonly rights: string;
};

const name = 'gallery.html';

/** Writes the page into the folder of the crawl. `countMax`: images that it shows. Returns its path
 *  and what is on it. @throws ConfigError there are no images, or it cannot be written */
export async function writeGallery(
  folder: string,
  countMax: number,
): Promise<{ readonly path: string; readonly counts: GalleryCounts }> {
  const images: Shown[] = [];
  const counts: GalleryCounts = { images: 0, pages: 0, groups: 0, left: 0 };
  const parts = await partNamesOf(folder, 'downloads');
  for (const part of parts) {
    const path = join(folder, part);
    try {
      for await (const line of linesOf(path)) {
        const shown = shownOf(line);
        if (shown === undefined) continue;
        if (images.length < countMax) images.push(shown);
        else counts.left++;
      }
    } catch (error) {
      if (codeOf(error) === 'ENOENT') continue;
      throw new ConfigError(`cannot read ${path}: ${messageOf(error)}`, error);
    }
  }
  if (images.length === 0) {
    throw new ConfigError(`no image in ${join(folder, fileNames.downloads)}; see --download`);
  }
  const byPage = grouped(images, ({ pages, url }) => pages[0] ?? url);
  const alike = grouped(images, ({ group }) => group);
  for (const [group, members] of alike) {
    if (new Set(members.map(({ file, entry }) => entry ?? file)).size < 2) alike.delete(group);
  }
  Object.assign(counts, { images: images.length, pages: byPage.size, groups: alike.size });
  const path = join(folder, name);
  try {
    await writeFile(`${path}.part`, html(byPage, alike, counts));
    await rename(`${path}.part`, path);
  } catch (error) {
    throw new ConfigError(`cannot write ${path}: ${messageOf(error)}`, error);
  }
  return { path, counts };
}

/** Undefined: no image, or one that was not kept. */
function shownOf(line: string): Shown | undefined {
  let value: Record<string, unknown>;
  try {
    value = JSON.parse(line) as Record<string, unknown>;
  } catch {
    return undefined;
  }
  const text = (key: string) => (typeof value[key] === 'string' ? String(value[key]) : undefined);
  const [file, url] = [text('file'), text('url')];
  if (file === undefined || url === undefined) return undefined;
  const { width, height, pages } = value;
  return {
    file,
    url,
    thumbnail: text('thumbnail'),
    alt: text('alt') ?? '',
    group: text('group'),
    entry: text('entry'),
    pages: Array.isArray(pages) ? pages.map(String) : [],
    size: width === undefined ? '' : `${width} × ${height}`,
    rights: ['creator', 'credit', 'copyright', 'license']
      .flatMap((key) => text(key) ?? [])
      .join(' · '),
  };
}

function grouped(
  images: readonly Shown[],
  keyOf: (image: Shown) => string | undefined,
): Map<string, Shown[]> {
  const groups = new Map<string, Shown[]>();
  for (const image of images) {
    const key = keyOf(image);
    if (key === undefined) continue;
    const members = groups.get(key);
    if (members === undefined) groups.set(key, [image]);
    else members.push(image);
  }
  return groups;
}

const policy = "default-src 'none'; img-src 'self' file:; style-src 'unsafe-inline'";
const style = `body{font:16px/1.4 system-ui,sans-serif;margin:1.5rem;background:#fff;color:#222}
h2{font-size:1rem;overflow-wrap:anywhere}section div{display:flex;flex-wrap:wrap;gap:.75rem}
figure{margin:0;width:10rem;font-size:.75rem;overflow-wrap:anywhere}
img{width:10rem;height:8rem;object-fit:contain;background:#eee}
@media(prefers-color-scheme:dark){
body{background:#181818;color:#ddd}img{background:#333}a{color:#8bf}}`;

function html(
  byPage: ReadonlyMap<string, readonly Shown[]>,
  alike: ReadonlyMap<string, readonly Shown[]>,
  { images, left }: GalleryCounts,
): string {
  const of = (groups: ReadonlyMap<string, readonly Shown[]>, title: (key: string) => string) =>
    [...groups].map(
      ([key, members]) =>
        `<section><h2>${title(key)}</h2><div>${members.map(figure).join('')}</div></section>`,
    );
  const more = left > 0 ? ` (${left} more are not shown)` : '';
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Images</title>
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<style>${style}</style><h1>${images} images${more}</h1>
<p><a href="#pages">By page</a> · <a href="#alike">Images that look the same</a></p>
<main id="pages">${of(byPage, link).join('\n')}</main>
<h1 id="alike">Images that look the same</h1>
<main>${of(alike, (key) => `Group ${escaped(key.slice(0, 12))}`).join('\n')}</main></html>
`;
}

function figure({ file, entry, thumbnail, url, alt, size, rights }: Shown): string {
  const said = [size, alt, rights]
    .filter((one) => one !== '')
    .map(escaped)
    .join('<br>');
  const image = `<img loading="lazy" src="${pathOf(thumbnail ?? file)}" alt="${escaped(alt)}">`;
  const caption = `<figcaption>${said}<br>${link(url)}</figcaption>`;
  if (entry !== undefined) {
    const shard = `<a href="${pathOf(file)}">${escaped(file)}</a>: ${escaped(entry)}`;
    return `<figure>${shard}${caption}</figure>`;
  }
  return `<figure><a href="${pathOf(file)}">${image}</a>${caption}</figure>`;
}

/** An absolute path is of a folder that slaves share. */
function pathOf(file: string): string {
  const path = file.split('/').map(encodeURIComponent).join('/');
  return escaped(file.startsWith('/') ? `file://${path}` : path);
}

function link(url: string): string {
  const text = escaped(url);
  return /^https?:\/\//.test(url) ? `<a rel="noreferrer" href="${text}">${text}</a>` : text;
}

function escaped(text: string): string {
  return text.replace(/[&<>"'\p{Cc}\p{Cf}]/gu, (one) => `&#${one.codePointAt(0)};`);
}
