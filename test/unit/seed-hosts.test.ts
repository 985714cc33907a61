/** The addresses that hosts of seeds open, the times of their look-ups, and the bounds. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { SeedHosts } from '../../master/frontier/crawl/seed-hosts.ts';
import { SeedLookup } from '../../master/machine/seed-lookup.ts';
import {
  AddressPolicy,
  blocksOfAddresses,
  blocksOfHost,
  isPublicAddress,
} from '../../shared/address.ts';
import { type CrawlSpecInput, crawlSpecSchema } from '../../shared/crawl.ts';
import { type Resolve, systemResolve } from '../../shared/resolver.ts';
import { nameServer } from '../support/name-server.ts';
import { standStill } from '../support/standstill.ts';
import { worldTest } from '../support/world.ts';

const hostsOf = (fetch: CrawlSpecInput['fetch'] = {}) =>
  new SeedHosts(crawlSpecSchema.parse({ fetch }));
const urls = (...texts: string[]) => texts.map((text) => new URL(text));

test('seed hosts: the block of each private address, and nothing for others', () => {
  const cases: [string, string[]][] = [
    ['10.255.0.1', ['10.0.0.0/8']],
    ['172.31.0.1', ['172.16.0.0/12']],
    ['192.168.0.1', ['192.168.0.0/16']],
    ['100.64.0.1', ['100.64.0.0/10']],
    ['127.9.9.9', ['127.0.0.0/8', '::1/128']],
    ['::1', ['127.0.0.0/8', '::1/128']],
    ['fd12:3456::1', ['fc00::/7']],
    ['::ffff:10.0.0.1', ['10.0.0.0/8']],
    ['198.18.0.1', ['198.18.0.0/15']],
    ['8.8.8.8', []],
    ['2606:4700::1', []],
    // Never by name.
    ...['169.254.169.254', '169.254.170.2', 'fe80::1', 'fe80::a9fe:a9fe', '168.63.129.16'],
    ...['100.100.100.200', '192.0.0.192', 'fd00:ec2::254', 'fd00:ec2::23', 'fd20:ce::254'],
    ...['fd00:c1::a9fe:a9fe', 'fd00:42::42', 'fd00:a9fe:a9fe::1', '::ffff:169.254.169.254'],
    ...['::ffff:100.100.100.200', '64:ff9b::a9fe:a9fe', '64:ff9b::10.0.0.1', '2002:a00:1::1'],
    ...['0.0.0.0', '224.0.0.1', '255.255.255.255', '::', 'ff02::1', '64:ff9b:1::a00:1', 'no'],
  ].map((entry) => (typeof entry === 'string' ? [entry, []] : entry) as [string, string[]]);
  for (const [address, blocks] of cases) {
    assert.deepEqual(blocksOfAddresses([address]), blocks, address);
  }
  assert.deepEqual(blocksOfAddresses(['8.8.8.8', '10.0.0.1', '10.9.9.9', 'fd12::1']), [
    '10.0.0.0/8',
    'fc00::/7',
  ]);
});

test('seed hosts: what any addresses open allows no others than theirs and public ones', () => {
  const octet = fc.integer({ min: 0, max: 255 });
  const four = fc.tuple(octet, octet, octet, octet).map((parts) => parts.join('.'));
  const six = fc
    .array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 })
    .map((words) => words.map((word) => word.toString(16)).join(':'));
  const inside = fc.constantFrom('10.0.0.1', '192.168.1.1', 'fd00::1', '127.0.0.1', '100.64.0.1');
  const address = fc.oneof(four, six, inside);
  fc.assert(
    fc.property(fc.array(address, { maxLength: 4 }), address, (seen, other) => {
      const policy = new AddressPolicy([], blocksOfAddresses(seen));
      if (!policy.allows(other) || isPublicAddress(other)) return;
      const shared = blocksOfAddresses([other]);
      assert.ok(shared.some((block) => blocksOfAddresses(seen).includes(block)));
    }),
  );
});

test('seed hosts: a host in digits opens its address, whichever it is', () => {
  for (const host of ['169.254.169.254', '100.100.100.200', '0.0.0.0', '[fe80::1]', '10.0.0.1']) {
    const blocks = blocksOfHost(host) ?? [];
    const address = host.replace(/[[\]]/g, '');
    assert.ok(new AddressPolicy([], blocks).allows(address), host);
    assert.ok(!new AddressPolicy([], blocks).allows('192.168.1.1'), host);
    assert.ok(!new AddressPolicy([], blocks).allows('169.254.1.1'), host);
  }
  assert.equal(blocksOfHost('example.com'), undefined);
  assert.deepEqual(blocksOfHost('a.localhost.'), ['127.0.0.0/8', '::1/128']);
});

test('seed hosts: settled once, by host and port, and never again', () => {
  const hosts = hostsOf();
  const [url, other] = urls('http://a.example/', 'http://a.example:81/');
  assert.ok(url && other);
  assert.deepEqual([...hosts.wanted([url, other])], ['a.example']);
  assert.equal(hosts.settle(url, new Map()), undefined);
  assert.deepEqual([...hosts.wanted([url])], ['a.example']);
  assert.deepEqual(hosts.settle(url, new Map([['a.example', ['10.0.0.1']]])), ['10.0.0.0/8']);
  assert.equal(hosts.settle(url, new Map([['a.example', ['192.168.0.1']]])), undefined);
  assert.deepEqual(hosts.blocksOf('http://a.example'), ['10.0.0.0/8']);
  assert.deepEqual(hosts.blocksOf('https://a.example'), ['10.0.0.0/8']);
  assert.deepEqual(hosts.blocksOf('http://a.example:81'), []);
  assert.deepEqual([...hosts.wanted([url])], []);
});

test('seed hosts: no name is asked for behind proxies, or where all is allowed', () => {
  for (const fetch of [{ proxies: ['http://proxy:8080'] }, { allowPrivate: 'all' as const }]) {
    const hosts = hostsOf(fetch);
    assert.equal(hosts.wanted(urls('http://a.example/')).size, 0);
    const [url] = urls('http://localhost:1/');
    assert.ok(url);
    hosts.settle(url, new Map());
    assert.deepEqual(hosts.blocksOf('http://localhost:1'), ['127.0.0.0/8', '::1/128']);
  }
  assert.equal(hostsOf({ allowPrivate: ['10.0.0.0/8'] }).wanted(urls('http://a.example/')).size, 1);
});

test('seed hosts: the operator hears of a name once', () => {
  const hosts = hostsOf();
  const found = new Map([
    ['in.example', ['10.0.0.1']],
    ['out.example', ['8.8.8.8']],
  ]);
  const names = ['in.example', 'out.example', 'nowhere.example'];
  const news = hosts.news(names, found);
  assert.deepEqual(news.unresolved, ['nowhere.example']);
  assert.deepEqual(news.inside, [{ hostname: 'in.example', blocks: ['10.0.0.0/8'] }]);
  assert.deepEqual(hosts.news(names, found), { unresolved: [], inside: [] });
});

test('seed lookup: many names at once, within bounds, and a silent one holds up nobody', async (t) => {
  const { address } = await nameServer(t, (name) =>
    name.startsWith('silent') ? { code: 'silent' } : { addresses: ['10.0.0.1'] },
  );
  let underWay = 0;
  let most = 0;
  const system = systemResolve({ servers: [address] });
  const resolve: Resolve = async (name) => {
    most = Math.max(most, ++underWay);
    return await system(name).finally(() => underWay--);
  };
  const lookup = new SeedLookup({ resolve, atOnce: 16, nameMs: 1_000 });
  t.after(() => lookup.close());
  const good = Array.from({ length: 300 }, (_, i) => `h${i}.example`);
  const found = await lookup.find(['silent.example', ...good]);
  assert.deepEqual([...found.keys()].sort(), [...good].sort());
  assert.ok(most <= 16);
});

test('seed lookup: a request ends in time, and at the end of the master, with what it has', async () => {
  const never: Resolve = (name) =>
    name === 'a'
      ? Promise.resolve({ addresses: [{ address: '8.8.8.8', family: 4 }], ttlMs: 0 })
      : new Promise(() => {});
  const names = ['a', ...Array.from({ length: 50 }, (_, i) => `never${i}`)];
  const hasty = new SeedLookup({ resolve: never, atOnce: 4, requestMs: 50 });
  assert.deepEqual([...(await hasty.find(names)).keys()], ['a']);
  const patient = new SeedLookup({ resolve: never });
  const pending = patient.find(names);
  setImmediate(() => patient.close());
  assert.deepEqual([...(await pending).keys()], ['a']);
  assert.equal((await patient.find(['a'])).size, 0);
});

test('seed lookup: time in which the master stands still does not count', async (t) => {
  // The answer waits to be read.
  const resolve: Resolve = async () => {
    await new Promise((done) => setImmediate(done));
    return { addresses: [{ address: '10.0.0.1', family: 4 }], ttlMs: 0 };
  };
  const lookup = new SeedLookup({ resolve, nameMs: 300, requestMs: 300 });
  t.after(() => lookup.close());
  const found = lookup.find(['a']);
  await Promise.resolve();
  standStill(700);
  assert.deepEqual([...(await found).keys()], ['a']);
});

worldTest('a crawl waits for the look-up of its seeds, and keeps what was found', async (world) => {
  let answer: (found: Map<string, string[]>) => void = () => {};
  world.lookUp = () =>
    new Promise((resolve) => {
      answer = resolve;
    });
  const digits = 'http://10.1.2.3:81';
  const seeded = world.seed(['http://in.example/', 'http://gone.example/', `${digits}/`]);
  await world.settle();
  const crawl = world.crawl();
  world.rooms.lifeCycle.settle(crawl);
  assert.deepEqual([crawl.state, crawl.open.offered], ['running', 1]);
  answer(new Map([['in.example', ['10.0.0.1']]]));
  await seeded;
  assert.deepEqual(crawl.seedHosts.blocksOf('http://in.example'), ['10.0.0.0/8']);
  await world.reopen();
  assert.deepEqual(world.crawl().seedHosts.blocksOf('http://in.example'), ['10.0.0.0/8']);
  assert.deepEqual(world.crawl().seedHosts.blocksOf(digits), ['10.0.0.0/8']);
  const asked: string[][] = [];
  world.lookUp = async (names) => {
    asked.push([...names]);
    return new Map([['gone.example', ['192.168.0.1']]]);
  };
  const resolved = world.rooms.admission.resolveAll();
  assert.ok(!world.crawl().active);
  await world.done(resolved);
  assert.deepEqual(asked, [['gone.example']]);
  assert.ok(world.crawl().active);
  assert.deepEqual(world.crawl().seedHosts.blocksOf('http://gone.example'), ['192.168.0.0/16']);
  await world.settle();
  await world.reopen();
  assert.deepEqual(world.crawl().seedHosts.blocksOf('http://gone.example'), ['192.168.0.0/16']);
});
