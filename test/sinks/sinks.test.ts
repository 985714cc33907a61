import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import Database from 'libsql';
import { filesKind } from '../../master/sinks/files-kind.ts';
import { HeldError, type Sink } from '../../master/sinks/sink.ts';
import { outputKind } from '../../master/sinks/sinks.ts';
import { namedOutputs, outputOf } from '../../shared/outputs.ts';
import { before, crawlWith, itemsFrom, kindOf } from '../support/columns.ts';
import { parquetFiles, rowsOfParquet } from '../support/parquet.ts';
import { ArrayKind, SinkRig } from '../support/sink-rig.ts';
import { sinkContract } from './contract.ts';

function files(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'orb-sink-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'default/pages.jsonl');
  let kept = Buffer.alloc(0);
  const keep = () => {
    kept = readFileSync(path);
  };
  const mend = () => {
    mkdirSync(join(folder, 'default'), { recursive: true });
    writeFileSync(path, kept);
  };
  const away = `${path}.away`;
  return {
    kind: filesKind(folder),
    urls: () =>
      (existsSync(path) ? readFileSync(path, 'utf8') : '')
        .split('\n')
        .slice(0, -1)
        .map((line) => (JSON.parse(line) as { url: string }).url),
    harms: [
      { what: 'gone', harm: () => renameSync(path, away), mend: () => renameSync(away, path) },
      {
        what: 'shorter',
        harm: () => {
          keep();
          truncateSync(path, 5);
        },
        mend,
      },
      {
        what: 'another one',
        harm: () => {
          keep();
          rmSync(path);
          writeFileSync(path, Buffer.alloc(kept.length, 'x'));
        },
        mend: () => {
          rmSync(path);
          mend();
        },
      },
    ],
  };
}

sinkContract('files', files);

/** An output to a file, or a database in one. */
function output(t: TestContext, text: string, urlsIn: (path: string) => string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'orb-sink-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [made] = namedOutputs([outputOf(text)]);
  assert.ok(made);
  const path = join(folder, 'default', made.target);
  const away = `${path}.away`;
  const isText = made.kind === 'csv' || made.kind === 'jsonl';
  return {
    kind: outputKind(made, { folder, env: {} }),
    urls: () => (existsSync(path) ? urlsIn(path) : []),
    ...(!isText && { isShared: true as const }),
    harms: [
      { what: 'gone', harm: () => renameSync(path, away), mend: () => renameSync(away, path) },
      {
        what: 'another one',
        harm: () => {
          renameSync(path, away);
          if (isText) writeFileSync(path, 'x'.repeat(2_000));
          else new Database(path).close();
        },
        mend: () => {
          rmSync(path);
          renameSync(away, path);
        },
      },
    ],
  };
}

sinkContract('csv', (t) =>
  output(t, 'csv:rows.csv#records=all', (path) =>
    readFileSync(path, 'utf8')
      .split('\n')
      .slice(1, -1)
      .map((line) => line.split(',')[0] ?? ''),
  ),
);

sinkContract('jsonl', (t) =>
  output(t, 'jsonl:rows.jsonl#records=all', (path) =>
    readFileSync(path, 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => (JSON.parse(line) as { url: string }).url),
  ),
);

sinkContract('sqlite', (t) =>
  output(t, 'sqlite:rows.db#records=all', (path) => {
    const db = new Database(path, { readonly: true });
    try {
      const rows = db.prepare('SELECT url FROM "all" ORDER BY rowid').all() as { url: string }[];
      return rows.map(({ url }) => url);
    } catch (error) {
      if (String(error).includes('no such table')) return [];
      throw error;
    } finally {
      db.close();
    }
  }),
);

sinkContract('parquet', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orb-sink-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [made] = namedOutputs([outputOf('parquet:rows.parquet#records=all')]);
  assert.ok(made);
  return {
    kind: outputKind(made, { folder, env: {} }),
    urls: async () =>
      (await rowsOfParquet(parquetFiles(join(folder, 'default')))).map(({ url }) => String(url)),
    // Its files are whole, and others may take them away.
    harms: [],
  };
});

