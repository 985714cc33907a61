/**
 * Stock Python clients at our master and at CPython's own manager server, the same program at both:
 * `put` and `get` by 1, 4 and 16 client processes, and a worker's start. The server has one core
 * and the clients the other. Both servers take turns in each round; medians of the rounds.
 *
 *     node dist/test/bench/python.js [3.11 …] [links | floor]
 *
 * With the newest Python, or those named. `floor` has a Node server that does nothing in the place
 * of the master: what no server in Node goes below. `links` measures instead how fast links that
 * are put one by one are deduplicated, in a crawl of the master and in CPython with a list or a
 * set.
 */
import { execFileSync, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Cluster, Program } from '../support/cluster.ts';
import { findPythons, type Python } from '../support/python.ts';
import { Lines } from './lines.ts';
import { count, cpuMs, median, say } from './measure.ts';

const script = (file: string) =>
  fileURLToPath(new URL(`../../../test/bench/${file}`, import.meta.url));
const authkey = 'a key of this bench alone';
const rounds = Number(process.env['ROUNDS'] ?? 5);
const clientCounts = (process.env['COUNTS'] ?? '1 4 16').split(' ').map(Number);
/** Of each verb in a round, over all clients. */
const operations = 16_000;
const links = 16_000;
const uniqueLinks = 4_000;
const linkClients = 4;
/** Plain ones here, whatever they mean to a crawl. */
const queues = 'task_queue,filter_queue,result_queue';
const serverCore = '0';
const clientCore = '1';
const isFloor = process.argv.includes('floor');

type Server = { readonly pid: number; readonly address: readonly string[] };
type Measured = { perSecond: number; serverUs: number; p99Ms: number };
type LinkRound = { perSecond: number; serverUs: number };
type Round = Record<'put' | 'get', Measured> & { startMs: number };

/** The clients of one round; each takes orders by lines and answers them by lines. */
class Clients {
  readonly #clients: { lines: Lines; order: (line: string) => void; end: () => void }[];

