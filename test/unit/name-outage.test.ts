/** A slave whose name servers answer for no name, and names that alone cannot be resolved. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AddressCache } from '../../shared/resolver.ts';
import { outageAware } from '../../slave/fetch/name-outage.ts';
import { failureOf } from '../../slave/fetch/outcome.ts';
import { noNamesCode } from '../../slave/lack.ts';

const found = { addresses: [{ address: '192.0.2.1', family: 4 }], ttlMs: 1_000 };
const failing = (code: string) => Promise.reject(Object.assign(new Error(code), { code }));

/** Name servers of which some names, or all of them, fail with a code. */
class Names {
  readonly lame = new Map<string, string>();
  readonly asked: string[] = [];
  all: string | undefined;
  ms = 0;
  readonly resolve = outageAware({
    resolve: (name) => this.#answer(name),
    ask: (name) => {
      this.asked.push(name);
      return this.#answer(name);
    },
    now: () => this.ms,
  });

  #answer(name: string): Promise<typeof found> {
    const code = this.all ?? this.lame.get(name);
    return code === undefined ? Promise.resolve(found) : failing(code);
  }

  /** Resolves with the code of the failure. */
  async failure(name: string): Promise<string> {
    this.ms += 2_000;
    const error: unknown = await this.resolve(name).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    return error instanceof Error && 'code' in error ? String(error.code) : 'none';
  }
}

test('name outage: while no name is answered, no host is at fault', async () => {
  const names = new Names();
  await names.resolve('a.example.org');
  await names.resolve('b.example.net');
  for (const code of ['ESERVFAIL', 'ETIMEOUT', 'EAI_AGAIN', 'ECONNREFUSED']) {
    names.all = code;
    assert.equal(await names.failure('www.example.com'), noNamesCode, code);
  }
  names.all = undefined;
  assert.equal(await names.failure('www.example.com'), 'none');
});

test('name outage: a name that fails alone, or with its domain, has failed', async () => {
  const names = new Names();
  names.lame.set('www.example.com', 'ESERVFAIL').set('gone.example.com', 'ENOTFOUND');
  assert.equal(await names.failure('www.example.com'), 'ESERVFAIL', 'none was ever resolved');
  await names.resolve('a.example.com');
  names.lame.set('a.example.com', 'ESERVFAIL');
  assert.equal(await names.failure('www.example.com'), 'ESERVFAIL', 'its own domain is no witness');
  await names.resolve('b.example.net');
  assert.equal(await names.failure('www.example.com'), 'ESERVFAIL');
  assert.deepEqual(names.asked, ['b.example.net']);
  // That a name is no longer known is an answer, too.
  names.lame.set('b.example.net', 'ENOTFOUND');
  assert.equal(await names.failure('www.example.com'), 'ESERVFAIL');
  assert.equal(await names.failure('gone.example.com'), 'ENOTFOUND');
});

test('name outage: many names that fail at once ask once, and no crawl waits for ever', async () => {
  const names = new Names();
  for (const name of ['a.example.org', 'b.example.net', 'c.example.edu', 'd.test.example']) {
    await names.resolve(name);
  }
  names.all = 'ETIMEOUT';
  const all = Array.from({ length: 100 }, (_, i) => names.resolve(`www.${i}.com`));
  assert.deepEqual(
    new Set((await Promise.allSettled(all)).map(({ status }) => status)),
    new Set(['rejected']),
  );
  assert.deepEqual(names.asked, ['b.example.net', 'c.example.edu', 'd.test.example']);
  names.ms += 590_000;
  assert.equal(await names.failure('www.1.com'), noNamesCode);
  names.ms += 20_000;
  assert.equal(await names.failure('www.1.com'), 'ETIMEOUT');
  names.all = undefined;
  await names.resolve('a.example.org');
  names.all = 'ETIMEOUT';
  assert.equal(await names.failure('www.1.com'), noNamesCode);
});

test('name outage: what is fetched meanwhile is put off', async () => {
  const names = new Names();
  await names.resolve('a.example.org');
  names.all = 'ESERVFAIL';
  const cache = new AddressCache(names.resolve);
  const error: unknown = await cache.resolve('www.example.com').catch((reason: unknown) => reason);
  const { isLack, error: told } = failureOf(error, false);
  assert.equal(isLack, true);
  assert.equal(told.message, 'no name server of this machine answers');
});
