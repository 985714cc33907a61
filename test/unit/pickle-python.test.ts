/**
 * Our pickles against the real `pickle` of every Python of this machine, in both directions: the
 * types and references that Python sees, and what its picklers write for every protocol.
 * `PICKLE_RUNS=1000` makes it longer.
 */
import assert from 'node:assert/strict';
import { after, suite, test } from 'node:test';
import fc from 'fast-check';
import { readPickle } from '../../master/python/pickle/reader.ts';
import { PickleError, PyException, type PyValue } from '../../master/python/pickle/values.ts';
import { writePickle } from '../../master/python/pickle/writer.ts';
import { findPythons, PicklePeer, type Python } from '../support/python.ts';
import { describe, pyValues } from '../support/python-values.ts';

const { PICKLE_RUNS: runsText = '40' } = process.env;
const runs = Number(runsText);
const pythons = findPythons();
if (pythons.length === 0) {
  test('pickle: the same as in Python', { skip: 'no python3 in PATH, none in ~/.pyenv' }, () => {});
}

const exceptions: readonly [string, string, PyValue[], string][] = [
  ['queue', 'Empty', [], '!queue.Empty()'],
  ['queue', 'Full', [], '!queue.Full()'],
  ['builtins', 'TypeError', ['m'], '!TypeError(s006d)'],
  ['builtins', 'OverflowError', ['m', 1], '!OverflowError(s006d,i1)'],
];

for (const python of pythons) {
  const python2 = python.version[0] === 2;
  suite(`pickle: Python ${python.name}`, () => {
    const peer = new PicklePeer(python);
    after(() => peer.close());

    test('reads what we write, and we read what it writes, with all types', async () => {
      await fc.assert(
        fc.asyncProperty(pyValues({ python2 }), (value) => roundTrip(peer, python, value)),
        { numRuns: runs, includeErrorInReport: true },
      );
    });

    test('our exceptions are its own', async () => {
      for (const [module, name, args, expected] of exceptions) {
        const pickle = writePickle(new PyException(module, name, args), {
          protocol: python2 ? 2 : 3,
        });
        const { description } = await peer.load(pickle);
        assert.equal(description, expected);
      }
    });

    test('what asks for more than data is refused by name', async () => {
      for (const { name, pickle } of await peer.hostile()) {
        assert.throws(
          () => readPickle(pickle),
          (error) =>
            error instanceof PickleError && /not allowed|only its values/.test(error.message),
          `${name}: ${pickle.toString('latin1')}`,
        );
      }
    });
  });
}

async function roundTrip(peer: PicklePeer, python: Python, value: PyValue): Promise<void> {
  const python2 = python.version[0] === 2;
  const expected = describe(value, { python2 });
  for (const protocol of python2 ? ([2] as const) : ([2, 3] as const)) {
    const { description, pickles } = await peer.load(writePickle(value, { protocol }));
    assert.equal(description, expected, `read by ${python.name}`);
    for (const pickle of pickles) {
      const found = describe(readPickle(pickle), { python2 });
      assert.equal(found, expected, `written by ${python.name}: ${pickle.toString('hex')}`);
    }
  }
}
