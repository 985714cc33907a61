/** 200 slaves on one master: connections that take tasks and report without fetching. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MasterClient } from '../../shared/client.ts';
import { packValue } from '../../shared/frame.ts';
import type { TaskPush } from '../../shared/protocol.ts';
import { Cluster } from '../support/cluster.ts';
import { assertSame, pagesOf, readPages } from '../support/exact.ts';

const slavesCount = 200;
const pagesCount = 6_000;
const hosts = 40;

test('slaves: 200 at once share the work, none starves', { timeout: 60_000 }, async (t) => {
  const cluster = new Cluster(t);
  const master = await cluster.master(['--exit-when-done']);
  const done = new Map<string, number>();
  const slaves = await Promise.all(
    Array.from({ length: slavesCount }, (_, i) => joinSlave(cluster, `synthetic-${i}`, done)),
  );
  const flags = ['--scope', 'any', '--delay', '0', '--per-host', '10000', '--ignore-robots'];
  await cluster.ask('add', urlOf(0), ...flags);
  assert.deepEqual(await master.exited, { code: 0, signal: null }, master.output);
  await Promise.all(slaves.map((slave) => slave.close()));

  const pages = Array.from({ length: pagesCount }, (_, i) => urlOf(i));
  assertSame('pages', pagesOf(readPages(cluster)), pages);
  const shares = [...done.values()];
  const [least, most] = [Math.min(...shares), Math.max(...shares)];
  assert.equal(done.size, slavesCount, 'every slave had work');
  assert.ok(least > 0, 'every slave reported');
  assert.ok(most / least <= 3, `the least had ${least} tasks, the most ${most}`);
});

/** A page has the next eight pages of a tree as its links, on many hosts. */
function urlOf(page: number): string {
  return `http://host-${page % hosts}.test/${page}`;
}

async function joinSlave(
  cluster: Cluster,
  name: string,
  done: Map<string, number>,
): Promise<MasterClient> {
  const take = async (tasks: readonly TaskPush[]) => {
    for (const { task, lease, url } of tasks) {
      const page = Number(new URL(url).pathname.slice(1));
      const links = Array.from({ length: 8 }, (_, i) => page * 8 + 1 + i)
        .filter((child) => child < pagesCount)
        .map(urlOf);
      await slave.request('task.report', {
        task,
        lease,
        result: packValue({ finalUrl: url, status: 200, type: 'text/html', bytes: 100, ms: 1 }),
        images: packValue([]),
        links: Buffer.from(links.join('\n')),
      });
      done.set(name, (done.get(name) ?? 0) + 1);
    }
  };
  const slave = await cluster.connect({
    role: 'slave',
    name,
    onPush: (push) => {
      // A connection that ended at the end of the crawl has nothing more to say.
      if (push.verb === 'task.push') void take(push.tasks).catch(() => {});
    },
  });
  done.set(name, 0);
  slave.notify('task.credit', { count: 4, slots: 2 });
  return slave;
}
