/** Limits of control groups, of both versions, in folders like those of Linux. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { groupLimits, memoryWarnings } from '../../master/machine/control-group.ts';

const none = { cores: Number.POSITIVE_INFINITY, memoryBytes: Number.POSITIVE_INFINITY };

/** `files`: below /sys/fs/cgroup. */
function limitsOf(t: TestContext, groups: string, files: Record<string, string>) {
  const root = mkdtempSync(join(tmpdir(), 'orb-groups-'));
  t.after(() => rmSync(root, { recursive: true }));
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), `${text}\n`);
  };
  write('proc/self/cgroup', groups);
  for (const [path, text] of Object.entries(files)) write(`sys/fs/cgroup/${path}`, text);
  return groupLimits(root);
}

test('control group: version 2, the least of a group and those above it', (t) => {
  const groups = '0::/system.slice/crawl.service';
  const service = 'system.slice/crawl.service';
  const own = { [`${service}/cpu.max`]: '150000 100000', [`${service}/memory.max`]: '536870912' };
  assert.deepEqual(limitsOf(t, groups, own), { cores: 1.5, memoryBytes: 2 ** 29 });
  const above = { 'system.slice/memory.max': '268435456', 'system.slice/cpu.max': 'max 100000' };
  assert.deepEqual(limitsOf(t, groups, { ...own, ...above }), { cores: 1.5, memoryBytes: 2 ** 28 });
  const max = { [`${service}/cpu.max`]: 'max 100000', [`${service}/memory.max`]: 'max' };
  assert.deepEqual(limitsOf(t, groups, max), none);
});

test('control group: a container sees its own group as the root', (t) => {
  const files = { 'cpu.max': '50000 100000', 'memory.max': '1073741824' };
  const limits = { cores: 0.5, memoryBytes: 2 ** 30 };
  assert.deepEqual(limitsOf(t, '0::/', files), limits);
  assert.deepEqual(limitsOf(t, '0::/docker/0123', files), limits);
});

test('control group: version 1, whose controllers have folders of their own', (t) => {
  const groups = '4:memory:/crawl\n3:cpu,cpuacct:/crawl\n1:name=systemd:/\n0::/';
  const quota = (cpu: string, us: string) => ({
    [`${cpu}/crawl/cpu.cfs_quota_us`]: us,
    [`${cpu}/crawl/cpu.cfs_period_us`]: '100000',
    'memory/crawl/memory.limit_in_bytes': '536870912',
  });
  const limits = { cores: 2, memoryBytes: 2 ** 29 };
  assert.deepEqual(limitsOf(t, groups, quota('cpu', '200000')), limits);
  assert.deepEqual(limitsOf(t, groups, quota('cpu,cpuacct', '200000')), limits);
  assert.equal(limitsOf(t, groups, quota('cpu', '-1')).cores, none.cores);
});

test('control group: a memory limit beyond it is warned of', () => {
  assert.deepEqual(memoryWarnings(2 ** 30, 2 ** 30), []);
  const [line = ''] = memoryWarnings(2 ** 30, 2 ** 29);
  assert.match(line, /^--memory-limit is 1,024 MiB, but the master can have 512 MiB here/);
});

test('control group: without any there is no limit', (t) => {
  assert.deepEqual(limitsOf(t, '', {}), none);
  assert.deepEqual(groupLimits('/none'), none);
});
