/**
 * A master under too much work: how long a ping of somebody else takes (the delay of its
 * event loop, the sender's and the machine's included), and how far its memory goes.
 */
import { mkdirSync, rmdirSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { connect, parseAddress } from '../../shared/client.ts';
import { packValue } from '../../shared/frame.ts';
import type { TaskPush } from '../../shared/protocol.ts';
import { Cluster, type Program } from '../support/cluster.ts';
import { memoryPeak } from '../support/memory.ts';
import { anonymousBytes, count, pause, say } from './measure.ts';
import { at, hosts, pingsDuring, synthetic, syntheticMaster } from './synthetic.ts';
import type { Load, Measured } from './synthetic-slave.ts';

const linksOfLongPage = 200_000;
const slowFiles = new URL('../support/slow-files.js', import.meta.url).href;

export async function overload(): Promise<void> {
  await atFourFifths();
  await thousandSlaves();
  await longPage();
  await slowSink();
  await slowDisk();
}

async function atFourFifths(): Promise<void> {
  for (const [name, known] of [
    ['9 of 10 known', 0.9],
    ['all new', 0],
  ] as const) {
    const base = { sessions: 4, credit: 16, links: 100, known, hosts, warmUpSeconds: 3 };
    const most = await felt({ ...base, seconds: 8 });
    const limit = most.measured.reports / most.measured.seconds;
    const some = await felt({ ...base, seconds: 15, reportsPerSecond: limit * 0.8 });
    const rate = (some.measured.links / some.measured.seconds) as number;
    say(
      `overload, reports of 100 links, ${name}: at the limit of ${count(limit * 100)} links/s ` +
        `ping ${figures(most.pings)}; at ${count(rate)} ping ${figures(some.pings)} (bar: p99 100)`,
    );
  }
}

async function thousandSlaves(): Promise<void> {
  const load = { sessions: 1_000, credit: 4, links: 100, known: 0.9, hosts, warmUpSeconds: 3 };
  const { measured, pings, grownBytes, bytes } = await felt({ ...load, seconds: 10 });
  say(
    `overload, 1,000 slaves: ${count(measured.links / measured.seconds)} links/s, ` +
      `ping ${figures(pings)}, memory ${mb(bytes)} (+${mb(grownBytes)})`,
  );
}

/** Under load, in a cluster of its own: what others feel. */
async function felt(
  load: Load,
  options: {
    flags?: string[];
    env?: NodeJS.ProcessEnv;
    onStart?: (master: Program) => void;
  } = {},
) {
  await using cluster = new Cluster();
  const master = await syntheticMaster(cluster, options.flags ?? [], options.env ?? {});
  options.onStart?.(master);
  await using memory = memoryPeak(master.pid);
  let measured: Measured | undefined;
  const loading = synthetic(cluster, load).then((result) => {
    measured = result;
  });
  await pause((load.warmUpSeconds ?? 0) * 1000);
  const pings = await pingsDuring(cluster, loading);
  if (measured === undefined) throw new Error('nothing was measured');
  const grownBytes = memory.grownBytes();
  return { measured, pings, grownBytes, bytes: anonymousBytes(master.pid) };
}

async function longPage(): Promise<void> {
  await using cluster = new Cluster();
  const master = await syntheticMaster(cluster);
  await using memory = memoryPeak(master.pid);
  const { host, port } = parseAddress(cluster.address);
  let give: (task: TaskPush) => void = () => {};
  const first = new Promise<TaskPush>((resolve) => {
    give = resolve;
  });
  const slave = await connect({
    host,
    port,
    authkey: cluster.authkey,
    role: 'slave',
    onPush: (push) => {
      if (push.verb === 'task.push' && push.tasks[0]) give(push.tasks[0]);
    },
  });
  slave.notify('task.credit', { count: 1 });
  const { task, lease, url } = await first;
  const result = { finalUrl: url, status: 200, type: 'text/html', bytes: 1, ms: 1 };
  const urls = Array.from({ length: linksOfLongPage }, (_, n) => {
    return `http://host-${n % hosts}.invalid/a/path/as/long/as/real/ones/are/page-${n}.html`;
  });
  const links = Buffer.from(urls.join('\n'), 'latin1');
  const began = performance.now();
  const packed = { result: packValue(result), images: packValue([]) };
  const report = slave.request('task.report', { task, lease, ...packed, links });
  const pings = await pingsDuring(cluster, report);
  const took = performance.now() - began;
  const { known } = await cluster.status();
  say(
    `overload, one page with ${count(linksOfLongPage)} links (${mb(links.length)}): acknowledged ` +
      `in ${(took / 1000).toFixed(1)} s, ${count(known)} URLs known, ping ${figures(pings)}, ` +
      `memory +${mb(memory.grownBytes())}`,
  );
  await slave.close();
}

/** Files that take 3 s to sync: results wait, then nothing is leased. */
async function slowSink(): Promise<void> {
  const load = { sessions: 4, credit: 16, links: 10, known: 0.5, hosts, warmUpSeconds: 3 };
  const limited = ['--memory-limit', '256'];
  const env = { NODE_OPTIONS: `--import ${slowFiles}`, SLOW_SYNC_MS: '3000' };
  const images = 200;
  for (const [name, more] of [
    ['fast', {}],
    ['slow', env],
  ] as const) {
    const run = await felt({ ...load, images, seconds: 20 }, { flags: limited, env: more });
    say(
      `overload, a ${name} sink, --memory-limit 256: ` +
        `${count(run.measured.reports / run.measured.seconds)} pages/s, ` +
        `ping ${figures(run.pings)}, memory ${mb(run.bytes)} (+${mb(run.grownBytes)})`,
    );
  }
}

/** 100 writes and 2 MB a second, by the kernel's block I/O controller (root, cgroup v1). */
async function slowDisk(): Promise<void> {
  const group = `/sys/fs/cgroup/blkio/orbweaver-bench-${process.pid}`;
  const { dev } = statSync(tmpdir());
  const disk = `${(dev >> 8) & 0xfff}:${dev & 0xff}`;
  try {
    mkdirSync(group);
    writeFileSync(`${group}/blkio.throttle.write_iops_device`, `${disk} 100`);
    writeFileSync(`${group}/blkio.throttle.write_bps_device`, `${disk} ${2 << 20}`);
  } catch (error) {
    say(`overload, a slow disk: skipped, ${error instanceof Error ? error.message : error}`);
    return;
  }
  const load = { sessions: 4, credit: 16, links: 100, known: 0.5, hosts, warmUpSeconds: 3 };
  const onStart = ({ pid }: Program) => writeFileSync(`${group}/cgroup.procs`, String(pid));
  const run = await felt({ ...load, seconds: 20 }, { flags: ['--memory-limit', '256'], onStart });
  say(
    `overload, a slow disk, --memory-limit 256: ${count(run.measured.links / run.measured.seconds)} ` +
      `links/s, ping ${figures(run.pings)}, memory ${mb(run.bytes)} (+${mb(run.grownBytes)})`,
  );
  rmdirSync(group);
}

function figures(pings: readonly number[]): string {
  const ms = (share: number) => at(pings, share).toFixed(1);
  return `p50 ${ms(0.5)} p99 ${ms(0.99)} most ${ms(1)} ms`;
}

function mb(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}
