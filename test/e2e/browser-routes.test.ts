/**
 * The ways of a page in the browser to an address that its crawl may not have: none reaches it. A
 * control with the same page, where the address is allowed, shows that the ways are ways.
 */
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { browserFlags, noBrowser } from '../support/browser.ts';
import { BrowserSite, crawlFile } from '../support/browser-site.ts';
import { Cluster } from '../support/cluster.ts';

const timeout = 180_000;

/** A host where nobody may go: it notes each connection, by the path that it asked for. */
class Target {
  port = 0;
  readonly paths = new Set<string>();
  connections = 0;
  datagrams = 0;

  async open(t: TestContext): Promise<this> {
    const answer = ({ url = '' }: IncomingMessage, response: ServerResponse) => {
      this.paths.add(url.replace(/\?.*/, ''));
      response.writeHead(200, {
        'content-type': url.endsWith('.js') ? 'text/javascript' : 'text/html',
        'access-control-allow-origin': '*',
      });
      response.end('1');
    };
    const server = createServer(answer).on('connection', () => this.connections++);
    server.on('upgrade', ({ url = '' }, socket) => {
      this.paths.add(url);
      socket.destroy();
    });
    // Of both families, where there are two.
    server.listen(0, '::');
    await once(server, 'listening');
    this.port = (server.address() as AddressInfo).port;
    const udp = createSocket({ type: 'udp6', ipv6Only: false }).bind(this.port, '::');
    udp.on('message', () => this.datagrams++);
    await once(udp, 'listening');
    t.after(() => {
      server.closeAllConnections();
      server.close();
      udp.close();
    });
    return this;
  }
}

/** A page that tries all of them, and says so by a request to its own site when it is done. */
function pageOf(port: number): string {
  const at = `127.0.0.1:${port}`;
  return `<!doctype html><title>routes</title>
<link rel=preconnect href="http://${at}"><link rel=dns-prefetch href="//${at}">
<link rel=prefetch href="http://${at}/prefetch">
<link rel=preload as=script href="http://${at}/preload.js">
<link rel=stylesheet href="http://${at}/style.css">
<style>@import url(http://${at}/import.css);</style>
<iframe src="http://${at}/frame"></iframe><iframe src="/to-frame"></iframe>
<object data="http://${at}/object"></object><embed src="http://${at}/embed">
<img src="http://${at}/img"><img src="/redirect"><img src="http://[::1]:${port}/ipv6">
<img src="http://[::ffff:127.0.0.1]:${port}/mapped"><img src="http://2130706433:${port}/decimal">
<img src="http://0x7f.1:${port}/hex"><img src="http://localhost:${port}/name">
<img src="http://0.0.0.0:${port}/zero">
<a id=save download href="http://${at}/download">save</a>
<form id=form method=post action="http://${at}/form" target=other></form>
<script src="http://${at}/script.js"></script>
<script>
const at = 'http://${at}';
const tries = [
  () => fetch(at + '/fetch', { mode: 'no-cors' }),
  () => fetch(at + '/keepalive', { mode: 'no-cors', keepalive: true, method: 'POST' }),
  () => navigator.sendBeacon(at + '/beacon', 'x'),
  () => new WebSocket('ws://${at}/websocket'),
  () => new EventSource(at + '/events'),
  () => { const r = new XMLHttpRequest(); r.open('GET', at + '/xhr'); r.send(); },
  () => save.click(),
  () => form.submit(),
  () => window.open(at + '/window'),
  () => new Worker(URL.createObjectURL(new Blob(
    ["fetch('" + at + "/worker', { mode: 'no-cors' }); importScripts('" + at + "/import.js')"]))),
  () => new SharedWorker('/shared.js'),
  () => navigator.serviceWorker.register('/service.js'),
  () => {
    const c = new RTCPeerConnection({ iceServers: [
      { urls: 'stun:${at}' }, { urls: 'turn:${at}?transport=tcp', username: 'u', credential: 'c' },
    ] });
    c.createDataChannel('x');
    c.createOffer().then((o) => c.setLocalDescription(o));
  },
  () => new WebTransport('https://${at}/transport'),
  () => { const f = document.createElement('iframe'); f.src = 'javascript:fetch("' + at + '/js")';
    document.body.append(f); },
];
for (const one of tries) try { Promise.resolve(one()).catch(() => {}); } catch {}
setTimeout(() => fetch('/done').then(() => {
  document.body.append(Object.assign(document.createElement('p'), { id: 'done' }));
  location = at + '/location';
}), 1500);
</script>`;
}

async function tried(t: TestContext, more: object): Promise<Target> {
  const target = await new Target().open(t);
  const at = `http://127.0.0.1:${target.port}`;
  const to = (path: string) => (_: IncomingMessage, response: ServerResponse) => {
    response.writeHead(302, { location: `${at}${path}` }).end();
  };
  const site = await new BrowserSite({
    '/': pageOf(target.port),
    '/done': 'yes',
    '/redirect': to('/redirected'),
    '/to-frame': to('/redirected-frame'),
    '/shared.js': `fetch('${at}/shared', { mode: 'no-cors' })`,
    '/service.js': `fetch('${at}/service', { mode: 'no-cors' });
      addEventListener('install', () => fetch('${at}/installed', { mode: 'no-cors' }))`,
  }).open(t);
  const cluster = new Cluster(t);
  const file = { render: { wait: '#done' }, 'max-depth': 0, ...more };
  const master = await cluster.master([crawlFile(cluster, site, file), '--exit-when-done']);
  cluster.slave(browserFlags);
  assert.equal((await master.exited).code, 0, master.output);
  assert.equal(site.count('/done'), 1, 'the page did what it was to do');
  assert.equal(site.count('/redirect'), 1);
  return target;
}

test('browser: no route leads to an address that is not allowed', {
  timeout,
  skip: noBrowser,
}, async (t) => {
  const target = await tried(t, {});
  assert.deepEqual([...target.paths], []);
  assert.equal(target.connections, 0);
  assert.equal(target.datagrams, 0);
});

test('browser: the same routes lead to an address that is allowed', {
  timeout,
  skip: noBrowser,
}, async (t) => {
  const target = await tried(t, { 'allow-private': 'all' });
  const ways = ['/fetch', '/beacon', '/websocket', '/frame', '/redirected', '/redirected-frame'];
  const hosts = ['/ipv6', '/decimal', '/mapped', '/name', '/worker', '/img', '/script.js', '/xhr'];
  for (const path of [...ways, ...hosts]) assert.ok(target.paths.has(path), path);
  // These are off, whatever the address.
  for (const path of ['/service', '/installed', '/download', '/window', '/location', '/form']) {
    assert.ok(!target.paths.has(path), path);
  }
  assert.equal(target.datagrams, 0);
});
