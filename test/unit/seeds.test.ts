import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { partsOf, readSeeds } from '../../master/cli/seeds.ts';

function fileOf(t: TestContext, text: string | Buffer): string {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'seeds.txt');
  writeFileSync(path, text);
  return path;
}

/** Standard input that comes byte by byte. */
async function* input(text: string): AsyncGenerator<Buffer> {
  for (const byte of Buffer.from(text)) yield Buffer.from([byte]);
}

test('seeds: one URL a line; comments, blank lines, CRLF, and a BOM are no matter', async (t) => {
  const lines = [
    '\ufeffhttp://a.example',
    '# a comment',
    '',
    '  https://b.example/x#y  ',
    '   # another',
    '\t',
    'http://c.example/é',
  ];
  const urls = ['http://a.example/', 'https://b.example/x', 'http://c.example/%C3%A9'];
  for (const end of ['\n', '\r\n']) {
    assert.deepEqual(await readSeeds([fileOf(t, lines.join(end))]), urls);
    assert.deepEqual(await readSeeds([fileOf(t, `${lines.join(end)}${end}`)]), urls);
    assert.deepEqual(await readSeeds(['-'], input(lines.join(end))), urls);
  }
  const [first, second] = [fileOf(t, 'http://a.example/'), fileOf(t, 'http://b.example/')];
  assert.deepEqual(await readSeeds([second, '-', first], input('http://c.example/')), [
    ...['http://b.example/', 'http://c.example/', 'http://a.example/'],
  ]);
});

test('seeds: a bad line is named with its number', async (t) => {
  const cases: [line: string | Buffer, says: RegExp][] = [
    ['example.org', /line 3: "example\.org" is not .*write it in full: https:\/\/example\.org\/$/],
    ['ftp://example.org/', /line 3: "ftp:\/\/example\.org\/" is not an http or https URL$/],
    ['http://', /line 3: "http:\/\/" is not/],
    ['http://a/ http://b/', /line 3: .*white space in it; write one URL a line$/],
    ['http://a/\rhttp://b/', /line 3: "http:\/\/a\/\\u000dhttp:.*white space/],
    [`http://a/${'x'.repeat(5_000)}`, /line 3: "http:\/\/a\/x{91}…" is longer than 4096/],
    [`http://a/${'é'.repeat(2_000)}`, /line 3: "http:\/\/a\/é{91}…" is not an http or https URL$/],
    [Buffer.from([0x68, 0xff, 0xfe]), /line 3: .* is not UTF-8 text$/],
    ['\u001b[31mred', /line 3: "\\u001b\[31mred" /],
  ];
  for (const [line, says] of cases) {
    const head = Buffer.from('http://ok.example/\r\n# one\r\n');
    const path = fileOf(t, Buffer.concat([head, Buffer.from(line), Buffer.from('\r\nbad too')]));
    await assert.rejects(readSeeds([path]), says);
  }
});

test('seeds: what cannot be read, or is too much, is one clear error', async (t) => {
  await assert.rejects(readSeeds(['/none/such']), /cannot read --seeds \/none\/such: ENOENT/);
  const url = /cannot read --seeds https:\/\/a\/: ENOENT.*takes a file: give a URL without --seeds/;
  await assert.rejects(readSeeds(['https://a/']), url);
  await assert.rejects(readSeeds(['/']), /cannot read --seeds \/: EISDIR/);
  await assert.rejects(readSeeds([fileOf(t, '# only this\n')]), /seeds\.txt holds no URL$/);
  await assert.rejects(readSeeds(['-'], input('')), /standard input holds no URL/);
  await assert.rejects(readSeeds(['-', '-'], input('')), /--seeds - is given twice/);
  await assert.rejects(readSeeds([fileOf(t, Buffer.from('\ufeffhttp://a/', 'utf16le'))]), /UTF-16/);
  const many = fileOf(t, 'http://a/\n'.repeat(1_000_001));
  await assert.rejects(readSeeds([many]), /holds more than 1000000 URLs; split it/);
  const endless = (async function* () {
    for (;;) yield Buffer.alloc(1 << 20, '#');
  })();
  await assert.rejects(readSeeds(['-'], endless), /standard input is too large: at most 64 MiB/);
});

test('seeds: they are cut into parts that a request can hold', () => {
  const sizes = (seeds: string[]) => [...partsOf(seeds)].map(({ length }) => length);
  assert.deepEqual(sizes([]), []);
  assert.deepEqual(sizes(['a']), [1]);
  assert.deepEqual(sizes(Array.from({ length: 20_001 }, () => 'a')), [10_000, 10_000, 1]);
  const long = Array.from({ length: 600 }, () => 'x'.repeat(4_096));
  assert.deepEqual(sizes(long), [256, 256, 88]);
  assert.deepEqual([...partsOf(long)].flat(), long);
});
