/** Crawls that are over soon, or wait for most of their time: what the programs themselves cost. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Program, root } from '../support/cluster.ts';
import { childrenCpuMs, median, pause, say } from './measure.ts';

const bareLoop = fileURLToPath(new URL('bare-loop.js', import.meta.url));
const rounds = 3;
const fewPages = 16;
const pace = { ms: 100, pages: 300 };
const idleMs = 20_000;

/** Whole crawls with `--slaves 1`, and the same by the bare loop, in turns. */
export async function smallCrawls(urls: readonly string[]): Promise<void> {
  say(`small, ${rounds} rounds in turns, medians, CPU s with starts:`);
  for (const url of urls) {
    const [ours, bare] = await inTurns(
      () => crawled(url),
      () => looped(url),
    );
    say(`  ${url}: ${besides(ours, bare)}`);
  }
  const [url = ''] = urls.slice(-1);
  const [few, idle] = await inTurns(() => crawled(url, '--max-pages', String(fewPages)), idlePair);
  const idleShare = idle / idleMs;
  const idleText = `an idle pair takes ${(100 * idleShare).toFixed(2)} % of a core (bar: 0.5)`;
  say(`  ${fewPages} pages: ${seconds(few)} (bar: 0.4); ${idleText}`);
  const flags = ['--delay', String(pace.ms), '--max-pages', String(pace.pages)];
  let tookMs = 0;
  const [polite, politeLoop] = await inTurns(
    async () => {
      const began = performance.now();
      const cpu = await crawled(url, ...flags);
      tookMs = performance.now() - began;
      return cpu;
    },
    () => looped(url, String(pace.ms), String(pace.pages)),
  );
  const per1000 = (ms: number) => (ms / pace.pages).toFixed(1);
  const above = polite - few - tookMs * idleShare;
  say(
    `  ${pace.pages} pages with --delay ${pace.ms}: ${besides(polite, politeLoop)}; for 1,000 pages ` +
      `${per1000(polite)} (bar: 4.0), above start and idle pair ${per1000(above)} (bar: 1.5)`,
  );
}

/** Returns the medians of both, in ms. */
async function inTurns(
  one: () => Promise<number>,
  other: () => Promise<number>,
): Promise<[number, number]> {
  const figures: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    figures[0].push(await one());
    figures[1].push(await other());
  }
  return [median(figures[0]), median(figures[1])];
}

async function crawled(url: string, ...flags: readonly string[]): Promise<number> {
  return await cpuOf(async (cwd) => {
    const args = [url, '--slaves', '1', '--exit-when-done', '--listen', '127.0.0.1:0', ...flags];
    await new Program([join(root, 'master.js'), ...args], { cwd }).exited;
  });
}

async function looped(url: string, ...how: readonly string[]): Promise<number> {
  return await cpuOf(async (cwd) => {
    await new Program([bareLoop, url, ...how], { cwd }).exited;
  });
}

/** CPU ms of a master and a slave without work, in `idleMs`. */
async function idlePair(): Promise<number> {
  const forMs = (ms: number) =>
    cpuOf(async (cwd) => {
      const args = ['--slaves', '1', '--listen', '127.0.0.1:0'];
      const master = new Program([join(root, 'master.js'), ...args], { cwd });
      await master.said(/slave joined/);
      await pause(ms);
      master.signal('SIGTERM');
      await master.exited;
    });
  const [start, whole] = [await forMs(2_000), await forMs(2_000 + idleMs)];
  return Math.max(0, whole - start);
}

/** CPU ms of programs that have ended when this resolves, in a folder of their own. */
async function cpuOf(run: (cwd: string) => Promise<void>): Promise<number> {
  const cwd = mkdtempSync(join(tmpdir(), 'orbweaver-bench-'));
  const before = childrenCpuMs();
  try {
    await run(cwd);
    return childrenCpuMs() - before;
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}

function besides(oursMs: number, bareMs: number): string {
  const ratio = (oursMs / bareMs).toFixed(2);
  return `${seconds(oursMs)} beside ${seconds(bareMs)} of the bare loop, ratio ${ratio}`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} CPU s`;
}
