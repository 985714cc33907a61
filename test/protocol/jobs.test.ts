/** Jobs, and slaves that run them. Source: PROTOCOL.md [C-140]..[C-146], [T-120]..[T-127]. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, test } from 'node:test';
import { connect } from '../../shared/client.ts';
import type { Replies } from '../../shared/replies.ts';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import { Target } from '../support/target.ts';

// A slave that is gone for a second is lost; a live master may take longer.
const target = process.env['MASTER'] ? undefined : await Target.open({ lease: 1 });
after(() => target?.close());
const options = { skip: target === undefined && 'it needs a master of its own' };

const nothing = { kept: Buffer.alloc(0), bytes: 0 };
const exited = { outcome: 'exited', code: 0, ms: 1, stdout: nothing, stderr: nothing };
const program = (path: string, more: Message = {}) => ({ program: path, args: ['x'], ...more });

function own(): Target {
  assert.ok(target);
  return target;
}

/** A slave that runs one program. */
async function slaveOf(path: string, more: Message = {}, name?: string): Promise<RawPeer> {
  const peer = await own().join('slave', name);
  const can = { instance: randomBytes(16), slots: 1, programs: [path], scripts: ['s'], held: [] };
  await peer.must('exec.can', { ...can, ...more });
  return peer;
}

async function add(peer: RawPeer, body: Message): Promise<number> {
  const { jobs } = await peer.must('job.add', body);
  return (jobs as { job: number }[])[0]?.job ?? 0;
}

const get = (peer: RawPeer, job: number) => peer.must('job.get', { job });

test(
  '[C-140] [T-121] [T-124] a job is handed out with its arguments, and its end is kept',
  options,
  async () => {
    const client = await own().join();
    const slave = await slaveOf('/a');
    const { jobs } = await client.must('job.add', program('/a', { timeoutMs: 9, on: 'every' }));
    const [{ job } = { job: 0 }] = jobs as { job: number; slave: string }[];
    const start = await slave.push('exec.start');
    assert.deepEqual(
      [start['job'], start['program'], start['args'], start['timeoutMs']],
      [job, '/a', ['x'], 9],
    );
    const end = { ...exited, code: 3, stdout: { kept: Buffer.from('hi'), bytes: 5 } };
    assert.equal(
      (await slave.must('exec.report', { lease: start['lease'], end }))['state'],
      'done',
    );
    assert.equal(
      (await slave.must('exec.report', { lease: start['lease'], end }))['state'],
      'stale',
    );
    const row = await get(client, job);
    assert.deepEqual([row['state'], row['code'], row['stdout']], ['ended', 3, end.stdout]);
    await Promise.all([client.close(), slave.close()]);
  },
);

test('[C-141] what no slave allows is refused, unless it may wait', options, async () => {
  const client = await own().join();
  const body = program('/none');
  const no = await client.request('job.add', body);
  assert.deepEqual([no['ok'], no['error']], [false, 'E_BAD_REQUEST']);
  const slave = await slaveOf('/b', {}, 'named');
  for (const wrong of [body, { ...program('/b'), on: 'other' }, { args: [], script: 'none' }]) {
    assert.equal((await client.request('job.add', wrong))['error'], 'E_BAD_REQUEST');
  }
  const other = await slaveOf('/c');
  assert.equal((await client.request('job.add', { ...program('/b'), on: 'every' }))['ok'], false);
  const every = { ...program('/b'), on: 'every', waits: true };
  assert.equal((await client.request('job.add', every))['ok'], false);
  const job = await add(client, { ...body, waits: true });
  assert.match(String((await get(client, job))['reason']), /no connected slave allows/);
  await client.must('job.cancel', { job });
  await Promise.all([client.close(), slave.close(), other.close()]);
});

test('[C-142] [T-127] a job of a lost slave is lost, or handed out again', options, async () => {
  const client = await own().join();
  const slave = await slaveOf('/d', { slots: 2 });
  const once = await add(client, program('/d', { watch: true }));
  const twice = await add(client, program('/d', { watch: true, retries: 1 }));
  await slave.push('exec.start');
  await slave.push('exec.start');
  await slave.close();
  assert.equal((await client.push('job.ended'))['job'], once);
  assert.equal((await get(client, once))['outcome'], 'lost');
  const next = await slaveOf('/d');
  const start = await next.push('exec.start');
  assert.equal(start['job'], twice);
  await next.must('exec.report', { lease: start['lease'], end: exited });
  assert.equal((await get(client, twice))['attempts'], 2);
  await Promise.all([client.close(), next.close()]);
});

