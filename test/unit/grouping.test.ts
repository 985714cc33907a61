import assert from 'node:assert/strict';
import test from 'node:test';
import { Grouping } from '../../master/frontier/politeness/grouping.ts';

const dnsError = (code: string) => Object.assign(new Error(code), { code });
const none = () => Promise.reject(new Error('nobody asks'));

test('grouping: by host, every origin is a group of its own', () => {
  const grouping = new Grouping('host', none);
  assert.equal(grouping.groupOf('http://a.example:81', 0), 'http://a.example:81');
});

test('grouping: by domain, by the Public Suffix List; an address stands for itself', () => {
  const grouping = new Grouping('domain', none);
  const groupsOf = (...keys: string[]) => new Set(keys.map((key) => grouping.groupOf(key, 0))).size;
  assert.equal(groupsOf('https://a.example.co.uk', 'http://example.co.uk:8080'), 1);
  assert.equal(groupsOf('https://a.github.io', 'https://b.github.io'), 2);
  assert.equal(groupsOf('http://127.0.0.1:1', 'http://127.0.0.1:2'), 1);
  assert.equal(groupsOf('http://127.0.0.1:1', 'http://127.0.0.2:1', 'http://[::1]'), 3);
});

test('grouping: by address, names are asked for once, and those without one stay alone', async () => {
  const asked: string[] = [];
  const addresses: Record<string, string[]> = {
    'a.example': ['192.0.2.9', '192.0.2.1'],
    'b.example': ['192.0.2.1', '192.0.2.9'],
  };
  const grouping = new Grouping('ip', async (name) => {
    asked.push(name);
    return addresses[name] ?? Promise.reject(dnsError('ENOTFOUND'));
  });
  assert.equal(grouping.groupOf('http://192.0.2.1:8080', 0), 'ip 192.0.2.1');
  assert.equal(grouping.groupOf('http://[2001:db8::1]', 0), 'ip 2001:db8::1');
  assert.equal(grouping.groupOf('http://a.example', 0), undefined);
  assert.equal(await grouping.find('http://a.example', 0), 'ip 192.0.2.1');
  assert.equal(await grouping.find('https://b.example', 0), 'ip 192.0.2.1');
  assert.equal(await grouping.find('http://c.example', 0), 'http://c.example');
  assert.equal(grouping.groupOf('http://a.example', 1_000), 'ip 192.0.2.1');
  assert.equal(grouping.groupOf('http://a.example', 700_000), undefined, 'not for ever');
  assert.deepEqual(asked, ['a.example', 'b.example', 'c.example']);
});

test('grouping: a host waits while no name server answers, but not for ever', async (t) => {
  // The pauses alone keep no process alive.
  const alive = setInterval(() => {}, 1_000);
  t.after(() => clearInterval(alive));
  let failures = 2;
  const lookUp = async (name: string) => {
    if (failures-- > 0) throw dnsError(name === 'a.example' ? 'ETIMEOUT' : 'ESERVFAIL');
    return ['192.0.2.1'];
  };
  const grouping = new Grouping('ip', lookUp, [1, 1, 1]);
  for (const name of ['a.example', 'b.example']) {
    failures = 2;
    assert.equal(await grouping.find(`http://${name}`, 0), 'ip 192.0.2.1');
  }
  failures = 100;
  assert.equal(await grouping.find('http://c.example', 0), 'http://c.example');
  assert.equal(failures, 96);
  assert.equal(grouping.groupOf('http://c.example', 1), undefined, 'the next time it is asked');
});

test('grouping: look-ups are bounded', async () => {
  let underWay = 0;
  let most = 0;
  const grouping = new Grouping('ip', async () => {
    most = Math.max(most, ++underWay);
    await new Promise((resolve) => setImmediate(resolve));
    underWay--;
    return ['192.0.2.1'];
  });
  const keys = Array.from({ length: 300 }, (_, i) => `http://host${i}.example`);
  const groups = await Promise.all(keys.map((key) => grouping.find(key, 0)));
  assert.deepEqual(new Set(groups), new Set(['ip 192.0.2.1']));
  assert.equal(most, 64);
});
