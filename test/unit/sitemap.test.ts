/** Sitemaps by the sitemaps.org protocol: formats, limits, and chunks cut anywhere. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Sitemap, SitemapReader } from '../../slave/extract/sitemap.ts';
import { cpuMsSince } from '../support/cpu-time.ts';

/** Reads a whole sitemap from its chunks, cut anywhere. */
function parseSitemap(
  chunks: Iterable<Uint8Array>,
  bounds?: ConstructorParameters<typeof SitemapReader>[0],
): Sitemap {
  const reader = new SitemapReader(bounds);
  for (const chunk of chunks) if (!reader.write(chunk)) break;
  return reader.end();
}

const parse = (text: string): Sitemap => parseSitemap([Buffer.from(text)]);
const urls = (sitemap: Sitemap) => sitemap.entries.map((entry) => entry.url);

const head = '<?xml version="1.0" encoding="UTF-8"?>\n';
const urlset = `${head}<!-- x --><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
  xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
  <url><loc>http://a.example/?x=1&amp;y=2</loc><lastmod>2005-01-01</lastmod>
    <changefreq>monthly</changefreq><priority>0.8</priority></url>
  <url><loc>
    https://a.example/é </loc><image:image><image:loc>http://a.example/1.png</image:loc>
    <image:loc>/relative.png</image:loc><image:caption>http://no</image:caption></image:image></url>
  <url><lastmod>2004-12-23T18:00:15+00:00</lastmod><loc><![CDATA[http://a.example/c?a&b]]></loc></url>
</urlset>`;

const expected: Sitemap = {
  kind: 'urlset',
  cut: false,
  entries: [
    { url: 'http://a.example/?x=1&y=2', lastmodMs: Date.UTC(2005, 0, 2) - 1 },
    { url: 'https://a.example/é', images: ['http://a.example/1.png'] },
    { url: 'http://a.example/c?a&b', lastmodMs: Date.UTC(2004, 11, 23, 18, 0, 15) },
  ],
};

test('sitemap: a urlset gives its URLs, dates and images', () => {
  assert.deepEqual(parse(urlset), expected);
});

test('sitemap: it is the same cut at every byte', () => {
  const bytes = Buffer.from(urlset);
  for (let at = 0; at <= bytes.length; at++)
    assert.deepEqual(parseSitemap([bytes.subarray(0, at), bytes.subarray(at)]), expected);
  assert.deepEqual(parseSitemap(Array.from(bytes, (byte) => Uint8Array.of(byte))), expected);
});

test('sitemap: an index gives sitemaps, with a prefix too', () => {
  const index = (p: string) =>
    `<${p}sitemapindex xmlns="x"><${p}sitemap><${p}loc>http://a/1.gz</${p}loc>` +
    `<${p}lastmod>2020</${p}lastmod></${p}sitemap></${p}sitemapindex>`;
  const entries = [{ url: 'http://a/1.gz', lastmodMs: Date.UTC(2021, 0, 1) - 1 }];
  for (const prefix of ['', 'sm:'])
    assert.deepEqual(parse(index(prefix)), { kind: 'index', entries, cut: false });
});

test('sitemap: text has a URL a line', () => {
  const text =
    '\uFEFF \nhttp://a/1\r\nhttps://a/2\r\n\r\n  http://a/3  \nnot a url\n/4\nHTTP://a/5';
  const sitemap = parse(text);
  assert.equal(sitemap.kind, 'text');
  assert.deepEqual(urls(sitemap), ['http://a/1', 'https://a/2', 'http://a/3', 'HTTP://a/5']);
  const bytes = Buffer.from(text);
  assert.deepEqual(parseSitemap(Array.from(bytes, (byte) => Uint8Array.of(byte))), sitemap);
});

test('sitemap: UTF-16 with its mark is read', () => {
  const bytes = Buffer.from(`\uFEFF${urlset}`, 'utf16le');
  assert.deepEqual(parseSitemap([bytes]), expected);
  assert.deepEqual(parseSitemap(Array.from(bytes, (byte) => Uint8Array.of(byte))), expected);
  assert.deepEqual(parseSitemap([Buffer.from(bytes).swap16()]), expected);
});

