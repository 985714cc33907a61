import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { BodyRoom, type BodySeat } from '../../slave/body-room.ts';
import { recordingOf } from '../../slave/fetch/recording.ts';
import { PageFetcher } from '../support/page-fetcher.ts';
import { seedHere } from '../support/seed-here.ts';

const mib = 1 << 20;

/** Those of the seats that have to wait, after so much has come of each. */
async function heldOf(seats: readonly BodySeat[], bytes: number) {
  const held = new Set<BodySeat>();
  for (const seat of seats) {
    const room = seat.took(bytes);
    if (room === undefined) continue;
    held.add(seat);
    void room.then(() => held.delete(seat));
  }
  await Promise.resolve();
  return held;
}

test('body room: above the limit only the oldest are read on, one for each slot', async () => {
  const room = new BodyRoom(2, () => false);
  const seats = Array.from({ length: 5 }, () => room.enter());
  assert.equal((await heldOf(seats, 10 * mib)).size, 0);
  const held = await heldOf(seats, 10 * mib);
  const [first, second, third, fourth, fifth] = seats;
  assert.deepEqual([...held], [third, fourth, fifth]);
  first?.leave();
  first?.leave();
  await Promise.resolve();
  assert.ok(third && !held.has(third));
  assert.equal(held.size, 2);
  second?.leave();
  third.leave();
  await Promise.resolve();
  assert.equal(held.size, 0);
});

test('body room: none is read on while what was read waits for the master', async () => {
  let isFull = true;
  const room = new BodyRoom(2, () => isFull);
  const seats = [room.enter(), room.enter()];
  const held = await heldOf(seats, 1);
  assert.equal(held.size, 2);
  isFull = false;
  room.look();
  await Promise.resolve();
  assert.equal(held.size, 0);
});

test('body room: the time for which an answer pauses does not count', async (t) => {
  const server = createServer((_, answer) => {
    answer.writeHead(200, { 'content-type': 'text/html' }).write('<title>');
    setTimeout(() => answer.end('one</title>'), 50);
  });
  server.listen({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const fetcher = new PageFetcher({ connections: 1 });
  t.after(async () => {
    await fetcher.close();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const spec = fetchSpecSchema.parse({ archive: 'warc', timeoutMs: 1_000 });
  let held = 0;
  const seat = { took: () => (held++ === 0 ? sleep(1_500) : undefined) };
  const recording = recordingOf(spec);
  const url = `http://127.0.0.1:${port}/`;
  const never = new AbortController().signal;
  const outcome = await fetcher.fetch(url, spec, never, { ...seedHere, seat, recording });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  assert.equal(outcome.result.title, 'one');
  assert.ok(outcome.result.ms < 1_000, `${outcome.result.ms} ms`);
  assert.equal(recording?.exchanges[0]?.end, 'whole');
});
