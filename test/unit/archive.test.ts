/** The archive without files: names, digests, keys of the index. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { cdxjLine, sortedLines, surtOf } from '../../master/archive/cdxj.ts';
import { answerOf } from '../../master/archive/records.ts';
import { digestOf, recordId } from '../../master/archive/warc.ts';

test('archive: the key of a URL is its host backwards, as replay tools look it up', () => {
  const keys = {
    'http://www.Example.com/': 'com,example)/',
    'https://www2.example.com/A/B/?b=2&a=1': 'com,example)/a/b?a=1&b=2',
    'http://example.com:8080/x': 'com,example:8080)/x',
    'http://127.0.0.1:8080/x': '127.0.0.1:8080)/x',
    'http://[::1]/x': '[::1])/x',
  };
  for (const [url, key] of Object.entries(keys)) assert.equal(surtOf(url), key);
});

test('archive: lines of an index order by their bytes', () => {
  const line = (url: string) => {
    const place = { length: 1, offset: 0, filename: 'f', digest: 'sha1:A', status: 200 };
    return cdxjLine({ url, date: '2026-11-23T01:02:03.456Z', mime: 'text/html', ...place });
  };
  const [a, b, c] = [line('http://a.example/'), line('http://a.example/b'), line('http://b.test/')];
  assert.match(a ?? '', /^example,a\)\/ 20261123010203 \{"url":"http:\/\/a.example\/",/);
  assert.equal(sortedLines(`${c}${b}${a}`), `${a}${b}${c}`);
});

test('archive: a record has one name for ever, and a digest that others compute', () => {
  const uid = Buffer.alloc(16, 7);
  assert.equal(recordId(uid, 5), recordId(uid, 5));
  assert.notEqual(recordId(uid, 5), recordId(uid, 6));
  assert.notEqual(recordId(uid, 5), recordId(Buffer.alloc(16, 8), 5));
  // Of nothing, as every WARC tool knows it.
  assert.equal(digestOf([]), 'sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ');
});

test('archive: what an answer says of itself is in its head, of any version', () => {
  const body = '\r\nContent-Type: image/gif\r\n';
  const of = (text: string) => answerOf(Buffer.from(text));
  assert.deepEqual(of(`HTTP/1.1 200 OK\r\na: b\r\n\r\n${body}`), { status: 200, mime: 'unk' });
  assert.deepEqual(of('HTTP/2 404\r\ncontent-type: text/HTML;x\r\n\r\n'), {
    status: 404,
    mime: 'text/html',
  });
});
