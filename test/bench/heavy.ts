/**
 * Large values of a Python peer at a master with `--memory-limit 256`: the most that the master
 * takes of memory, and how long others wait for a handshake in the meantime.
 */
import { readFileSync } from 'node:fs';
import { connect, parseAddress } from '../../shared/client.ts';
import { Cluster, Program } from '../support/cluster.ts';
import { cpuMs, pause, say } from './measure.ts';

/** Expressions of Python that make about 14 MB, or as much as an item may have. */
const shapes = {
  'dicts of ints': '{2**20 + i: i for i in range(1460000)}',
  'lists of small ints': '[[i % 200] for i in range(1500000)]',
  'short strings': '["s%d" % i for i in range(1200000)]',
  sets: '[{i} for i in range(700000)]',
  tuples: '[(i % 9, i % 7) for i in range(1500000)]',
  'tuples as keys': '{(i, "abc"): i for i in range(700000)}',
  'references to one text': '[("put", "x" * 1000)] * 100000',
};

const program = `
import os, sys, threading
from multiprocessing.managers import BaseManager
class Manager(BaseManager): pass
Manager.register('jobs')
m = Manager(address=(sys.argv[1], int(sys.argv[2])), authkey=os.environ['ORB_AUTHKEY'].encode())
m.connect()
value = eval(sys.argv[3])
q = m.jobs()
taken = []
def put():
    try:
        q.put(value)
        taken.append(1)
    except Exception as error: print(type(error).__name__, str(error)[-200:].strip())
threads = [threading.Thread(target=put) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print('taken:', len(taken))
`;

export async function heavy(): Promise<void> {
  for (const [name, value] of Object.entries(shapes)) await put(name, value);
}

async function put(name: string, value: string): Promise<void> {
  await using cluster = new Cluster();
  const master = await cluster.master(['--memory-limit', '256']);
  const { host, port } = parseAddress(cluster.address);
  const { authkey } = cluster;
  const args = ['-c', program, host, String(port), value];
  const env = { ORB_AUTHKEY: authkey.toString() };
  const before = cpuMs(master.pid);
  const peer = new Program(args, { program: 'python3', env });
  let isOver = false;
  const ended = peer.exited.finally(() => {
    isOver = true;
  });
  let slowest = 0;
  while (!isOver) {
    const began = performance.now();
    await (await connect({ host, port, authkey, timeoutMs: 30_000 })).close();
    slowest = Math.max(slowest, performance.now() - began);
    await pause(20);
  }
  await ended;
  const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${master.pid}/status`, 'utf8'));
  say(
    `heavy, four ${name} at --memory-limit 256: ${peer.output.trim().split('\n').at(-1)}, peak ` +
      `${Math.round(Number(peak?.[1]) / 1024)} MiB (bar: 456), slowest handshake ` +
      `${slowest.toFixed(0)} ms (bar: 500), master ` +
      `${((cpuMs(master.pid) - before) / 1000).toFixed(1)} CPU s`,
  );
}
