/**
 * A page in every encoding of the Encoding Standard comes out right: title, alt text, links.
 * The bytes are from Python's codecs, which share nothing with the decoders here.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { PageReader } from '../../slave/kinds/page-body.ts';

const spec = fetchSpecSchema.parse({});

/** Name, a text that tells it from others, its bytes. All but replacement and x-user-defined. */
const encodings: readonly (readonly [name: string, text: string, hex: string])[] = [
  ['utf-8', 'é日', 'c3a9e697a5'],
  ['ibm866', 'Привет', '8fe0a8a2a5e2'],
  ['iso-8859-2', 'Łódź', 'a3f364bc'],
  ['iso-8859-3', 'Ħaġ', 'a161f5'],
  ['iso-8859-4', 'Šķū', 'a9f3fe'],
  ['iso-8859-5', 'Привет', 'bfe0d8d2d5e2'],
  ['iso-8859-6', 'مرحبا', 'e5d1cdc8c7'],
  ['iso-8859-7', 'Γειά', 'c3e5e9dc'],
  ['iso-8859-8', 'שלום', 'f9ece5ed'],
  ['iso-8859-8-i', 'שלום', 'f9ece5ed'],
  ['iso-8859-10', 'Ŋđŋ', 'afb9bf'],
  ['iso-8859-13', 'Šūķ', 'd0fbed'],
  ['iso-8859-14', 'Ŵŷ', 'd0fe'],
  ['iso-8859-15', 'œ€', 'bda4'],
  ['iso-8859-16', 'Șț', 'aafe'],
  ['koi8-r', 'Привет', 'f0d2c9d7c5d4'],
  ['koi8-u', 'Їжак', 'b7d6c1cb'],
  ['macintosh', 'éπ', '8eb9'],
  ['windows-874', 'สวัสดี', 'cac7d1cab4d5'],
  ['windows-1250', 'Łódź€', 'a3f3649f80'],
  ['windows-1251', 'Привет€', 'cff0e8e2e5f288'],
  ['windows-1252', 'é€’', 'e98092'],
  ['windows-1253', 'Γειά€', 'c3e5e9dc80'],
  ['windows-1254', 'İşğ', 'ddfef0'],
  ['windows-1255', 'שלום', 'f9ece5ed'],
  ['windows-1256', 'سلام', 'd3e1c7e3'],
  ['windows-1257', 'Šūķ', 'd0fbed'],
  ['windows-1258', 'Ơđ₫', 'd5f0fe'],
  ['x-mac-cyrillic', 'Привет', '8ff0e8e2e5f2'],
  ['gbk', '中文臺灣', 'd6d0cec4c55f9eb3'],
  ['gb18030', '中文臺灣😀', 'd6d0cec4c55f9eb39439fc36'],
  ['big5', '中文功', 'a4a4a4e5a55c'],
  ['euc-jp', '日本語ソ', 'c6fccbdcb8eca5bd'],
  ['iso-2022-jp', '日本語', '1b2442467c4b5c386c1b2842'],
  ['shift_jis', '日本語ソ表', '93fa967b8cea835c955c'],
  ['euc-kr', '한국어똠', 'c7d1b1b9beee8c63'],
  ['utf-16be', 'é日😀', '00e965e5d83dde00'],
  ['utf-16le', 'é日😀', 'e900e5653dd800de'],
];

/** Labels that stand for another name. */
const labels: readonly (readonly [label: string, name: string])[] = [
  ['latin1', 'windows-1252'],
  ['ascii', 'windows-1252'],
  ['iso-8859-1', 'windows-1252'],
  ['iso8859-1', 'windows-1252'],
  ['gb2312', 'gbk'],
  ['gb_2312-80', 'gbk'],
  ['chinese', 'gbk'],
  ['x-gbk', 'gbk'],
  ['big5-hkscs', 'big5'],
  ['cn-big5', 'big5'],
  ['x-sjis', 'shift_jis'],
  ['windows-31j', 'shift_jis'],
  ['ms_kanji', 'shift_jis'],
  ['x-euc-jp', 'euc-jp'],
  ['csiso2022jp', 'iso-2022-jp'],
  ['ks_c_5601-1987', 'euc-kr'],
  ['windows-949', 'euc-kr'],
  ['korean', 'euc-kr'],
  ['cp1251', 'windows-1251'],
  ['x-cp1252', 'windows-1252'],
  ['tis-620', 'windows-874'],
  ['iso-8859-11', 'windows-874'],
  ['iso-8859-9', 'windows-1254'],
  ['latin5', 'windows-1254'],
  ['logical', 'iso-8859-8-i'],
  ['visual', 'iso-8859-8'],
  ['hebrew', 'iso-8859-8'],
  ['arabic', 'iso-8859-6'],
  ['greek', 'iso-8859-7'],
  ['cyrillic', 'iso-8859-5'],
  ['koi', 'koi8-r'],
  ['koi8-ru', 'koi8-u'],
  ['866', 'ibm866'],
  ['mac', 'macintosh'],
  ['x-mac-ukrainian', 'x-mac-cyrillic'],
  ['utf8', 'utf-8'],
  ['unicode-1-1-utf-8', 'utf-8'],
  ['UTF-16', 'utf-16le'],
  ['unicodefffe', 'utf-16be'],
  [' Latin2 ', 'iso-8859-2'],
  ['l9', 'iso-8859-15'],
];

