/** The package as a library: named queues of a master, shared by any programs. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { AuthError, ConnectionError, connect, type MasterClient, parseAddress } from 'orbweaver';
import { Cluster, Program, root } from '../support/cluster.ts';

const timeout = 60_000;

describe('library', { concurrency: 2 }, () => {
  test('queue: put, get in order, size', { timeout }, async (t) => {
    const { clients } = await cluster(t, 2);
    const [writer, reader] = clients;
    assert.equal(await writer.queue('jobs').put('a', { n: 1 }, [true, null, 2.5]), 3);
    assert.equal(await reader.queue('jobs').size(), 3);
    assert.equal(await reader.queue('jobs').get(), 'a');
    assert.deepEqual(await reader.queue('jobs').get(), { n: 1 });
    assert.deepEqual(await reader.queue('jobs').get(), [true, null, 2.5]);
    assert.equal(await reader.queue('jobs').get(), undefined);
    assert.equal(await writer.queue('jobs').size(), 0);
  });

  test('queue: what no getter could read is refused, not sent', { timeout }, async (t) => {
    const { whole, clients } = await cluster(t, 1);
    const [client] = clients;
    for (const value of [undefined, new Date(), 2n ** 70n]) {
      await assert.rejects(client.queue('q').put('fine', value), TypeError);
    }
    assert.equal(await client.queue('q').size(), 0);
    await client.queue('q').put({ n: 1, none: undefined });
    const item = await client.queue('q').get({ ack: true });
    assert.deepEqual(item?.value, { n: 1 });
    // Not as none: it would return at once, again and again.
    await assert.rejects(item.release({ delayMs: Number.NaN }), /delayMs/);
    await item.done();
    const { host, port } = parseAddress(whole.address);
    for (const authkey of [undefined, 5] as never[]) {
      await assert.rejects(connect({ host, port, authkey }), /^ConfigError: authkey: give the key/);
    }
  });

  test('queue: get waits for the first item, at most timeoutMs', { timeout }, async (t) => {
    const { clients } = await cluster(t, 2);
    const [writer, reader] = clients;
    const began = performance.now();
    assert.equal(await reader.queue('q').get({ timeoutMs: 150 }), undefined);
    assert.ok(performance.now() - began >= 145);
    for (const timeoutMs of ['150', Number.NaN] as never[]) {
      await assert.rejects(reader.queue('q').get({ timeoutMs }), /timeoutMs must be a number/);
    }
    const got = reader.queue('q').get({ timeoutMs: Number.POSITIVE_INFINITY });
    await writer.queue('q').put('there');
    assert.equal(await got, 'there');
  });

  test('queue: an item that waits goes to one of many', { timeout }, async (t) => {
    const { clients } = await cluster(t, 3);
    const [writer, ...readers] = clients;
    const gets = readers.flatMap((reader) =>
      Array.from({ length: 20 }, () => reader.queue('q').get({ timeoutMs: 20_000 })),
    );
    const sent = Array.from({ length: 40 }, (_, i) => i);
    await writer.queue('q').put(...sent);
    const got = (await Promise.all(gets)) as number[];
    assert.deepEqual(
      got.toSorted((a, b) => a - b),
      sent,
    );
  });

  test('queue: what a killed program had taken comes back', { timeout }, async (t) => {
    const { clients, whole } = await cluster(t, 2);
    const [writer, reader] = clients;
    await writer.queue('q').put('first', 'second');
    // A program that takes an item and dies before it has it in safe hands.
    const taker = new Program(['--input-type=module', '--eval', takerSource(whole)], { cwd: root });
    t.after(() => taker.kill());
    await taker.said(/taken first/);
    assert.equal(await reader.queue('q').size(), 1);
    await taker.kill('SIGKILL');
    const got = [
      await reader.queue('q').get({ timeoutMs: 5_000 }),
      await reader.queue('q').get({ timeoutMs: 5_000 }),
    ];
    assert.deepEqual(got.sort(), ['first', 'second']);
  });

  test('queue: items survive kill -9 of the master', { timeout }, async (t) => {
    const { clients, whole, master } = await cluster(t, 1);
    const [writer] = clients;
    await writer.queue('q').put(...Array.from({ length: 2500 }, (_, i) => `item ${i}`));
    assert.equal(await writer.queue('q').get(), 'item 0');
    const waiting = writer.queue('other').get({ timeoutMs: 60_000 });
    const { address } = whole;
    await Promise.all([
      assert.rejects(waiting, (error) => error instanceof ConnectionError),
      master.kill('SIGKILL'),
    ]);
    await whole.master([], { listen: address });
    const reader = await clientOf(whole);
    assert.equal(await reader.queue('q').size(), 2499);
    for (let i = 1; i < 10; i++) assert.equal(await reader.queue('q').get(), `item ${i}`);
    let taken = 10;
    while (taken < 2500) {
      const { items } = await reader.request('queue.get', { queue: 'q', count: 1000, waitMs: 0 });
      assert.ok(items.length > 0);
      for (const { value } of items) {
        assert.ok(Buffer.from(value).includes(`item ${taken}`));
        taken++;
      }
    }
    assert.equal(await reader.queue('q').get(), undefined);
    await reader.close();
  });

  test('queue: put takes more than one frame holds, in order', { timeout }, async (t) => {
    const { clients } = await cluster(t, 1);
    const [client] = clients;
    const big = Array.from({ length: 45 }, (_, i) => Buffer.alloc(1_000_000, i));
    assert.equal(await client.queue('big').put(...big), 45);
    for (let i = 0; i < 45; i++) {
      const item = (await client.queue('big').get()) as Uint8Array;
      assert.equal(item.length, 1_000_000);
      assert.equal(item[0], i);
    }
    const many = Array.from({ length: 25_000 }, (_, i) => i);
    assert.equal(await client.queue('many').put(...many), 25_000);
    assert.equal(await client.queue('many').get(), 0);
    await assert.rejects(client.queue('big').put(Buffer.alloc((1 << 20) + 1)), /at most 1 MiB/);
  });

  test('library: a wrong authkey and no master are told apart', { timeout }, async (t) => {
    const { whole } = await cluster(t, 0);
    const { host, port } = parseAddress(whole.address);
    const wrong = connect({ host, port, authkey: 'this is not the key at all' });
    await assert.rejects(wrong, (error) => error instanceof AuthError);
    const nobody = connect({ host, port: 1, authkey: 'x' });
    await assert.rejects(nobody, (error) => error instanceof ConnectionError);
  });

  test('library: two programs that have the package installed share a queue', {
    timeout,
  }, async (t) => {
    const { whole } = await cluster(t, 0);
    const folder = join(whole.folder, 'consumer');
    mkdirSync(join(folder, 'node_modules'), { recursive: true });
    symlinkSync(root.slice(0, -1), join(folder, 'node_modules/orbweaver'));
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    writeFileSync(
      join(folder, 'put.mjs'),
      programSource(whole, "await queue.put({ from: 'put' });"),
    );
    writeFileSync(
      join(folder, 'get.mjs'),
      programSource(whole, 'console.log(JSON.stringify(await queue.get({ timeoutMs: 20_000 })));'),
    );
    const getter = new Program([join(folder, 'get.mjs')]);
    const putter = new Program([join(folder, 'put.mjs')]);
    t.after(() => Promise.all([getter.kill(), putter.kill()]));
    assert.deepEqual(await putter.exited, { code: 0, signal: null }, putter.output);
    assert.deepEqual(await getter.exited, { code: 0, signal: null }, getter.output);
    assert.equal(getter.stdout, '{"from":"put"}\n');
  });

  test('library: its types pass a strict consumer without this project', { timeout }, async (t) => {
    const { whole } = await cluster(t, 0);
    const folder = join(whole.folder, 'consumer');
    mkdirSync(join(folder, 'node_modules/@types'), { recursive: true });
    symlinkSync(root.slice(0, -1), join(folder, 'node_modules/orbweaver'));
    symlinkSync(join(root, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'));
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({
        compilerOptions: {
          strict: true,
          module: 'nodenext',
          target: 'es2022',
          noEmit: true,
          types: ['node'],
          skipLibCheck: false,
          skipDefaultLibCheck: true,
        },
        files: ['use.ts'],
      }),
    );
    writeFileSync(
      join(folder, 'use.ts'),
      [
        "import { connect, type MasterClient, OrbError, type SharedQueue } from 'orbweaver';",
        "const master: MasterClient = await connect({ host: 'box', port: 6666, authkey: 'k' });",
        "const queue: SharedQueue = master.queue('jobs');",
        'const size: number = await queue.put(1, 2);',
        'const job: unknown = await queue.get({ timeoutMs: size });',
        '// @ts-expect-error: a wrong type must be seen',
        "await queue.get({ timeoutMs: 'x' });",
        'export const isOurs = job instanceof OrbError;',
        ...loopTypes,
      ].join('\n'),
    );
    const { bin } = JSON.parse(
      readFileSync(join(root, 'node_modules/typescript/package.json'), 'utf8'),
    ) as { bin: { tsc: string } };
    const tsc = join(root, 'node_modules/typescript', bin.tsc);
    try {
      execFileSync(process.execPath, [tsc, '-p', folder], { stdio: 'pipe', encoding: 'utf8' });
    } catch (error) {
      assert.fail((error as { stdout: string }).stdout);
    }
  });
});

/** A loop as a strict consumer writes it. */
const loopTypes = [
  "import { crawl, type CrawlOptions, type OutputEntry, type Seed } from 'orbweaver';",
  "const seeds: Seed[] = [{ file: 'urls.txt', every: '15m' }, 'https://a/{1..3}'];",
  "const output: OutputEntry = { csv: 'a.csv', delimiter: ';', rotate: '100MB' };",
  'const options: CrawlOptions = {',
  "  follow: [{ css: 'a.next', pick: 'random', count: 1, seed: 7, priority: 2 }],",
  "  outputs: [output, 'jsonl:b.jsonl', { sqlite: 'c.db', key: ['url'], 'on-conflict': 'skip' }],",
  "  page: './mine.mjs',",
  '};',
  'for await (const record of crawl(seeds, options)) {',
  "  if (record.kind === 'page') console.log(record.status, record.id);",
  '}',
  '// @ts-expect-error: no such way to pick',
  "export const pick: CrawlOptions = { follow: [{ css: 'a', pick: 'some' }] };",
  '// @ts-expect-error: no such output',
  "export const kind: CrawlOptions = { outputs: [{ xls: 'a.xls' }] };",
  '// @ts-expect-error: no such way',
  "export const how: OutputEntry = { sqlite: 'a.db', 'on-conflict': 'ask' };",
  '// @ts-expect-error: a time is text',
  "export const often: Seed = { file: 'a', every: 15 };",
];

