import assert from 'node:assert/strict';
import test, { mock, type TestContext } from 'node:test';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { Identities, type Identity } from '../../slave/fetch/identities.ts';
import { Proxies, ProxyServer } from '../../slave/fetch/proxies.ts';

const never = new AbortController().signal;
const refused = { ok: false, error: { kind: 'proxy', message: 'refused' } } as const;

function identitiesOf(spec: object, proxies = new Proxies({ onAside: () => {} })): Identities {
  return new Identities(fetchSpecSchema.parse(spec), proxies, 0);
}

/** A clock that the test moves. */
function clockFor(t: TestContext): (ms: number) => void {
  let now = 1_000_000;
  mock.method(performance, 'now', () => now);
  t.after(() => mock.restoreAll());
  return (ms) => {
    now += ms;
  };
}

test('identities: a crawl without proxies and further agents has one', async () => {
  const identities = identitiesOf({ userAgent: 'one' });
  const seen = new Set<Identity>();
  for (let i = 0; i < 3; i++) {
    await identities.through(async (identity) => {
      seen.add(identity);
      return { ok: true };
    }, never);
  }
  const [only] = seen;
  assert.deepEqual([seen.size, only?.userAgent, only?.proxy], [1, 'one', undefined]);
});

test('identities: agents and proxies stay together, in turn', async () => {
  const proxies = ['http://a.example', 'http://b.example', 'http://c.example'];
  const identities = identitiesOf({ userAgent: 'one', otherUserAgents: ['two'], proxies });
  const turns: string[] = [];
  const jars = new Set<unknown>();
  for (let i = 0; i < 6; i++) {
    await identities.through(async ({ userAgent, proxy, cookies }) => {
      turns.push(`${userAgent} ${proxy?.url.hostname[0]}`);
      jars.add(cookies);
      return { ok: true };
    }, never);
  }
  const once = ['one a', 'two b', 'one c'];
  assert.deepEqual(turns, [...once, ...once]);
  assert.equal(jars.size, 3);
});

test('identities: the next one fetches where a proxy is to blame, but not after other errors', async () => {
  const identities = identitiesOf({ proxies: ['http://a.example', 'http://b.example'] });
  const tried: (string | undefined)[] = [];
  const result = await identities.through(async ({ proxy }) => {
    tried.push(proxy?.url.hostname);
    return proxy?.url.hostname === 'a.example' ? refused : { ok: true };
  }, never);
  assert.deepEqual([tried, result.ok], [['a.example', 'b.example'], true]);
  const error = { kind: 'connect', message: 'refused' } as const;
  const failed = await identities.through(async () => ({ ok: false, error }), never);
  assert.deepEqual(failed, { ok: false, error });
});

test('identities: with all proxies aside for long nothing is fetched, and when is told', async (t) => {
  clockFor(t);
  const known = new Proxies({ onAside: () => {} });
  const spec = { proxies: ['http://a.example', 'http://b.example'], timeoutMs: 1_000 };
  const identities = identitiesOf(spec, known);
  for (const url of spec.proxies) known.of(url).failed('dead', performance.now());
  let fetches = 0;
  const outcome = await identities.through(async () => {
    fetches++;
    return { ok: true };
  }, never);
  const error = { kind: 'proxy', message: 'every proxy is set aside' };
  assert.deepEqual(outcome, { ok: false, error, retryAfterMs: 5_000 });
  assert.equal(fetches, 0);
});

