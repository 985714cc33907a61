/** A slave's messages about proxies and shared folders, and about its credit while it works. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { RawPeer } from '../support/raw-peer.ts';
import { Target } from '../support/target.ts';

let target: Target;

before(async () => {
  target = await Target.open();
});
after(() => target.close());

type Trouble = { name: string; reason: string; forMs: number };

async function shownOf(peer: RawPeer, slave: string): Promise<Trouble[] | undefined> {
  const { sessions } = (await peer.must('crawl.list')) as unknown as {
    sessions: { name: string; proxies?: Trouble[] }[];
  };
  const session = sessions.find(({ name }) => name === slave);
  assert.ok(session, 'the session is there');
  return session.proxies;
}

test('[T-45] what does not work is shown until it works or the session ends', async () => {
  const name = target.name();
  const slave = await target.join('slave', name);
  const client = await target.join('client');
  assert.equal(await shownOf(client, name), undefined);
  const dead = { name: 'http://proxy.example:8080', reason: 'dead', forMs: 60_000 };
  const back = { name: 'socks5://[::1]:1080', reason: 'wants other credentials', forMs: 0 };
  await slave.must('proxy.state', { proxies: [dead, back] });
  const [first, second] = (await shownOf(client, name)) ?? [];
  assert.deepEqual({ ...first, forMs: 0 }, { ...dead, forMs: 0 });
  assert.ok(first && first.forMs <= 60_000 && first.forMs > 0);
  assert.deepEqual(second, back);
  // The last word counts.
  await slave.must('proxy.state', { proxies: [back] });
  assert.deepEqual(await shownOf(client, name), [back]);
  await slave.must('proxy.state', { proxies: [] });
  assert.equal(await shownOf(client, name), undefined);
  await slave.must('proxy.state', { proxies: [dead] });
  await slave.close();
  const again = await target.join('slave', name);
  assert.equal(await shownOf(client, name), undefined);
  await again.close();
  await client.close();
});

test('[T-115] folders that a slave cannot write are shown until it can or the session ends', async () => {
  const name = target.name();
  const slave = await target.join('slave', name);
  const client = await target.join('client');
  const shown = async () => {
    const { sessions } = (await client.must('crawl.list')) as unknown as {
      sessions: { name: string; folders?: unknown }[];
    };
    return sessions.find((session) => session.name === name)?.folders;
  };
  const full = { folder: '/mnt/images', reason: 'ENOSPC: no space left on device' };
  await slave.must('images.state', { folders: [full] });
  assert.deepEqual(await shown(), [full]);
  await slave.must('images.state', { folders: [] });
  assert.equal(await shown(), undefined);
  await slave.must('images.state', { folders: [full] });
  await slave.close();
  const again = await target.join('slave', name);
  assert.equal(await shown(), undefined);
  await again.close();
  await client.close();
});

test('[T-46] a credit that grows is used at once, and one that shrinks takes nothing away', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  await target.crawl(
    slave,
    Array.from({ length: 300 }, () => target.seed()),
  );
  let held = 0;
  for (const count of [32, 33, 250, 40, 260]) {
    // Of hosts that have not answered it gets a quarter of its slots. [T-52]
    await slave.must('task.credit', { count, slots: 4 * count });
    while (held < count) held += ((await slave.push('task.push'))['tasks'] as unknown[]).length;
    assert.ok(held <= Math.max(count, 250), `${held} of ${count}`);
  }
  assert.equal(held, 260);
  await slave.close();
  await target.clear();
});
