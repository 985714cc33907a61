/** The charset of a page by its own word: a meta element anywhere, or an XML declaration. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { PageDecoder } from '../../slave/fetch/charset.ts';
import { PageReader } from '../../slave/kinds/page-body.ts';

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');

/** A page as the slave reads it, in chunks. */
function read(bytes: Uint8Array, options: { charset?: string; xml?: boolean } = {}, size = 4096) {
  const spec = fetchSpecSchema.parse({});
  const url = 'http://h.test/';
  const { charset, xml = false } = options;
  const reader = new PageReader({ url, spec, charset, xml, sniff: false });
  for (let at = 0; at < bytes.length; at += size) reader.write(bytes.subarray(at, at + size));
  const page = reader.end();
  assert.ok(page !== undefined);
  const { extract } = page;
  return {
    charset: page.charset,
    title: extract.title,
    links: Buffer.from(extract.links).toString(),
    alts: extract.images.map(({ alt }) => alt),
    srcs: extract.images.map(({ src }) => src),
  };
}

/** `日本` in Shift_JIS. */
const sjis = '\x93\xfa\x96\x7b';
const padding = (bytes: number) => `<!-- ${'x'.repeat(bytes)} -->`;

test('late charset: a meta element counts wherever it stands', () => {
  for (const meta of [
    '<meta charset=shift_jis>',
    '<META http-equiv="Content-Type" content="text/html; charset=Shift_JIS">',
    '<meta charset=nonsense http-equiv=content-type content="charset = \'sjis\'">',
    '<meta name=x content=charset=gbk><meta charset="&#115;jis">',
  ])
    for (const bytes of [0, 1100, 5000, 300_000, 3_000_000]) {
      const page = `${padding(bytes)}<title>${sjis}</title><a href="?q=${sjis}">${meta}<img alt=${sjis} src=i>`;
      const found = read(latin1(page), {}, 65_536);
      assert.equal(found.charset, 'shift_jis', meta);
      assert.equal(found.title, '日本');
      assert.equal(found.links, 'http://h.test/?q=%93%FA%96{');
      assert.deepEqual(found.alts, ['日本']);
    }
});

test('late charset: what was decoded before is decoded again', () => {
  const early =
    `<link rel=canonical href="/${sjis}"><style>a{background:url(${sjis}.png)}</style>` +
    `<img srcset="&quot;${sjis} 2x"><meta http-equiv=refresh content="0;url=/?${sjis}">`;
  const html = `${early}${padding(2000)}<meta charset=sjis>`;
  for (const size of [1, 700, 4096, html.length]) {
    const found = read(latin1(html), {}, size);
    const expected = read(latin1(html), { charset: 'sjis' }, html.length);
    assert.deepEqual(found, expected, `chunks of ${size}`);
    assert.deepEqual(found.srcs.length, 2);
  }
  // Held are the first MiB: behind them it has no effect, and the page is still read once.
  const far = read(latin1(`${early}${padding(1 << 20)}<meta charset=sjis><title>${sjis}</title>`));
  assert.deepEqual([far.charset, far.srcs.length], ['windows-1252', 2]);
});

test('late charset: an encoding that is decoded whole is read from the start', () => {
  const text = '\x1b$B4A;z\x1b(B';
  const html = `<title>${text}</title>${padding(2000)}<meta charset=iso-2022-jp><a href=x>`;
  for (const size of [1, 64, html.length]) {
    const found = read(latin1(html), {}, size);
    assert.deepEqual([found.charset, found.title], ['iso-2022-jp', '漢字']);
    assert.equal(found.links, 'http://h.test/x');
  }
  const hidden = read(latin1(`<a href=x>${padding(2000)}<meta charset=hz-gb-2312>`));
  assert.deepEqual([hidden.charset, hidden.links], ['replacement', '']);
});