const isWide = (name: string) => name.startsWith('utf-16');

function ascii(name: string, text: string): Buffer {
  const wide = Buffer.from(text, 'utf16le');
  if (name === 'utf-16le') return wide;
  return name === 'utf-16be' ? wide.swap16() : Buffer.from(text, 'latin1');
}

/** A page of `name` that shows `hex` as title, as alternative text, in a path and in a query. */
function pageOf(name: string, hex: string, head = ''): Buffer {
  const parts = [
    `${head}<title>`,
    '</title><img src=i alt="',
    '"><a href="/',
    '">x</a><a href="?q=',
    '">',
  ];
  const text = Buffer.from(hex, 'hex');
  const bytes = parts.flatMap((part, i) =>
    i === 0 ? [ascii(name, part)] : [text, ascii(name, part)],
  );
  return Buffer.concat(bytes);
}

function read(body: Buffer, charset: string | undefined, cut = body.length) {
  const reader = new PageReader({ url: 'http://h.test/p', spec, charset, sniff: false });
  reader.write(body.subarray(0, cut));
  reader.write(body.subarray(cut));
  const page = reader.end();
  assert.ok(page !== undefined);
  const { title, images, links } = page.extract;
  const [path = '', query = ''] = Buffer.from(links).toString('latin1').split('\n');
  return { charset: page.charset, title, alt: images[0]?.alt, path, query };
}

/** Percent-encoded as the URL Standard says: paths in UTF-8, queries in the page's encoding. */
function expected(name: string, text: string, hex: string) {
  const bytes = isWide(name) ? Buffer.from(text) : Buffer.from(hex, 'hex');
  const query = [...bytes]
    .map((byte) => {
      const isPlain = byte > 0x20 && byte < 0x7f && !`"#<>'`.includes(String.fromCharCode(byte));
      return isPlain
        ? String.fromCharCode(byte)
        : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
    })
    .join('');
  const path = `http://h.test/${encodeURIComponent(text)}`;
  return { charset: name, title: text, alt: text, path, query: `http://h.test/p?q=${query}` };
}

test('encodings: each one named by the header, cut anywhere', () => {
  assert.equal(encodings.length, 38);
  for (const [name, text, hex] of encodings) {
    const body = pageOf(name, hex);
    for (let cut = 0; cut <= body.length; cut++)
      assert.deepEqual(read(body, name, cut), expected(name, text, hex), `${name} cut at ${cut}`);
  }
});

test('encodings: each one named by meta, where meta can', () => {
  for (const [name, text, hex] of encodings) {
    if (isWide(name)) continue;
    const body = pageOf(name, hex, `<meta charset="${name}">`);
    assert.deepEqual(read(body, undefined), expected(name, text, hex), name);
  }
});

test('encodings: labels stand for their names', () => {
  for (const [label, name] of labels) {
    const row = encodings.find(([known]) => known === name);
    assert.ok(row !== undefined, name);
    const [, text, hex] = row;
    assert.deepEqual(read(pageOf(name, hex), label), expected(name, text, hex), label);
  }
});

test('encodings: x-user-defined, which only a header can name', () => {
  const [text, hex] = ['\uf780\uf7e9\uf7ff', '80e9ff'];
  const body = pageOf('x-user-defined', hex);
  assert.deepEqual(read(body, 'x-user-defined'), expected('x-user-defined', text, hex));
});

test('encodings: windows-1252 is what the standard says, byte by byte', () => {
  // Its index, 0x80 to 0x9f; the bytes above are those of Unicode.
  const index =
    '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ' +
    String.fromCharCode(...Array.from({ length: 96 }, (_, i) => 0xa0 + i));
  const bytes = Buffer.from(Array.from({ length: 128 }, (_, i) => 0x80 + i));
  for (const label of [undefined, 'windows-1252', 'iso-8859-1', 'ascii'])
    assert.equal(read(pageOf('windows-1252', bytes.toString('hex')), label).title, index, label);
});

test('encodings: what is only used to attack shows nothing', () => {
  for (const label of ['replacement', 'hz-gb-2312', 'iso-2022-kr', 'csiso2022kr', 'iso-2022-cn']) {
    const { charset, title, alt, path } = read(pageOf('windows-1252', '41'), label);
    assert.deepEqual([charset, title, alt, path], ['replacement', undefined, undefined, '']);
  }
});

test('encodings: a byte order mark names UTF-16, whatever else is said', () => {
  for (const [name, mark] of [
    ['utf-16le', 'fffe'],
    ['utf-16be', 'feff'],
  ] as const) {
    const [, text, hex] = encodings.find(([known]) => known === name) ?? ['', '', ''];
    const body = Buffer.concat([Buffer.from(mark, 'hex'), pageOf(name, hex)]);
    for (const label of [undefined, 'windows-1252', 'utf-8'])
      assert.deepEqual(read(body, label), expected(name, text, hex), `${name} ${label}`);
  }
});
