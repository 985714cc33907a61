/** The pure part of the address guard: every spelling of an address that is not public. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { AddressPolicy, hostLiteralAddress, isPublicAddress } from '../../shared/address.ts';
import { ConfigError } from '../../shared/errors.ts';
import { spellings } from '../support/spellings.ts';

test('address: the public internet is public', () => {
  const addresses = [
    ...['1.1.1.1', '8.8.8.8', '93.184.216.34', '9.255.255.255', '11.0.0.0', '100.63.255.255'],
    ...['100.128.0.0', '126.255.255.255', '128.0.0.1', '169.253.255.255', '169.255.0.0'],
    ...['172.15.255.255', '172.32.0.0', '192.167.255.255', '192.169.0.0', '198.17.255.255'],
    ...['198.20.0.0', '223.255.255.255', '2606:4700:4700::1111', '2001:4860:4860::8888'],
    ...['2a00:1450:4001:80b::200e', '::ffff:8.8.8.8', '::ffff:808:808', '64:ff9b::8.8.8.8'],
  ];
  for (const address of addresses) assert.equal(isPublicAddress(address), true, address);
});

test('address: special-purpose addresses are not public', () => {
  const addresses = [
    // Unspecified and "this network", loopback, private, link-local with the metadata service.
    ...['0.0.0.0', '0.1.2.3', '127.0.0.1', '127.255.255.255', '10.0.0.0', '10.255.255.255'],
    ...['172.16.0.0', '172.31.255.255', '192.168.0.0', '192.168.255.255', '169.254.169.254'],
    ...['169.254.0.1', '100.64.0.0', '100.127.255.255', '100.100.100.200', '168.63.129.16'],
    // Protocol assignments, documentation, relays, benchmarks, multicast, reserved, broadcast.
    ...['192.0.0.1', '192.0.0.192', '192.0.2.1', '198.51.100.1', '203.0.113.1', '192.88.99.1'],
    ...['198.18.0.0', '198.19.255.255', '224.0.0.1', '239.255.255.255', '240.0.0.1'],
    ...['255.255.255.254', '255.255.255.255', '192.31.196.1', '192.175.48.1', '192.52.193.1'],
    // The same in IPv6.
    ...['::', '::1', '::2', 'fe80::1', 'febf::1', 'fec0::1', 'fc00::1', 'fd00:ec2::254'],
    ...['fd20:ce::254', 'ff02::1', 'ff0e::1', '100::1', '2001:db8::1', '3fff::1', '2001:2::1'],
    ...[
      '2001:10::1',
      '2001:20::1',
      '5f00::1',
      '4000::1',
      'e000::1',
      '2001:1::1',
      '2620:4f:8000::1',
    ],
    // Addresses that carry another.
    ...['::ffff:127.0.0.1', '::ffff:10.0.0.1', '::ffff:a9fe:a9fe', '::ffff:0:127.0.0.1'],
    ...['::127.0.0.1', '::8.8.8.8', '64:ff9b::127.0.0.1', '64:ff9b::a9fe:a9fe', '64:ff9b:1::1'],
    ...['2002:7f00:1::', '2002:a00:1::1', '2002:808:808::1', '2001:0:53aa:64c:0:0:80ff:fffe'],
    // No addresses at all, or none as a resolver writes them.
    ...['', 'localhost', '127.1', '0x7f.0.0.1', '0177.0.0.1', '2130706433', '8.8.8', '8.8.8.8.8'],
    ...['08.8.8.8', ' 8.8.8.8', '8.8.8.8 ', '[2606:4700::1]', '2606:4700::1%eth0', 'fe80::1%1'],
  ];
  for (const address of addresses) assert.equal(isPublicAddress(address), false, address);
});

test('address: every spelling of a private host is told, before and after URL parsing', () => {
  const policy = new AddressPolicy();
  assert.ok(spellings.length >= 40);
  for (const [spelling, expected] of spellings) {
    const { hostname } = new URL(`http://${spelling}/`);
    for (const host of [spelling, hostname]) {
      const address = hostLiteralAddress(host);
      assert.equal(address, expected, host);
      assert.equal(address !== undefined && policy.allows(address), false, host);
    }
  }
});

test('address: names and nonsense are no literals', () => {
  const hosts = [
    ...['', 'example.com', 'localhost', '1.2.3.4.example.com', '0x7f.example', 'a.0x7f.b', 'xn--a'],
    ...['1.2.3.4.5', '256.0.0.1', '1..2', '0x1ffffffff', '[::1', '::1]', '[]', 'a/127.0.0.1'],
    ...['a@127.0.0.1', '127.0.0.1/a', '127.0.0.1?a', '127.0.0.1#a', '\\127.0.0.1', ' 127.0.0.1'],
    ...['09.0.0.1', '[fe80::1%25eth0]', '[::ffff:127.1]', '1.2.3.4..', 'a%00b'],
  ];
  for (const host of hosts) assert.equal(hostLiteralAddress(host), undefined, host);
  assert.equal(hostLiteralAddress('8.8.8.8'), '8.8.8.8');
  assert.equal(hostLiteralAddress('0x8.010.2056'), '8.8.8.8');
  assert.equal(hostLiteralAddress('2606:4700::1'), '2606:4700::1');
});

test('address: a literal is what the URL parser says, for any number', () => {
  const octet = fc.integer({ min: 0, max: 255 });
  fc.assert(
    fc.property(octet, octet, octet, octet, (a, b, c, d) => {
      const dotted = `${a}.${b}.${c}.${d}`;
      const number = ((a * 256 + b) * 256 + c) * 256 + d;
      for (const host of [
        dotted,
        `${number}`,
        `0x${number.toString(16)}`,
        `0${number.toString(8)}`,
        `${a}.${(b * 256 + c) * 256 + d}`,
        `0x${a.toString(16)}.0${b.toString(8)}.${c * 256 + d}`,
      ])
        assert.equal(hostLiteralAddress(host), dotted);
      const mapped = `::ffff:${dotted}`;
      const embedded = hostLiteralAddress(`[${mapped}]`) ?? '';
      assert.equal(isPublicAddress(mapped), isPublicAddress(dotted));
      assert.equal(isPublicAddress(embedded), isPublicAddress(dotted));
    }),
  );
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      hostLiteralAddress(text);
      assert.equal(isPublicAddress(text), false);
    }),
  );
});

test('address: a policy allows its ranges beside the public addresses', () => {
  const policy = new AddressPolicy([
    '127.0.0.0/8',
    '10.1.2.3',
    'fd00::/8',
    '::ffff:192.168.0.0/112',
  ]);
  const yes = ['127.0.0.1', '::ffff:127.0.0.1', '10.1.2.3', 'fd00::1', '192.168.255.1', '8.8.8.8'];
  const no = [
    '10.1.2.4',
    '128.0.0.1.',
    '::1',
    'fc00::1',
    '169.254.169.254',
    '64:ff9b::127.0.0.1',
    '',
  ];
  for (const address of yes) assert.equal(policy.allows(address), true, address);
  for (const address of no) assert.equal(policy.allows(address), false, address);
  const all = new AddressPolicy('all');
  for (const address of ['127.0.0.1', '::1', '10.0.0.1', '224.0.0.1', '8.8.8.8'])
    assert.equal(all.allows(address), true, address);
  assert.equal(all.allows('localhost'), false);
  assert.equal(new AddressPolicy(['0.0.0.0/0']).allows('169.254.169.254'), true);
  assert.equal(new AddressPolicy(['0.0.0.0/0']).allows('::1'), false);
});

test('address: a bad range is the operator’s error, in one line', () => {
  const bad = [
    ...[
      '',
      'localhost',
      '10.0.0.0/33',
      '10.0.0.0/-1',
      '10.0.0.0/',
      '10.0.0.0/8/8',
      '10/8',
      '::/129',
    ],
    ...['0x7f.1/8', '10.0.0.0/a', '10.0.0.0/1e1', '10.0.0.0-10.0.0.9', 'fe80::1%eth0/64', 'a\nb'],
  ];
  for (const range of bad)
    assert.throws(
      () => new AddressPolicy(['10.0.0.0/8', range]),
      (error: unknown) =>
        error instanceof ConfigError && !error.message.includes('\n') && error.code === 'E_CONFIG',
      range,
    );
});
