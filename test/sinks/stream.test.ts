/** The contract on the sink of a program that reads records, and what is its own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProgramReader } from '../../master/machine/program-reader.ts';
import { InterruptedError, type SinkKind } from '../../master/sinks/sink.ts';
import { streamKind } from '../../master/sinks/stream-kind.ts';
import { ResultRow } from '../../master/store/result-rows.ts';
import type { FromMaster, ToMaster } from '../../shared/record-stream.ts';
import { sinkContract } from './contract.ts';

const crawl = { name: 'default', uid: Buffer.alloc(16, 9) };

/** A program that keeps the URLs of records by their numbers. It is done with what it gets at once,
 *  or when it says so. */
class FakeProgram {
  readonly urls = new Map<number, string>();
  readonly reader: ProgramReader;
  sentCount = 0;
  #say: (message: unknown) => void = () => {};

  constructor(isSlow = false, urls = new Map<number, string>()) {
    this.urls = urls;
    const channel = {
      send: (message: unknown) => {
        for (const [, seq, text] of (message as FromMaster).sections) {
          this.sentCount++;
          urls.set(seq, (JSON.parse(text) as { url: string }).url);
          if (!isSlow) queueMicrotask(() => this.says({ taken: seq }));
        }
      },
      on: (_: string, listener: (message: unknown) => void) => {
        this.#say = listener;
      },
      once: () => {},
    };
    this.reader = new ProgramReader(channel, () => {});
  }

  says(message: ToMaster): void {
    this.#say(message);
  }
}

sinkContract('stream', () => {
  const urls = new Map<number, string>();
  const kind: SinkKind = {
    ...streamKind(undefined, 'default'),
    // Each start of a master has a program of its own.
    open: (of, mark) => streamKind(new FakeProgram(false, urls).reader, 'default').open(of, mark),
  };
  return {
    kind,
    urls: () => [...urls].sort(([a], [b]) => a - b).map(([, url]) => url),
    isShared: true,
    harms: [],
  };
});

function recordsOf(count: number) {
  const row = new ResultRow();
  for (let i = 0; i < count; i++) row.add('other', { url: `http://a/${i}`, depth: 0, at: 0 });
  return row.seal(1).sections;
}

test('sink: stream: a write that waits can be interrupted, and goes on', async () => {
  const program = new FakeProgram(true);
  const sink = await streamKind(program.reader, 'default').open(crawl, undefined);
  const marks: unknown[] = [];
  const progress = async (mark: unknown) => void marks.push(mark);
  const first = sink.write(recordsOf(4), progress);
  await Promise.resolve();
  program.says({ taken: 2 });
  await new Promise((resolve) => setImmediate(resolve));
  sink.interrupt?.();
  await assert.rejects(first, InterruptedError);
  assert.deepEqual([marks, program.sentCount], [[{ taken: 2 }], 4]);
  const second = sink.write(recordsOf(4), progress);
  program.says({ taken: 4 });
  assert.deepEqual(await second, { taken: 4 });
  assert.equal(program.sentCount, 4, 'nothing is sent twice');
});

test('sink: stream: a crawl that is renamed stays that of its program', async () => {
  const kind = streamKind(new FakeProgram().reader, 'default');
  assert.equal(kind.isWanted?.(crawl, undefined), true);
  await kind.open(crawl, undefined);
  const renamed = { ...crawl, name: 'other' };
  const another = { ...crawl, uid: Buffer.alloc(16, 1) };
  assert.equal(kind.isWanted?.(renamed, undefined), true);
  assert.equal(kind.isWanted?.(another, undefined), false);
  await assert.rejects(kind.open(another, { taken: 1 }), /a program reads the records/);
});
