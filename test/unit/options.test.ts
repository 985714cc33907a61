import assert from 'node:assert/strict';
import test from 'node:test';
import { parseMasterOptions } from '../../master/options.ts';

const seed = 'http://a.example/';

function parse(args: readonly string[]) {
  const options = parseMasterOptions(['node', 'master.js', ...args], {});
  assert.ok(options.kind === 'serve');
  return { seeds: options.seeds, fetch: options.spec.fetch };
}

test('options: --allow-private takes ranges, and leaves the seed behind it alone', () => {
  const cases: [args: string[], allowed: 'all' | string[]][] = [
    [[seed], []],
    [['--allow-private', seed], 'all'],
    [[seed, '--allow-private', '--scope', 'any'], 'all'],
    [
      ['--allow-private', '10.0.0.0/8', 'fd00::/8', seed],
      ['10.0.0.0/8', 'fd00::/8'],
    ],
    [
      ['--allow-private=127.0.0.1,::1', seed],
      ['127.0.0.1', '::1'],
    ],
    [[seed, '--allow-private', '10.0.0.0/8', '--allow-private'], 'all'],
  ];
  for (const [args, allowed] of cases) {
    const { seeds, fetch } = parse(args);
    assert.deepEqual([seeds, fetch.allowPrivate], [[seed], allowed], args.join(' '));
  }
  for (const args of [['--allow-private=host'], ['--allow-private', '10.0.0.0/33']])
    assert.throws(() => parse(args), /is not an address range/);
});

test('options: --obey takes directives, all, or none', () => {
  const cases: [args: string[], obey: string[]][] = [
    [[], ['nofollow']],
    [['--obey', 'none'], []],
    [
      ['--obey', 'all'],
      ['nofollow', 'rel-nofollow', 'noindex'],
    ],
    [
      ['--obey', 'noindex, nofollow,noindex'],
      ['noindex', 'nofollow'],
    ],
  ];
  for (const [args, obey] of cases)
    assert.deepEqual(parse([seed, ...args]).fetch.obey, obey, args.join(' '));
  for (const wrong of ['', 'noarchive', 'nofollow,', 'none,nofollow'])
    assert.throws(() => parse([seed, '--obey', wrong]), /It must be all, none/, wrong);
});

test("options: --header takes names and values, and none that are the slave's own", () => {
  const { fetch } = parse([seed, '--header', 'X-A: b: c', '--header', 'accept:text/*']);
  assert.deepEqual(fetch.headers, [
    ['X-A', 'b: c'],
    ['accept', 'text/*'],
  ]);
  for (const wrong of [
    'X',
    ': a',
    'a b: c',
    'Host: a',
    'cookie: a',
    'Sec-x: a',
    'a: é',
    'User-Agent: x',
  ])
    assert.throws(() => parse([seed, '--header', wrong]), /--header/, wrong);
});
