import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { parseMasterOptions } from '../../master/cli/options.ts';

const seed = 'http://a.example/';

function cookiesOf(args: readonly string[]) {
  const options = parseMasterOptions(['node', 'master.js', seed, ...args], {});
  assert.ok(options.kind === 'serve');
  return options.spec.fetch.cookies;
}

function fileOf(t: TestContext, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'cookies.txt'), text);
  return join(folder, 'cookies.txt');
}

test('given cookies: --cookie is repeatable, and refuses what is no cookie', () => {
  assert.equal(cookiesOf([]), undefined);
  const two = [
    { name: 'a', value: '1' },
    { name: 'b', value: 'x=y' },
  ];
  assert.deepEqual(cookiesOf(['--cookie', 'a=1', '--cookie', 'b=x=y']), two);
  assert.deepEqual(cookiesOf(['--cookie', 'a=1\nb=x=y']), two, 'as the environment has them');
  for (const bad of ['a', '=1', 'a=1; b=2', 'a b=1', 'a=\u0001', 'a=é', `a=${'x'.repeat(5_000)}`]) {
    assert.throws(() => cookiesOf(['--cookie', bad]), /--cookie <name=value>.* is invalid\. /, bad);
  }
  const many = Array.from({ length: 17 }, (_, i) => ['--cookie', `c${i}=${'x'.repeat(4_000)}`]);
  assert.throws(() => cookiesOf(many.flat()), /at most 64 KiB in all/);
});

test('given cookies: --cookie-file is in the Netscape format', (t) => {
  const later = Math.floor(Date.now() / 1000) + 1_000;
  const lines = [
    '# Netscape HTTP Cookie File',
    '',
    '.shop.example\tTRUE\t/\tTRUE\t0\tsid\tabc=1',
    `#HttpOnly_www.shop.example\tFALSE\t/a\tFALSE\t${later}\tuser\tme`,
    'old.example\tFALSE\t/\tFALSE\t1000\tgone\t1',
    'BÜCHER.example\tFALSE\t/\tFALSE\t0\tempty',
  ];
  const expected = [
    {
      name: 'sid',
      value: 'abc=1',
      domain: 'shop.example',
      path: '/',
      subdomains: true,
      secure: true,
    },
    { name: 'user', value: 'me', domain: 'www.shop.example', path: '/a', expiresAt: later * 1000 },
    { name: 'empty', value: '', domain: 'xn--bcher-kva.example', path: '/' },
  ];
  for (const end of ['\n', '\r\n']) {
    const file = fileOf(t, `\ufeff${lines.join(end)}${end}`);
    assert.deepEqual(cookiesOf(['--cookie-file', file]), expected);
    const both = cookiesOf(['--cookie-file', file, '--cookie', 'z=1']);
    assert.deepEqual(both, [{ name: 'z', value: '1' }, ...expected]);
  }
});

test('given cookies: a bad file is one line that names the place, and shows no value', (t) => {
  const secret = 'a.example\tFALSE\t/\tFALSE\t0\tsid';
  const cases: [text: string, says: RegExp][] = [
    [`${secret}\tTOPSECRET\n{"name":"TOPSECRET"}`, /Line 2 does not have the seven fields/],
    [`${secret}\tTOPSECRET\tmore`, /Line 1 does not have/],
    ['a/b\tFALSE\t/\tFALSE\t0\tsid\tTOPSECRET', /Line 1 names no domain: "a\/b"/],
    ['a.example\tmaybe\t/\tFALSE\t0\tsid\tTOPSECRET', /Line 1 has neither TRUE nor FALSE/],
    ['a.example\tTRUE\t/\tFALSE\tsoon\tsid\tTOPSECRET', /Line 1 has no expiry time/],
    ['a.example\tTRUE\tx\tFALSE\t0\tsid\tTOPSECRET', /Line 1 has no path/],
    ['a.example\tTRUE\t/\tFALSE\t1\tsid\tTOPSECRET', /All of its cookies have expired/],
    ['# nothing\n', /It holds no cookie/],
    [`${secret}\t\u0001`, /is not the value of a cookie/],
    [`${secret}\tx\n`.repeat(1_001), /at most 1000 cookies/],
    [`${secret}\tx\n`.repeat(50_000), /larger than 1 MiB/],
  ];
  for (const [text, says] of cases) {
    assert.throws(
      () => cookiesOf(['--cookie-file', fileOf(t, text)]),
      (error: Error) => says.test(error.message) && !error.message.includes('TOPSECRET'),
      text.slice(0, 80),
    );
  }
  assert.throws(() => cookiesOf(['--cookie-file', '/none']), /It cannot be read: ENOENT/);
  assert.throws(() => cookiesOf(['--cookie-file', '/dev/zero']), /It is not a file/);
});