test('sitemap: the encoding of an XML declaration counts', () => {
  const bytesOf = (label: string, loc: Buffer) =>
    Buffer.concat([
      Buffer.from(`<?xml version="1.0" encoding=${label}?><urlset><url><loc>http://a/`),
      loc,
      Buffer.from('</loc></url></urlset>'),
    ]);
  const cases: readonly (readonly [label: string, loc: Buffer, text: string])[] = [
    ['"windows-1251"', Buffer.from([0xef, 0xf0]), 'пр'],
    ["'ISO-8859-1'", Buffer.from([0xe9]), 'é'],
    ['"windows-1252"', Buffer.from([0x80]), '€'],
    // These depend on the version of Node where its own decoders are used.
    ['"iso-8859-16"', Buffer.from([0xaa]), 'Ș'],
    ['"x-user-defined"', Buffer.from([0xe9]), 'é'],
    ['"Shift_JIS"', Buffer.from([0x83, 0x65]), 'テ'],
    ['"UTF-8"', Buffer.from('é'), 'é'],
    ['"utf-16"', Buffer.from('é'), 'é'],
    ['"hz-gb-2312"', Buffer.from('é'), 'é'],
    ['"x-unknown"', Buffer.from('é'), 'é'],
    [`"${'x'.repeat(300)}"`, Buffer.from('é'), 'é'],
  ];
  for (const [label, loc, text] of cases) {
    const bytes = bytesOf(label, loc);
    for (const chunks of [[bytes], Array.from(bytes, (byte) => Uint8Array.of(byte))]) {
      assert.deepEqual(urls(parseSitemap(chunks)), [`http://a/${text}`], label);
    }
  }
  const wide = Buffer.from(
    '<?xml version="1.0"?><urlset><url><loc>http://a/é</loc></url></urlset>',
    'utf16le',
  );
  assert.deepEqual(urls(parseSitemap([wide])), ['http://a/é']);
});

test('sitemap: the charset of Content-Type counts more than a declaration, less than a mark', () => {
  const map = (loc: Buffer, label = '"UTF-8"') =>
    Buffer.concat([
      Buffer.from(`<?xml version="1.0" encoding=${label}?><urlset><url><loc>http://a/`),
      loc,
      Buffer.from('</loc></url></urlset>'),
    ]);
  const lines = Buffer.from('http://a/\xef', 'latin1');
  const cases: readonly (readonly [charset: string, bytes: Buffer, text: string])[] = [
    ['windows-1251', map(Buffer.of(0xef)), 'п'],
    ['utf-8', map(Buffer.from('é'), '"ISO-8859-1"'), 'é'],
    ['windows-1251', lines, 'п'],
    ['utf-16', Buffer.from('http://a/é', 'utf16le'), 'é'],
    ['windows-1251', Buffer.from('\uFEFFhttp://a/é'), 'é'],
    ['x-unknown', map(Buffer.of(0xe9), '"ISO-8859-1"'), 'é'],
    ['hz-gb-2312', map(Buffer.from('é')), 'é'],
  ];
  for (const [charset, bytes, text] of cases)
    for (const chunks of [[bytes], Array.from(bytes, (byte) => Uint8Array.of(byte))])
      assert.deepEqual(urls(parseSitemap(chunks, { charset })), [`http://a/${text}`], charset);
});

test('sitemap: a declaration behind blanks counts', () => {
  const text = (blanks: string) =>
    `${blanks}<?xml version="1.0" encoding="ISO-8859-1"?><urlset><url><loc>http://a/\xe9</loc>`;
  for (const blanks of ['', '\n', '\r\n \t', ' '.repeat(150)]) {
    const bytes = Buffer.from(text(blanks), 'latin1');
    for (const chunks of [[bytes], Array.from(bytes, (byte) => Uint8Array.of(byte))])
      assert.deepEqual(urls(parseSitemap(chunks)), ['http://a/é']);
  }
  assert.deepEqual(urls(parse(`\n${' '.repeat(300)}${sample}`)), urls(parse(sample)));
});

test('sitemap: what is no sitemap has no entries', () => {
  for (const text of ['', ' \n', '<html><url><loc>http://a/</loc></url></html>', '<', '<!---->'])
    assert.deepEqual(parse(text), { kind: 'none', entries: [], cut: false }, text);
  const outside = '<urlset><loc>http://a/</loc><sitemap><loc>http://b/</loc></sitemap></urlset>';
  assert.deepEqual(urls(parse(outside)), []);
});

