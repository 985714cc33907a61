/** The verbs without a wire: a frontier, and a peer that is no session. */
import assert from 'node:assert/strict';
import type { Mock } from 'node:test';
import { UploadRoom } from '../../master/archive/uploads.ts';
import type { Failures } from '../../master/inspect/failures.ts';
import type { Recount } from '../../master/inspect/recount.ts';
import type { UrlAnswers } from '../../master/inspect/url-answers.ts';
import type { Jobs } from '../../master/jobs/jobs.ts';
import type { UserQueues } from '../../master/queues/queues.ts';
import type { Backups } from '../../master/repair/backup.ts';
import { perform } from '../../master/wire/commands/perform.ts';
import type { Credit, Peer } from '../../master/wire/peer.ts';
import type { CommandPorts } from '../../master/wire/services.ts';
import { SlaveRecord } from '../../master/wire/slave-record.ts';
import { encodeValue } from '../../shared/frame.ts';
import type { Request } from '../../shared/requests.ts';
import { collect } from '../support/collect.ts';
import { FakeSlave } from '../support/fake-slave.ts';
import { reportOf, specOf, type World, worldTest } from '../support/world.ts';

const noDisk = { room: () => Promise.resolve(), refused: () => {} };

class FakePeer extends FakeSlave implements Peer {
  readonly role: Peer['role'];
  readonly peer = '192.0.2.1:5';
  readonly proxies = [];
  readonly id = 1;
  readonly record = new SlaveRecord();
  readonly ended: number[] = [];
  readonly uploads = new UploadRoom('/nonexistent', noDisk).session();
  waitingGets = 0;
  readonly hasRules = true;
  readonly unreadBytes = 0;

  constructor(role: Peer['role']) {
    super(role, 0);
    this.role = role;
  }

  setCredit({ count, slots, trials, takes }: Credit): void {
    Object.assign(this, { credit: count, slots, trials, takes });
  }

  setProxies(): void {}

  setAbilities(): void {}

  endCrawl(crawl: number): void {
    this.ended.push(crawl);
  }

  send(): void {}

  drain(): void {}
}

type Said = Parameters<typeof perform>[2];

function portsOf({ frontier, rooms }: World, sessions: readonly Peer[]): CommandPorts {
  // No verb below uses them.
  const [queues, backups, failures] = [{} as UserQueues, {} as Backups, {} as Failures];
  const [manager, master] = [{ builtBytesMax: 0 }, { isDraining: false }];
  const rates = { of: () => undefined };
  const { hosts, reports: images } = rooms;
  return {
    frontier,
    queues,
    jobs: { status: undefined } as Jobs,
    backups,
    failures,
    urls: {} as UrlAnswers,
    recount: {} as Recount,
    hosts,
    images,
    rates,
    disk: { shortage: undefined },
    schedules: { of: () => ({}) },
    manager,
    master,
    peers: { sessions },
  };
}

worldTest('verbs need no session: a crawl from its seed to its end', async (world) => {
  const [slave, client] = [new FakePeer('slave'), new FakePeer('client')];
  const ports = portsOf(world, [slave, client]);
  const ask = async (peer: Peer, request: Record<string, unknown>) =>
    await world.done((async () => await perform(ports, peer, request as Request as Said))());
  const url = 'http://a.example/';
  const { delayMs, perHost, ignoreRobots } = specOf({});
  const spec = { delayMs, perHost, ignoreRobots };
  const added = { verb: 'crawl.add', crawl: 'one', seeds: [url], spec, priority: 0 };
  assert.deepEqual(await ask(client, added), { admitted: 1, known: 0, refused: [] });
  world.frontier.give(slave);
  await ask(slave, { verb: 'task.credit', count: 2 });
  world.frontier.give(slave);
  await world.settle();
  const [lease] = slave.pushed;
  assert.ok(lease);
  const { task, name, ...push } = { ...world.frontier.crawls.pushOf(lease), name: lease.name };
  assert.deepEqual([push.url, push.depth, task], [url, 0, name]);
  const listed = { name: 'slave', role: 'slave', leases: 1 };
  const { sessions } = (await ask(client, { verb: 'crawl.list' })) as { sessions: object[] };
  assert.deepEqual(sessions[0], listed);
  const stranger = { verb: 'task.release', task, lease: lease.id };
  assert.deepEqual(await ask(new FakePeer('slave'), stranger), { state: 'stale' });
  await assert.rejects(() => ask(client, stranger), { code: 'E_BAD_REQUEST' });
  const error = { kind: 'dns', message: 'no such host' };
  const failed = { ...stranger, error, final: true };
  assert.deepEqual(await ask(slave, failed), { state: 'done' });
  const buried = await ask(client, { verb: 'crawl.buried', crawl: 'one', limit: 10 });
  assert.deepEqual(buried, { urls: [{ url, ...error, attempts: 1 }] });
  assert.deepEqual(world.finished, ['one']);
});

worldTest('what was read of a report is garbage once a commit has its links', async (world) => {
  const slave = new FakePeer('slave');
  const ports = portsOf(world, [slave]);
  await world.seed('http://a.example/');
  slave.credit = 1;
  world.frontier.give(slave);
  await world.settle();
  const [lease] = slave.pushed;
  assert.ok(lease);
  let commits = 0;
  world.store.commit = () => {
    commits++;
    return new Promise(() => {});
  };
  const report = () => {
    const { result, images } = reportOf('http://a.example/');
    const links = Buffer.from(
      Array.from({ length: 9 }, (_, i) => `http://a.example/${i}`).join('\n'),
    );
    const read = new Uint8Array(1 << 16);
    read.set(links);
    const request = {
      verb: 'task.report',
      task: lease.name,
      lease: lease.id,
      result: encodeValue(result),
      images: encodeValue(images),
      links: read.subarray(0, links.length),
    };
    const answered = perform(ports, slave, request as Request as Said);
    return { answered, read: new WeakRef(read.buffer) };
  };
  const { answered, read } = report();
  assert.ok(read.deref());
  await world.settle();
  // Its record of a call has the stack, which keeps what the functions on it were called with.
  (performance.now as Mock<typeof performance.now>).mock.resetCalls();
  collect();
  assert.equal(commits, 1, 'it is on its way to the disk');
  assert.ok(read.deref() === undefined);
  assert.ok(answered instanceof Promise, 'and not answered');
});
