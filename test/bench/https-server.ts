/**
 * Many small hosts, each a server of its own on a loopback address of its own, for the bench of
 * `https-hosts.ts`. Runs as a process of its own, so that its CPU is not the slave's:
 *
 *     node https-server.js https|http COUNT PAGES AUTHORITYFILE
 *
 * Each https host has its own certificate, all of one authority, which is written to the file as
 * PEM. Prints the port that all of them share when all listen, and at its end how many connections
 * there were.
 */
import { writeFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { Authority } from '../support/certificates.ts';
import { ManyHosts } from '../support/https-hosts.ts';

const [scheme = 'https', count = '1', pages = '1', authorityFile = ''] = process.argv.slice(2);
const words = 'An orb weaver takes down its web each night and builds it anew by morning. ';

const answer: RequestListener = (request, response) => {
  const number = Number(request.url?.slice(1) || 0);
  if (Number.isNaN(number)) {
    response.writeHead(404).end();
    return;
  }
  response.setHeader('content-type', 'text/html');
  response.end(pageOf(number));
};

/** About 4 KB, as small pages have. Each page links to all. */
function pageOf(number: number): string {
  const links = Array.from({ length: Number(pages) }, (_, to) => `<a href="/${to || ''}">to</a>`);
  const image = `<img src="/images/${number}.png" alt="">`;
  return `<!doctype html><title>${number}</title>${links.join(' ')}${image}<p>${words.repeat(50)}`;
}

const authority = new Authority();
if (authorityFile !== '') writeFileSync(authorityFile, authority.cert);
const identityOf = (address: string) => authority.issue({ names: [address] });
const hosts = await ManyHosts.start(
  Number(count),
  answer,
  scheme === 'https' ? { identityOf } : {},
);
process.once('SIGTERM', () => {
  console.log(`connections: ${hosts.connections}`);
  process.exit();
});
console.log(`listens on ${new URL(hosts.urls[0] ?? '').port}`);