test('sitemap: only absolute http and https URLs of a sane length', () => {
  const locs = [
    ...['/a', 'a.example', 'ftp://a/', 'javascript:alert(1)', 'file:///etc', 'http://', ''],
    ...['http://a b/', `http://a/${'x'.repeat(5000)}`, 'http://ok.example/'],
  ];
  const body = locs.map((loc) => `<url><loc>${loc}</loc></url>`).join('');
  assert.deepEqual(urls(parse(`<urlset>${body}</urlset>`)), ['http://ok.example/']);
});

// Source: sitemaps.org, "Sample XML Sitemap", "Entity escaping".
const sample = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
   <url>
      <loc>http://www.example.com/</loc>
      <lastmod>2005-01-01</lastmod>
      <changefreq>monthly</changefreq>
      <priority>0.8</priority>
   </url>
   <url>
      <loc>http://www.example.com/catalog?item=12&amp;desc=vacation_hawaii</loc>
      <changefreq>weekly</changefreq>
   </url>
   <url>
      <loc>http://www.example.com/catalog?item=74&amp;desc=vacation_newfoundland</loc>
      <lastmod>2004-12-23T18:00:15+00:00</lastmod>
      <priority>0.3</priority>
   </url>
   <url>
      <loc>http://www.example.com/%C3%BCmlat.php&amp;q=name</loc>
   </url>
   <url>
      <loc>http://www.example.com/&#252;mlat.html&#x26;a&apos;b&quot;c&gt;d&lt;e</loc>
   </url>
</urlset>`;

test('sitemap: the example of the protocol, with its entities', () => {
  assert.deepEqual(urls(parse(sample)), [
    'http://www.example.com/',
    'http://www.example.com/catalog?item=12&desc=vacation_hawaii',
    'http://www.example.com/catalog?item=74&desc=vacation_newfoundland',
    'http://www.example.com/%C3%BCmlat.php&q=name',
    `http://www.example.com/ümlat.html&a'b"c>d<e`,
  ]);
  assert.deepEqual(urls(parse(`\uFEFF\n${sample}`)), urls(parse(sample)));
  const doctype = sample.replace('<urlset', '<!DOCTYPE urlset [<!ENTITY a "http://x/">]><urlset');
  assert.deepEqual(urls(parse(doctype)), urls(parse(sample)));
});

test('sitemap: RSS and Atom feeds list pages', () => {
  const rss = `<rss version="2.0"><channel><title>t</title><link>http://a/home</link>
    <item><title>x</title><link>http://a/1</link><pubDate>Sat, 07 Sep 2002 00:00:01 GMT</pubDate>
    <guid>http://a/guid</guid></item><item><link> http://a/2?x&amp;y </link></item>
    </channel></rss>`;
  assert.deepEqual(parse(rss), {
    kind: 'feed',
    cut: false,
    entries: [
      { url: 'http://a/1', lastmodMs: Date.UTC(2002, 8, 7, 0, 0, 1) },
      { url: 'http://a/2?x&y' },
    ],
  });
  const atom = (p: string) => `<${p}feed xmlns="http://www.w3.org/2005/Atom">
    <${p}link href="http://a/home"/><${p}entry><${p}link rel="self" href="http://a/self"/>
    <${p}link href="http://a/1?x&amp;y"/><${p}updated>2003-12-13T18:30:02Z</${p}updated>
    </${p}entry>
    <${p}entry><${p}link rel="alternate" href="http://a/2"/></${p}entry></${p}feed>`;
  for (const prefix of ['', 'atom:'])
    assert.deepEqual(parse(atom(prefix)), {
      kind: 'feed',
      cut: false,
      entries: [
        { url: 'http://a/1?x&y', lastmodMs: Date.UTC(2003, 11, 13, 18, 30, 2) },
        { url: 'http://a/2' },
      ],
    });
  const guids = `<rss><channel><item><guid>http://a/1</guid></item>
    <item><guid isPermaLink="false">http://a/2</guid></item>
    <item><guid isPermaLink="true">http://a/3</guid><link>http://a/4</link></item></channel></rss>`;
  assert.deepEqual(urls(parse(guids)), ['http://a/1', 'http://a/4']);
  const rdf = `<rdf:RDF><channel/><item rdf:about="x"><link>http://a/1</link></item></rdf:RDF>`;
  assert.deepEqual(urls(parse(rdf)), ['http://a/1']);
});

