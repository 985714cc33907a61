// Makes the caches that master.js and slave.js start from (see program-file.mjs), by a crawl of
// some pages. Nothing depends on them, so a fault here is no fault of the build.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const pages = 40;
const timeoutMs = 20_000;

/** @param {string} root  the folder of master.js */
export async function makeStartCaches(root) {
  mkdirSync(join(root, 'dist/start'), { recursive: true });
  let folder;
  const site = createServer((request, response) => {
    const isPage = /^\/\d*$/.test(request.url ?? '');
    response.writeHead(isPage ? 200 : 404, { 'content-type': 'text/html; charset=utf-8' });
    response.end(isPage ? page(Number(request.url?.slice(1))) : 'not here');
  });
  try {
    folder = mkdtempSync(join(tmpdir(), 'orb-start-'));
    site.listen(0, '127.0.0.1');
    await once(site, 'listening');
    const { port } = site.address();
    const flags = ['--slaves', '1', '--exit-when-done', '--listen', '127.0.0.1:0'];
    // Settings of the one who builds have no say in it.
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith('ORB_'));
    const child = spawn(
      process.execPath,
      [join(root, 'master.js'), `http://127.0.0.1:${port}/`, ...flags],
      {
        cwd: folder,
        env: { ...Object.fromEntries(own), ORBWEAVER_START_CACHE: 'write' },
        stdio: 'ignore',
        timeout: timeoutMs,
      },
    );
    await Promise.race([once(child, 'exit'), once(child, 'error')]);
  } catch (error) {
    console.error(`build: no start cache: ${error.message}`);
  } finally {
    site.close();
    site.closeAllConnections();
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  }
}

function page(number) {
  const links = Array.from({ length: 10 }, (_, i) => (number * 10 + i) % pages);
  return `<!doctype html><html lang="en"><head><title>Page ${number}</title>
<meta name="description" content="a page"><link rel="canonical" href="/${number || ''}"></head>
<body>${links.map((to) => `<a href="/${to || ''}">to ${to}</a> <img src="i${to}.png" alt="x">`)}
<p>${'Some words &amp; more. '.repeat(200)}</p></body></html>`;
}