test('[C-143] [T-123] those who watch a job get its output and its end', options, async () => {
  const [client, other] = [await own().join(), await own().join()];
  const slave = await slaveOf('/e');
  const job = await add(client, program('/e', { watch: true }));
  const { lease } = await slave.push('exec.start');
  assert.deepEqual(
    (await other.must('job.watch', { jobs: [job, 1_000_000] }))['ended'],
    [1_000_000],
  );
  const piece = { stream: 'stderr', at: 4, data: Buffer.from('!') };
  await slave.must('exec.output', { lease, ...piece });
  const stranger = await slaveOf('/x');
  await stranger.must('exec.output', { lease, ...piece, at: 99 });
  await slave.must('exec.report', { lease, end: exited });
  for (const peer of [client, other]) {
    const { verb: _, ...said } = await peer.push('job.output');
    assert.deepEqual(said, { job, ...piece });
    assert.equal((await peer.push('job.ended'))['job'], job);
  }
  assert.equal((await client.push('job.started'))['attempt'], 1);
  await Promise.all([client.close(), other.close(), slave.close(), stranger.close()]);
});

test('[C-144] [C-145] jobs are listed by their numbers, and one shown whole', options, async () => {
  const client = await own().join();
  const jobs = [];
  for (const _ of [1, 2, 3]) jobs.push(await add(client, { ...program('/f'), waits: true }));
  const states = ['waiting'];
  const first = await client.must('job.list', { states, limit: 2 });
  const rest = await client.must('job.list', { states, after: first['next'], limit: 2 });
  const listed = [...(first['jobs'] as Message[]), ...(rest['jobs'] as Message[])];
  assert.deepEqual(
    listed.map(({ job }) => job),
    jobs,
  );
  assert.equal(rest['next'], undefined);
  const row = await get(client, jobs[0] ?? 0);
  assert.deepEqual(
    [row['program'], row['args'], row['on'], row['stdout']],
    ['/f', ['x'], 'any', undefined],
  );
  assert.equal((await client.request('job.get', { job: 1_000_000 }))['error'], 'E_BAD_REQUEST');
  for (const job of jobs) await client.must('job.cancel', { job });
  await client.close();
});

test('[C-146] [T-125] a job is cancelled while it waits, and while it runs', options, async () => {
  const client = await own().join();
  const waiting = await add(client, { ...program('/g'), waits: true });
  assert.equal((await client.must('job.cancel', { job: waiting }))['state'], 'ended');
  assert.equal((await get(client, waiting))['outcome'], 'cancelled');
  const slave = await slaveOf('/g');
  const job = await add(client, program('/g', { retries: 5 }));
  const { lease } = await slave.push('exec.start');
  assert.equal((await client.must('job.cancel', { job }))['state'], 'cancelling');
  assert.deepEqual((await slave.push('exec.cancel'))['lease'], lease);
  await slave.must('exec.report', { lease, end: { ...exited, outcome: 'cancelled' } });
  assert.equal((await client.must('job.cancel', { job }))['state'], 'ended');
  await Promise.all([client.close(), slave.close()]);
});

test(
  '[T-120] a slave gets as many jobs as it has slots, and none that it does not allow',
  options,
  async () => {
    const client = await own().join();
    assert.equal(
      (
        await client.request('exec.can', {
          instance: randomBytes(16),
          slots: 1,
          programs: [],
          scripts: [],
        })
      )['ok'],
      false,
    );
    const slave = await slaveOf('/h');
    const jobs = [await add(client, program('/h')), await add(client, program('/h'))];
    const start = await slave.push('exec.start');
    assert.equal(start['job'], jobs[0]);
    await slave.sync();
    assert.equal((await get(client, jobs[1] ?? 0))['state'], 'waiting');
    await slave.must('exec.report', { lease: start['lease'], end: exited });
    const { lease } = await slave.push('exec.start');
    await slave.must('exec.report', { lease, end: exited });
    await Promise.all([client.close(), slave.close()]);
  },
);