test('sitemap: links of feeds count from xml:base, then from the file', () => {
  const url = 'http://a/blog/feed.xml';
  const of = (text: string) => urls(parseSitemap([Buffer.from(text)], { url }));
  const atom = `<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="1"/></entry>
    <entry xml:base="/x/"><link href="2"/></entry>
    <entry xml:base="http://b/y/z"><link xml:base="w/" xml:base="v/" href=" ../3?a&amp;b "/>
      <source xml:base="http://c/"/></entry>
    <entry xml:base="http://["><link href="4"/></entry>
    <entry xml:base="javascript:x"><link href="lost"/></entry>
    <entry><link href=""/><link href="//d/5"/></entry></feed>`;
  assert.deepEqual(of(atom), [
    ...['http://a/blog/1', 'http://a/x/2', 'http://b/y/3?a&b', 'http://a/blog/4', 'http://d/5'],
  ]);
  const based = atom.replace('<feed ', '<feed xml:base="http://e/f/" ');
  assert.deepEqual(of(based).slice(0, 2), ['http://e/f/1', 'http://e/x/2']);
  const rss = `<rss xml:base="http://e/"><channel><link>http://home/</link>
    <item><link> 1 </link><guid>2</guid></item><item><link/><guid>3</guid></item>
    <item><link></link><guid>http://a/g</guid></item></channel></rss>`;
  assert.deepEqual(of(rss), ['http://e/1', 'http://a/g']);
  assert.deepEqual(urls(parse(rss.replace('http://e/', ''))), ['http://a/g']);
  // The protocol of sitemaps knows none, and the alternates of a page are no entries.
  assert.deepEqual(of('<urlset xml:base="/"><url><loc>/a</loc></url></urlset>'), []);
  const other = '<link xmlns="http://www.w3.org/1999/xhtml" rel="alternate" href="http://a/de"/>';
  assert.deepEqual(of(`<urlset><url>${other}<loc>http://a/en</loc></url></urlset>`), [
    'http://a/en',
  ]);
  const deep = `<feed>${'<entry xml:base="x/">'.repeat(100_000)}<link href="y"/></entry>`;
  assert.equal(parseSitemap([Buffer.from(deep)], { url }).cut, true);
});

test('sitemap: the image extension is known by its namespace', () => {
  const google = 'http://www.google.com/schemas/sitemap-image/1.1';
  const map = (declared: string, p: string) =>
    `<urlset ${declared}><url><loc>http://a/</loc><${p}:image><${p}:loc>http://b/1.png</${p}:loc>` +
    `</${p}:image></url></urlset>`;
  for (const [declared, p] of [
    [`xmlns:image="${google}"`, 'image'],
    [`xmlns:pic="${google}"`, 'pic'],
    ['', 'image'],
  ] as const)
    assert.deepEqual(parse(map(declared, p)).entries, [
      { url: 'http://a/', images: ['http://b/1.png'] },
    ]);
  assert.deepEqual(parse(map('xmlns:pic="http://other"', 'pic')).entries, [{ url: 'http://a/' }]);
  // Programs also declare it where it is used.
  for (const image of [
    `<i:image xmlns:i="${google}"><i:loc>http://b/1.png</i:loc></i:image>`,
    `<image xmlns="${google}/"><loc>http://b/1.png</loc></image>`,
  ])
    assert.deepEqual(
      parse(
        `<urlset><url>${image}<loc>http://a/</loc></url><url><loc>http://a/2</loc></url></urlset>`,
      ).entries,
      [{ url: 'http://a/', images: ['http://b/1.png'] }, { url: 'http://a/2' }],
    );
});

test('sitemap: the address of an entry is not that of something in it', () => {
  const image =
    '<image xmlns="http://www.google.com/schemas/sitemap-image/1.1"><loc>http://b/</loc></image>';
  assert.deepEqual(urls(parse(`<urlset><url>${image}<loc>http://a/</loc></url></urlset>`)), [
    'http://a/',
  ]);
  const source = '<source><link href="http://b/"/><updated>2003</updated></source>';
  assert.deepEqual(urls(parse(`<feed><entry>${source}<link href="http://a/"/></entry></feed>`)), [
    'http://a/',
  ]);
});

