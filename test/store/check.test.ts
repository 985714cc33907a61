/** Damage that LMDB reads past, and that the check before the start must see. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { checkStore } from '../../master/repair/check.ts';
import { leafCheckWasm } from '../../master/repair/leaf-check-wasm.ts';
import { current, StoreFile, type Tree } from '../../master/repair/pages.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { commitKey, formatKey, formatVersion } from '../../master/store/records.ts';
import type { Change } from '../../master/store/store.ts';
import { assembled } from '../support/assembled.ts';

const pageBytes = 4096;
const headBytes = 24;
/** Has pages of its own. */
const largeBytes = 9000;

type Sound = {
  readonly bytes: Buffer;
  /** Of the current meta page. */
  readonly metaAt: number;
  readonly end: number;
  /** First leaf of the table `robots`, and the record of its tree in the main tree. */
  readonly leafAt: number;
  readonly treeAt: number;
  /** Of a large value. */
  readonly largeAt: number;
  /** The number of its page, in its row. */
  readonly placeAt: number;
  /** A row of the list of free pages: a count, then numbers of pages. */
  readonly freeAt: number;
};

/** A store with a table of several pages, a large value and free pages. */
async function sound(t: TestContext): Promise<Sound & { path: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const store = await openLmdbStore(folder);
  for (let commit = 0; commit < 5; commit++) {
    const rows = Array.from({ length: 600 }, (_, i): Change => {
      const key = Buffer.alloc(4);
      key.writeUInt32BE(i * 5 + commit);
      return { table: 'robots', key, value: Buffer.alloc(20, commit) };
    });
    const large: Change = {
      table: 'items',
      key: Buffer.from('x'),
      value: Buffer.alloc(largeBytes),
    };
    await store.commit([...rows, large]);
  }
  await store.close();
  const path = storeFile(folder);
  const file = new StoreFile(path);
  const [a, b] = file.metas();
  assert.ok(a && b);
  const meta = current(a, b);
  const trees = file.tables({ meta, used: new Uint8Array(meta.end), onDamage: assert.fail });
  file.close();
  // Not the nothing behind it.
  const bytes = Buffer.from(readFileSync(path).subarray(0, meta.end * pageBytes));
  const rowAt = (tree: Tree | undefined, isRow: (at: number) => boolean) => {
    const leafAt = firstLeafAt(bytes, tree);
    const count = bytes.readUInt16LE(leafAt + 20) >> 1;
    const rows = Array.from({ length: count }, (_, i) => nodeAt(bytes, leafAt, i));
    return rows.find(isRow) ?? assert.fail('no such row');
  };
  const valueAt = (at: number) => at + 8 + bytes.readUInt16LE(at + 6);
  const placeAt = valueAt(rowAt(trees.get('items'), () => true));
  const record = rowAt(meta.main, (at) => bytes.toString('latin1', at + 8, at + 14) === 'robots');
  return {
    path,
    bytes,
    metaAt: meta === a ? 0 : pageBytes,
    end: meta.end,
    leafAt: firstLeafAt(bytes, trees.get('robots')),
    treeAt: valueAt(record),
    largeAt: bytes.readUIntLE(placeAt, 6) * pageBytes,
    placeAt,
    freeAt: valueAt(rowAt(meta.free, (at) => bytes.readUIntLE(valueAt(at), 6) > 1)),
  };
}

function nodeAt(bytes: Buffer, pageAt: number, i: number): number {
  return pageAt + headBytes + bytes.readUInt16LE(pageAt + headBytes + i * 2);
}

function firstLeafAt(bytes: Buffer, tree: Tree | undefined): number {
  let at = (tree?.root ?? 0) * pageBytes;
  for (let depth = tree?.depth ?? 0; depth > 1; depth--) {
    at = bytes.readUIntLE(nodeAt(bytes, at, 0), 6) * pageBytes;
  }
  return at;
}

