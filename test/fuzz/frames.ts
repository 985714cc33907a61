/**
 * Mutated traffic against a real master, over real sockets, beside a well-behaved session:
 *
 *     node dist/test/fuzz/frames.js --frames 1000000 --decoded 10000000 --seed 7
 *
 * `--decoded` mutants more go through decoder and schemas alone, in this process.
 * Prints what was tried, how fast, what memory the master took and how long a ping of the
 * well-behaved session took, ten times on the way. Ends with 1 when the master ends, hangs, or
 * something of that session has changed.
 */
import { parseArgs } from 'node:util';
import { anonymousBytes, count, say } from '../bench/measure.ts';
import { decodeMutants } from './decoding.ts';
import { fuzz } from './fuzz.ts';
import { record } from './recording.ts';

const { values } = parseArgs({
  options: {
    frames: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: `${Date.now() % 1e9}` },
    decoded: { type: 'string', default: '0' },
    lanes: { type: 'string', default: '8' },
  },
});
const frames = Number(values.frames);
say(`seed ${values.seed}`);
const seed = Number(values.seed);
const traffic = await record();
if (Number(values.decoded) > 0) {
  const before = { at: performance.now(), rss: process.memoryUsage.rss() };
  // Warm, so that growth is growth.
  decodeMutants({ frames: 100_000, seed: seed + 1, traffic });
  const warm = process.memoryUsage.rss();
  const decoded = decodeMutants({ frames: Number(values.decoded), seed, traffic });
  const mb = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
  say(
    `decoded ${count(decoded.frames)} frames, ${count(decoded.requests)} of them requests, in ` +
      `${((performance.now() - before.at) / 1000).toFixed(0)} s; slowest ` +
      `${decoded.slowestMs.toFixed(1)} ms; this process ${mb(warm)}, then ` +
      `${mb(process.memoryUsage.rss())}`,
  );
}
let shown = 0;
let lastPings = 0;
const began = performance.now();
const { counts, pings, verbs } = await fuzz({
  frames,
  seed,
  traffic,
  lanes: Number(values.lanes),
  onProgress: ({ native, python, connections }, times, pid) => {
    const tried = native + python;
    if (tried < (frames / 10) * (shown + 1)) return;
    shown = Math.floor((tried / frames) * 10);
    const recent = times.slice(lastPings);
    lastPings = times.length;
    const seconds = (performance.now() - began) / 1000;
    say(
      `${count(tried)} frames (${count(python)} pickles) on ${count(connections)} connections in ` +
        `${seconds.toFixed(0)} s; master ${(anonymousBytes(pid) / 1e6).toFixed(0)} MB anonymous; ` +
        `ping ${figures(recent)}`,
    );
  },
});
const seconds = (performance.now() - began) / 1000;
say(`verbs: ${verbs.join(' ')}`);
say(
  `${count(counts.native + counts.python)} frames in ${seconds.toFixed(0)} s, ` +
    `${count(counts.fatal)} of them fatal, ${count(counts.connections)} connections; ` +
    `ping ${figures(pings)}; no crash, no hang, nothing of the other session changed`,
);

function figures(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number) => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(1);
  return `p50 ${at(0.5)} p99 ${at(0.99)} most ${(sorted.at(-1) ?? 0).toFixed(1)} ms`;
}
