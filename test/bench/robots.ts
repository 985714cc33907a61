/**
 * CPU time to parse 1 MB of robots.txt, uncut, of several kinds, and to ask about a path after it.
 * A crawl reads 500 KiB of a file at most, so it pays half of this.
 * Run: `node dist/test/bench/robots.js`.
 */
import { parseRobots } from '../../master/frontier/robots/parser.ts';
import { cpuMsSince } from '../support/cpu-time.ts';

const kinds: Record<string, (at: number) => string> = {
  paths: (at) => `Disallow: /section-${at % 97}/page-${at}.html`,
  short: (at) => `Disallow:/${at.toString(36)}`,
  wildcards: (at) => `Disallow: /*/x${at}*.gif$`,
  encoded: (at) => `Disallow: /caf%c3%a9/%66oo${at}?u=http://a/é`,
  queries: (at) => `Allow: /a?b=/${at}`,
  agents: (at) => `User-agent: bot${at}\nDisallow: /`,
  comments: (at) => `# ${at} nothing here`,
};

for (const [kind, line] of Object.entries(kinds)) {
  const lines = ['User-agent: *'];
  for (let at = 0, size = 0; size < 1e6; at++) {
    const next = line(at);
    lines.push(next);
    size += next.length + 1;
  }
  const file = Buffer.from(lines.join('\n')).subarray(0, 1e6);
  const parse = () => parseRobots(file, 'orbweaver', Number.POSITIVE_INFINITY);
  const times = Array.from({ length: 9 }, () => timeMs(parse));
  const robots = parse();
  const askMs = timeMs(() => {
    for (let at = 0; at < 200; at++) robots.allows(`/section-5/page-102.html?x=${at}`);
  });
  const first = times[0] ?? 0;
  const median = times.sort((a, b) => a - b)[4] ?? 0;
  console.log(
    `${kind.padEnd(10)} first ${first.toFixed(1)} ms, median ${median.toFixed(1)} ms, ` +
      `a path ${(askMs * 5).toFixed(1)} µs`,
  );
}

/** CPU time, so that other work on the machine does not count. */
function timeMs(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  return cpuMsSince(before);
}