test('[T-122] what a slave refuses ends as refused', options, async () => {
  const client = await own().join();
  const slave = await slaveOf('/i');
  const job = await add(client, program('/i', { retries: 3 }));
  const { lease } = await slave.push('exec.start');
  const end = { ...exited, outcome: 'refused', code: undefined, reason: 'it changed' };
  delete (end as { code?: unknown }).code;
  await slave.must('exec.report', { lease, end });
  const row = await get(client, job);
  assert.deepEqual([row['outcome'], row['reason'], row['attempts']], ['refused', 'it changed', 1]);
  // A slave that leaves gets a job that was on its way.
  const late = await add(client, program('/i'));
  const start = await slave.push('exec.start');
  const can = { instance: randomBytes(16), slots: 0, programs: [], scripts: [] };
  await slave.must('exec.can', can);
  await slave.must('exec.report', { lease: start['lease'], end });
  assert.equal((await get(client, late))['state'], 'waiting');
  const next = await slaveOf('/i');
  assert.equal((await next.push('exec.start'))['job'], late);
  await Promise.all([client.close(), slave.close(), next.close()]);
});

test('[T-126] a process that joins again keeps the jobs that it holds', options, async () => {
  const client = await own().join();
  const instance = randomBytes(16);
  const slave = await slaveOf('/j', { instance, slots: 2 });
  const [one, two] = [await add(client, program('/j')), await add(client, program('/j'))];
  const { lease } = await slave.push('exec.start');
  await slave.push('exec.start');
  await slave.close();
  const back = await own().join('slave');
  const strange = randomBytes(16);
  const can = { instance, slots: 2, programs: ['/j'], scripts: [], held: [lease, strange] };
  assert.deepEqual((await back.must('exec.can', can))['lost'], [strange]);
  // The other had not arrived, so it comes again, and this is its first attempt.
  const again = await back.push('exec.start');
  assert.equal(again['job'], two);
  await back.must('exec.report', { lease, end: exited });
  await back.must('exec.report', { lease: again['lease'], end: exited });
  assert.equal((await get(client, one ?? 0))['outcome'], 'exited');
  assert.equal((await get(client, two ?? 0))['attempts'], 1);
  await Promise.all([client.close(), back.close()]);
});

test('[T-126] a process that joins again gets its jobs by its new session', options, async () => {
  const client = await own().join();
  const instance = randomBytes(16);
  const old = await slaveOf('/twice', { instance });
  const back = await slaveOf('/twice', { instance });
  const { jobs } = await client.must('job.add', program('/twice', { on: 'every' }));
  assert.equal((jobs as unknown[]).length, 1);
  const { lease } = await back.push('exec.start');
  await back.must('exec.report', { lease, end: exited });
  await Promise.all([client.close(), old.close(), back.close()]);
});

test('[C-144] [C-74] lists are cut before they are longer than a frame', options, async () => {
  const args = ['€'.repeat(21_000)];
  const ids: number[] = [];
  // Side by side: each waits for the disk.
  const clients = await Promise.all(Array.from({ length: 20 }, () => own().join()));
  await Promise.all(
    clients.map(async (client) => {
      for (let n = 0; n < 30; n++) {
        ids.push(await add(client, program('/nowhere', { args, waits: true })));
      }
    }),
  );
  // The library refuses longer frames.
  const { host, port, authkey } = own();
  const library = await connect({ host, port, authkey });
  let count = 0;
  for (let after: number | undefined = 0; after !== undefined; ) {
    const page: Replies['job.list'] = await library.request('job.list', {
      states: ['waiting'],
      after,
      limit: 1_000,
    });
    count += page.jobs.length;
    after = page.next;
  }
  assert.equal(count, 600);
  const programs = Array.from({ length: 200 }, (_, n) => `/${'p'.repeat(1_000)}${n}`);
  const slaves = await Promise.all(
    Array.from({ length: 180 }, () => slaveOf('/', { programs, slots: 0 })),
  );
  let listed = 0;
  for (let after: number | undefined = -1; after !== undefined; ) {
    const page: Replies['slave.list'] = await library.request('slave.list', {
      ...(after >= 0 && { after }),
    });
    listed += page.slaves.length;
    after = page.next;
  }
  assert.equal(listed, 180);
  await library.close();
  await Promise.all(
    clients.map(async (client) => {
      for (let job = ids.pop(); job !== undefined; job = ids.pop()) {
        await client.must('job.cancel', { job });
      }
    }),
  );
  await Promise.all([...clients, ...slaves].map((peer) => peer.close()));
});
