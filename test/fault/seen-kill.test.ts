/** Kills a process that fills a seen set, again and again, while it flushes and merges runs. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { SeenSet } from '../../master/frontier/filter/seen-set.ts';
import { checkStore } from '../../master/repair/check.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { crawlKey, decodeCrawl } from '../../master/store/records.ts';
import { randomUint32s, randomWords } from '../support/random.ts';
import { keysOfCommit } from '../support/seen-child.ts';

const program = fileURLToPath(new URL('../support/seen-child.js', import.meta.url));
const rounds = Number(process.env['KILL_ROUNDS'] ?? 5);
const keys = 200;
const freezeKeys = 500;
const seed = Number(process.env['SEED'] ?? randomInt(1 << 14));

test(`seen: no key is lost by kill -9, in ${rounds} rounds (seed ${seed})`, {
  timeout: 170_000,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orb-seen-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const random = randomUint32s(seed);
  let merged = 0;
  for (let round = 0; round < rounds; round++) {
    const acknowledged = await killed(folder, 20 + (random() % 30));
    assert.equal(checkStore(storeFile(folder)), undefined, `round ${round}`);
    const store = await openLmdbStore(folder);
    const row = store.get('crawls', crawlKey(1));
    const count = row === undefined ? 0 : decodeCrawl(row).counters.seen;
    assert.ok(count >= acknowledged * keys, 'what is acknowledged is on the disk');
    assert.equal(count % keys, 0, 'a commit is whole');
    const set = new SeenSet({ crawl: 1, store, freezeKeys, saved: 0, visit: () => {} });
    for (let commit = 1; commit <= count / keys; commit++) {
      const words = keysOfCommit(seed, commit, keys);
      for (let at = 0; at < words.length; at += 4) {
        assert.ok(set.has(words, at), `round ${round}: a key of commit ${commit} is lost`);
      }
    }
    const others = randomWords(1_000, 99_999_999);
    for (let at = 0; at < others.length; at += 4) assert.ok(!set.has(others, at));
    merged = count;
    await store.close();
  }
  assert.ok(merged > freezeKeys * 9, `${merged} keys are too few for a merge of merges`);
});

/** Runs the child until so many more commits are on the disk. Returns the number of the last. */
async function killed(folder: string, commits: number): Promise<number> {
  const args = [program, folder, `${seed}`, `${keys}`, `${freezeKeys}`];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit', 'pipe'] });
  let last = 0;
  let said = 0;
  let rest = '';
  child.stdio[3]?.on('data', (text: Buffer) => {
    const lines = (rest + text.toString('latin1')).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      last = Number(line);
      if (++said === commits) child.kill('SIGKILL');
    }
  });
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  assert.equal(signal, 'SIGKILL', `it ended by ${code}`);
  return last;
}
