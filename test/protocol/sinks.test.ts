/** The outputs of a crawl, and one that is given up: [C-110]..[C-112]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import type { RawPeer } from '../support/raw-peer.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

type Sink = Readonly<Record<'name' | 'target' | 'state', string>> & {
  readonly records: number;
  readonly bytes: number;
  readonly output: boolean;
};

async function sinksOf(peer: RawPeer, crawl: string, drop?: string): Promise<readonly Sink[]> {
  const { sinks } = await peer.must('crawl.sinks', { crawl, ...(drop && { drop }) });
  return sinks as readonly Sink[];
}

const jsonl = { kind: 'jsonl', target: 'a.jsonl' };

test('[C-110] the reply has the result files and each output, and what waits for it', async () => {
  const peer = await target.join();
  const crawl = await target.crawl(peer, [], { outputs: [jsonl, { ...jsonl, target: 'b.jsonl' }] });
  const sinks = await sinksOf(peer, crawl);
  assert.deepEqual(
    sinks.map(({ name, state, output, records, bytes }) => [name, state, output, records, bytes]),
    [
      ['files', 'writing', false, 0, 0],
      ['jsonl', 'writing', true, 0, 0],
      ['jsonl-2', 'writing', true, 0, 0],
    ],
  );
  assert.equal(sinks[2]?.target, 'jsonl-2 (jsonl:b.jsonl)');
  const { error } = await peer.request('crawl.sinks', { crawl: 'there-is-none' });
  assert.equal(error, 'E_NO_CRAWL');
});

test('[C-111] an output that is dropped is no part of the crawl any more', async () => {
  const peer = await target.join();
  const crawl = await target.crawl(peer, [], { outputs: [jsonl] });
  assert.deepEqual(
    (await sinksOf(peer, crawl, 'jsonl')).map(({ name }) => name),
    ['files'],
  );
  for (const drop of ['jsonl', 'files', 'x']) {
    assert.equal((await peer.request('crawl.sinks', { crawl, drop }))['error'], 'E_BAD_REQUEST');
  }
});

test('[C-112] an output outside the folder, with a password, or a bad one is refused', async () => {
  const peer = await target.join();
  const crawl = await target.crawl(peer, [], {});
  for (const output of [
    { kind: 'csv', target: '/tmp/orbweaver-outside.csv' },
    { kind: 'csv', target: '../outside.csv' },
    { kind: 'postgres', target: 'postgres://me:secret@127.0.0.1/db' },
    { kind: 'postgres', target: 'postgres://127.0.0.1:1/db' },
    { kind: 'postgres', target: '$ORB_AUTHKEY' },
    { kind: 'mysql', target: 'mysql://me:secret@127.0.0.1/db' },
    { kind: 'redis', target: 'redis://:secret@127.0.0.1/0' },
    { kind: 'redis', target: 'redis://127.0.0.1:1/0', list: 'a', stream: 'b' },
    { kind: 'mongodb', target: 'mongodb://me:secret@127.0.0.1/db' },
    { kind: 'parquet', target: '../outside.parquet' },
    { kind: 'tape', target: 'x' },
    { kind: 'csv', target: 'x.csv', rule: 'none' },
    { kind: 'sqlite', target: 'x.db', table: 'orbweaver_cursors' },
  ]) {
    const answer = await peer.request('crawl.set', { crawl, spec: { outputs: [output] } });
    assert.equal(answer['error'], 'E_BAD_REQUEST', JSON.stringify(answer));
  }
  assert.equal((await sinksOf(peer, crawl)).length, 1);
});
