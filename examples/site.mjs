// The sites of the recipes, on one port of this machine: node examples/site.mjs [port]
import { createServer } from 'node:http';

const page = (title, body) => `<!doctype html><title>${title}</title><body>${body}`;
const range = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const link = (href, text = href) => `<a href="${href}">${text}</a>`;

/** Start, three albums, four pictures each; a link from a picture leads one level too deep. */
function gallery([, album, picture]) {
  if (album === undefined) {
    return page(
      'Gallery',
      range(1, 3)
        .map((n) => link(`/gallery/${n}`))
        .join(' '),
    );
  }
  if (picture === undefined) {
    return page(
      `Album ${album}`,
      range(1, 4)
        .map((n) => link(`/gallery/${album}/${n}`))
        .join(' '),
    );
  }
  if (picture === 'deep') return page('Deep', '<center><img src="/pictures/deep.jpg"></center>');
  const image = `<img src="/pictures/${album}-${picture}.jpg">`;
  return page(
    `Picture ${picture}`,
    `<img src="/logo.png"><center>${image}</center>
    ${link(`/gallery/${album}/deep`)}`,
  );
}

/** A board whose links are relative; each thread has two pages and a link to its author. */
function forum([, name = '']) {
  const [, thread, part] = /^thread-(\d+)-(\d+)\.html$/.exec(name) ?? [];
  if (name === '') {
    return page(
      'Board',
      range(1, 5)
        .map((n) => link(`thread-${n}-1.html`, `Topic ${n}`))
        .join(' '),
    );
  }
  if (thread === undefined) return page('Member', link('./', 'board'));
  const next = part === '1' ? link(`thread-${thread}-2.html`, 'next') : '';
  return page(
    `Topic ${thread}`,
    `<h1>Topic ${thread}</h1><p class="post">Post ${part}</p>
    ${link(`member-${thread}.html`)} ${next}`,
  );
}

/** Pages that only a visitor with the cookie sees. */
function members([, name = ''], cookie) {
  if (!/(?:^|; )session=4711(?:;|$)/.test(cookie)) return page('Log in', 'Please log in.');
  if (name === '')
    return page(
      'Members',
      range(1, 3)
        .map((n) => link(`/members/${n}`))
        .join(' '),
    );
  return page(`Letter ${name}`, `<p>Letter ${name} for members</p>`);
}

const list = ([, n = '']) => page(`Product ${n}`, `<h1>Product ${n}</h1><b>${Number(n) * 5}</b>`);

const sites = { gallery, forum, members, list };

createServer((request, response) => {
  const path = new URL(request.url ?? '/', 'http://site').pathname.split('/').slice(1);
  const site = sites[path[0]];
  const found = site !== undefined && (path[1] !== undefined || path[0] === 'gallery');
  response.writeHead(found ? 200 : 404, { 'content-type': 'text/html; charset=utf-8' });
  const parts = path[1] === '' ? [path[0]] : path;
  response.end(found ? site(parts, request.headers.cookie ?? '') : 'not found');
}).listen(Number(process.argv[2] ?? 8124), '127.0.0.1', function () {
  console.log(`http://127.0.0.1:${this.address().port}/`);
});
