/**
 * Mutated traffic against a real master, over real sockets, beside a well-behaved session:
 *
 *     node dist/test/fuzz/frames.js --frames 10000000 --seed 7
 *
 * Prints what was tried, how fast, what memory the master took and how long a ping of the
 * well-behaved session took, ten times on the way. Ends with 1 when the master ends, hangs, or
 * something of that session has changed.
 */
import { parseArgs } from 'node:util';
import { anonymousBytes, count, say } from '../bench/measure.ts';
import { fuzz } from './fuzz.ts';

const { values } = parseArgs({
  options: {
    frames: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: `${Date.now() % 1e9}` },
    lanes: { type: 'string', default: '8' },
  },
});
const frames = Number(values.frames);
say(`seed ${values.seed}`);
let shown = 0;
let lastPings = 0;
const began = performance.now();
const { counts, pings, verbs } = await fuzz({
  frames,
  seed: Number(values.seed),
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
