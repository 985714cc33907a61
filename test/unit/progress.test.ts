import assert from 'node:assert/strict';
import test from 'node:test';
import { Progress } from '../../master/machine/progress.ts';
import type { Logger } from '../../shared/log.ts';
import type { CrawlStatus } from '../../shared/protocol.ts';

const idle: CrawlStatus = {
  name: 'site',
  state: 'running',
  waiting: 10,
  leased: 0,
  unwritten: 0,
  pages: 0,
  images: 0,
  others: 0,
  failed: 0,
  buried: 0,
  unchanged: 0,
  excluded: 0,
  skipped: {},
  errors: {},
  known: 0,
  bytes: 0,
  statuses: {},
  aliases: 0,
  malformed: 0,
};

test('progress: the first line has a rate, or none is told', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const lines: string[] = [];
  const log = { info: (_: object, line: string) => lines.push(line) } as unknown as Logger;
  let crawls = [idle];
  const progress = new Progress({ log, repaints: false });
  const shown = {
    crawls: {
      [Symbol.iterator]: () => crawls.map((one) => ({ isOpen: true, status: () => one })).values(),
    },
    peers: { slaveCount: 1 },
  };
  void progress.start(1_000, shown);
  t.after(() => progress.stop());
  // One of them was there at the start, the other one comes.
  crawls = [
    { ...idle, pages: 100 },
    { ...idle, name: 'late', pages: 100 },
  ];
  t.mock.timers.tick(1_000);
  assert.match(lines[0] ?? '', /^site: 100 pages .* · [1-9][\d.]*\/s/);
  assert.match(lines[1] ?? '', /^late: 100 pages · 0 images · 0 failed · 10 waiting$/);
  t.mock.timers.tick(1_000);
  assert.match(lines[3] ?? '', /^late: .* · 0\.0\/s$/);
});