async function cluster(t: TestContext, count: number) {
  const whole = new Cluster(t);
  const master = await whole.master([]);
  const clients: MasterClient[] = [];
  for (let i = 0; i < count; i++) clients.push(await clientOf(whole));
  t.after(() => Promise.all(clients.map((client) => client.close())));
  return { whole, master, clients: clients as [MasterClient, MasterClient, ...MasterClient[]] };
}

/** By the package's own name, as its users have it. */
async function clientOf(whole: Cluster): Promise<MasterClient> {
  const { host, port } = parseAddress(whole.address);
  return await connect({ host, port, authkey: whole.authkey });
}

function programSource(whole: Cluster, then: string): string {
  const { host, port } = parseAddress(whole.address);
  return [
    "import { connect } from 'orbweaver';",
    `const options = { host: '${host}', port: ${port}, authkey: '${whole.authkey}' };`,
    'await using_(await connect(options));',
    'async function using_(master) {',
    "  const queue = master.queue('shared');",
    `  ${then}`,
    '  await master.close();',
    '}',
  ].join('\n');
}

function takerSource(whole: Cluster): string {
  const { host, port } = parseAddress(whole.address);
  return [
    "import { connect } from 'orbweaver';",
    `const master = await connect({ host: '${host}', port: ${port}, authkey: '${whole.authkey}' });`,
    "const { items } = await master.request('queue.get', { queue: 'q', count: 1, waitMs: 0 });",
    "console.log('taken', items.length === 1 ? 'first' : 'nothing');",
  ].join('\n');
}
