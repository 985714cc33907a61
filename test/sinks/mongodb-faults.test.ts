/** A MongoDB server that goes away in the middle of a write, or refuses it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HeldError, UnavailableError } from '../../master/sinks/sink.ts';
import { before, crawlWith, itemsFrom, kindOf } from '../support/columns.ts';
import { mongoPeer } from '../support/mongo-peer.ts';

test('MongoDB: a connection that is lost in the middle of a write is waited for', async (t) => {
  const peer = await mongoPeer(t);
  const { kind } = kindOf(t, peer.url);
  const sink = await kind.open(crawlWith(before), undefined);
  t.after(() => sink.close());
  await sink.write(itemsFrom(1, { title: 'a' }));
  // The write is done, and its answer is lost, each time that it is tried.
  peer.fault = (name) => (name === 'insert' ? 'lose' : undefined);
  const isWaiting = (error: unknown) => {
    assert.ok(error instanceof UnavailableError, String(error));
    assert.match(error.message, /^mongodb: connection \d+ to .* closed$/);
    return true;
  };
  await assert.rejects(sink.write(itemsFrom(2, { title: 'b' })), isWaiting);
  peer.fault = () => undefined;
  await sink.write(itemsFrom(2, { title: 'b' }));
  const titles = [...(peer.collections.get('book')?.values() ?? [])].map(({ title }) => title);
  assert.deepEqual(titles, ['a', 'b']);
});

test('MongoDB: an answer that nothing but its operator can put right holds the crawl', async (t) => {
  const peer = await mongoPeer(t);
  const { kind } = kindOf(t, peer.url);
  const sink = await kind.open(crawlWith(before), undefined);
  t.after(() => sink.close());
  const writeErrors = [{ index: 0, code: 121, errmsg: 'Document failed validation' }];
  peer.fault = (name) => (name === 'insert' ? { ok: 1, n: 0, writeErrors } : undefined);
  await assert.rejects(sink.write(itemsFrom(1, { title: 'a' })), (error) => {
    assert.ok(error instanceof HeldError, String(error));
    assert.equal(error.message, 'mongodb: Document failed validation; put that right');
    return true;
  });
});
