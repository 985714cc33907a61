/**
 * Kills a stored crawl at boundaries between its writes, one child per point, and resumes it:
 * acknowledged pages are not fetched again, the ledger is right at the crash, and in the end files,
 * counters and store are exact.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkStore } from '../../master/repair/check.ts';
import { storeFile } from '../../master/store/lmdb.ts';
import { randomOf } from '../../selftest/site.ts';
import { wrongWithLedgers } from './ledger.ts';
import { ModelSite, runStoredCrawl, wrongWithEnd } from './stored-crawl.ts';

const program = fileURLToPath(new URL('./crash-child.js', import.meta.url));
const pagesCount = 60;
/** Points of one run of the child; another site comes next. */
const pointsPerSite = 50;
/** Children at once: most of their time is waiting. */
const atOnce = 5;

type CrashReport = { readonly points: number; readonly violations: readonly string[] };

/** Tries this number of points, and calls `onPoint` for each. `rotateEvery`: reports between two
 *  rotations of the files; 0: none. */
export async function crashAtPoints(
  points: number,
  seed: number,
  rotateEvery = 0,
  onPoint: (done: number, violations: readonly string[]) => void = () => {},
): Promise<CrashReport> {
  const random = randomOf(seed);
  const violations: string[] = [];
  for (let done = 0; done < points; ) {
    const site = Math.floor(random() * 2 ** 31);
    const { boundaries } = await crashAt(site, 0, rotateEvery);
    // Spread evenly over the run, with some randomness.
    const step = boundaries / Math.min(pointsPerSite, points - done);
    const queue: number[] = [];
    for (let at = 1 + random() * step; at <= boundaries; at += step) queue.push(Math.floor(at));
    queue.length = Math.min(queue.length, points - done);
    const work = async () => {
      for (let point = queue.shift(); point !== undefined; point = queue.shift()) {
        const { wrong, isReached } = await crashAt(site, point, rotateEvery);
        // Runs differ a little: it may have ended before.
        if (!isReached) continue;
        violations.push(...wrong.map((what) => `site ${site}, point ${point}: ${what}`));
        onPoint(++done, violations);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
  }
  return { points, violations };
}

/** One run that dies at a boundary (0: at none), and one that goes on from there. */
async function crashAt(
  seed: number,
  point: number,
  rotateEvery = 0,
): Promise<{ boundaries: number; isReached: boolean; wrong: string[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-crash-'));
  try {
    const { said, signal } = await runChild(folder, seed, point, rotateEvery);
    const boundaries = Number(/^boundaries (\d+)$/m.exec(said)?.[1] ?? 0);
    const isReached = boundaries === 0;
    if (point === 0 || !isReached) return { boundaries, isReached, wrong: [] };
    const wrong: string[] = [];
    if (signal !== 'SIGKILL') wrong.push(`it ended by ${signal}`);
    const damage = checkStore(storeFile(join(folder, 'data/store')));
    if (damage !== undefined) return { boundaries, isReached, wrong: [`damaged: ${damage}`] };
    wrong.push(...(await wrongWithLedgers(folder)));
    const acknowledged = new Set(said.split('\n'));
    const site = new ModelSite(seed, pagesCount);
    const onLease = (url: string) => {
      if (acknowledged.has(url)) wrong.push(`${url} was acknowledged and is asked for again`);
    };
    await runStoredCrawl({ folder, site, onLease });
    wrong.push(...(await wrongWithEnd(folder, site)), ...(await wrongWithLedgers(folder)));
    return { boundaries, isReached, wrong };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A crawl that was killed when this part of its writes was done. */
export async function killedCrawl(folder: string, seed: number, part: number): Promise<void> {
  const { boundaries } = await crashAt(seed, 0);
  await runChild(folder, seed, Math.ceil(boundaries * part));
}

async function runChild(folder: string, seed: number, point: number, rotateEvery = 0) {
  const args = [program, folder, `${seed}`, `${pagesCount}`, `${point}`, `${rotateEvery}`];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit', 'pipe'] });
  let said = '';
  child.stdio[3]?.on('data', (text: Buffer) => {
    said += text.toString('latin1');
  });
  const [, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return { said, signal };
}
