// The sites of the recipes, on one port of this machine: node examples/site.mjs [port]
import { createServer } from 'node:http';
import { photo } from './photos.mjs';

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

/** A board whose links are relative; each thread has three pages and a link to its author. */
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
  const next = part < 3 ? link(`thread-${thread}-${Number(part) + 1}.html`, 'next') : '';
  return page(
    `Topic ${thread}`,
    `<h1>Topic ${thread}</h1><p class="post">Post ${part}</p>
    ${link(`member-${thread}.html`)} ${next}`,
  );
}

/** Pages that only a visitor with the cookie sees. */
function members([, name = ''], { cookie }) {
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

/** What a browser that has logged in is known by, and the tokens of forms that are open. */
const sessions = new Set();
let forms = 0;

/** Pages of a customer, behind a form with a token that counts once. */
function account([, name = ''], { cookie, form }) {
  const [, session = ''] = /(?:^|; )account=(\w+)/.exec(cookie) ?? [];
  const login = { status: 303, headers: { location: '/account/login' }, body: '' };
  if (name === 'login' && form !== undefined) {
    const isRight = form.get('user') === 'ann' && form.get('password') === 'open-sesame';
    if (!isRight || form.get('token') !== `${session}-${forms}`) return login;
    sessions.add(session);
    return { status: 303, headers: { location: '/account/' }, body: '' };
  }
  if (name === 'login') {
    const next = `a${++forms}`;
    const headers = { 'set-cookie': `account=${next}; Path=/account; HttpOnly` };
    const token = `<input type="hidden" name="token" value="${next}-${forms}">`;
    const fields = `<input name="user"><input type="password" name="password">${token}`;
    const body = page('Log in', `<form method="post">${fields}<button>Log in</button></form>`);
    return { type: 'text/html', headers, body };
  }
  if (!sessions.has(session)) return login;
  if (name === 'logout') sessions.delete(session);
  const way = `${link('/account/')} <a class="logout" href="/account/logout">Log out</a>`;
  if (!/^\d+$/.test(name))
    return page(
      'Orders',
      `${way} ${range(1, 5)
        .map((n) => link(`/account/${n}`))
        .join(' ')}`,
    );
  return page(
    `Order ${name}`,
    `${way}<h1>Order ${name}</h1><p class="total">${Number(name) * 12.5}</p>`,
  );
}

const stories = [
  ['bridge', 'The new bridge opens', 'Ann Author', 'A bridge over the river', 'the old ferry'],
  [
    'library',
    'Longer hours for the library',
    'Ben Writer',
    'The library of the town',
    'its cellar',
  ],
  ['market', 'Market day is back', 'Cem Editor', 'The market on the square', 'the first stands'],
];

/** A news site: a front page, topics, and stories with a menu, a list of others, and a footer. */
function paper([, year = '', slug = '']) {
  const paths = stories.map(([name, title]) => [`/paper/2026/${name}`, title]);
  const menu = `<nav>${range(1, 9)
    .map((n) => link(`/paper/topic-${n}`, `Topic ${n}`))
    .join(' ')}</nav>`;
  const all = `<ul>${paths.map(([to, title]) => `<li>${link(to, title)}`).join('')}</ul>`;
  const story = stories.find(([name]) => year === '2026' && name === slug);
  if (story === undefined) return page('The Paper', `${menu}<h1>The Paper</h1>${all}`);
  const [, title, author, subject, detail] = story;
  const day = stories.indexOf(story) + 17;
  const more = `This is what people there say, and what the paper has found, about ${detail}.`;
  return `<!doctype html><html lang="en"><head><title>${title} - The Paper</title>
    <meta name="author" content="${author}">
    <meta property="article:published_time" content="2026-11-${day}T08:30:00+01:00"></head><body>
    ${menu}<main><h1>${title}</h1>
    <p>${subject} is in the news again, after years, plans, and <em>many</em> letters. ${more}</p>
    <h2>What is new</h2>
    <ul><li>${subject}, open to all</li><li>More about ${detail}, at last</li></ul>
    <p>Those who want to know more find it in ${link('/paper/2026/bridge', 'an earlier story')}. ${more}</p>
    <blockquote><p>Nobody thought of ${detail}, and now everybody does.</p></blockquote>
    <p>The council meets again next month, in public. ${more}</p></main>
    <aside><h3>Also read</h3>${all}</aside><footer>Imprint, terms, contact</footer></body></html>`;
}

/** Bytes of GBK. Nothing here writes it, so what reads it is turned round. */
function gbk(text) {
  const decoder = new TextDecoder('gbk');
  const bytes = new Map();
  for (const first of range(0x81, 0xfe)) {
    for (const second of range(0x40, 0xfe)) {
      bytes.set(decoder.decode(Uint8Array.of(first, second)), [first, second]);
    }
  }
  return Buffer.from([...text].flatMap((one) => bytes.get(one) ?? one.charCodeAt(0)));
}

const fruits = ['苹果', '香蕉', '葡萄', '西瓜', '桃子', '梨'];
const places = ['山东; 烟台', '海南', '新疆', '北京', '江苏', '河北'];

/** Three pages of a table, in an encoding that only the page itself names. */
function market([, number = '']) {
  const rows = fruits.map((fruit, i) => {
    const price = (Number(number) * 10 + i) / 4;
    return `<tr><td>${fruit}<td>${price}<td>${places[i]}</tr>`;
  });
  const head = '<tr><th>品名<th>价格<th>产地</tr>';
  const table = `<table bgcolor="#FBFEFF">${head}${rows.join('')}</table>`;
  const meta = '<meta http-equiv="content-type" content="text/html; charset=gbk">';
  const layout = `<table><tr><td>${table}</table>`;
  return { type: 'text/html', body: gbk(`${meta}${page(`市场 ${number}`, layout)}`) };
}

/** An API that says how many products there are, and gives three of them a page. */
function api(_, { query }) {
  const total = 299;
  const first = Number(query.get('page') ?? 1) * 3 - 2;
  const products = range(first, Math.min(first + 2, total)).map((id) => ({
    id,
    name: id % 50 === 0 ? `Product "${id}", used` : `Product ${id}`,
    price: { amount: id / 4, currency: 'EUR' },
  }));
  return { type: 'application/json', body: JSON.stringify({ total, products }) };
}

/** Twelve articles with many ways to each: links say where they come from, and some are not
 *  articles. */
function wiki([, name = '']) {
  const articles = 'Ant Bee Cat Dog Elk Fox Gnu Hen Ibis Jay Kite Lynx'.split(' ');
  const at = articles.indexOf(name);
  if (at < 0) return page(name, link('/wiki/Ant', 'Main page'));
  const next = [at + 1, 5 * at + 2, 3 * at + 4].map((n) => articles[n % articles.length]);
  const links = [...new Set(next)];
  return page(
    `${name} - Wiki`,
    `<h1>${name}</h1>${links.map((to) => link(`/wiki/${to}?from=${name}`, to)).join(' ')}
    ${link(`/wiki/Talk:${name}`)} ${link('/wiki/Special:Random')}`,
  );
}

let letters = 2;

/** Each time that somebody asks for the number of letters, there is one more. */
function news([, name = '']) {
  if (name === 'count') return { type: 'text/plain', body: String(++letters) };
  return page(`Letter ${name}`, `<h1>Letter ${name}</h1>`);
}

/** A shop that a script fills: four products, and four more for each click. */
function app([, name = ''], { query }) {
  if (name === 'data') {
    const from = Number(query.get('from'));
    return { type: 'application/json', body: JSON.stringify(range(from, Math.min(from + 3, 10))) };
  }
  if (name !== '') {
    const script = `document.body.innerHTML = '<h1>Product ${name}</h1>'
      + '<b class="price">' + (${name} * 5).toFixed(2) + ' EUR</b>'`;
    return page('Shop', `<script>${script}</script>`);
  }
  return page(
    'Shop',
    `<ul></ul><button class="more">more</button><script>
    let from = 1;
    const more = async () => {
      const found = await (await fetch('/app/data?from=' + from)).json();
      for (const n of found) {
        const link = document.createElement('a');
        link.href = '/app/' + n;
        link.textContent = 'Product ' + n;
        document.querySelector('ul').append(link);
      }
      from += found.length;
      if (from > 10) document.querySelector('button').remove();
    };
    document.querySelector('button').onclick = more;
    more();
    </script>`,
  );
}

const list = ([, n = '']) => page(`Product ${n}`, `<h1>Product ${n}</h1><b>${Number(n) * 5}</b>`);

/** Two albums of three photos with a logo; each photo also in a small size, and two URLs of one. */
function photos([, name = '', file = '']) {
  const [, number, size] = /^(\d+)(?:-(small|again))?\.png$/.exec(file) ?? [];
  if (name === 'files' && number !== undefined) {
    const [width, height] = size === 'small' ? [96, 72] : [240, 180];
    return { type: 'image/png', body: photo(Number(number), width, height) };
  }
  if (file === 'logo.png') return { type: 'image/png', body: photo(0, 32, 16) };
  const logo = '<img src="/photos/files/logo.png" alt="Logo">';
  if (name === '') return page('Photos', `${logo}${range(1, 2).map((n) => link(`/photos/${n}`))}`);
  const shown = range(Number(name) * 3 - 2, Number(name) * 3).map((n) =>
    ['', '-small', '-again']
      .map((kind) => `<img src="/photos/files/${n}${kind}.png" alt="Photo ${n}">`)
      .join(''),
  );
  return page(`Album ${name}`, `${logo}${shown.join('')}`);
}

const sites = {
  gallery,
  photos,
  forum,
  members,
  list,
  market,
  api,
  wiki,
  news,
  account,
  paper,
  app,
};

createServer(async (request, response) => {
  const url = new URL(request.url ?? '/', 'http://site');
  const path = url.pathname.split('/').slice(1);
  const site = sites[path[0]];
  const found = site !== undefined && (path[1] !== undefined || path[0] === 'gallery');
  const parts = path[1] === '' ? [path[0]] : path;
  let sent = '';
  for await (const chunk of request) sent += chunk;
  const form = request.method === 'POST' ? new URLSearchParams(sent) : undefined;
  const asked = { cookie: request.headers.cookie ?? '', query: url.searchParams, form };
  const answer = found ? site(parts, asked) : 'not found';
  const html = { type: 'text/html; charset=utf-8', body: answer };
  const {
    status = 200,
    type = 'text/html',
    headers,
    body,
  } = typeof answer === 'string' ? html : answer;
  response.writeHead(found ? status : 404, { 'content-type': type, ...headers });
  response.end(body);
}).listen(Number(process.argv[2] ?? 8124), '127.0.0.1', function () {
  console.log(`http://127.0.0.1:${this.address().port}/`);
});