test('sitemap: dates that are none are left out', () => {
  const date = (text: string) =>
    parse(`<urlset><url><loc>http://a/</loc><lastmod>${text}</lastmod></url></urlset>`).entries[0]
      ?.lastmodMs;
  assert.equal(date('1997'), Date.UTC(1998, 0, 1) - 1);
  assert.equal(date('1997-07'), Date.UTC(1997, 7, 1) - 1);
  assert.equal(date('1997-12'), Date.UTC(1998, 0, 1) - 1);
  assert.equal(date('1997-07-16'), Date.UTC(1997, 6, 17) - 1);
  assert.equal(date(' 1997-07-16T19:20+01:00 '), Date.UTC(1997, 6, 16, 18, 20));
  assert.equal(date('1997-07-16T19:20:30.45Z'), Date.UTC(1997, 6, 16, 19, 20, 30, 450));
  assert.equal(date('1997-07-16T19:20:30+0100'), Date.UTC(1997, 6, 16, 18, 20, 30));
  // Without a zone, the latest moment that it can be.
  const latest = Date.UTC(1997, 6, 17, 7, 20);
  for (const text of ['1997-07-16T19:20', '1997-07-16 19:20:00']) assert.equal(date(text), latest);
  for (const bad of ['', 'yesterday', '16/07/1997', '1997-13-01', '1997-07-16T29:20', '1e9'])
    assert.equal(date(bad), undefined, bad);
});

test('sitemap: what a page left open is still read', () => {
  const open =
    '<urlset><url><loc>http://a/1</loc><url><loc>http://a/2</loc></url><url><loc>http://a/3';
  // The last one may be the beginning of a longer address.
  assert.deepEqual(urls(parse(open)), ['http://a/1', 'http://a/2']);
  assert.deepEqual(urls(parse(`${open}</loc>`)), ['http://a/1', 'http://a/2', 'http://a/3']);
});

test('sitemap: of a broken file the last line is no address', () => {
  for (const [isBroken, expected] of [
    [false, ['http://a/1', 'http://a/2']],
    [true, ['http://a/1']],
  ] as const) {
    const reader = new SitemapReader();
    reader.write(Buffer.from('http://a/1\nhttp://a/2'));
    assert.deepEqual(urls(reader.end(isBroken)), expected);
  }
});

test('sitemap: it ends at 200,000 entries, at the byte limit and below the depth limit', () => {
  const many = (count: number) =>
    `<urlset>${Array.from({ length: count }, (_, at) => `<url><loc>http://a/${at}</loc></url>`).join('')}</urlset>`;
  const full = parse(many(200_000));
  assert.deepEqual([full.entries.length, full.cut], [200_000, false]);
  const over = parse(many(200_001));
  assert.deepEqual([over.entries.length, over.cut], [200_000, true]);
  const reader = new SitemapReader({ bytesMax: 1000 });
  assert.equal(reader.write(Buffer.from(many(100))), false);
  assert.equal(reader.write(Buffer.from('x')), false);
  const short = reader.end();
  assert.equal(short.cut, true);
  assert.ok(short.entries.length > 20 && short.entries.length < 40);
  const started = process.cpuUsage();
  assert.equal(parse(`<urlset>${'<a>'.repeat(1_000_000)}`).cut, true);
  assert.equal(parse('<'.repeat(1_000_000)).cut, false);
  parse(`http://a/${'x'.repeat(5_000_000)}`);
  parse(`<urlset><url><loc>${'x'.repeat(5_000_000)}</loc></url></urlset>`);
  assert.ok(cpuMsSince(started) < 3_000);
});

test('sitemap: no bytes make it throw, however they are cut', () => {
  const words = fc.constantFrom(
    ...[
      '<urlset>',
      '<url>',
      '</url>',
      '<loc>',
      '</loc>',
      'http://a/',
      '<lastmod>',
      '2020',
      '&amp;',
    ],
    ...['<![CDATA[', ']]>', '<!--', '-->', '<image:loc>', '\n', '<?xml', '?>', '&', '<', '/>', 'é'],
  );
  const text = fc.array(words, { maxLength: 40 }).map((list) => Buffer.from(list.join('')));
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array(), text), fc.nat(200), (bytes, cut) => {
      const whole = parseSitemap([bytes]);
      const parts = parseSitemap([bytes.subarray(0, cut), bytes.subarray(cut)]);
      assert.deepEqual(urls(parts), urls(whole));
    }),
    { numRuns: 3000 },
  );
});
