// Serves the demo site: `node demo/server.mjs [--port N] [--host H] [--delay MS]`, or `startDemo`.
// `npm start` and the end-to-end tests crawl it. Plain Node, nothing to install.
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { hostMark } from './page.mjs';
import { encodePage, makeSite } from './site.mjs';

/** Listens on `port` (0: any free one); every answer waits `delayMs`. `url` is the first page. */
export async function startDemo({ port = 0, host = '127.0.0.1', delayMs = 0 } = {}) {
  const site = makeSite();
  const server = createServer(async (request, response) => {
    if (delayMs > 0) await sleep(delayMs);
    answer(site, request, response);
  });
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const bound = server.address().port;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}/`,
    /** Ends open connections, too: a crawler keeps them alive. */
    async close() {
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
    },
  };
}

function answer(site, request, response) {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { Allow: 'GET, HEAD' }).end();
    return;
  }
  const resource = site.get(request.url);
  if (resource === undefined) {
    send(request, response, 404, 'text/html; charset=utf-8', notFound);
  } else if (resource.kind === 'redirect') {
    response.writeHead(resource.status, { Location: resource.to, 'Content-Length': 0 }).end();
  } else if (resource.kind === 'file') {
    send(request, response, 200, resource.type, resource.body());
  } else {
    const { type, body } = encodePage(
      resource.page,
      resource.page.body.replaceAll(hostMark, hostOf(request)),
    );
    send(request, response, 200, type, body);
  }
}

function send(request, response, status, type, content) {
  const isZipped =
    /\bgzip\b/.test(request.headers['accept-encoding'] ?? '') && type.startsWith('text/');
  const body = isZipped ? gzipSync(content) : Buffer.from(content);
  response.writeHead(status, {
    'Content-Type': type,
    'Content-Length': body.length,
    ...(isZipped && { 'Content-Encoding': 'gzip' }),
    Vary: 'Accept-Encoding',
  });
  response.end(body);
}

/** The client's word goes into pages, so only what can be a host and port is taken from it. */
function hostOf({ headers, socket }) {
  const host = headers.host ?? '';
  return /^[A-Za-z0-9.:[\]-]+$/.test(host) ? host : `${socket.localAddress}:${socket.localPort}`;
}

// An answer with 404 is no page: its link and its picture must not be followed or listed.
const notFound = `<!doctype html><title>Not found</title><h1>Not found</h1>
<p><a href="/only-on-the-404-page.html">Back</a> <img src="/img/never-linked.svg" alt=""></p>
`;

async function main() {
  const { values } = parseArgs({
    options: {
      port: { type: 'string', default: '8080' },
      host: { type: 'string', default: '127.0.0.1' },
      delay: { type: 'string', default: '0' },
    },
  });
  const demo = await startDemo({
    port: Number(values.port),
    host: values.host,
    delayMs: Number(values.delay),
  });
  console.log(`demo site on ${demo.url}`);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => demo.close());
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await main().catch((error) => {
    console.error(`demo: ${error.message}`);
    process.exit(2);
  });
}