test('late charset: the first word counts, and only where it is a guess', () => {
  const late = `${padding(2000)}<meta charset=sjis><title>\xe9</title>`;
  const charset = (html: string, options?: { charset?: string; xml?: boolean }) =>
    read(latin1(html), options).charset;
  assert.equal(charset(late), 'shift_jis');
  assert.equal(charset(late, { charset: 'utf-8' }), 'utf-8');
  assert.equal(charset(`\xef\xbb\xbf${late}`), 'utf-8');
  assert.equal(charset(`<meta charset=koi8-r>${late}`), 'koi8-r');
  assert.equal(charset(`${padding(2000)}<meta charset=koi8-r>${late}`), 'koi8-r');
  assert.equal(charset(`${padding(2000)}<meta charset=x-nonsense>${late}`), 'shift_jis');
  assert.equal(charset(`${padding(2000)}<meta charset=utf-16>`), 'utf-8');
  assert.equal(charset(`${padding(2000)}<meta charset=x-user-defined>`), 'windows-1252');
  // The first bytes alone do not see that this one is in a script.
  assert.equal(charset(`<script>"<meta charset=gbk>"</script>${late}`), 'shift_jis');
  for (const none of [`<!-- <meta charset=gbk> -->`, `<script>"<meta charset=gbk>"</script>`])
    assert.equal(charset(padding(2000) + none), 'windows-1252');
  assert.equal(charset(`<title>${padding(2000)}<meta charset=sjis></title>`), 'windows-1252');
  assert.equal(charset(late, { xml: true }), 'utf-8');
});

test('charset: an XML declaration counts in HTML after meta, in XHTML alone', () => {
  const encodings = (html: string) =>
    [false, true].map((xml) => read(latin1(html), { xml }).charset);
  const declared = '<?xml version="1.0" encoding="koi8-r"?>';
  assert.deepEqual(encodings(`${declared}<p>`), ['koi8-r', 'koi8-r']);
  assert.deepEqual(encodings(`${declared}<meta charset=sjis>`), ['shift_jis', 'koi8-r']);
  assert.deepEqual(encodings(`${declared}${padding(2000)}<meta charset=sjis>`), [
    'shift_jis',
    'koi8-r',
  ]);
  const none = ['windows-1252', 'utf-8'];
  assert.deepEqual(encodings('<p>'), none);
  assert.deepEqual(encodings('<meta charset=sjis>'), ['shift_jis', 'utf-8']);
  for (const invalid of [
    ` ${declared}`,
    '<?XML encoding="koi8-r"?>',
    '<?xml encoding=koi8-r?>',
    '<?xml encoding="koi8-r',
    '<?xml encoding=" koi8-r"?>',
    '<?xml encoding="nonsense"?>',
    '<?xml version="1.0"?>',
  ])
    assert.deepEqual(encodings(invalid), none, invalid);
  assert.deepEqual(encodings("<?xml encoding = 'koi8-r' ?>"), ['koi8-r', 'koi8-r']);
  for (const utf16 of ['utf-16', 'UTF-16BE', 'unicode', 'ucs-2'])
    assert.deepEqual(encodings(`<?xml encoding="${utf16}"?>`), ['utf-8', 'utf-8'], utf16);
  const wide = Buffer.from('<?xml version="1.0"?><title>é</title><a href="x"/>', 'utf16le');
  for (const bytes of [wide, Buffer.from(wide).swap16()])
    for (const xml of [false, true]) {
      const found = read(bytes, { xml });
      assert.deepEqual([found.title, found.links], ['é', 'http://h.test/x']);
    }
  assert.equal(read(Buffer.from('<title>é</title>'), { xml: true }).title, 'é');
  assert.equal(read(latin1('<title>\xe9</title>'), { xml: true, charset: 'latin1' }).title, 'é');
});

test('late charset: as if the header had said so, wherever a page is cut', () => {
  const pieces = [
    `<a href="/${sjis}?${sjis}">`,
    `<title>${sjis}</title>`,
    `<style>a{background:url('${sjis}')}</style>`,
    `<img src="${sjis}" alt="&eacute;${sjis}">`,
    `<p data-src=x style="background:url(${sjis}\\e9)">`,
    `<script type="application/ld+json">{"image":"${sjis}.png"}</script>`,
    `<link rel=canonical href="${sjis}">`,
    '<!-- x -->',
  ];
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...pieces), { maxLength: 8 }),
      fc.array(fc.constantFrom(...pieces), { maxLength: 8 }),
      fc.integer({ min: 1, max: 3000 }),
      (before, after, size) => {
        const html = [padding(1100), ...before, '<meta charset=sjis>', ...after].join('');
        assert.deepEqual(read(latin1(html), {}, size), read(latin1(html), { charset: 'sjis' }));
      },
    ),
    { numRuns: 500 },
  );
});

test('late charset: bytes that are held do not keep all that was read with them', () => {
  const decoder = new PageDecoder(undefined);
  const before = process.memoryUsage().arrayBuffers;
  for (let n = 0; n < 2_000; n++) decoder.write(Buffer.alloc(64 << 10, 'x').subarray(0, 1));
  assert.ok(process.memoryUsage().arrayBuffers - before < 64 << 20);
});
