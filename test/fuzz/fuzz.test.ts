/**
 * A short run of the fuzzer: every verb, both dialects, over sockets. A failure names its seed;
 * `FUZZ_SEED` repeats it. The long form: `node dist/test/fuzz/frames.js`.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { requestSchemas } from '../../shared/requests.ts';
import { decodeMutants } from './decoding.ts';
import { fuzz } from './fuzz.ts';
import { record, type Traffic } from './recording.ts';

const seed = Number(process.env['FUZZ_SEED'] ?? Date.now() % 1e9);
let traffic: Traffic = { native: [], python: [] };

before(async () => {
  traffic = await record();
});

test('fuzz: mutants of every verb end in a request or in an error of the protocol', (t) => {
  t.diagnostic(`FUZZ_SEED=${seed}`);
  decodeMutants({ frames: 50_000, seed, traffic });
});

test('[X-1] fuzz: mutants of recorded traffic disturb nobody else', async (t) => {
  t.diagnostic(`FUZZ_SEED=${seed}`);
  const { counts, verbs } = await fuzz({ frames: 20_000, seed, lanes: 4, traffic });
  assert.ok(counts.native > 0 && counts.python > 0);
  assert.deepEqual(verbs, Object.keys(requestSchemas).sort());
});
