/**
 * Crawls real sites with two slaves and compares what was found with the truth lists of an
 * independent crawler; by itself, with slaves killed, with the master killed. Sites and lists are
 * not part of the project: their folder is SITES, else `shared/sites` beside the project, and its
 * `sites.sh` starts them and prints their URLs.
 *
 *     node dist/test/bench/sites.js [python boost …] [--python-workers 2]
 *
 * With Python workers one slave works beside them: undisturbed, and with one of the workers killed
 * every two seconds.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Cluster, type Program } from '../support/cluster.ts';
import { findPythons } from '../support/python.ts';

const tools =
  process.env['SITES'] ?? fileURLToPath(new URL('../../../../shared/sites', import.meta.url));
const killSlaveEveryMs = 2_000;
const masterKills = 3;
const lastsMs = 8_000;

type Fault = 'none' | 'slaves' | 'master' | 'workers';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { 'python-workers': { type: 'string', default: '0' } },
});
const workerCount = Number(values['python-workers']);

async function crawl(site: string, fault: Fault): Promise<void> {
  const url = tool('sites.sh', 'url', site);
  const truth = truthOf(site, url);
  await using cluster = new Cluster();
  const started = performance.now();
  // Slow enough that several slaves are killed before the end.
  const delay = fault === 'slaves' || fault === 'workers' ? Math.ceil(lastsMs / truth.pages) : 0;
  const flags = ['--exit-when-done', '--per-host', '64', '--images', 'img'];
  flags.push('--delay', String(delay));
  let master = await cluster.master([url, ...flags]);
  const { address } = cluster;
  const start =
    workerCount > 0 ? () => pythonWorker(cluster, address) : () => cluster.slave([], address);
  const slaves = Array.from({ length: workerCount || 2 }, start);
  // As slow as a worker, so that it leaves them something to do.
  if (workerCount > 0) cluster.slave(['--slots', '1']);
  const keep = keepSlaves(slaves, start, fault === 'slaves' || fault === 'workers');
  let killed = 0;
  while (fault === 'master' && killed < masterKills) {
    // At a third, at two thirds, and close to the end.
    const expected = truth.pages * ([0.15, 0.5, 0.85][killed] ?? 1);
    await untilPages(cluster, expected, master);
    await master.kill('SIGKILL');
    killed++;
    master = await cluster.master([url, ...flags], { listen: address });
  }
  const { code } = await master.exited;
  const kills = keep.stop();
  const seconds = (performance.now() - started) / 1000;
  report(site, fault, cluster, truth.folder, { code, seconds, kills: kills + killed });
}

function report(
  site: string,
  fault: Fault,
  cluster: Cluster,
  truth: string,
  run: { code: number | null; seconds: number; kills: number },
): void {
  const pages = join(cluster.folder, 'pages.txt');
  const all = cluster.pages();
  writeFileSync(pages, all.map((page) => `${page}\n`).join(''));
  const images = join(cluster.out, 'default', 'img_src.txt');
  const verdict = JSON.parse(tool('compare.py', truth, pages, images)) as Record<string, number>;
  const wrong = ['pages_missing', 'pages_extra', 'fetched_twice', 'images_missing', 'images_extra'];
  const lines = cluster.lines('img_src.txt');
  const equal =
    wrong.every((name) => verdict[name] === 0) &&
    new Set(lines).size === lines.length &&
    run.code === 0;
  const byPython = cluster.fetched().filter(({ slave }) => slave.startsWith('MainProcess'));
  const share = workerCount > 0 ? `, ${byPython.length} of ${all.length} by Python` : '';
  console.log(
    `${equal ? 'EQUAL' : 'DIFFERENT'} ${site}, ${run.kills} ${fault === 'none' ? 'kills' : `${fault} killed`}: ` +
      `${verdict['pages_ok']}/${verdict['pages_truth']} pages, ` +
      `${verdict['images_ok']}/${verdict['images_truth']} images, ${run.seconds.toFixed(1)} s${share}`,
  );
  if (!equal) {
    console.log(JSON.stringify(verdict));
    process.exitCode = 1;
  }
}

/** Keeps as many running as there are; with `kill`, ends one every 2 seconds. */
function keepSlaves(slaves: Program[], start: () => Program, kill: boolean) {
  let kills = 0;
  let stopped = false;
  const timer = setInterval(() => {
    if (stopped || !kill) return;
    const victim = slaves.shift();
    void victim?.kill('SIGKILL');
    slaves.push(start());
    kills++;
  }, killSlaveEveryMs);
  return {
    stop: () => {
      stopped = true;
      clearInterval(timer);
      return kills;
    },
  };
}

function pythonWorker(cluster: Cluster, address: string): Program {
  const program = findPythons().at(-1)?.path;
  if (program === undefined) throw new Error('there is no python3');
  const where = [...address.split(':'), join(cluster.data, 'authkey')];
  return cluster.run(['examples/python/crawl_worker.py', ...where], { program });
}

async function untilPages(cluster: Cluster, count: number, master: Program): Promise<void> {
  while (cluster.lines('pages.jsonl').length < count && master.isAlive) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function truthOf(site: string, url: string): { folder: string; pages: number } {
  const folder = join(tmpdir(), 'truth', site);
  if (!existsSync(join(folder, 'summary.json'))) tool('truth.py', url, folder);
  const pages = Number(
    execFileSync('wc', ['-l', join(folder, 'pages.txt')], { encoding: 'utf8' }).split(' ')[0],
  );
  return { folder, pages };
}

function tool(name: string, ...args: string[]): string {
  const options = { encoding: 'utf8' as const, stdio: 'pipe' as const };
  return execFileSync(join(tools, name), args, options).trim();
}

if (!existsSync(tools)) {
  console.error(`there are no sites in ${tools}; name their folder with SITES`);
  process.exit(2);
}
tool('sites.sh', 'up');
const sites = positionals.length > 0 ? positionals : ['python', 'boost'];
const faults =
  workerCount > 0 ? (['none', 'workers'] as const) : (['none', 'slaves', 'master'] as const);
for (const site of sites) for (const fault of faults) await crawl(site, fault);
