/** Logins by forms: real slaves log in before their first page, on a real site. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';

const timeout = 60_000;
const secret = 's3cret-of-the-site';

/** A site whose pages only a session sees that has logged in by the form, with the token of that
 *  form. `right`: the password that it takes. */
class Site {
  url = '';
  right = secret;
  pages = 10;
  readonly posts: string[] = [];
  readonly strangers: string[] = [];
  /** The requests of an agent before that agent was logged in. */
  readonly agents = new Map<string, string[]>();
  readonly #sessions = new Map<string, { token: string; isIn: boolean }>();

  async open(t: TestContext): Promise<this> {
    const port = await httpServer(t, (request, response) => void this.#answer(request, response));
    this.url = `http://127.0.0.1:${port}`;
    return this;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url = '', method, headers } = request;
    const [, id = ''] = /sid=(\w+)/.exec(headers.cookie ?? '') ?? [];
    const session = this.#sessions.get(id);
    const agent = headers['user-agent'] ?? '';
    const asked = this.agents.get(agent) ?? [];
    this.agents.set(agent, [...asked, `${method} ${url}`]);
    response.setHeader('content-type', 'text/html');
    if (url === '/robots.txt') {
      response.writeHead(404).end();
    } else if (url === '/login' && method === 'POST') {
      let text = '';
      for await (const chunk of request) text += String(chunk);
      this.posts.push(text);
      const form = new URLSearchParams(text);
      const isRight = form.get('password') === this.right && form.get('token') === session?.token;
      if (session !== undefined) session.isIn = isRight;
      response.writeHead(303, { location: isRight ? '/home' : '/login?wrong' }).end();
    } else if (url.startsWith('/login')) {
      const next = `s${this.#sessions.size}x`;
      this.#sessions.set(next, { token: `t${next}`, isIn: false });
      response.setHeader('set-cookie', `sid=${next}; HttpOnly; Path=/`);
      response.end(`<form action=/search><input name=q></form>
        <form method=post action="/login"><input type=hidden name=token value="t${next}">
        <input name=user><input type=password name=password>
        <button name=go value=1>Go</button></form>`);
    } else if (session?.isIn !== true) {
      this.strangers.push(url);
      response.writeHead(403).end('log in first');
    } else {
      const links = Array.from({ length: this.pages }, (_, i) => `<a href="/p${i}">x</a>`);
      response.end(`<title>${url}</title><a class=logout>Log out</a>${links.join('')}`);
    }
  }

  login(part: object = {}) {
    const fields = { user: 'me', password: '$SITE_PASSWORD' };
    return { url: `${this.url}/login`, fields, until: 'a.logout', ...part };
  }
}

function fileOf(cluster: Cluster, site: Site, more: object = {}): string {
  const path = join(cluster.folder, 'c.json');
  const file = { crawl: 'c', seeds: [`${site.url}/`], login: site.login(), ...more };
  writeFileSync(path, JSON.stringify(file));
  return path;
}

const env = { ...process.env, SITE_PASSWORD: secret };

function textsBelow(folder: string): string {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
    .join('\n');
}

