/** The addresses in a push where the host of its task may be. Source: PROTOCOL.md [T-41] [C-22]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import type { Message } from '../support/raw-peer.ts';
import { nextTask, pushed, report } from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
afterEach(() => target.clear());
after(() => target.close());

type Opened = { url: string; open?: boolean; private?: string[] };

/** The hosts in the pushes of a crawl of these seeds. */
async function opened(
  t: Parameters<typeof target.slave>[0],
  seeds: readonly string[],
  spec: Message = {},
): Promise<Map<string, Opened>> {
  const found = new Map<string, Opened>();
  const slave = await target.slave(t, seeds.length);
  if (slave === undefined) return found;
  await target.crawl(slave, seeds, spec);
  while (found.size < seeds.length) {
    for (const task of (await pushed(slave)) as unknown as Opened[]) found.set(task.url, task);
  }
  await slave.close();
  return found;
}

test('[T-41] a push has the private blocks of a seed’s host, and none for a link', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = 'http://10.1.2.3:81/';
  const links = ['http://10.1.2.3:81/in', 'http://10.1.2.3/out', 'http://10.1.2.4:81/out'];
  await target.crawl(slave, [seed], { scope: 'any' });
  const first = await nextTask(slave);
  const of = (task: unknown) => (task as Opened).private;
  assert.deepEqual(of(first), ['10.0.0.0/8']);
  await report(slave, first, { links });
  const found = new Map<string, readonly string[] | undefined>();
  for (const _ of links) {
    const task = await nextTask(slave);
    found.set(task.url, of(task));
    await report(slave, task);
  }
  assert.deepEqual(
    links.map((link) => found.get(link)),
    [['10.0.0.0/8'], undefined, undefined],
  );
  await slave.close();
});

test('[C-22] an address in digits is in its block, or stands for itself; localhost is loopback', async (t) => {
  const blocks: [string, string[] | undefined][] = [
    ['http://127.0.0.1:1/', ['127.0.0.0/8', '::1/128']],
    ['http://localhost:1/', ['127.0.0.0/8', '::1/128']],
    ['http://192.168.7.7/', ['192.168.0.0/16']],
    ['http://[fd12::1]/', ['fc00::/7']],
    ['http://[::ffff:a01:203]/', ['10.0.0.0/8']],
    ['http://169.254.169.254/', ['169.254.169.254']],
    ['http://100.100.100.200/', ['100.100.100.200']],
    ['http://[fd00:ec2::254]/', ['fd00:ec2::254']],
    ['http://0.0.0.0/', ['0.0.0.0']],
    ['http://93.184.216.34/', undefined],
    ['https://[2606:4700::1]/', undefined],
  ];
  const found = await opened(
    t,
    blocks.map(([url]) => url),
  );
  if (found.size === 0) return;
  for (const [url, expected] of blocks) {
    assert.deepEqual([found.get(url)?.open, found.get(url)?.private], [true, expected], url);
  }
});

test('[C-22] a name that cannot be resolved opens nothing', async (t) => {
  const seed = target.seed();
  const found = await opened(t, [seed]);
  if (found.size === 0) return;
  assert.deepEqual([found.get(seed)?.open, found.get(seed)?.private], [true, undefined]);
});