test('proxies: set aside for twice as long each time, until one answer comes through', () => {
  const told: string[] = [];
  const proxy = new ProxyServer('http://me:secret@a.example:81', {
    onAside: ({ name }, reason, ms) => told.push(`${name} ${reason} ${ms}`),
    onBack: ({ name }) => told.push(`${name} is back`),
  });
  let now = 0;
  const fail = () => {
    proxy.failed('dead', now);
    const ms = proxy.asideUntil - now;
    now = proxy.asideUntil;
    return ms;
  };
  const times = Array.from({ length: 9 }, fail);
  assert.deepEqual(times.slice(0, 4), [5_000, 10_000, 20_000, 40_000]);
  assert.equal(times.at(-1), 600_000);
  assert.equal(told[0], 'http://a.example:81 dead 5000');
  assert.equal(proxy.reason, 'dead');
  proxy.worked();
  proxy.worked();
  assert.deepEqual([told.at(-1), told.length], ['http://a.example:81 is back', 10]);
  assert.equal(proxy.reason, undefined);
  assert.equal(fail(), 5_000);
  // Fetches that fail while it is aside began before.
  proxy.failed('dead', now);
  const until = proxy.asideUntil;
  proxy.failed('dead', now + 1);
  assert.equal(proxy.asideUntil, until);
});

test('proxies: those that do not work are listed, with how long they are aside', () => {
  const proxies = new Proxies({ onAside: () => {} });
  const [one, other] = ['http://u:p@a.example', 'socks5://b.example'].map((url) => proxies.of(url));
  one?.failed('dead', 1_000);
  const trouble = { name: 'http://a.example', reason: 'dead' };
  assert.deepEqual(proxies.troubles(2_000), [{ ...trouble, forMs: 4_000 }]);
  assert.deepEqual(proxies.troubles(9_000), [{ ...trouble, forMs: 0 }]);
  other?.worked();
  one?.worked();
  assert.deepEqual(proxies.troubles(2_000), []);
});

test('proxies: three refused tunnels in a row are its fault, less are not', () => {
  const proxy = new ProxyServer('socks5://a.example', { onAside: () => {} });
  proxy.refused('no', 0);
  proxy.refused('no', 0);
  proxy.worked();
  proxy.refused('no', 0);
  proxy.refused('no', 0);
  assert.equal(proxy.asideUntil, 0);
  proxy.refused('no', 0);
  assert.equal(proxy.asideUntil, 5_000);
  // It answers: it may be that all hosts that are left are dead.
  const times = Array.from({ length: 4 }, () => {
    const now = proxy.asideUntil;
    proxy.refused('no', now);
    return proxy.asideUntil - now;
  });
  assert.deepEqual(times, [10_000, 10_000, 10_000, 10_000]);
  const now = proxy.asideUntil;
  proxy.failed('dead', now);
  // Refusals make it no longer.
  assert.equal(proxy.asideUntil - now, 10_000);
});

test('proxies: credentials are decoded, whatever they are', () => {
  const of = (url: string) => new ProxyServer(url, { onAside: () => {} }).authorization;
  const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
  assert.equal(of('http://a.example'), undefined);
  assert.equal(of('http://m%C3%A9:p%3Aw@a.example'), basic('mé:p:w'));
  assert.equal(of('http://only@a.example'), basic('only:'));
  assert.equal(of('http://a:100%@a.example'), basic('a:100%'));
});

test('identities: cookies stay with a user agent and a proxy that stay together', async () => {
  const proxies = new Proxies({ onAside: () => {} });
  const [one, two] = ['http://a.example', 'http://b.example'];
  const of = (spec: object, before?: Identities) =>
    new Identities(fetchSpecSchema.parse(spec), proxies, 0, before);
  const jars = async (identities: Identities) => {
    const found = new Map<string, unknown>();
    for (let i = 0; i < 4; i++) {
      await identities.through(async ({ userAgent, proxy, cookies }) => {
        found.set(`${userAgent} ${proxy?.url.hostname}`, cookies);
        return { ok: true };
      }, never);
    }
    return found;
  };
  const first = of({ userAgent: 'me', proxies: [one, two] });
  const before = await jars(first);
  const second = await jars(of({ userAgent: 'me', proxies: [two], timeoutMs: 7 }, first));
  assert.deepEqual([...second.keys()], ['me b.example']);
  assert.equal(second.get('me b.example'), before.get('me b.example'));
  const third = await jars(of({ userAgent: 'you', proxies: [one] }, first));
  assert.notEqual(third.get('you a.example'), before.get('me a.example'));
});