describe('login', { concurrency: 2 }, () => {
  test('login: each identity logs in once, and nothing shows the password', {
    timeout,
  }, async (t) => {
    const site = await new Site().open(t);
    const cluster = new Cluster(t);
    const more = { 'user-agent': ['Ann/1', 'Ben/1'], archive: 'warc', 'per-host': 4 };
    const args = [
      fileOf(cluster, site, more),
      '--slaves',
      '1',
      '--exit-when-done',
      '--log-level',
      'debug',
    ];
    const master = await cluster.master(args, { env });
    assert.equal((await master.exited).code, 0, master.output);
    assert.equal(cluster.pages('c').length, 1 + site.pages);
    assert.deepEqual(site.strangers, []);
    assert.equal(site.posts.length, 2);
    for (const agent of ['Ann/1', 'Ben/1']) {
      const asked = site.agents.get(agent)?.filter((one) => !one.includes('robots'));
      assert.deepEqual(asked?.slice(0, 3), ['GET /login', 'POST /login', 'GET /home'], agent);
    }
    assert.match(site.posts[0] ?? '', /^token=\w+&user=me&password=s3cret-of-the-site&go=1$/);
    for (const text of [master.output, textsBelow(cluster.data), textsBelow(cluster.out)]) {
      assert.ok(!text.includes(secret));
    }
  });

  test('login: it fails three times, the crawl is held, resume tries again', {
    timeout,
  }, async (t) => {
    const site = await new Site().open(t);
    site.right = 'another';
    const cluster = new Cluster(t);
    const master = await cluster.master([fileOf(cluster, site), '--slaves', '1'], { env });
    await master.said(/crawl c is held: the login failed: .*does not have what until says/);
    assert.equal(site.posts.length, 3);
    const { state, held, failed } = await cluster.status('c');
    assert.deepEqual([state, failed], ['held', 0]);
    assert.match(held ?? '', /login failed/);
    assert.match(await cluster.ask('status'), /login failed/);
    site.right = secret;
    await cluster.ask('resume', 'c');
    await master.said(/crawl c is done/);
    assert.equal(cluster.pages('c').length, 1 + site.pages);
    assert.equal(site.posts.length, 4);
    assert.deepEqual(site.strangers, []);
    assert.ok(!master.output.includes(secret));
  });

  test('login: a variable that is not set holds the crawl at once', { timeout }, async (t) => {
    const site = await new Site().open(t);
    const cluster = new Cluster(t);
    const args = [fileOf(cluster, site), '--slaves', '1'];
    const without = await cluster.master(args, { env: { ...env, SITE_PASSWORD: '' } });
    await without.said(/held: the login failed: the variable SITE_PASSWORD is not set/);
    await without.kill('SIGKILL');
    const unset = { env: { ...env, SITE_PASSWORD: '' } };
    const leaving = await cluster.master([...args, '--exit-when-done'], unset);
    assert.equal((await leaving.exited).code, 2, leaving.output);
    assert.match(
      leaving.stderr,
      /^master: held crawls are not done: c \(the login failed: .*; when/m,
    );
    assert.deepEqual(site.posts, []);
    const master = await cluster.master([...args, '--exit-when-done'], { env });
    assert.equal((await master.exited).code, 0, master.output);
    assert.equal(cluster.pages('c').length, 1 + site.pages);
  });

  test('login: a corrected file is taken at the next start', { timeout }, async (t) => {
    const site = await new Site().open(t);
    const cluster = new Cluster(t);
    const wrong = fileOf(cluster, site, { login: site.login({ form: '#nowhere' }) });
    const first = await cluster.master([wrong, '--slaves', '1'], { env });
    await first.said(/held: the login failed: \S+\/login: the page has no such form/);
    await first.kill('SIGKILL');
    assert.deepEqual(site.posts, []);
    const right = fileOf(cluster, site, { login: site.login({ until: { regex: 'Log out' } }) });
    const master = await cluster.master([right, '--slaves', '1', '--exit-when-done'], { env });
    assert.equal((await master.exited).code, 0, master.output);
    assert.equal(cluster.pages('c').length, 1 + site.pages);
  });

  test('login: a slave that is killed leaves no page to a stranger', { timeout }, async (t) => {
    const site = await new Site().open(t);
    site.pages = 60;
    const cluster = new Cluster(t);
    const path = fileOf(cluster, site, { delay: 100 });
    const master = await cluster.master([path, '--exit-when-done'], { env });
    const slave = cluster.slave();
    await cluster.grown('pages.jsonl', 5, 'c');
    await slave.kill('SIGKILL');
    cluster.slave();
    assert.equal((await master.exited).code, 0, master.output);
    assert.equal(cluster.pages('c').length, 1 + site.pages);
    assert.deepEqual(site.strangers, []);
    assert.equal(site.posts.length, 2);
  });

  test('login: a host that must not be asked for a while is no failure', { timeout }, async (t) => {
    const site = await new Site().open(t);
    const cluster = new Cluster(t);
    const file = fileOf(cluster, site, { delay: 1_000 });
    const master = await cluster.master([file, '--slaves', '1', '--exit-when-done'], { env });
    const asked = () => [...site.agents.values()].flat();
    while (!asked().includes('GET /login')) await sleep(20);
    await cluster.ask('pause', 'c');
    // Longer than three failures take.
    await sleep(5_000);
    assert.doesNotMatch(master.output, /is held/);
    await cluster.ask('resume', 'c');
    assert.equal((await master.exited).code, 0, master.output);
    assert.equal(cluster.pages('c').length, 1 + site.pages);
  });

  test('login: check says what is wrong with one', { timeout }, async (t) => {
    const site = await new Site().open(t);
    const cluster = new Cluster(t);
    const check = async (login: object) => {
      const path = fileOf(cluster, site, { login });
      const program = cluster.run(['master.js', 'check', path]);
      return { code: (await program.exited).code, output: program.output };
    };
    const cases: [object, RegExp][] = [
      [site.login({ until: 'a[' }), /c\.json:1: login\.until: /],
      [site.login({ form: '//form[' }), /c\.json:1: login\.form: /],
      [
        site.login({ fields: { p: '$ORB_AUTHKEY' } }),
        /login\.fields\.p: must not name ORB_AUTHKEY/,
      ],
      [site.login({ unitl: 'a' }), /login: has an unknown key: unitl/],
    ];
    for (const [login, message] of cases) {
      const { code, output } = await check(login);
      assert.equal(code, 2, output);
      assert.match(output, message);
    }
    const fine = await check(site.login({ fields: { password: 'plain-secret' } }));
    assert.equal(fine.code, 0, fine.output);
    assert.match(fine.output, /log in by the form of \S+\/login with password/);
    assert.ok(!fine.output.includes('plain-secret'));
  });
});