test('files: the end of a crawl does not wait for another commit', async (t) => {
  const rig = new SinkRig(t, [files(t).kind]);
  rig.crawl.isFetched = false;
  let isWritten = false;
  rig.behind = () => {
    isWritten = true;
  };
  await rig.offer('http://a/1');
  await rig.until(() => isWritten);
  // Its commit may wait for one of the crawl now.
  let turns = 0;
  await rig.until(() => ++turns > 5, 1);
  assert.equal(rig.crawl.unwritten, 1);
  rig.crawl.isFetched = true;
  rig.queue.end(rig.crawl);
  await rig.until(() => rig.crawl.unwritten === 0 || ++turns > 25, 10);
  assert.equal(rig.crawl.unwritten, 0);
});

test('files: one that is made immutable while it is written holds its crawl', async (t) => {
  const { kind, folder } = kindOf(t, 'jsonl:a.jsonl');
  const path = join(folder, 'a.jsonl');
  const sink = await kind.open(crawlWith(before), undefined);
  t.after(() => sink.close());
  await sink.write(itemsFrom(1, { title: 'a' }));
  if (spawnSync('chattr', ['+i', path]).status !== 0) return t.skip('chattr cannot be used here');
  t.after(() => spawnSync('chattr', ['-i', path]));
  await assert.rejects(sink.write(itemsFrom(2, { title: 'b' })), (error) => {
    assert.ok(error instanceof HeldError, String(error));
    assert.match(error.message, /^jsonl: cannot write .*a\.jsonl: EPERM: .*; mend that, or /);
    return true;
  });
  spawnSync('chattr', ['-i', path]);
  await sink.write(itemsFrom(2, { title: 'b' }));
  assert.equal(readFileSync(path, 'utf8'), '{"title":"a"}\n{"title":"b"}\n');
});

test('outputs: one that goes lacks nothing that came when it was leaving', async (t) => {
  let beforeWrite: () => Promise<void> = async () => {};
  class Slow extends ArrayKind {
    override async open(crawl: unknown, mark: unknown): Promise<Sink> {
      const sink = await super.open(crawl, mark);
      return {
        ...sink,
        write: async (records) => {
          await beforeWrite();
          return await sink.write(records);
        },
      };
    }
  }
  const targets = new Map([new Slow('old'), new ArrayKind('new')].map((kind) => [kind.name, kind]));
  const kindOfOutput = ({ name }: { readonly name: string }) =>
    targets.get(name) ?? new ArrayKind(name);
  const rig = new SinkRig(t, [new ArrayKind('base')], { outputs: kindOfOutput });
  const specOf = (name: string) => ({
    spec: { outputs: [{ ...outputOf(`csv:${name}.csv`), name }] },
  });
  Object.assign(rig.crawl, specOf('old'));
  const offer = async (url: string) => {
    await rig.offer(url);
    Object.assign(rig.crawl, { lastCommit: rig.crawl.lastRecord });
  };
  let release = () => {};
  beforeWrite = () => new Promise((resolve) => (release = resolve));
  await offer('http://a/1');
  await rig.settle();
  await offer('http://a/2');
  Object.assign(rig.crawl, specOf('new'));
  const changed = rig.queue.outputsChanged(rig.crawl, namedOutputs(specOf('old').spec.outputs));
  beforeWrite = () => offer('http://a/3');
  release();
  let isOver = false;
  void changed.finally(() => {
    isOver = true;
  });
  await rig.until(() => isOver && rig.crawl.unwritten === 0);
  await changed;
  const count = (name: string) => targets.get(name)?.target?.length;
  assert.deepEqual([count('old'), count('new')], [2, 1]);
  assert.deepEqual(rig.said, []);
});
