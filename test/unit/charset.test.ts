import assert from 'node:assert/strict';
import test from 'node:test';
import { TextDecoder as WholeDecoder } from '@exodus/bytes/encoding.js';
import fc from 'fast-check';
import { PageExtractor } from '../../slave/extract/extract.ts';
import { PageDecoder } from '../../slave/fetch/charset.ts';

function decode(bytes: Uint8Array, label?: string, cuts: readonly number[] = []): [string, string] {
  const decoder = new PageDecoder(label);
  let text = '';
  let from = 0;
  for (const cut of [...cuts, bytes.length]) {
    text += decoder.write(bytes.subarray(from, cut));
    from = cut;
  }
  text += decoder.end();
  return [decoder.value(text), decoder.encoding ?? ''];
}
const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');

test('charset: a byte order mark beats the header and meta', () => {
  const utf8 = latin1('\xef\xbb\xbf<meta charset=shift_jis>\xc3\xa9');
  assert.deepEqual(decode(utf8, 'gbk'), ['<meta charset=shift_jis>é', 'utf-8']);
  assert.deepEqual(decode(latin1('\xff\xfea\0'), 'utf-8'), ['a', 'utf-16le']);
  assert.deepEqual(decode(latin1('\xfe\xff\0a'), 'utf-8'), ['a', 'utf-16be']);
});

test('charset: the header beats meta', () => {
  const page = latin1('<meta charset=utf-8>\xe9');
  assert.deepEqual(decode(page, 'ISO-8859-1'), ['<meta charset=utf-8>é', 'windows-1252']);
});

test('charset: an unknown label in the header counts as none', () => {
  assert.equal(decode(latin1('<meta charset=koi8-r>'), 'x-nonsense')[1], 'koi8-r');
});

test('charset: meta counts in the first 1024 bytes only', () => {
  const meta = '<meta charset=koi8-r>';
  assert.equal(decode(latin1(' '.repeat(1010) + meta))[1], 'windows-1252');
  assert.equal(decode(latin1(' '.repeat(1024 - meta.length) + meta))[1], 'koi8-r');
});

test('charset: http-equiv, comments and order are those of the prescan', () => {
  const equiv = '<meta http-equiv=Content-Type content="text/html; charset=gb2312">';
  assert.equal(decode(latin1(equiv))[1], 'gbk');
  assert.equal(decode(latin1(`<!-- ${equiv} --><meta charset=big5>`))[1], 'big5');
  assert.equal(decode(latin1('<meta content="text/html; charset=gbk">'))[1], 'windows-1252');
});

test('charset: meta utf-16 means utf-8, x-user-defined means windows-1252', () => {
  assert.equal(decode(latin1('<meta charset=utf-16le>'))[1], 'utf-8');
  assert.equal(decode(latin1('<meta charset=utf-16be>'))[1], 'utf-8');
  assert.equal(decode(latin1('<meta charset=x-user-defined>'))[1], 'windows-1252');
});

test('charset: without any word it is windows-1252, C1 bytes included', () => {
  assert.deepEqual(decode(latin1('\x80\x92\xe9')), ['€’é', 'windows-1252']);
});

test('charset: a meta that ends after "charset" does not stop the page', () => {
  for (const content of ['charset', 'charset=', 'charset ', 'charset= ']) {
    const meta = `<meta http-equiv=content-type content="${content}"><meta charset=koi8-r>`;
    assert.equal(decode(latin1(meta))[1], 'koi8-r');
    assert.equal(decode(latin1(`<meta content="${content}">`))[1], 'windows-1252');
    const hidden = '<!--><!-- <meta charset=big5> --><!x <meta charset=big5>';
    assert.equal(decode(latin1(`${hidden}${meta}`))[1], 'koi8-r');
  }
});

test('charset: the replacement encoding shows nothing of the page', () => {
  assert.deepEqual(decode(latin1('<a href=x>'), 'hz-gb-2312'), ['\ufffd', 'replacement']);
});

test('charset: a second byte order mark is text', () => {
  assert.equal(decode(latin1('\xef\xbb\xbf\xef\xbb\xbfa'))[0], '\ufeffa');
});

test('charset: an empty page is an empty text', () => {
  assert.deepEqual(decode(new Uint8Array(0)), ['', 'windows-1252']);
});

test('charset: cuts anywhere change nothing', () => {
  const pages: [Uint8Array, string | undefined][] = [
    [Buffer.from('aé漢😀\ufeffz é'), 'utf-8'],
    [Buffer.from('\ufeffaé漢😀'), undefined],
    [latin1('\x83e\x83X\x83g abc \x81'), 'shift_jis'],
    [latin1('\xd6\xd0\xce\xc4 gbk \x81\x30\x81\x30'), 'gb18030'],
    [latin1('\x1b$B4A;z\x1b(B ok'), 'iso-2022-jp'],
    [latin1('\xff\xfea\0\x3d\xd8\0\xdeb'), undefined],
    [latin1('\xc3(\xe2\x82(\xf0\x9f\xff'), 'utf-8'],
    [Buffer.from(`<meta charset=utf-8>${'é'.repeat(600)}`), undefined],
  ];
  const cuts = fc.array(fc.nat(1300), { maxLength: 8 });
  fc.assert(
    fc.property(fc.constantFrom(...pages), cuts, ([bytes, label], at) => {
      const sorted = at.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b);
      assert.deepEqual(decode(bytes, label, sorted), decode(bytes, label));
    }),
    { numRuns: 500 },
  );
});

test('charset: utf-8 is decoded as Node decodes it whole', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), fc.nat(40), (bytes, cut) => {
      const at = Math.min(cut, bytes.length);
      const bom = bytes[0] === 0xff || bytes[0] === 0xfe;
      if (bom) return;
      assert.equal(decode(bytes, 'utf-8', [at])[0], new TextDecoder().decode(bytes));
    }),
  );
});

test('charset: a page scanned as bytes gives what the decoded page gives', () => {
  const encodings = [
    ...['utf-8', 'windows-1252', 'koi8-r', 'shift_jis', 'gbk', 'gb18030', 'big5', 'euc-jp'],
    ...['euc-kr', 'iso-2022-jp', 'utf-16le', 'x-user-defined'],
  ];
  const syntax = [
    '<a href="',
    '<img src=',
    "<a href='?",
    '"',
    "'",
    '>',
    ' ',
    '#',
    '&amp;',
    '<title>',
  ];
  const piece = fc.oneof(
    fc.constantFrom(...syntax, '</title>', '=', '/', '\\', 'a', '0').map(latin1),
    fc.uint8Array({ minLength: 1, maxLength: 4 }),
    fc
      .array(fc.integer({ min: 0x80, max: 0xff }), { maxLength: 3 })
      .map((list) => Buffer.from(list)),
  );
  const parts = fc.array(piece, { maxLength: 16 });
  fc.assert(
    fc.property(fc.constantFrom(...encodings), parts, (encoding, list) => {
      const bytes = Buffer.concat([latin1(' '), ...list, latin1(' ')]);
      const options = { url: 'http://h.test/a/b', encoding, images: 'all' } as const;
      const whole = new PageExtractor(options);
      whole.write(new WholeDecoder(encoding, { ignoreBOM: true }).decode(bytes));
      const decoder = new PageDecoder(encoding);
      const scanned = new PageExtractor({ ...options, value: (text) => decoder.value(text) });
      for (const byte of bytes) scanned.write(decoder.write(Uint8Array.of(byte)));
      scanned.write(decoder.end());
      assert.deepEqual(scanned.end(), whole.end());
    }),
    { numRuns: 5000 },
  );
});
