/**
 * Slaves without a network: they take tasks and report made-up pages as fast as the master lets
 * them. Runs as a process of its own, so that its CPU is not the master's:
 *
 *     node synthetic-slave.js HOST:PORT AUTHKEYFILE '{"sessions":4,"links":100,"known":0.9,…}'
 *
 * Prints a JSON line when it is done.
 */
import { readFileSync } from 'node:fs';
import { connect, type MasterClient, parseAddress } from '../../shared/client.ts';
import { packValue } from '../../shared/frame.ts';
import type { TaskPush } from '../../shared/protocol.ts';

export type Load = {
  readonly sessions: number;
  /** Reports a session may have under way. */
  readonly credit: number;
  /** Links of a page. */
  readonly links: number;
  /** Share of the links that were reported before. */
  readonly known: number;
  readonly hosts: number;
  /** Share of the known ones that are among the last 100,000 new ones; default: none. */
  readonly recent?: number;
  /** Images of a page; default: none. */
  readonly images?: number;
  /** Rows of items of a page, of five fields and some 200 bytes; default: none. */
  readonly rows?: number;
  /** No more reports than this; default: as many as the master takes. */
  readonly reportsPerSecond?: number;
  /** Ends after so many new links, or so many seconds of measuring. */
  readonly newLinks?: number;
  readonly seconds?: number;
  /** Seconds of work before measuring begins. */
  readonly warmUpSeconds?: number;
  /** Number of the first new URL: another than in an earlier run. */
  readonly first?: number;
  /** URLs before the first new one are known, too: those from this number on. Default: `first`. */
  readonly knownFrom?: number;
  readonly tls?: boolean;
};

export type Measured = {
  readonly seconds: number;
  readonly links: number;
  readonly reports: number;
  readonly newLinks: number;
  /** Time from report to acknowledgement, in ms. */
  readonly ackP50: number;
  readonly ackP99: number;
};

const [address = '', keyFile = '', json = '{}'] = process.argv.slice(2);
const load = JSON.parse(json) as Load;
const { host, port } = parseAddress(address);
const authkey = readFileSync(keyFile, 'utf8').trim();
const first = load.first ?? 0;
const knownFrom = load.knownFrom ?? first;
let next = first;
let links = 0;
let reports = 0;
let acks: number[] = [];
let seed = 1;
let stopping = false;

/** A small generator of its own: the same input in every run. */
function random(): number {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32;
}

/** Prefix of the number in a URL, of each host. */
const starts: (Buffer | undefined)[] = [];
const end = Buffer.from('.html\n');
/** Of a URL, its line feed included. */
const urlBytesMax = 96;

/** Writes a URL and a line feed, in a third of the time of strings: the master is measured, and it
 *  has the other core. Returns where it ends. */
function writeUrl(into: Buffer, at: number, n: number): number {
  const host = n % load.hosts;
  starts[host] ??= Buffer.from(`http://host-${host}.invalid/a/path/as/long/as/real/ones/are/page-`);
  const start = starts[host];
  into.set(start, at);
  let digits = 1;
  for (let rest = n; rest >= 10; rest = Math.floor(rest / 10)) digits++;
  const from = at + start.length;
  for (let to = from + digits - 1, rest = n; to >= from; to--, rest = Math.floor(rest / 10)) {
    into[to] = 48 + (rest % 10);
  }
  into.set(end, from + digits);
  return from + digits + end.length;
}

function knownOne(): number {
  const isRecent = load.recent !== undefined && random() < load.recent;
  const from = isRecent ? Math.max(knownFrom, next - 100_000) : knownFrom;
  return from + Math.floor(random() * (next - from));
}

function page(): Uint8Array {
  const urls = Buffer.allocUnsafe(load.links * urlBytesMax);
  let at = 0;
  for (let i = 0; i < load.links; i++) {
    const isEnough = load.newLinks !== undefined && next - first >= load.newLinks;
    const known = next > knownFrom && (isEnough || random() < load.known);
    at = writeUrl(urls, at, known ? knownOne() : next++);
  }
  return urls.subarray(0, Math.max(0, at - 1));
}

function images(url: string) {
  return Array.from({ length: load.images ?? 0 }, (_, i) => ({
    src: `${url}/image-${i}.png`,
    via: 'img' as const,
    alt: 'what it shows',
  }));
}

/** The rows that the rules of `sinks.ts` would make of a page. */
function items(url: string) {
  const found = load.rows ?? 0;
  const rows = Array.from({ length: found }, (_, i) => {
    const title = `The title of a product as shops have it, number ${i} of its page`;
    const values = { title, price: i + 0.99, isInStock: i % 3 > 0, rating: i % 6, page: url };
    return ['product', values];
  });
  const counts = { product: [1, 1, 0, 0, 0, found, 0] };
  return { rows, rejected: [], failures: [], counts };
}

/** Reports one after the other at the pace that is wanted. */
const queue: (() => void)[] = [];
const startedAt = performance.now();
let allowed = 0;
function inTime(what: () => void): void {
  if (load.reportsPerSecond === undefined) what();
  else queue.push(what);
}
if (load.reportsPerSecond !== undefined) {
  const { reportsPerSecond } = load;
  setInterval(() => {
    const due = ((performance.now() - startedAt) / 1000) * reportsPerSecond;
    for (; allowed < due; allowed++) queue.shift()?.();
  }, 5).unref();
}

function report(master: MasterClient, { task, lease, url }: TaskPush): void {
  const result = { finalUrl: url, status: 200, type: 'text/html', bytes: 10_000, ms: 1 };
  const packed = { result: packValue(result), images: packValue(images(url)) };
  const rules = load.rows === undefined ? {} : { items: packValue(items(url)) };
  const body = { task, lease, ...packed, ...rules, links: page() };
  const started = performance.now();
  master.request('task.report', body).then(
    () => {
      acks.push(performance.now() - started);
      links += load.links;
      reports++;
    },
    () => {},
  );
}

const masters = await Promise.all(
  Array.from({ length: load.sessions }, async (_, i) => {
    let master: MasterClient | undefined;
    master = await connect({
      host,
      port,
      authkey,
      tls: load.tls ?? false,
      role: 'slave',
      name: `synthetic-${i}`,
      onPush: (push) => {
        if (push.verb !== 'task.push' || stopping || master === undefined) return;
        const to = master;
        for (const task of push.tasks) inTime(() => report(to, task));
      },
    });
    return master;
  }),
);
for (const master of masters) {
  if (load.rows !== undefined) master.notify('slave.can', { what: ['rules'] });
  master.notify('task.credit', { count: load.credit, slots: load.credit });
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
await pause((load.warmUpSeconds ?? 0) * 1000);
const began = { at: performance.now(), links, reports, next };
acks = [];
while (performance.now() - began.at < (load.seconds ?? Number.POSITIVE_INFINITY) * 1000) {
  if (load.newLinks !== undefined && next - first >= load.newLinks) break;
  await pause(20);
}
const seconds = (performance.now() - began.at) / 1000;
stopping = true;
acks.sort((a, b) => a - b);
const at = (share: number) => acks[Math.floor(acks.length * share)] ?? 0;
const measured: Measured = {
  seconds,
  links: links - began.links,
  reports: reports - began.reports,
  newLinks: next - began.next,
  ackP50: at(0.5),
  ackP99: at(0.99),
};
console.log(JSON.stringify(measured));
await Promise.all(masters.map((master) => master.close()));
