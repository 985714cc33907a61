/** The short way to read a request returns the result of the long one, or the same error. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { type PyRequest, readRequest } from '../../master/python/arguments.ts';
import { encodeItem } from '../../master/python/pickle/item.ts';
import { writePickle } from '../../master/python/pickle/writer.ts';
import { RequestReader } from '../../master/python/request-reader.ts';
import { bytesOf, recorded, uint32 } from '../support/pickle-bytes.ts';

/** As the C pickler of Python 3.8 and later writes it. */
function request(ident: string, method: string, text?: string, protocol = 4): Buffer {
  const short = (value: string) => {
    const bytes = Buffer.from(value);
    return bytesOf(0x8c, bytes.length, bytes, 0x94);
  };
  const args = text === undefined ? bytesOf(')') : bytesOf(short(text), 0x85, 0x94);
  const body = bytesOf('(', short(ident), short(method), args, '}', 0x94, 't', 0x94, '.');
  return bytesOf(0x80, protocol, 0x95, uint32(body.length), uint32(0), body);
}

function outcome(read: () => PyRequest): PyRequest | string {
  try {
    return read();
  } catch (error) {
    return String(error);
  }
}

function same(reader: RequestReader, bytes: Buffer): void {
  assert.deepEqual(
    outcome(() => reader.read(bytes)),
    outcome(() => readRequest(bytes)),
  );
}

const name = fc.stringMatching(/^[a-z_]{0,12}$/);
const text = fc.oneof(fc.string({ unit: 'grapheme', maxLength: 60 }), fc.webUrl());
const requests = fc
  .tuple(name, name, fc.option(text, { nil: undefined }), fc.constantFrom(4, 5, 3))
  .map((parts) => request(...parts));

test('request reader: what Python sends is read as the pickle machine reads it', () => {
  const reader = new RequestReader();
  for (const hex of Object.values(recorded)) same(reader, Buffer.from(hex, 'hex'));
  assert.deepEqual(reader.read(request('q', 'put', 'http://a/')).args, ['http://a/']);
  assert.deepEqual(reader.read(request('q', 'get')).args, []);
});

test('request reader: any texts, on one connection', () => {
  fc.assert(
    fc.property(fc.array(requests, { minLength: 1, maxLength: 6 }), (all) => {
      const reader = new RequestReader();
      for (const bytes of all) same(reader, bytes);
    }),
  );
});

test('request reader: any byte changed, left out or put in', () => {
  const change = fc.record({ at: fc.nat(200), byte: fc.nat(255), kind: fc.constantFrom(0, 1, 2) });
  fc.assert(
    fc.property(requests, fc.array(change, { minLength: 1, maxLength: 3 }), (first, changes) => {
      const reader = new RequestReader();
      same(reader, first);
      let bytes = first;
      for (const { at, byte, kind } of changes) {
        const [head, rest] = [bytes.subarray(0, at), bytes.subarray(kind === 2 ? at : at + 1)];
        bytes = bytesOf(head, ...(kind === 0 ? [] : [byte]), rest);
      }
      same(reader, bytes);
    }),
    { numRuns: 2_000 },
  );
});

test('request reader: a short text is kept as the writer would write it', () => {
  fc.assert(
    fc.property(fc.oneof(text, fc.string({ minLength: 1000, maxLength: 1100 })), (value) => {
      assert.deepEqual(encodeItem(value), writePickle(value, { protocol: 3 }));
    }),
  );
});
