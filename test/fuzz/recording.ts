/**
 * Real traffic to mutate: what the slave, the library, the operator's verbs and (if there is one) a
 * stock Python client say to a master, taken down by a proxy between them.
 */
import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';
import { connect } from '../../shared/client.ts';
import { FrameDecoder } from '../../shared/frame.ts';
import { limits } from '../../shared/protocol.ts';
import { Cluster, Program } from '../support/cluster.ts';
import { startDemo } from '../support/demo.ts';
import { recorded as oldPickles } from '../support/pickle-bytes.ts';
import { findPythons } from '../support/python.ts';

export type Traffic = { readonly native: Buffer[]; readonly python: Buffer[] };

/** Answer, challenge and welcome come before the first message. */
const handshakeFrames = 3;
/** Of each verb: more of the same would crowd out the rest. */
const perVerbMax = 20;

const pythonCode = `
import os, queue, sys
from multiprocessing.managers import BaseManager
class Manager(BaseManager): pass
Manager.register('jobs')
m = Manager(address=('127.0.0.1', int(sys.argv[1])), authkey=os.environ['ORB_AUTHKEY'].encode())
m.connect()
jobs = m.jobs()
for value in (None, 1, 2**70, 1.5, 'text', b'bytes', [1, (2, {3})], {'a': {'b': 1}}, 'x' * 5000):
    jobs.put(value, timeout=0.01)
    jobs.get(timeout=1)
jobs.put_nowait(1); jobs.get_nowait(); jobs.qsize(); jobs.empty(); jobs.full()
for call in (lambda: jobs.get(True, 0.01), lambda: jobs.get_nowait(), lambda: jobs.put(object())):
    try: call()
    except Exception: pass
print(repr(jobs), str(jobs), m._number_of_objects(), m._debug_info())
`;

/** Takes some seconds. */
export async function record(): Promise<Traffic> {
  await using cluster = new Cluster();
  // Leases so short that slow pages have to be extended; a delay, so that starts are told.
  await cluster.master(['--lease', '1', '--queues', 'jobs']);
  const demo = await startDemo({ delayMs: 600 });
  const [, port = ''] = cluster.address.split(':');
  const tap = await Tap.open(Number(port));
  try {
    await operate(tap.port, cluster.authkey, demo.url);
    const slave = cluster.slave(['--slots', '8'], `127.0.0.1:${tap.port}`);
    await cluster.grown('pages.jsonl', 12, 'demo');
    await slave.kill('SIGTERM');
    await speakPython(tap.port, cluster.authkey);
  } finally {
    tap.close();
    await demo.close();
  }
  return tap.traffic();
}

/** Every verb that the library and the subcommands say. */
async function operate(port: number, authkey: Buffer, url: string): Promise<void> {
  const master = await connect({ host: '127.0.0.1', port, authkey });
  const images = { fetch: { images: ['img', 'css'], headers: [['X-A', 'b']] } };
  const spec = { delayMs: 5, traps: { segments: 9 }, include: ['.'], order: 'priority', ...images };
  const seeds = [url, 'http://gone.invalid/'];
  await master.request('crawl.add', { crawl: 'demo', seeds, spec, priority: 5 });
  await master.request('crawl.add', { crawl: 'other', seeds: ['http://a.invalid/'], priority: 0 });
  await master.request('crawl.list', {});
  for (const verb of ['crawl.pause', 'crawl.resume'] as const) {
    await master.request(verb, { crawl: 'other' });
  }
  await master.request('crawl.buried', { crawl: 'other', limit: 5 });
  // As a reply would name a URL of the second crawl.
  const after = Buffer.from([0, 0, 0, 2, ...Array.from({ length: 16 }, (_, i) => i)]);
  await master.request('crawl.buried', { crawl: 'other', limit: 5, after });
  await master.request('crawl.replay', { crawl: 'other' });
  await master.request('crawl.replay', { crawl: 'other', url: 'http://a.invalid/' });
  await master.request('crawl.cancel', { crawl: 'other' });
  const queue = master.queue('jobs');
  await queue.put({ n: 1 }, [2, 'x'], Buffer.alloc(100));
  for (let i = 0; i < 3; i++) await queue.get();
  await queue.get({ timeoutMs: 10 });
  await queue.size();
  await master.request('ping', {});
  await master.close();
}

async function speakPython(port: number, authkey: Buffer): Promise<void> {
  const python = findPythons().at(-1);
  if (python === undefined) return;
  const env = { ORB_AUTHKEY: authkey.toString() };
  const program = new Program(['-c', pythonCode, `${port}`], { program: python.path, env });
  const { code } = await program.exited;
  if (code !== 0) throw new Error(program.output);
}

class Tap {
  readonly port: number;
  readonly #close: () => void;
  readonly #connections: Buffer[][];

  static async open(to: number): Promise<Tap> {
    const connections: Buffer[][] = [];
    const sockets = new Set<Socket>();
    const server = createServer((peer) => {
      const master = createConnection({ host: '127.0.0.1', port: to });
      const frames: Buffer[] = [];
      connections.push(frames);
      const decoder = new FrameDecoder(limits.frameBytesMax);
      peer.on('data', (chunk: Buffer) => {
        decoder.push(Buffer.from(chunk));
        for (let frame = decoder.next(); frame; frame = decoder.next()) frames.push(frame);
      });
      for (const socket of [peer, master]) {
        sockets.add(socket);
        socket.on('error', () => {});
      }
      peer.pipe(master).pipe(peer);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const close = () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    };
    return new Tap(port, connections, close);
  }

  private constructor(port: number, connections: Buffer[][], close: () => void) {
    this.port = port;
    this.#connections = connections;
    this.#close = close;
  }

  close(): void {
    this.#close();
  }

  traffic(): Traffic {
    const native: Buffer[] = [];
    const python: Buffer[] = Object.values(oldPickles).map((hex) => Buffer.from(hex, 'hex'));
    const counts = new Map<string, number>();
    for (const frames of this.#connections) {
      for (const frame of frames.slice(handshakeFrames)) {
        if (frame[0] === 0x80 && (frame[1] ?? 9) <= 5) {
          python.push(frame);
          continue;
        }
        const verb = /[a-z]+(\.[a-z]+)?/.exec(frame.toString('latin1', 6, 30))?.[0] ?? '';
        const count = (counts.get(verb) ?? 0) + 1;
        counts.set(verb, count);
        if (count <= perVerbMax) native.push(frame);
      }
    }
    return { native, python };
  }
}
