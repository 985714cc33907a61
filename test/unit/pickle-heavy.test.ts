/** Heavy requests: weighed, then copied without being built. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { readRequest } from '../../master/python/arguments.ts';
import { HeavyRequests } from '../../master/python/heavy-requests.ts';
import { PickleCopy } from '../../master/python/pickle/copy.ts';
import { decodeItem, encodeItem } from '../../master/python/pickle/item.ts';
import { readPickle } from '../../master/python/pickle/reader.ts';
import { PickleScan } from '../../master/python/pickle/scan.ts';
import {
  PickleError,
  PyDict,
  PyPickled,
  PyTuple,
  type PyValue,
} from '../../master/python/pickle/values.ts';
import { writePickle } from '../../master/python/pickle/writer.ts';
import { bytesOf, recorded } from '../support/pickle-bytes.ts';
import { describe, pyValues } from '../support/python-values.ts';

const never = new AbortController().signal;

function requestOf(value: PyValue, kwds: [PyValue, PyValue][] = []): Buffer {
  const args = kwds.length > 0 ? [] : [value];
  const request = new PyTuple(['jobs', 'put', new PyTuple(args), PyDict.of(kwds)]);
  return Buffer.from(writePickle(request));
}

function copyOf(payload: Buffer): Buffer | undefined {
  const scan = new PickleScan(payload);
  scan.run();
  const range = scan.envelope?.args[0] ?? scan.envelope?.kwds[1];
  if (!scan.isPlain || range === undefined) return undefined;
  const copy = new PickleCopy(scan, range);
  copy.run();
  return copy.bytes;
}

test('heavy: a copied value is the value', () => {
  fc.assert(
    fc.property(pyValues(), fc.boolean(), (value, isKeyword) => {
      const payload = requestOf(value, isKeyword ? [['obj', value]] : []);
      const copied = copyOf(payload);
      if (copied === undefined) return;
      assert.equal(describe(decodeItem(copied)), describe(decodeItem(encodeItem(value))));
    }),
  );
});

test('heavy: whatever is recorded of Python is read alike', async () => {
  const heavy = new HeavyRequests(1 << 30);
  for (const [name, hex] of Object.entries(recorded)) {
    const payload = Buffer.from(hex, 'hex');
    let expected: unknown;
    try {
      expected = readRequest(payload);
    } catch {
      continue;
    }
    assert.deepEqual(await heavy.read(payload, never), expected, name);
  }
});

test('heavy: a large value is not built, and one by one', async () => {
  const heavy = new HeavyRequests(1 << 20);
  const value = Array.from({ length: 300_000 }, (_, n) => [n % 200]);
  const payload = requestOf(value);
  const requests = await Promise.all([1, 2].map(() => heavy.read(payload, never)));
  for (const request of requests) {
    const [item] = request?.args ?? [];
    assert.ok(item instanceof PyPickled);
    assert.ok(item.heapBytes > 300_000 * 100);
    assert.deepEqual(readPickle(encodeItem(item)), value);
  }
  const gone = new AbortController();
  gone.abort();
  assert.equal(await heavy.read(payload, gone.signal), undefined);
});

test('heavy: a text of the envelope is written out, once', () => {
  // ('jobs', 'put', (['put', 'put', 'jobs'],), {}), where the item refers to the envelope.
  const payload = bytesOf(
    ...[0x80, 4, '(', 0x8c, 4, 'jobs', 0x94, 0x8c, 3, 'put', 0x94],
    ...[']', 0x94, '(', 'h', 1, 'h', 1, 'h', 0, 'e', 0x85, 0x94, '}', 0x94, 't', 0x94, '.'],
  );
  const copied = copyOf(Buffer.from(payload));
  assert.deepEqual(readPickle(copied ?? Buffer.alloc(0)), ['put', 'put', 'jobs']);
});

test('heavy: what weighs too much, nests too deep or is broken is refused', () => {
  const item = (...parts: (string | number | Uint8Array)[]) =>
    Buffer.from(bytesOf(0x80, 4, '(', 0x8c, 1, 'q', 0x8c, 3, 'put', ...parts, 0x85, '}t.'));
  const broken: readonly (readonly [string, Buffer])[] = [
    ['a depth bomb', item(Buffer.alloc(100_000, ']'), Buffer.alloc(99_999, 'a'))],
    ['a list as a key', item('}', ']', 'N', 's')],
    ['a key without a value', item('}(', 'N', 'u')],
    ['APPEND to a tuple', item(')', 'N', 'a')],
    ['no text', item('X', 2, 0, 0, 0, 0xff, 0xff)],
    ['a memo entry that is not there', item('h', 9)],
    ['a length of 2^64 - 1', item(0x8e, Buffer.alloc(8, 0xff))],
    ['below the mark', item('(', 'a', 'N')],
    ['bytes after it', Buffer.concat([item('N'), Buffer.from('N')])],
  ];
  for (const [what, payload] of broken) {
    assert.throws(() => new PickleScan(payload).run(), PickleError, what);
  }
  // Each tuple holds the last one twice.
  const twice = Array.from({ length: 40 }, (_, n) => ['h', n, 0x86, 0x94]);
  const shared = item(']', 0x94, ...twice.flat());
  assert.throws(() => new PickleScan(shared).run(), PickleError);
});

test('heavy: any bytes are refused or weighed, and never more', () => {
  const corpus = Object.values(recorded).map((hex) => Buffer.from(hex, 'hex'));
  fc.assert(
    fc.property(
      fc.constantFrom(...corpus),
      fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { maxLength: 4 }),
      (from, changes) => {
        const payload = Buffer.from(from);
        for (const [at, byte] of changes) payload[at % payload.length] = byte;
        let copied: Buffer | undefined;
        try {
          copied = copyOf(payload);
        } catch (error) {
          assert.ok(error instanceof PickleError);
          return;
        }
        // The copy can be read.
        if (copied !== undefined) readPickle(copied);
      },
    ),
    { numRuns: 2_000 },
  );
});
