import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { PeerAddresses } from '../../master/wire/peer-addresses.ts';
import { networkOf } from '../../shared/address.ts';

const wrong = (addresses: PeerAddresses, address: string, times: number, now = 0) => {
  for (let i = 0; i < times; i++) addresses.refused(address, 'key', now);
};

test('peer addresses: who mistypes a key does not wait, who guesses waits longer and longer', () => {
  const addresses = new PeerAddresses(10_000);
  const waits = Array.from({ length: 10 }, () => {
    const wait = addresses.waitMs('a', 0);
    wrong(addresses, 'a', 1);
    return wait;
  });
  assert.deepEqual(waits, [0, 0, 0, 0, 250, 500, 1000, 2000, 4000, 4000]);
  assert.equal(addresses.waitMs('b', 0), 0, 'another address does not wait');
});

test('peer addresses: the right key and time forgive', () => {
  const addresses = new PeerAddresses(100);
  wrong(addresses, 'a', 9);
  assert.equal(addresses.waitMs('a', 1), 4000);
  assert.ok(addresses.joined('a', 1));
  assert.equal(addresses.waitMs('a', 2), 0);
  wrong(addresses, 'b', 9);
  assert.equal(addresses.waitMs('b', 600_000), 4000);
  assert.equal(addresses.waitMs('b', 600_001), 0);
});

test('peer addresses: what is no wrong key is counted and does not make wait', () => {
  const addresses = new PeerAddresses(100);
  for (let i = 1; i <= 20; i++) assert.equal(addresses.refused('a', 'other', 0), i);
  assert.equal(addresses.waitMs('a', 0), 0);
});

test('peer addresses: refused pickles, and closed connections, hide no wrong key in the log', () => {
  const addresses = new PeerAddresses(100);
  for (let i = 1; i <= 20; i++) {
    assert.equal(addresses.refused('a', 'pickle', 0), i);
    assert.equal(addresses.refused('a', 'other', 0), i);
  }
  assert.equal(addresses.refused('a', 'key', 0), 1);
  assert.equal(addresses.waitMs('a', 0), 0);
});

test('peer addresses: the right key does not make its refusals forgotten, time does', () => {
  const addresses = new PeerAddresses(100);
  for (let i = 1; i <= 20; i++) {
    assert.ok(addresses.joined('a', 0));
    assert.equal(addresses.refused('a', 'other', 0), i);
    addresses.left('a');
  }
  assert.equal(addresses.refused('a', 'other', 600_001), 1);
});

test('peer addresses: an address has so many sessions at once, and others have theirs', () => {
  const addresses = new PeerAddresses(2);
  assert.deepEqual(
    [1, 2, 3].map(() => addresses.joined('a', 0)),
    [true, true, false],
  );
  assert.ok(addresses.joined('b', 0));
  addresses.left('a');
  assert.ok(addresses.joined('a', 0));
});

test('peer addresses: a million guessing addresses take bounded memory and no connection of others', () => {
  const addresses = new PeerAddresses(2);
  addresses.joined('worker', 0);
  addresses.joined('worker', 0);
  for (let i = 0; i < 1_000_000; i++) {
    addresses.refused(`g${i}`, 'key', i);
  }
  assert.ok(addresses.size <= 16_384);
  assert.equal(addresses.joined('worker', 0), false, 'it is remembered: it has sessions');
});

test('peer addresses: sessions are counted exactly, whatever happens', () => {
  const step = fc.record({
    address: fc.constantFrom('a', 'b', 'c'),
    what: fc.constantFrom('join', 'leave', 'key', 'other'),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const addresses = new PeerAddresses(3);
      const sessions = new Map<string, number>();
      steps.forEach(({ address, what }, now) => {
        const count = sessions.get(address) ?? 0;
        if (what === 'join') {
          assert.equal(addresses.joined(address, now), count < 3);
          sessions.set(address, Math.min(3, count + 1));
        } else if (what === 'leave') {
          if (count === 0) return;
          addresses.left(address);
          sessions.set(address, count - 1);
        } else addresses.refused(address, what as 'key' | 'other', now);
      });
    }),
  );
});

test('networks: a peer cannot choose within what counts as one address', () => {
  assert.equal(networkOf('192.0.2.7'), '192.0.2.7');
  assert.equal(networkOf('::ffff:192.0.2.7'), '192.0.2.7');
  assert.equal(networkOf('2001:db8:1:2:3:4:5:6'), '2001:db8:1:2');
  assert.equal(networkOf('2001:db8:1:2::1'), '2001:db8:1:2');
  assert.equal(networkOf('fe80::1%eth0'), 'fe80:0:0:0');
  assert.equal(networkOf(''), '');
});