  constructor(python: Python, { address }: Server, clientCount: number) {
    this.#clients = Array.from({ length: clientCount }, (_, number) => {
      const args = ['-c', clientCore, python.path, script('manager_load.py'), ...address];
      const child = spawn('taskset', [...args, String(number)], {
        stdio: ['pipe', 'pipe', 'inherit'],
        env: { ...process.env, ORB_AUTHKEY: authkey },
      });
      return {
        lines: new Lines(child.stdout),
        order: (line: string) => child.stdin.write(`${line}\n`),
        end: () => child.stdin.end(),
      };
    });
  }

  /** The next line of each. */
  async said<T>(): Promise<T[]> {
    const texts = await Promise.all(this.#clients.map(({ lines }) => lines.next()));
    return texts.map((text) => JSON.parse(text) as T);
  }

  /** All do the same, at once. */
  async do(server: Server, verb: string, each: number): Promise<Measured> {
    const before = { cpu: cpuMs(server.pid), at: performance.now() };
    for (const { order } of this.#clients) order(`${verb} ${each}`);
    const times = (await this.said<number[]>()).flat().sort((a, b) => a - b);
    const ms = performance.now() - before.at;
    return {
      perSecond: (times.length / ms) * 1000,
      serverUs: ((cpuMs(server.pid) - before.cpu) / times.length) * 1000,
      p99Ms: (times[Math.floor(times.length * 0.99)] ?? Number.NaN) / 1000,
    };
  }

  /** One of them says when so many wait in the task queue. */
  async reached(size: number): Promise<void> {
    const [first] = this.#clients;
    first?.order(`await ${size}`);
    await first?.lines.next();
  }

  end(): void {
    for (const { end } of this.#clients) end();
  }
}

async function round(python: Python, server: Server, clientCount: number): Promise<Round> {
  const clients = new Clients(python, server, clientCount);
  const starts = await clients.said<number>();
  const each = operations / clientCount;
  const put = await clients.do(server, 'put', each);
  const get = await clients.do(server, 'get', each);
  clients.end();
  return { put, get, startMs: median(starts) };
}

async function startPython(python: Python, ...collection: string[]): Promise<Program> {
  const args = ['-c', serverCore, python.path, script('manager_server.py'), ...collection];
  const program = new Program(args, { program: 'taskset', env: { ORB_AUTHKEY: authkey } });
  await program.said(/listens on/);
  return program;
}

async function startMaster(cluster: Cluster, args: readonly string[]): Promise<Program> {
  const program = await cluster.master(args, { env: { ORB_AUTHKEY: authkey } });
  execFileSync('taskset', ['-a', '-c', '-p', serverCore, String(program.pid)]);
  return program;
}

/** Where a server that was started listens: both say so alike. */
function serverOf(program: Program): Server {
  const [, host = '', port = ''] = /listens on ([\d.]+):(\d+)/.exec(program.output) ?? [];
  return { pid: program.pid, address: [host, port] };
}

async function startFloor(): Promise<Program> {
  const file = fileURLToPath(new URL('manager-floor.js', import.meta.url));
  const args = ['-c', serverCore, process.execPath, file];
  const program = new Program(args, { program: 'taskset', env: { ORB_AUTHKEY: authkey } });
  await program.said(/listens on/);
  return program;
}

async function compare(python: Python): Promise<void> {
  await using cluster = new Cluster();
  const cpython = await startPython(python);
  const [name, ours] = isFloor
    ? ['a Node server that does nothing', await startFloor()]
    : ['the master', await startMaster(cluster, ['--queues', queues])];
  const servers = { theirs: serverOf(cpython), ours: serverOf(ours) };
  say(`Python ${python.name}, ${rounds} rounds, medians; ${name} beside CPython's own server:`);
  for (const clientCount of clientCounts) {
    const theirRounds: Round[] = [];
    const ourRounds: Round[] = [];
    for (let number = 0; number < rounds; number++) {
      theirRounds.push(await round(python, servers.theirs, clientCount));
      ourRounds.push(await round(python, servers.ours, clientCount));
    }
    for (const verb of ['put', 'get'] as const) {
      const of = (all: Round[], figure: keyof Measured) => median(all.map((r) => r[verb][figure]));
      const pair = (figure: keyof Measured, show: (value: number) => string, unit: string) => {
        const [mine, other] = [of(ourRounds, figure), of(theirRounds, figure)];
        return `${show(mine)} · ${show(other)} ${unit} (${(mine / other).toFixed(2)})`;
      };
      say(
        `  ${verb}, ${clientCount} clients: ${pair('perSecond', count, '/s')}, ` +
          `server ${pair('serverUs', (us) => us.toFixed(1), 'µs')}, ` +
          `p99 ${pair('p99Ms', (ms) => ms.toFixed(2), 'ms')}`,
      );
    }
    if (clientCount === 1) {
      const start = (all: Round[]) => median(all.map(({ startMs }) => startMs)).toFixed(0);
      say(`  a worker's start: ${start(ourRounds)} · ${start(theirRounds)} ms`);
    }
  }
  await cpython.kill('SIGKILL');
  if (isFloor) await ours.kill('SIGKILL');
}

/** Links one by one by four clients, until the unique ones stand in the task queue. */
async function offer(python: Python, server: Server, queued: number): Promise<LinkRound> {
  const clients = new Clients(python, server, linkClients);
  await clients.said<number>();
  const before = { cpu: cpuMs(server.pid), at: performance.now() };
  await clients.do(server, `offer ${links / linkClients}`, uniqueLinks / linkClients);
  await clients.reached(queued);
  const ms = performance.now() - before.at;
  clients.end();
  return {
    perSecond: (links / ms) * 1000,
    serverUs: ((cpuMs(server.pid) - before.cpu) / links) * 1000,
  };
}

async function offerToPython(python: Python, collection: 'list' | 'set'): Promise<LinkRound> {
  const program = await startPython(python, collection);
  const round = await offer(python, serverOf(program), uniqueLinks);
  await program.kill('SIGKILL');
  return round;
}

async function offerToMaster(python: Python): Promise<LinkRound> {
  await using cluster = new Cluster();
  const seed = 'https://www.site.test/';
  const program = await startMaster(cluster, [seed, '--ignore-robots']);
  return await offer(python, serverOf(program), uniqueLinks + 1);
}

async function compareLinks(python: Python): Promise<void> {
  const all: Record<'master' | 'list' | 'set', LinkRound[]> = { master: [], list: [], set: [] };
  for (let number = 0; number < rounds; number++) {
    all.list.push(await offerToPython(python, 'list'));
    all.set.push(await offerToPython(python, 'set'));
    all.master.push(await offerToMaster(python));
  }
  const rate = (rounds: LinkRound[]) => median(rounds.map(({ perSecond }) => perSecond));
  for (const [name, rounds] of Object.entries(all)) {
    const us = median(rounds.map(({ serverUs }) => serverUs));
    const ratio = (rate(all.master) / rate(rounds)).toFixed(2);
    say(
      `  links by ${linkClients} clients, ${name}: ${count(rate(rounds))}/s, ` +
        `server ${us.toFixed(1)} µs${name === 'master' ? '' : ` (the master ${ratio} times)`}`,
    );
  }
}

const parts = ['links', 'floor'];
const wanted = process.argv.slice(2).filter((word) => !parts.includes(word));
const part = process.argv.includes('links') ? compareLinks : compare;
const pythons = findPythons().filter(({ version: [major = 0] }) => major >= 3);
const chosen =
  wanted.length === 0
    ? pythons.slice(-1)
    : pythons.filter(({ name }) => wanted.some((part) => name.startsWith(part)));
if (chosen.length === 0) throw new Error('no such Python in PATH or ~/.pyenv');
for (const python of chosen) await part(python);
