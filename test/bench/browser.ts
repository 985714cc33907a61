/**
 * Pages in a browser: CPU a page, of the slave and all processes of its browser together, on pages
 * with a few scripts; and their memory after 100 pages and after 1,000.
 */
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { browserFlags, noBrowser } from '../support/browser.ts';
import { Cluster } from '../support/cluster.ts';
import { count, cpuMs, say } from './measure.ts';

const pages = 1_060;
const perPage = 20;
/** Pages around a mark whose memory is averaged: one moment has more or fewer pages open. */
const aroundPages = 50;
const tickMs = 10;
const lookEveryMs = 100;

const style = `body { font: 16px sans-serif } .card { display: inline-block; width: 30% }
  .card b { color: #a00 } header, footer { background: #eee; padding: 1em }`;
const library = `window.el = (tag, text) => {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
};
${Array.from({ length: 400 }, (_, i) => `window.f${i} = (x) => x * ${i} + ${i};`).join('\n')}`;
const app = `fetch('/api/' + location.pathname.slice(2)).then((r) => r.json()).then((all) => {
  for (const { name, price, to } of all) {
    const card = document.createElement('div');
    card.className = 'card';
    const link = el('a', name);
    link.href = to;
    card.append(link, el('b', price), el('p', 'text '.repeat(40)));
    document.getElementById('list').append(card);
  }
});`;

function answer(path: string): [type: string, body: string] | undefined {
  const [, kind, digits = ''] = /^\/(p|api\/)(\d+)$/.exec(path) ?? [];
  const n = Number(digits);
  if (path === '/style.css') return ['text/css', style];
  if (path === '/library.js') return ['text/javascript', library];
  if (path === '/app.js') return ['text/javascript', app];
  if (kind === 'api/') {
    const all = Array.from({ length: perPage }, (_, i) => {
      const to = `/p${(n * perPage + i + 1) % pages}`;
      return { name: `thing ${n} ${i}`, price: `${n}.${i}`, to };
    });
    return ['application/json', JSON.stringify(all)];
  }
  if (kind !== 'p') return undefined;
  const body = `<!doctype html><title>Page ${n}</title><link rel=stylesheet href=/style.css>
    <script src=/library.js></script><header><h1>Page ${n}</h1></header>
    ${'<p>Some text that is there before any script.</p>'.repeat(60)}
    <div id=list></div><footer>end</footer><script src=/app.js></script>
    <script>document.title += ' of a site'</script>`;
  return ['text/html', body];
}

type Seen = { readonly group: number; readonly cpuMs: number; readonly bytes: number };

/** CPU time so far and memory of the browsers of a slave, by process group; shared pages count in
 *  parts. Children that have ended count for their parents. Source: proc(5). */
function browsersOf(slave: number): Map<number, Seen> {
  const found = new Map<number, Seen>();
  const groups = new Set<number>();
  const all: { group: number; ms: number; bytes: number }[] = [];
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
      const [, parent, group = 0] = stat.map(Number);
      const ms = stat.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) * tickMs, 0);
      if (parent === slave && Number(pid) === group) groups.add(group);
      all.push({ group, ms, bytes: bytesOf(pid) });
    } catch {
      // It has ended.
    }
  }
  for (const { group, ms, bytes } of all) {
    if (!groups.has(group)) continue;
    const before = found.get(group);
    const more = { cpuMs: (before?.cpuMs ?? 0) + ms, bytes: (before?.bytes ?? 0) + bytes };
    found.set(group, { group, ...more });
  }
  return found;
}

function bytesOf(pid: string | number): number {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1]) * 1024;
}

export async function browser(): Promise<void> {
  if (noBrowser) {
    say(`browser: ${noBrowser}`);
    return;
  }
  let shown = 0;
  const server = createServer(({ url = '' }, response) => {
    const [type, body] = answer(url) ?? [];
    // The last request of a page.
    if (url.startsWith('/api/')) shown++;
    if (type === undefined) response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': type }).end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await using cluster = new Cluster();
  const flags = ['--render', 'true', '--delay', '0', '--per-host', '16', '--exit-when-done'];
  const master = await cluster.master([`http://127.0.0.1:${port}/p0`, ...flags]);
  const slave = cluster.slave([...browserFlags, '--slots', '16']);
  const begun = performance.now();
  const most = new Map<number, number>();
  const memory: { readonly shown: number; readonly bytes: number }[] = [];
  let ofSlaveMs = 0;
  const looks = setInterval(() => {
    if (!slave.isAlive) return;
    try {
      let bytes = bytesOf(slave.pid);
      ofSlaveMs = cpuMs(slave.pid);
      for (const one of browsersOf(slave.pid).values()) {
        most.set(one.group, Math.max(most.get(one.group) ?? 0, one.cpuMs));
        bytes += one.bytes;
      }
      memory.push({ shown, bytes });
    } catch {
      // It has ended.
    }
  }, lookEveryMs);
  await master.exited;
  clearInterval(looks);
  const seconds = (performance.now() - begun) / 1000;
  await slave.exited;
  server.closeAllConnections();
  server.close();
  const lines = cluster.fetched() as unknown as { rendered?: true }[];
  const rendered = lines.filter((line) => line.rendered).length;
  if (rendered !== pages) throw new Error(`${rendered} of ${pages} pages: ${master.output}`);
  const ofBrowserMs = [...most.values()].reduce((sum, ms) => sum + ms, 0);
  const eachMs = (ofSlaveMs + ofBrowserMs) / pages;
  const meanAt = (mark: number) => {
    const near = memory.filter((one) => Math.abs(one.shown - mark) <= aroundPages);
    return near.reduce((sum, { bytes }) => sum + bytes, 0) / near.length;
  };
  const [first, last] = [meanAt(100), meanAt(1_000)];
  say(
    `browser, ${count(pages)} pages with three scripts: ${eachMs.toFixed(0)} ms of CPU each (slave ` +
      `${(ofSlaveMs / pages).toFixed(0)}), so ${(1000 / eachMs).toFixed(1)} a second a core ` +
      `(bar: 7); ${(pages / seconds).toFixed(1)} a second here`,
  );
  say(
    `browser, memory of ${most.size} browsers in turn and the slave: after 100 pages ` +
      `${(first / 1e6).toFixed(0)} MB, after 1,000 ${(last / 1e6).toFixed(0)} MB, ratio ` +
      `${(last / first).toFixed(2)} (bar: 1.2)`,
  );
}
