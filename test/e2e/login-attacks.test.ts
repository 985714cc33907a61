/** Logins on sites that lie: where a password may end up, and when a crawl gives up. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';

const timeout = 60_000;
const secret = 'S3cret-of-the-site';
const env = { ...process.env, SITE_PASSWORD: secret };
const form = (action: string, method: string) =>
  `<form method="${method}" action="${action}"><input name=user><input name=password></form>`;

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;

async function siteOf(t: TestContext, answer: Answer): Promise<string> {
  const port = await httpServer(t, (request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += String(chunk);
    });
    request.on('end', () => {
      response.setHeader('content-type', 'text/html');
      if (request.url === '/robots.txt') {
        response.setHeader('content-type', 'text/plain');
        response.end('User-agent: *\nDisallow: /login\n');
      } else answer(request, response, body);
    });
  });
  return `http://127.0.0.1:${port}`;
}

async function started(t: TestContext, site: string, more: readonly string[] = []) {
  const cluster = new Cluster(t);
  const file = join(cluster.folder, 'c.json');
  const fields = { user: 'me', password: '$SITE_PASSWORD' };
  const login = { url: `${site}/login`, fields, until: 'a.logout' };
  writeFileSync(file, JSON.stringify({ crawl: 'c', seeds: [`${site}/`], login, archive: 'warc' }));
  const args = [file, '--slaves', '1', '--log-level', 'debug', ...more];
  return { cluster, args, master: await cluster.master(args, { env }) };
}

/** Nothing that this machine keeps has the password. */
function assertSecret(cluster: Cluster, ...shown: readonly string[]): void {
  const files = [cluster.data, cluster.out].flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1')),
  );
  for (const text of [...files, ...shown]) assert.ok(!text.includes(secret));
}

describe('login attacks', { concurrency: 1 }, () => {
  test('login attacks: a redirect of the form gives its body to no other host', {
    timeout,
  }, async (t) => {
    const got: string[] = [];
    const other = await siteOf(t, ({ method }, response, body) => {
      got.push(`${method} ${body}`);
      response.end('<a class=logout>x</a>');
    });
    const away = other.replace('127.0.0.1', 'localhost');
    const site = await siteOf(t, ({ method }, response) => {
      if (method === 'POST') response.writeHead(307, { location: `${away}/steal` }).end();
      else response.end(form('/login', 'post'));
    });
    const { cluster, master } = await started(t, site, ['--allow-private']);
    await master.said(
      /crawl c is held: the login failed: .*redirect to localhost:\d+ with the body/,
    );
    assert.deepEqual(got, []);
    assertSecret(cluster, master.output, await cluster.ask('status', '--json'));
  });

  test('login attacks: a form sent by GET, answered by a loop, shows no password', {
    timeout,
  }, async (t) => {
    let asked = 0;
    const site = await siteOf(t, ({ url = '' }, response) => {
      if (url.includes('password=')) {
        asked++;
        response.writeHead(302, { location: url }).end();
      } else response.end(form('/login/in', 'get'));
    });
    const { cluster, master } = await started(t, site);
    await master.said(/crawl c is held: the login failed: /);
    assert.ok(asked >= 3);
    const status = await cluster.ask('status', '--json');
    assertSecret(cluster, master.output, status);
  });

  test('login attacks: a form that is gone, or answers with an error, holds after three', {
    timeout,
  }, async (t) => {
    let forms = 0;
    const posts: string[] = [];
    const site = await siteOf(t, ({ method, url = '' }, response, body) => {
      if (method === 'POST') {
        posts.push(body);
        response.writeHead(500).end(`<p>wrong: ${body}`);
      } else if (url !== '/login') response.end('<p>for strangers');
      else response.end(++forms > 2 ? '<p>no form' : form('/login', 'post'));
    });
    const { cluster, master } = await started(t, site);
    await master.said(/crawl c is held: the login failed: \S+\/login: the page has no such form/);
    assert.equal(posts.length, 2);
    assert.equal(forms, 3);
    assert.deepEqual(cluster.pages('c'), []);
    assertSecret(cluster, master.output);
  });

  test('login attacks: master and slave are killed while the form is answered', {
    timeout,
  }, async (t) => {
    let isOpen = false;
    let posts = 0;
    const strangers: string[] = [];
    let heard = () => {};
    const asked = new Promise<void>((resolve) => {
      heard = resolve;
    });
    const site = await siteOf(t, ({ method, url = '', headers }, response) => {
      const isIn = headers.cookie === 'in=1';
      if (method === 'POST') {
        posts++;
        heard();
        const home = { location: '/', 'set-cookie': 'in=1; Path=/' };
        if (isOpen) response.writeHead(303, home).end();
      } else if (url === '/login') response.end(form('/login', 'post'));
      else if (isIn) response.end('<a class=logout>x</a><a href=/a>a</a>');
      else {
        strangers.push(url);
        response.writeHead(403).end();
      }
    });
    const { cluster, args, master } = await started(t, site);
    await asked;
    await master.kill('SIGKILL');
    isOpen = true;
    // robots.txt disallows the form; the operator has named it.
    const again = await cluster.master([...args, '--exit-when-done'], { env });
    assert.equal((await again.exited).code, 0, again.output);
    assert.deepEqual(cluster.pages('c').sort(), [`${site}/`, `${site}/a`]);
    assert.deepEqual(strangers, []);
    assert.ok(posts >= 2);
    assertSecret(cluster, master.output, again.output);
  });
});
