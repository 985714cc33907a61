import assert from 'node:assert/strict';
import test from 'node:test';
import { Scope } from '../../master/frontier/crawl/scope.ts';
import { hostKeyOf } from '../../shared/url.ts';

type Spec = ConstructorParameters<typeof Scope>[0];

function makeScope(seeds: readonly string[], spec: Partial<Spec> = {}): Scope {
  const scope = new Scope({ scope: 'host', include: [], exclude: [], ...spec }, {});
  for (const seed of seeds) scope.addSeed(new URL(seed));
  return scope;
}

const cases: readonly [
  kind: Spec['scope'],
  seed: string,
  inside: readonly string[],
  outside: readonly string[],
][] = [
  [
    'host',
    'http://a.example/x',
    ['http://a.example/', 'https://a.example/', 'http://u@a.example/'],
    ['http://www.a.example/', 'http://a.example:8080/', 'http://example/', 'http://a.example./'],
  ],
  [
    'host',
    'http://a.example:8080/',
    ['http://a.example:8080/x', 'https://a.example:8080/'],
    ['http://a.example/', 'https://a.example/'],
  ],
  ['host', 'https://a.example:80/', ['https://a.example:80/'], ['https://a.example/']],
  [
    'domain',
    'https://www.shop.co.uk/',
    ['http://shop.co.uk:8080/', 'https://a.b.shop.co.uk/'],
    ['https://other.co.uk/', 'https://co.uk/', 'https://notshop.co.uk/'],
  ],
  ['domain', 'http://10.0.0.1/', ['http://10.0.0.1:81/'], ['http://10.0.0.2/', 'http://0.0.1/']],
  ['domain', 'http://[::1]/', ['http://[::1]:81/'], ['http://[::2]/']],
  ['domain', 'http://localhost/', ['http://localhost:3000/'], ['http://a.localhost/']],
  // Everybody can have a name under a private suffix: it is no domain of one owner.
  [
    'domain',
    'https://user.github.io/',
    ['https://user.github.io/x'],
    ['https://other.github.io/', 'https://github.io/'],
  ],
  ['any', 'http://a.example/', ['http://b.example/', 'https://1.2.3.4:5/'], []],
];

for (const [kind, seed, inside, outside] of cases) {
  test(`scope: ${kind} of ${seed}`, () => {
    const scope = makeScope([seed], { scope: kind });
    for (const text of [seed, ...inside]) {
      assert.equal(scope.refuses(new URL(text)), undefined, text);
    }
    for (const text of outside) assert.equal(scope.refuses(new URL(text)), 'host', text);
  });
}

test('scope: every seed opens it, once', () => {
  const scope = makeScope(['http://a.example/']);
  assert.equal(scope.addSeed(new URL('http://a.example/other')), false);
  assert.equal(scope.refuses(new URL('http://b.example/')), 'host');
  assert.equal(scope.addSeed(new URL('http://b.example/')), true);
  assert.equal(scope.refuses(new URL('http://b.example/x')), undefined);
  assert.equal(scope.refuses(new URL('http://a.example/x')), undefined);
});

test('scope: comes back from its seed hosts', () => {
  for (const kind of ['host', 'domain', 'any'] as const) {
    const spec = { scope: kind, include: [], exclude: [] };
    const scope = makeScope(['http://www.a.example/', 'http://b.example:81/'], spec);
    const restored = new Scope(spec, scope.kept);
    assert.deepEqual(restored.kept, scope.kept);
    for (const text of ['http://www.a.example/x', 'http://c.a.example/', 'http://b.example/']) {
      const url = new URL(text);
      assert.equal(restored.refuses(url), scope.refuses(url), `${kind} ${text}`);
    }
  }
});

test('scope: include and exclude look at the whole URL', () => {
  const scope = makeScope(['http://a.example/'], {
    include: ['/shop/', '\\?page=\\d+$'],
    exclude: ['/shop/cart', '\\.pdf$'],
  });
  const verdicts = {
    'http://a.example/shop/1': undefined,
    'http://a.example/list?page=12': undefined,
    'http://a.example/': 'include',
    'http://a.example/shop/cart/1': 'exclude',
    'http://a.example/shop/a.pdf': 'exclude',
    'http://b.example/shop/1': 'host',
  };
  for (const [text, verdict] of Object.entries(verdicts)) {
    assert.equal(scope.refuses(new URL(text)), verdict, text);
    assert.equal(scope.refuses(new URL(text)), verdict, `${text} again`);
  }
});

test('scope: many domains are looked up without being kept for ever', () => {
  const scope = makeScope(['http://a.example/'], { scope: 'domain' });
  for (let i = 0; i < 10_005; i++) scope.refuses(new URL(`http://h${i}.example/`));
  assert.equal(scope.refuses(new URL('http://b.a.example/')), undefined);
});

test('scope: a seed opens its own host and port for private addresses, whatever the scope', () => {
  for (const kind of ['host', 'domain', 'any'] as const) {
    const scope = makeScope(['http://a.shop.example:8080/', 'http://10.0.0.1/'], { scope: kind });
    const isOpen = (url: string) => scope.isSeedHost(hostKeyOf(new URL(url)));
    assert.ok(isOpen('http://a.shop.example:8080/x') && isOpen('https://10.0.0.1/y'));
    for (const url of [
      'http://a.shop.example/',
      'http://shop.example:8080/',
      'http://10.0.0.1:81/',
    ])
      assert.equal(isOpen(url), false, `${kind} ${url}`);
  }
});