const harms: Readonly<Record<string, readonly [RegExp, (sound: Sound) => Buffer | undefined]>> = {
  'a page that is free and in use': [
    /is both free and in use/,
    ({ bytes, freeAt, leafAt }) => void bytes.writeUIntLE(leafAt / pageBytes, freeAt + 8, 6),
  ],
  'a page that is free twice': [
    /is both free and in use/,
    ({ bytes, freeAt }) => void bytes.copy(bytes, freeAt + 8, freeAt + 16, freeAt + 24),
  ],
  'a free page beyond the end': [
    /is both free and in use/,
    ({ bytes, freeAt, end }) => void bytes.writeUIntLE(end + 1, freeAt + 8, 6),
  ],
  'too many free pages': [
    /list of free pages is invalid/,
    ({ bytes, freeAt }) => void bytes.writeUIntLE(1 << 20, freeAt, 6),
  ],
  'a page with another number': [
    /it has the number of another page/,
    ({ bytes, leafAt }) => void bytes.writeUIntLE(leafAt / pageBytes + 1, leafAt, 6),
  ],
  'a page of a later transaction': [
    /it is of a later transaction/,
    ({ bytes, leafAt }) => void bytes.writeUIntLE(1e6, leafAt + 8, 6),
  ],
  'a page whose bounds overlap': [
    /its bounds are invalid/,
    ({ bytes, leafAt }) => void bytes.writeUInt16LE(0, leafAt + 22),
  ],
  'a table of another depth': [
    /it is of another kind/,
    ({ bytes, treeAt: at }) => void bytes.writeUInt16LE(bytes.readUInt16LE(at + 6) + 1, at + 6),
  ],
  'a table whose keys have another order': [
    /a table has impossible flags/,
    ({ bytes, treeAt: at }) => void bytes.writeUInt16LE(2, at + 4),
  ],
  'a list of tables with several values of a key': [
    /a table has impossible flags/,
    ({ bytes, metaAt }) => void bytes.writeUInt16LE(4, metaAt + 100),
  ],
  'a large value of fewer pages': [
    /it is not a value of \d+ bytes/,
    ({ bytes, largeAt }) => void bytes.writeUInt32LE(1, largeAt + 20),
  ],
  'a large value on a page beyond the end': [
    /a row names an impossible page/,
    ({ bytes, placeAt }) => void bytes.writeUInt16LE(4, placeAt + 6),
  ],
  'the older meta page is gone': [
    /a meta page is damaged/,
    ({ bytes, metaAt }) => void bytes.fill(0, pageBytes - metaAt, 2 * pageBytes - metaAt),
  ],
  'the last page is missing': [
    /it has \d+ bytes instead of/,
    ({ bytes }) => bytes.subarray(0, bytes.length - pageBytes),
  ],
};

test('check: sees each bit of a row that has changed, and rows that stand elsewhere', async (t) => {
  const { path, bytes: whole, leafAt } = await sound(t);
  const upper = leafAt + headBytes + whole.readUInt16LE(leafAt + 22);
  for (let at = upper; at < leafAt + pageBytes; at += 11) {
    const bytes = Buffer.from(whole);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << (at % 8));
    writeFileSync(path, bytes);
    assert.match(checkStore(path) ?? 'nothing', /row|order|value/, `byte ${at - leafAt}`);
  }
  const pages = Array.from({ length: whole.length / pageBytes }, (_, i) => i * pageBytes);
  const isLeaf = (at: number) => whole.readUInt16LE(at + 18) === 2;
  const others = pages.filter((at) => at > leafAt && isLeaf(at) && whole[at + pageBytes - 1] !== 0);
  assert.ok(others.length > 3);
  for (const at of others.slice(0, 10)) {
    const bytes = Buffer.from(whole);
    // Whole rows of another page, whose number stays.
    whole.copy(bytes, at + 16, leafAt + 16, leafAt + pageBytes);
    writeFileSync(path, bytes);
    assert.ok(checkStore(path) !== undefined, `page ${at / pageBytes}`);
  }
});

test('check: leaf-check.wat assembles to leaf-check-wasm.ts', async () => {
  assert.equal(await assembled('master/repair/leaf-check.wat'), leafCheckWasm);
});

test('check: sees what LMDB reads past', async (t) => {
  const { path, ...whole } = await sound(t);
  assert.equal(checkStore(path), undefined);
  for (const [name, [says, harm]] of Object.entries(harms)) {
    const bytes = Buffer.from(whole.bytes);
    writeFileSync(path, harm({ ...whole, bytes }) ?? bytes);
    assert.match(checkStore(path) ?? 'nothing', says, name);
  }
});

test('check: a value that got smaller in the commit that made it has more pages than it needs', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const store = await openLmdbStore(folder);
  const put = (text: string, bytes: number): Change => {
    return { table: 'items', key: Buffer.from(text), value: Buffer.alloc(bytes, text) };
  };
  for (const text of ['a', 'b']) {
    await store.commit([
      put(text, 20_000),
      put(text, 5_000),
      put(`${text}2`, 9_000),
      put(`${text}2`, 10),
    ]);
  }
  const key = Buffer.from('a');
  await store.commit([{ table: 'items', key, value: undefined }, put('c', 9_000)]);
  await store.close();
  assert.equal(checkStore(storeFile(folder)), undefined);
});

test('check: a store of a newer format is not called damaged', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const store = await openLmdbStore(folder);
  // Data that a newer version may have elsewhere, such as the crawl of this commit.
  const journal = { table: 'recent', key: commitKey(1, 1), value: Buffer.alloc(16, 1) } as const;
  const format = (version: number): Change => {
    return { table: 'meta', key: formatKey, value: Buffer.from([version]) };
  };
  await store.commit([journal, format(formatVersion)]);
  assert.equal(checkStore(storeFile(folder)), 'crawl 1 is missing');
  await store.commit([format(formatVersion + 1)]);
  await store.close();
  assert.throws(() => checkStore(storeFile(folder)), /use a newer version of Orbweaver/);
});
