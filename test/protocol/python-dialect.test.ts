/** The Python dialect, clause by clause, by a client made by hand. Real Pythons: python-manager. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { PyDict, PyTuple, type PyValue } from '../../master/python/pickle/values.ts';
import { writePickle } from '../../master/python/pickle/writer.ts';
import { memoryPeak } from '../support/memory.ts';
import { bytesOf, recorded, uint32 } from '../support/pickle-bytes.ts';
import { PythonPeer } from '../support/python-peer.ts';
import { randomUint32s } from '../support/random.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

type Item = { readonly id: number; readonly value: Buffer };

const name = () => target.name().replaceAll('-', '_');
const methods = ['empty', 'full', 'get', 'get_nowait', 'put', 'put_nowait', 'qsize'];

test('[Y-1] a server function is one request, then the master closes', async () => {
  const queue = name();
  const [ident, exposed] = await PythonPeer.create(target, queue);
  assert.equal(ident, queue);
  assert.deepEqual([...(exposed as PyTuple).items].sort(), methods);
  assert.equal((await PythonPeer.once(target, 'dummy')).value, null);
  assert.ok(Number((await PythonPeer.once(target, 'number_of_objects')).value) > 0);
  assert.equal(typeof (await PythonPeer.once(target, 'debug_info')).value, 'string');
  const token = Buffer.from(recorded.token4, 'hex').toString('latin1').replace('7f', '_f');
  const peer = await PythonPeer.dial(target);
  const { value } = await peer.send(Buffer.from(token, 'latin1'));
  assert.deepEqual([...(value as PyTuple).items].sort(), methods);
  assert.equal(await peer.raw.ended, 'fin');
  await peer.raw.close();
});

test('[Y-2] an unknown function, object or method is #TRACEBACK with the names there are', async () => {
  for (const method of ['shutdown', '__init__', 'constructor']) {
    const { kind, text } = await PythonPeer.once(target, method);
    assert.equal(kind, '#TRACEBACK');
    assert.match(text, /AssertionError(.|\n)*accept_connection, create, debug_info/);
  }
  const peer = await PythonPeer.attach(target);
  const queue = name();
  for (const method of ['close', '__reduce__', 'constructor', '#GETVALUE']) {
    const { kind, text } = await peer.request(queue, method);
    assert.equal(kind, '#TRACEBACK');
    assert.match(text, /AttributeError(.|\n)*empty, full, get, get_nowait, put, put_nowait, qsize/);
  }
  assert.match((await peer.request('no such', 'get')).text, /KeyError/);
  const noRequest = writePickle(new PyTuple([queue, 'put', null, null]));
  assert.match((await peer.send(noRequest)).text, /ValueError/);
  assert.equal(await peer.call(queue, 'qsize'), 0);
  peer.kill();
});

test('[Y-1] a create with more than a name is refused, and says what to do', async () => {
  const queue = name();
  const { kind, text } = await PythonPeer.once(target, 'create', [queue, 5]);
  assert.equal(kind, '#TRACEBACK');
  assert.match(
    text,
    /TypeError: \w+\(\) takes no arguments: .*registered name.*--queues name:length/,
  );
  const peer = await PythonPeer.dial(target);
  const named = await peer.request(null, 'create', [queue], [['maxsize', 5]]);
  assert.match(named.text, /takes no arguments/);
  await peer.raw.close();
});

test('[Y-3] a reply is of protocol 2 for a request of protocol 2, else of 3', async () => {
  for (const [protocol, expected] of [
    [2, 2],
    [3, 3],
  ] as const) {
    const peer = await PythonPeer.dial(target);
    const request = new PyTuple([null, 'dummy', new PyTuple([]), new PyDict()]);
    peer.raw.frame(writePickle(request, { protocol }));
    assert.equal((await peer.raw.nextFrame())[1], expected);
    peer.kill();
  }
});

test('[Y-4] calls take the arguments of queue.Queue, and raise what it raises', async () => {
  const peer = await PythonPeer.attach(target);
  const queue = name();
  assert.match((await peer.request(queue, 'get', [false])).text, /queue\nEmpty/);
  assert.match((await peer.request(queue, 'get', [], [['timeout', 0.05]])).text, /Empty/);
  assert.match((await peer.request(queue, 'get_nowait')).text, /Empty/);
  assert.match((await peer.request(queue, 'get', [true, -1])).text, /ValueError/);
  assert.match((await peer.request(queue, 'get', [true, 'x'])).text, /TypeError/);
  assert.match((await peer.request(queue, 'get', [], [['wait', 1]])).text, /TypeError/);
  assert.match((await peer.request(queue, 'get', ['a key'])).text, /TypeError.*no keys/s);
  assert.match((await peer.request(queue, 'put')).text, /TypeError/);
  await peer.request(queue, 'put', [], [['obj', 7]]);
  assert.deepEqual([await peer.call(queue, 'empty'), await peer.call(queue, 'qsize')], [false, 1]);
  assert.equal(await peer.call(queue, 'get', true, 5), 7);
  assert.deepEqual(
    [await peer.call(queue, 'empty'), await peer.call(queue, 'full')],
    [true, false],
  );
  peer.kill();
});

test('[Y-5] an item belongs to the connection until its next request', async () => {
  const queue = name();
  await PythonPeer.create(target, queue);
  const [first, second] = [await PythonPeer.attach(target), await PythonPeer.attach(target)];
  for (const item of [1, 2, 3]) await first.call(queue, 'put', item);
  assert.equal(await first.call(queue, 'get'), 1);
  assert.equal(await first.call(queue, 'get'), 2);
  first.kill();
  assert.equal(await second.call(queue, 'get', true, 5), 2);
  await second.leave(target, queue);
  const third = await PythonPeer.attach(target);
  assert.equal(await third.call(queue, 'get', true, 5), 3);
  assert.equal(await third.call(queue, 'empty'), true);
  third.kill();
});

const call = "(S'touch owned'\ntR.";
const hostile: readonly [name: string, ...parts: (string | number | Uint8Array)[]][] = [
  ['os.system', 'cos\nsystem\n', call],
  ['builtins.eval', 'cbuiltins\neval\n', call],
  ['__reduce__ by STACK_GLOBAL', 0x80, 4, 0x8c, 5, 'posix', 0x8c, 6, 'system', 0x93, call],
  ['a name with a dot', 'cbuiltins\nlist.append\n', call],
  ['copyreg', 'ccopyreg\n_reconstructor\n', call],
  ['functools.partial', 'cfunctools\npartial\n', call],
  ['INST', "(S'x'\nios\nsystem\n."],
  ['OBJ', '(cbuiltins\nlist\no.'],
  ['NEWOBJ_EX', 'cbuiltins\nlist\n)}', 0x92, '.'],
  ['BUILD of a class', 'cbuiltins\nlist\n}b.'],
  ['EXT1', 0x82, 1, '.'],
  ['EXT2', 0x83, 1, 0, '.'],
  ['EXT4', 0x84, uint32(1), '.'],
  ['PERSID', 'Px\n.'],
  ['BINPERSID', 'X', uint32(1), 'xQ.'],
  ['NEXT_BUFFER', 0x80, 5, 0x97, '.'],
  ['READONLY_BUFFER', 0x80, 5, 'C', 0, 0x98, '.'],
  ['a memo bomb', ']q', 0, ...Array.from({ length: 40 }, () => [0x32, 0x86]).flat(), '.'],
  ['a depth bomb', Buffer.alloc(100_000, ']'), Buffer.alloc(99_999, 'a'), '.'],
  ['a length of 2^64 - 1', 0x80, 4, 0x8e, Buffer.alloc(8, 0xff), '.'],
  ['a memo index of 2^32 - 1', 'Nr', uint32(0xffffffff), '.'],
];

test('[Y-6] a pickle of more than plain data is refused, logged, and changes nothing', async (t) => {
  const master = target.process(t);
  if (master === undefined) return;
  const peer = await PythonPeer.attach(target);
  const queue = name();
  const refusedBefore = refusals(master.output);
  for (const [what, ...parts] of hostile) {
    // The value as the item of a put, so that the memo and the stack of the envelope are there.
    const body = bytesOf(...parts.flat());
    const inner = body[0] === 0x80 ? body.subarray(2, -1) : body.subarray(0, -1);
    const head = ['(X', uint32(queue.length), queue, 'X', uint32(3), 'put('];
    const payload = bytesOf(0x80, 5, ...head, inner, 't}t.');
    const { kind, text } = await peer.send(payload);
    assert.equal(kind, '#TRACEBACK', what);
    assert.match(text, /UnpicklingError/, what);
    assert.equal(await peer.call(queue, 'qsize'), 0, what);
  }
  const lines = refusals(master.output).slice(refusedBefore.length);
  assert.match(lines[0] ?? '', /pickle refused: \S+ is not allowed/);
  const { localAddress, localPort } = peer.raw.socket;
  for (const line of lines) assert.ok(line.includes(`peer=${localAddress}:${localPort}`), line);
  peer.kill();
});

test('[Y-6] refused pickles fill no log, on however many connections they come', async (t) => {
  const master = target.process(t);
  if (master === undefined) return;
  const refusedBefore = refusals(master.output).length;
  for (let i = 0; i < 64; i++) {
    const peer = await PythonPeer.dial(target);
    const { kind } = await peer.send(bytesOf(0x80, 4, 'cos\nsystem\n', call));
    assert.equal(kind, '#TRACEBACK');
    await peer.raw.close();
  }
  const lines = refusals(master.output).slice(refusedBefore);
  assert.ok(lines.length <= 9, lines.join('\n'));
  assert.match(lines.at(-1) ?? '', /times=\d+/);
});

test('[Y-16] large values are weighed first, and queued without being built', async (t) => {
  const own = await Target.own(t, {}, ['--memory-limit', '256']);
  if (own === undefined) return;
  const lists = Array.from({ length: 400_000 }, (_, n) => [n % 200]);
  const peers = await Promise.all([1, 2, 3, 4].map(() => PythonPeer.attach(own)));
  await using memory = memoryPeak(own.program.pid);
  const queue = name();
  await Promise.all(peers.map((peer) => peer.call(queue, 'put', lists)));
  const [peer] = peers;
  assert.ok(peer !== undefined);
  assert.equal(await peer.call(queue, 'qsize'), 4);
  assert.deepEqual(await peer.call(queue, 'get'), lists);
  assert.ok(memory.grownBytes() < 200 << 20, `${memory.grownBytes() >> 20} MiB`);
  // Objects that have to be built are refused: here, URLs that the crawl would have to read.
  const { text } = await peer.request('result_queue', 'put', [lists]);
  assert.match(text, /ValueError.*--memory-limit/s);
  // To a program of Node it comes as a pickle.
  const node = await own.join();
  const { items } = await node.must('queue.get', { queue });
  const [item] = items as { value: Buffer }[];
  assert.ok(item?.value.includes(Buffer.from([0x80, 3, 0x5d])));
  for (const one of peers) one.kill();
  await node.close();
});

function refusals(output: string): string[] {
  return output.split('\n').filter((line) => line.includes('pickle refused'));
}

test('[Y-19] a request that is too long raises, and the connection goes on', {
  timeout: 60_000,
}, async (t) => {
  const own = await Target.own(t);
  if (own === undefined) return;
  const queue = name();
  const peer = await PythonPeer.attach(own);
  await peer.call(queue, 'put', 'before');
  await using memory = memoryPeak(own.program.pid);
  for (const mebibytes of [33, 160]) {
    const { kind, text } = await peer.send(Buffer.alloc(mebibytes << 20, 0x80));
    assert.equal(kind, '#ERROR');
    assert.match(text, /ValueError(.|\n)*at most 32 MiB, and a queue item at most 16 MiB/);
    assert.equal(await peer.call(queue, 'qsize'), 1);
  }
  assert.ok(memory.grownBytes() < 96 << 20, `${memory.grownBytes() >> 20} MiB`);
  assert.equal(await peer.call(queue, 'get'), 'before');
  peer.kill();
});

test('[Y-6] whatever bytes come, the master serves the next one', { timeout: 60_000 }, async () => {
  const seed = Number(process.env['FUZZ_SEED'] ?? Math.trunc(Math.random() * 2 ** 31));
  const next = randomUint32s(seed);
  const below = (n: number) => next() % n;
  const queue = name();
  const corpus = Object.values(recorded).map((hex) => Buffer.from(hex, 'hex'));
  for (const [method, ...args] of [['put', [1, 'a', 1.5]], ['qsize'], ['empty']] as const) {
    corpus.push(Buffer.from(writePickle(requestOf(queue, method, args.flat()))));
  }
  let peer = await PythonPeer.attach(target);
  for (let i = 0; i < 3_000; i++) {
    const from = corpus[below(corpus.length)] ?? Buffer.alloc(0);
    const bytes = Buffer.from(from);
    for (let n = 1 + below(4); n > 0; n--) bytes[2 + below(bytes.length - 2)] = below(256);
    // A mutant may be a get that waits: another one is not sent after it.
    const isGet = bytes.includes('get') && !bytes.includes('get_methods');
    if (isGet) continue;
    try {
      const { kind } = await peer.send(bytes);
      assert.match(kind, /^#(RETURN|ERROR|TRACEBACK)$/, `FUZZ_SEED=${seed}`);
    } catch {
      // It closed: the bytes were a server function, or none of ours.
      await peer.raw.close();
      peer = await PythonPeer.attach(target);
    }
  }
  assert.equal(typeof (await peer.call(queue, 'qsize')), 'number', `FUZZ_SEED=${seed}`);
  peer.kill();
});

function requestOf(ident: PyValue, method: string, args: PyValue[]): PyTuple {
  return new PyTuple([ident, method, new PyTuple(args), new PyDict()]);
}

test('[Y-6] a pickle that a native peer puts comes as its bytes', async () => {
  const queue = name();
  await PythonPeer.create(target, queue);
  const native = await target.join();
  const evil = Buffer.concat([Buffer.from([0x80, 3]), Buffer.from(`cos\nsystem\n${call}`)]);
  const items = [evil, Buffer.from([0x80, 5, 1, 2]), Buffer.from([0x80, 3, 0x4b, 1, 0x2e])];
  const peer = await PythonPeer.attach(target);
  await native.must('queue.put', { queue, items });
  for (const item of items) {
    assert.deepEqual(Buffer.from((await peer.call(queue, 'get')) as Uint8Array), item);
  }
  assert.equal(await peer.call(queue, 'qsize'), 0);
  // They come back to a native peer as they were, too.
  await native.must('queue.put', { queue, items });
  const got = (await native.must('queue.get', { queue, count: 3 }))['items'] as { value: Buffer }[];
  assert.deepEqual(
    got.map(({ value }) => value),
    items,
  );
  await native.close();
  peer.kill();
});

test('[Q-6] a reply is short also where shared parts of pickles are written out', async () => {
  const queue = name();
  await PythonPeer.create(target, queue);
  const peer = await PythonPeer.attach(target);
  for (const text of ['x'.repeat(15_000), '€'.repeat(15_000)]) {
    for (let n = 0; n < 3; n++) await peer.call(queue, 'put', new Array(1_000).fill(text));
  }
  const native = await target.join();
  let count = 0;
  while (count < 6) {
    const got = (await native.must('queue.get', { queue, count: 9 }))['items'] as Item[];
    const bytes = got.reduce((sum, { value }) => sum + value.length, 0);
    assert.ok(got.length > 0 && bytes <= 16 << 20, `${got.length} items, ${bytes} bytes`);
    await native.must('queue.done', { queue, items: got.map(({ id }) => id) });
    count += got.length;
  }
  await native.close();
  peer.kill();
});
